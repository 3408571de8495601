"""Whatever an engine, a data set or a file says is text on the page: it makes no element, and nothing of it runs."""

import shutil
import subprocess
from base64 import b64decode, b64encode
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

import pytest
from ending import ends
from run_folders import Page, answered, candidate, folder_of, stage, step
from scripts import engine

from coda_dspy import Budget, Coda
from coda_dspy.data.jsonl import parse
from coda_dspy.evaluation import Pool, PoolRecord, Result
from coda_dspy.evaluation.recorded import evaluate_in

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

from coda_dspy.reporting import write_report

HOSTILE = (
    "</script><script>document.title='owned'</script></pre></details></style>"
    "<img src=x onerror=\"document.title='owned'\"><svg onload=alert(1)>"
    "\" onclick='1' ' {{ 7 * 7 }} ]]> &lt; $\\frac{ \x1b[31m \u202e \ud800 \x00 \u2028 \r <!--"
)


def pair_of(text: str) -> tuple[Result, PoolRecord]:
    """A wrong question in which every text is the given one."""
    stages = {text: stage(cut=1)}
    result, record = answered("q" + text, ["2" + text, "3" + text, text], gold=text, path=text, stages=stages)
    candidates = [replace(c, thinking=text, plans=(text,), executions=(text,)) for c in record.candidates]
    candidates[1] = candidate("3" + text, text + "!", trusted=False)
    task = {"question": text, "kind": text, "choices": (text,), "entry_point": text}
    steps = (step(text, text, text), step("judge", text, text, failure=text))
    record = replace(record, task=task, candidates=tuple(candidates), steps=steps, outputs=((text,),))
    return replace(result, failures=[text], error=text, solution=text), record


def report_of(folder: Path, text: str) -> Path:
    described = {"engine": text, "budget": {"verifier": text}, text or "key": [text, {text: text}]}
    return write_report([folder_of(folder, [pair_of(text), answered("harmless", ["2"])], **described)])


def shape_of(page: Page) -> list[tuple[str, list[str]]]:
    return [(tag, list(attributes)) for tag, attributes in page.elements]


def test_no_element_and_no_attribute_comes_out_of_a_text(tmp_path: Path) -> None:
    hostile, harmless = (
        Page(report_of(tmp_path / n, text).read_text("utf-8")) for n, text in (("a", HOSTILE), ("b", "x"))
    )
    assert shape_of(hostile) == shape_of(harmless)
    assert not [name for _, attributes in hostile.elements for name in attributes if name.startswith("on")]
    assert [tag for tag, _ in hostile.elements].count("script") == 2 + len(hostile.rows)


def test_what_was_said_can_be_read_in_full(tmp_path: Path) -> None:
    page = Page(report_of(tmp_path / "run", HOSTILE).read_text("utf-8"))
    shown = HOSTILE
    for character in "\x1b\u202e\ud800\x00\u2028\r":
        shown = shown.replace(character, f"⟨U+{ord(character):04X}⟩")
    assert f"Evaluation of {shown}" in page.of("title")
    assert next(part["text"] for part in page.opened[1] if part["title"].startswith(shown)) == shown
    assert not [c for c in page.source if not (c.isprintable() or c in "\n\t\xa0")]


def test_nothing_is_fetched_and_nothing_runs_but_the_pages_own_script(tmp_path: Path) -> None:
    page = Page(report_of(tmp_path / "run", HOSTILE).read_text("utf-8"))
    policies = [a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy"]
    own = {tag: page.source.rpartition(f"<{tag}>")[2].partition(f"</{tag}>")[0].encode() for tag in ("style", "script")}
    hashes = {tag: f"'sha256-{b64encode(sha256(text).digest()).decode()}'" for tag, text in own.items()}
    assert policies == [
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"style-src {hashes['style']}; script-src {hashes['script']}"
    ]
    addresses = [a[name] for _, a in page.elements for name in ("src", "href", "srcset", "action", "data") if name in a]
    start = "data:image/svg+xml;base64,"
    assert addresses and all(address and address.startswith(start) for address in addresses)
    assert not any(b"<script" in b64decode(str(address).removeprefix(start)) for address in addresses)
    assert b"url(" not in own["style"] and b"@import" not in own["style"] and b"innerHTML" not in own["script"]


@pytest.mark.parametrize("piece", ["</script>", "\\boxed{", "\x1b[2J"])
def test_replies_of_a_megabyte_are_voted_on_judged_kept_and_reported(piece: str, tmp_path: Path) -> None:
    _, lm = engine(lambda call: f"{piece * (1_000_000 // len(piece))}\nAnswer: {call.sample.attempt + 1}\nRating: 5")
    program, folder = Coda(Budget(best_of_n=2, n_plans=1, verifier="judge")), tmp_path / "run"
    question = parse(b'{"id": "q", "question": "How much?", "answer": "1"}', "sums.jsonl", need_answers=False)
    with ends():
        (result,) = evaluate_in(folder, program, question, lm, {"data": {"name": "sums", "shard": None}, "budget": {}})
        page = Page(write_report([folder]).read_text("utf-8"))
    assert result.error is None and result.correct and list(result.votes.values()) == [1, 1]
    assert len(page.rows) == 1
    (record,) = Pool(folder / "pool.jsonl.gz").read()
    assert len(record.candidates[0].text) > 500_000


@pytest.fixture
def chromium() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    pytest.skip("no Chromium is installed (looked for chromium, chromium-browser, google-chrome)")


def opened(chromium: str, page: Path, fragment: str = "") -> Page:
    """The page as it is once a browser has loaded it and its script has run."""
    quiet = ("no-first-run", "disable-background-networking", "disable-component-update", "disable-sync")
    flags = [f"--{flag}" for flag in ("headless", "no-sandbox", "disable-gpu", *quiet, "dump-dom")]
    command = [chromium, *flags, f"--user-data-dir={page.parent / 'browser'}", f"{page.as_uri()}{fragment}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    return Page(done.stdout)


def test_in_a_browser_filters_work_and_hostile_texts_do_not(tmp_path: Path, chromium: str) -> None:
    path = report_of(tmp_path / "run", HOSTILE)
    name = next(str(row["data-name"]) for row in Page(path.read_text("utf-8")).rows if row["data-name"] != "harmless")
    page = opened(chromium, path)
    assert page.of("output") == ["2 of 2 shown"]
    assert [count for count in page.of("span") if count.startswith("(")] == ["(1)", "(1)", "(0)", "(0)", "(1)"]
    page = opened(chromium, path, "#wrong")
    assert page.of("output") == ["1 of 2 shown"]
    assert [row["data-name"] for row in page.rows if "hidden" in row] == ["harmless"]
    page = opened(chromium, path, "#wrong&search=nobody%20says%20this")
    assert page.of("output") == ["0 of 2 shown"]
    page = opened(chromium, path, f"#question={quote(name, safe='')}")
    (row,) = (row for row in page.rows if "open" in row)
    assert row["data-name"] == name
    assert any("document.title='owned'" in text for text in page.of("pre"))
    assert page.of("title")[0].startswith("Evaluation of </script>")
    assert all(str(a["src"]).startswith("data:") for tag, a in page.elements if tag == "img")


def test_in_a_browser_the_policy_stops_even_markup_that_got_into_the_page(tmp_path: Path, chromium: str) -> None:
    path = report_of(tmp_path / "run", "x")
    injected = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script><main>"
    source = path.read_text("utf-8").replace("<main>", injected)
    path.write_text(source, "utf-8")
    assert opened(chromium, path).of("title") == ["Evaluation of x"]
    path.write_text(source.replace("Content-Security-Policy", "No-Policy"), "utf-8")
    assert opened(chromium, path).of("title") == ["owned"]

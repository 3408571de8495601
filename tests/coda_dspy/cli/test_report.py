"""`coda report` as a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest
from run_folders import answered, folder_of

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")


def report(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "coda_dspy", "report", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def test_the_report_is_written_where_it_is_said(tmp_path: Path) -> None:
    folder_of(tmp_path / "one", [answered("a", ["2"])])
    folder_of(tmp_path / "two", [answered("b", ["3"])])
    done = report("one", "two", "--output", "new/page.html")
    assert (done.returncode, done.stderr) == (0, "")
    assert "new/page.html" in done.stdout
    assert "50.0%" in (tmp_path / "new" / "page.html").read_text(encoding="utf-8")


def test_a_folder_that_is_no_run_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    done = report(str(tmp_path))
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("error: ") and "holds no run.json" in done.stderr and done.stderr.count("\n") == 1

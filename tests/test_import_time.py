"""Importing the package and asking for help stay light: heavy libraries are imported where they are used."""

import subprocess
import sys


def run_python(*arguments: str) -> tuple[str, set[str]]:
    """What a fresh interpreter printed, and the top-level names that it imported."""
    command = [sys.executable, "-X", "importtime", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    lines = done.stderr.splitlines()
    rows = [line for line in lines if line.startswith("import time:")]
    assert done.returncode == 0, "\n".join(line for line in lines if line not in rows)
    return done.stdout, {row.rsplit("|", 1)[1].strip().split(".")[0] for row in rows}


def test_the_check_sees_an_import() -> None:
    _, imported = run_python("-c", "import wsgiref.util")
    assert "wsgiref" in imported


def test_help_needs_no_heavy_library() -> None:
    printed, imported = run_python("-m", "coda_dspy", "--help")
    assert "Usage" in printed
    assert "coda_dspy" in imported
    assert imported.isdisjoint({"dspy", "mlflow", "optuna", "litellm", "sympy"})


def test_importing_the_package_needs_no_optional_library() -> None:
    _, imported = run_python("-c", "import coda_dspy")
    assert "coda_dspy" in imported
    assert imported.isdisjoint({"mlflow", "optuna", "litellm", "xllamacpp"})

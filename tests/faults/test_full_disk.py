"""A disk that is really full: a small one, in a mount namespace that ends with its command."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sums import adds, rows

from coda_dspy.evaluation import JsonLines
from coda_dspy.testing import FakeOpenAIServer, ServerCall

pytest.importorskip("mlflow")

UNSHARE = ["unshare", "--map-root-user", "--mount"]
N = 40


def may_mount(folder: Path) -> bool:
    try:
        done = subprocess.run([*UNSHARE, "mount", "-t", "tmpfs", "none", str(folder)], capture_output=True)
    except OSError:
        return False
    return done.returncode == 0


@pytest.mark.parametrize(("size", "saved"), [("64k", False), ("6m", True)], ids=["at its start", "in its middle"])
@pytest.mark.timeout(600)
def test_a_full_disk_is_one_line_keeps_what_was_saved_and_the_same_command_goes_on(
    tmp_path: Path, mlflow_uri: str, size: str, saved: bool
) -> None:
    if not may_mount(tmp_path):
        pytest.skip("this machine lets nobody mount a disk of their own")
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows(N)))
    (tmp_path / "run").mkdir()
    script = f"""
        mount -t tmpfs -o size={size} none run
        "$@" 2>full.err; echo $? >full.code
        cp run/results.jsonl full.jsonl
        mount -o remount,size=100m run
        "$@" 2>more.err; echo $? >more.code
        cp run/results.jsonl more.jsonl
    """

    def at_length(call: ServerCall) -> str:
        return f"{os.urandom(60_000).hex()}\n{adds(call)}"

    with FakeOpenAIServer(at_length) as server:
        words = ["evaluate", "--data", "q.jsonl", "--output", "run", "--algorithm", "direct", "--workers", "2"]
        words += ["--engine", "openai/fake", "--api-base", server.url, "--mlflow-uri", mlflow_uri]
        command = [sys.executable, "-m", "coda_dspy", *words]
        subprocess.run([*UNSHARE, "sh", "-c", script, "sh", *command], cwd=tmp_path, capture_output=True)
    err = (tmp_path / "full.err").read_text()
    told = [line for line in err.splitlines() if line.startswith("error: ")]
    assert ((tmp_path / "full.code").read_text().strip(), len(told), "Traceback" in err) == ("2", 1, False), err
    assert "the same command again" in told[0]
    kept = JsonLines(tmp_path / "full.jsonl").read()
    assert bool(kept) == saved and len(kept) < N
    assert (tmp_path / "more.code").read_text().strip() == "0", (tmp_path / "more.err").read_text()
    after = JsonLines(tmp_path / "more.jsonl").read()
    assert after[: len(kept)] == kept
    assert sorted(row["id"] for row in after) == sorted(f"q{i}" for i in range(N)) and all(r["correct"] for r in after)
    assert server.count <= N + 2  # what was in flight

import csv
from pathlib import Path

import pytest
from click.testing import CliRunner

from coda_dspy.errors import UserError
from coda_dspy.experiments.bench.prefix import main, reused, rows_of
from coda_dspy.ledger import Entry
from coda_dspy.testing import FakeOpenAIServer, Reply


def entry(stage: str, tokens_in: int | None, prefix: int | None) -> Entry:
    return Entry(stage, tokens_in, 5, False, "stop", 0.1, tokens_prefix=prefix)


def test_shares_are_over_tokens_by_stage_and_for_all() -> None:
    bills = [[entry("plan", 100, 0), entry("execute", 300, 240)], [entry("plan", 100, 90), entry("plan", None, None)]]
    plan, execute, everything = rows_of(bills)
    assert (plan["stage"], plan["calls"], plan["share from the prefix cache"]) == ("plan", 2, 0.45)
    assert execute["share from the prefix cache"] == 0.8
    assert everything["share from the prefix cache"] == 330 / 500
    assert everything["by question"] == pytest.approx((0.75, 0.6, 0.9))


def test_an_engine_that_does_not_report_is_not_counted_as_zero() -> None:
    with pytest.raises(UserError, match="does not report"):
        reused([entry("plan", 100, None)])


def test_what_a_server_reports_is_in_the_figures(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105}
    reply = Reply("Answer: 4", usage={**usage, "prompt_tokens_details": {"cached_tokens": 70}})
    (tmp_path / "data.jsonl").write_text('{"id": "a", "kind": "math", "question": "What is 2 + 2?", "answer": "4"}\n')
    with FakeOpenAIServer(lambda call: reply) as server:
        engine = ["--engine", "openai/fake", "--api-base", server.url, "--data", str(tmp_path / "data.jsonl")]
        shown = CliRunner().invoke(main, [*engine, "--budget", "best_of_n=1", "--output", str(tmp_path)])
        assert shown.exit_code == 0, shown.output
        *_, everything = csv.DictReader((tmp_path / "prefix.csv").read_text().splitlines())
        assert (int(everything["calls"]), float(everything["share from the prefix cache"])) == (server.count, 0.7)

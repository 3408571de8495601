"""What a tune leaves in MLflow: a parent run, a child run for each compiling and each trial."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coda_dspy.evaluation import Result, columns_of, summarize
from coda_dspy.evaluation.statistics import accuracy
from coda_dspy.tracking import Tracker

from .budgets import point_name
from .paths import PathComparison
from .report import TuneReport


class TuneLog:
    """Writes a tune to a tracker, or nowhere.

    Args:
        tracker: The tune's MLflow run; `None` for a tune that is not tracked.
    """

    def __init__(self, tracker: Tracker | None) -> None:
        self._tracker = tracker

    def begin(self, described: Mapping[str, Any]) -> None:
        """The parameters of the whole tune."""
        if self._tracker is None:
            return
        plan = {f"plan.{name}": value for name, value in described["plan"].items() if name != "budget"}
        budget = {f"budget.{name}": value for name, value in described["plan"]["budget"].items()}
        engine = {"engine": described["engine"], "adapter": described["adapter"], **described["settings"]}
        self._tracker.params({**engine, **described["data"], **plan, **budget})

    def compiling(
        self, algorithm: str, record: Mapping[str, Any], before: Sequence[Result], after: Sequence[Result]
    ) -> None:
        """A child run: an algorithm's prompts as written, and as compiled; `record` says what the optimizer did."""
        if self._tracker is None:
            return
        child = self._tracker.child(f"prompts {algorithm}")
        child.params({"optimizer": record["optimizer"], "teacher": record["teacher"]})
        for part in ("planned", "asked"):
            child.metrics({f"{part}_{name}": number for name, number in record[part].items()})
        child.metrics({"accuracy_as_written": accuracy(before).value, **summarize(after).metrics()})
        child.end()

    def paths(self, compared: PathComparison) -> None:
        """A child run: each question answered once directly and once by program."""
        if self._tracker is None:
            return
        child = self._tracker.child("paths")
        found = compared.describe()
        child.params({"first_path": compared.better})
        child.metrics({f"{path}.accuracy": found[path].get("value") for path in ("direct", "code", "agree")})
        child.metrics({f"{path}.tokens": found[path]["tokens"] for path in ("direct", "code")})
        child.metrics({"agree.questions": found["agree"]["n"]})
        child.end()

    def trial(self, point: dict[str, int], results: Sequence[Result]) -> None:
        """A child run: one budget on the validation questions."""
        if self._tracker is None:
            return
        child = self._tracker.child(f"budget {point_name(point)}")
        child.params(point)
        child.metrics(summarize(results).metrics())
        child.table(columns_of(results), "questions.json")
        child.end()

    def report(self, report: TuneReport, profile: Path) -> None:
        """The figures on the held-out questions, the tables behind them, and the profile."""
        if self._tracker is None:
            return
        for row in report.rows:
            name = row.name.split()[0]
            self._tracker.metrics(
                {f"test.{name}.{key}": value for key, value in summarize(row.results).metrics().items()}
            )
            self._tracker.table(columns_of(row.results), f"test-{name}.json")
        self._tracker.metrics({"test.gain": report.difference.value})
        self._tracker.artifact(profile)

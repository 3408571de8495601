"""What a tune leaves in MLflow: a parent run, a child run for each compiling and each trial."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dspy

from coda_dspy.evaluation import Result, columns_of, summarize
from coda_dspy.evaluation.statistics import accuracy
from coda_dspy.tracking import Tracker
from coda_dspy.tracking.traces import Traces

from .budgets import Trial, point_name
from .front import front_html, front_png
from .importances import importances_of
from .paths import PathComparison
from .prompt_texts import diff_page, text_of
from .prompts import Prompt, prompts_of
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

    def prompts(self, algorithm: str, before: dspy.Module, after: dspy.Module) -> None:
        """A page that shows what compiling made of an algorithm's prompts."""
        if self._tracker is not None:
            page = diff_page(f"prompts {algorithm}", prompts_of(before), prompts_of(after))
            self._tracker.content(page, f"prompts/{algorithm}.html")

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

    def wording(self, found: Mapping[str, Any]) -> None:
        """A child run: direct answers that come at once, without working."""
        if self._tracker is None:
            return
        child = self._tracker.child("at once")
        child.params({"kept": found["kept"]})
        child.metrics({"accuracy": found["value"], "gain": found["gain"]["value"], "tokens": found["tokens"]})
        child.end()

    def rung(self, phase: str, point: Mapping[str, Any], answered: int, accuracy: float, cost: float) -> None:
        """What a trial has come to after so many questions: one step of its curves."""
        if self._tracker is not None:
            child = self._tracker.child(f"{phase} {point_name(point)}")
            child.metrics({"rung.accuracy": accuracy, "rung.cost": cost}, step=answered)

    def trial(self, phase: str, point: Mapping[str, Any], results: Sequence[Result], status: str = "FINISHED") -> None:
        """A child run: one budget on the validation questions; `KILLED` for one that a race has ended early.

        Rounds measure the same budget at other prompts, so the phase (`budget 2`) is a part of the name.
        """
        if self._tracker is None:
            return
        child = self._tracker.child(f"{phase} {point_name(point)}")
        child.params(point)
        child.metrics(summarize(results).metrics(), step=len(results))
        child.table(columns_of(results), "questions.json")
        child.end(status)

    def front(self, trials: Sequence[Trial], chosen: Trial) -> None:
        """The accuracy–tokens front, as PNG and as a page to explore."""
        if self._tracker is not None:
            self._tracker.content(front_png(trials, chosen), "front/front.png")
            self._tracker.content(front_html(trials, chosen), "front/front.html")

    def importances(self, study: Any) -> None:
        """How much each searched parameter matters for the accuracy, from 0 to 1; nothing where trials are too few."""
        if self._tracker is not None:
            self._tracker.metrics({f"importance.{name}": share for name, share in importances_of(study).items()})

    def report(self, report: TuneReport, profile: Path) -> None:
        """The figures on the held-out questions, the tables behind them, the prompts, and the profile as a model."""
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
        engine = re.sub(r"[^\w.-]+", "-", report.profile.engine.rpartition("/")[2])
        for name, prompt in report.profile.prompts.items():
            self._tracker.prompt(f"{engine}.{name}", text_of(Prompt(prompt.instructions, list(prompt.demos))))
        self._tracker.model(profile)

    def traces(self, share: float) -> Traces | None:
        """What traces a share of the questions into the tune's run, for `evaluate`."""
        return Traces(self._tracker, share) if self._tracker is not None and share else None

"""Probe an engine: a fixed list of calls in the order of their worth, cut off by the clock, saved as it goes."""

import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import dspy

from coda_dspy.algorithms import ASKED_ONCE
from coda_dspy.conductor import AdaptiveCoda
from coda_dspy.engines import engine_name
from coda_dspy.errors import EngineError, UserError
from coda_dspy.evaluation import Gradable, JsonLines, RunFolder, locked, settings_of
from coda_dspy.files import write_atomically

from . import speed
from .calls import Asker, Call
from .crew import side_by_side
from .pace import expected_seconds
from .plan import ProbePlan
from .report import ProbeReport, report_of
from .session import Found, Session, Unit
from .watching import Allowance, metered, watched
from .work import Phase, chosen_from, phases_of, sandbox_problem

CALLS, REPORT = "calls.jsonl", "probe.json"
FEWEST_RETRIES = 4  # for calls that fail in passing; a tenth of the planned calls if that is more


class Watcher(Protocol):
    """Whoever shows the progress of a probe."""

    def begin(self, calls: int, kept: int) -> None:
        """At most so many calls will be made; so many more were made by an earlier process."""

    def phase(self, name: str, calls: int) -> None:
        """A phase begins; it has so many calls."""

    def call(self, call: Call) -> None:
        """A call is done."""


class _Silent:
    def begin(self, calls: int, kept: int) -> None: ...
    def phase(self, name: str, calls: int) -> None: ...
    def call(self, call: Call) -> None: ...


def probe_engine(
    lm: dspy.LM,
    plan: ProbePlan,
    questions: Sequence[Gradable],
    *,
    folder: Path | None = None,
    program: AdaptiveCoda | None = None,
    watcher: Watcher | None = None,
) -> ProbeReport:
    """Measure what the conductor must know of an engine.

    Nothing is read from DSPy's cache: every figure is of a call that was really made. A call that is still in flight
    when the time is over is left behind, and does not count.

    Args:
        lm: The engine, as `coda_dspy.connect` returned it.
        plan: How much to ask, and in how much time.
        questions: Questions with answers, of any kinds; the first `plan.questions` of each kind are asked.
        folder: Where each finished piece of work goes at once (`calls.jsonl`), and the report (`probe.json`). The same
            call goes on there: it asks for what is missing, with all of its minutes.
        program: Whose roles are asked, with their prompts; by default an `AdaptiveCoda` as it comes.
        watcher: Who is told of the progress.

    Raises:
        EngineError: The engine cannot be used at all, or does not answer (any more).
        UserError: No question can be asked here; the folder holds another probe, or cannot be written; or scipy is
            missing.
    """
    _load_statistics()
    program = program if program is not None else AdaptiveCoda()
    problem = sandbox_problem()
    chosen, notes = chosen_from(questions, plan, problem)
    with _recording(folder, _described(lm, plan, chosen, program)) as store:
        session = Session(_asker(lm, plan), program, plan, chosen, problem, _known_context(lm))
        probe = _Probe(session, store, watcher or _Silent(), time.monotonic() + 60 * plan.minutes)
        probe.run()
        report = report_of(session, engine_name(lm), {**notes, **probe.left_out()}, probe.counts())
        if folder is not None:
            write_atomically(folder / REPORT, json.dumps(report.describe(), indent=2) + "\n")
    return report


class _Probe:
    """The run: what there is to do, what is done, and how much time is left."""

    def __init__(self, session: Session, store: JsonLines | None, watcher: Watcher, deadline: float) -> None:
        self.session, self.store, self.watcher, self.deadline = session, store, watcher, deadline
        self.phases = phases_of(session, deadline)
        self.units = {unit.key: unit for phase in self.phases for unit in phase.units}
        self._restore()
        missing = sum(unit.calls for key, unit in self.units.items() if key not in session.found)
        self.kept = sum(len(found.calls) for found in session.found.values())
        extras = len(metered(session.asker.lm).extras)
        retries = max(FEWEST_RETRIES, missing // 10) if missing else 0
        refusals = 3 + extras if missing else 0  # effort, seed, top_p, and whatever the user added
        session.asker.allowance.grant(missing, retries, refusals)

    def run(self) -> None:
        """All phases, as far as the time goes."""
        self.watcher.begin(self.session.asker.allowance.most, self.kept)
        for phase in self.phases:
            missing = [unit for unit in phase.units if unit.key not in self.session.found]
            if missing and time.monotonic() < self.deadline:
                self.watcher.phase(phase.name, sum(unit.calls for unit in missing))
                self._work(phase, missing)
            self._require_a_reply()

    def _work(self, phase: Phase, units: list[Unit]) -> None:
        at_a_time = 1 if phase.alone else speed.level_for_probing(speed.speeds(self.session))
        latest = min(self.deadline, time.monotonic() + 60 * phase.share * self.session.plan.minutes)

        def fits(unit: Unit) -> bool:
            return time.monotonic() + expected_seconds(self.session, unit, at_a_time) < latest

        for unit, found in side_by_side(units, at_a_time, self.deadline if phase.patient else latest, fits):
            self.session.found[unit.key] = found
            if self.store is not None and found.calls and all(call.failure is None for call in found.calls):
                row = {"key": unit.key, "seconds": found.seconds, "calls": [asdict(call) for call in found.calls]}
                self.store.append(row)
            for call in found.calls:
                self.watcher.call(call)

    def _require_a_reply(self) -> None:
        """An engine that does not even answer a short request is not there."""
        calls = [call for found in self.session.found.values() for call in found.calls]
        if any(call.failure is None for call in calls):
            return
        reason = calls[-1].failure if calls else f"nothing came within {self.session.plan.minutes:g} minutes"
        raise EngineError(
            f"the engine gave no reply: {reason}. Is the server running, and its address right (api_base)?"
        )

    def _restore(self) -> None:
        """What an earlier process finished; what failed then is tried again."""
        for row in self.store.read() if self.store is not None else []:
            try:
                if row["key"] in self.units:
                    self.session.found[row["key"]] = Found([Call(**call) for call in row["calls"]], row["seconds"])
            except (KeyError, TypeError) as error:
                path = self.store.path if self.store is not None else ""
                raise UserError(f"{path} holds something else than a probe; give --output another folder") from error

    def left_out(self) -> dict[str, str]:
        """What there was no time for, by check."""
        units: defaultdict[str, list[bool]] = defaultdict(list)
        for key, unit in self.units.items():
            units[unit.check].append(key in self.session.found)
        return {
            check: f"left out for lack of time: {done.count(False)} of {len(done)}"
            for check, done in units.items()
            if not all(done)
        }

    def counts(self) -> dict[str, int]:
        """Calls: the most that were planned, those that were made, and those of an earlier process."""
        allowance = self.session.asker.allowance
        return {"planned": allowance.most, "made": allowance.made, "kept": self.kept}


def _load_statistics() -> None:
    """Before the clock runs: importing it takes seconds."""
    try:
        import scipy.stats  # noqa: F401
    except ModuleNotFoundError as error:
        raise UserError("the intervals of a probe need scipy; run: pip install 'coda-dspy[tune]'") from error


def _asker(lm: dspy.LM, plan: ProbePlan) -> Asker:
    """Whoever asks, greedily, each role once. An effort is set in the engine, where it never steps down."""
    allowance = Allowance()
    greedy = {**ASKED_ONCE, "temperature": 0.0, "max_plan_tries": 1, "plan_paths": False, "max_total_tokens": None}
    budget = plan.budget.replace(**greedy, reasoning_effort=None)
    effort = plan.budget.reasoning_effort["direct"]
    asked = watched(lm, allowance)
    return Asker(asked if effort is None else asked.copy(reasoning_effort=effort), budget, allowance)


def _known_context(lm: dspy.LM) -> int | None:
    """The context of an engine that runs in this process."""
    limit = getattr(getattr(metered(lm).inner, "settings", None), "context", None)
    return limit if isinstance(limit, int) else None


def _described(
    lm: dspy.LM, plan: ProbePlan, questions: Mapping[str, Sequence[Gradable]], program: AdaptiveCoda
) -> dict[str, Any]:
    """What the saved calls depend on."""
    tasks = [question.task.arguments() for found in questions.values() for question in found]
    return {
        "probe": plan.describe(),
        "engine": str(lm.model),
        "settings": settings_of(lm),
        "data": _hash(tasks),
        "prompts": _hash(program.dump_state()),
    }


def _hash(content: Any) -> str:
    return hashlib.blake2b(json.dumps(content, default=str).encode(), digest_size=8).hexdigest()


@contextmanager
def _recording(folder: Path | None, described: dict[str, Any]) -> Iterator[JsonLines | None]:
    """Where finished work goes, if anywhere."""
    if folder is None:
        yield None
        return
    with locked(folder):
        RunFolder(folder).begin(described)
        yield JsonLines(folder / CALLS)

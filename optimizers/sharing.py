"""One tune on several machines: whoever leads compiles and decides, workers measure budgets with it.

They meet in an Optuna storage. The leader publishes each round's program there; a worker measures trials of the round
until it ends, and may come, go and die as it likes.
"""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from coda_dspy.conductor import AdaptiveCoda
from coda_dspy.errors import UserError

from .budgets import BudgetSearch
from .budgets.study import MOMENT, Study
from .measuring import Measuring
from .workbench import Workbench

_PATIENCE = 3600.0  # seconds without a round to measure after which a worker takes the leader for dead


class Meeting:
    """Where leader and workers of one tune meet.

    Args:
        storage: Address of the database.
        described: What the tune is; only workers of the same tune meet.
        seed: Seed of the samplers.
    """

    def __init__(self, storage: str, described: Mapping[str, Any], seed: int) -> None:
        content = json.dumps(described, sort_keys=True, default=str)
        self._name = f"coda-{hashlib.blake2b(content.encode(), digest_size=6).hexdigest()}"
        self._storage, self._seed = storage, seed
        self._board = Study(storage, self._name, seed)

    def round(self, number: int) -> Study:
        """The study of a round."""
        return Study(self._storage, f"{self._name}-{number}", self._seed)

    def open(self, number: int, program: AdaptiveCoda, questions: int) -> None:
        """The leader begins a round: this program, on the first so many validation questions."""
        self._board.publish(round=number, program=program.dump_state(), questions=questions, done=False)

    def close(self) -> None:
        """The leader measures no budget any more."""
        self._board.publish(done=True)

    def published(self) -> dict[str, Any]:
        """What the leader has published last."""
        return self._board.published()


def work(bench: Workbench, meeting: Meeting, validation: Sequence[Any]) -> int:
    """Measure budgets for a leader until it is done.

    Args:
        bench: What answers questions.
        meeting: Where the leader is met.
        validation: The validation questions, in the order that all share.

    Returns:
        How many trials this worker measured.

    Raises:
        UserError: The leader has published nothing for an hour.
    """
    measured, last, waiting = 0, 0, time.monotonic()
    while True:
        told = meeting.published()
        if told.get("done"):
            return measured
        if told.get("round", 0) > last:
            last = int(told["round"])
            measured += _measure(bench, meeting, told, validation)
            waiting = time.monotonic()
        elif time.monotonic() - waiting > _PATIENCE:
            raise UserError("no round to measure for an hour: start the tune itself, the same command without --worker")
        time.sleep(MOMENT)


def _measure(bench: Workbench, meeting: Meeting, told: Mapping[str, Any], validation: Sequence[Any]) -> int:
    plan, number = bench.plan, int(told["round"])
    program = AdaptiveCoda(plan.budget, adapter=bench.adapter)
    program.load_state(told["program"])
    questions = validation[: int(told["questions"])]
    measuring = Measuring(bench, f"budget {number}", program, questions)
    search = BudgetSearch(plan.space, meeting.round(number), program.budget)
    search.run(measuring.measure, len(questions), plan.max_trials, prices=plan.prices, on_trial=measuring.ended)
    return measuring.own

"""Prompts, and which of those that were tried are the best so far."""

import json
from collections.abc import Mapping, Set
from threading import Lock
from typing import Any, NamedTuple

import dspy


class Prompt(NamedTuple):
    """What one role is asked: its instructions and its demonstrations."""

    instructions: str
    demos: list[Any]


def prompts_of(program: dspy.Module) -> dict[str, Prompt]:
    """The prompts of a program, by predictor."""
    named = program.named_predictors()
    return {name: Prompt(predict.signature.instructions, list(predict.demos)) for name, predict in named}


def put_prompts(program: dspy.Module, prompts: Mapping[str, Prompt]) -> None:
    """Give a program these prompts, and leave everything else of it as it is."""
    for name, predict in program.named_predictors():
        if name in prompts:
            predict.signature = predict.signature.with_instructions(prompts[name].instructions)
            predict.demos = list(prompts[name].demos)


class Board:
    """Every graded answer, by the prompts that gave it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._prompts: dict[str, dict[str, Prompt]] = {}
        self._scores: dict[str, dict[str, bool]] = {}

    def note(self, prompts: dict[str, Prompt], question: str, correct: bool) -> None:
        """One answer to one question."""
        content = {name: [prompt.instructions, *map(dict, prompt.demos)] for name, prompt in prompts.items()}
        key = json.dumps(content, sort_keys=True, default=str)
        with self._lock:
            self._prompts.setdefault(key, prompts)
            self._scores.setdefault(key, {})[question] = correct

    def best(self, judged: Set[str], fewest: int) -> dict[str, Prompt]:
        """The prompts with the largest share of right answers, of those that answered enough.

        Args:
            judged: The questions that count.
            fewest: How many of them have to be answered.

        Returns:
            Those that were tried first win a draw; without any there are none.
        """
        with self._lock:
            counted = {
                key: [correct for question, correct in scores.items() if question in judged]
                for key, scores in self._scores.items()
            }
        enough = {key: sum(right) / len(right) for key, right in counted.items() if right and len(right) >= fewest}
        return self._prompts[max(enough, key=lambda key: enough[key])] if enough else {}

"""Prompts, and which of those that were tried are the best so far."""

import json
from collections.abc import Iterable, Mapping, Set
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
        self._prompts: dict[str, dict[str, Prompt]] = {}
        self._scores: dict[str, dict[str, bool]] = {}

    def note(self, prompts: dict[str, Prompt], question: str, correct: bool) -> None:
        """One answer to one question."""
        content = {name: [prompt.instructions, *map(dict, prompt.demos)] for name, prompt in prompts.items()}
        key = json.dumps(content, sort_keys=True, default=str)
        self._prompts.setdefault(key, prompts)
        self._scores.setdefault(key, {})[question] = correct

    def best(self, judged: Set[str]) -> dict[str, Prompt]:
        """The prompts with most right answers among those that answered all `judged` questions.

        Those that were tried first win a draw; without any there are none.
        """
        complete = [key for key, scores in list(self._scores.items()) if judged <= scores.keys()]
        if not complete:
            return {}
        return self._prompts[max(complete, key=lambda key: _right(self._scores[key], judged))]


def _right(scores: Mapping[str, bool], judged: Iterable[str]) -> int:
    return sum(scores[question] for question in judged)

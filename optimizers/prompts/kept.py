"""A compiled program, kept in a file: an optimizer that has ended is not run again when its tune goes on."""

import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import dspy

from coda_dspy.evaluation import Gradable, Result
from coda_dspy.files import set_aside, write_atomically
from coda_dspy.program import Conductor

from .board import Prompt, prompts_of, put_prompts
from .interface import PromptOptimizer

logger = logging.getLogger(__name__)


class Compiled(NamedTuple):
    """What an optimizer came to.

    Args:
        program: A copy of the program, with the prompts that were found.
        record: Plain values: the optimizer that ran, its teacher, what was planned, and what the program was asked.
    """

    program: Conductor
    record: dict[str, Any]


def compile_once(
    path: Path,
    optimizer: PromptOptimizer,
    program: Conductor,
    train: Sequence[Gradable],
    validation: Sequence[Gradable],
    *,
    teacher: dspy.LM | None,
    seed: int,
    keep_going: Callable[[], bool],
    on_question: Callable[[Result], None],
) -> Compiled:
    """Compile a program, or read back what `path` holds of that; the arguments are those of `compile`."""
    kept = _kept(path, program)
    if kept is None:
        planned = optimizer.plan(program, train, validation, teacher)
        asked = dict.fromkeys(("questions", "calls", "tokens"), 0)

        def count(result: Result) -> None:
            for name, more in zip(asked, (1, result.calls, result.known_tokens), strict=True):
                asked[name] += more
            on_question(result)

        compiled = optimizer.compile(
            program, train, validation, teacher=teacher, seed=seed, keep_going=keep_going, on_question=count
        )
        record = {"optimizer": optimizer.name, "teacher": teacher.model if teacher is not None else None}
        _write(path, compiled, record | {"planned": planned._asdict(), "asked": asked})
        kept = _read(path, program)
    return kept


def _kept(path: Path, program: Conductor) -> Compiled | None:
    """What the file holds; a damaged one is set aside, as if nothing had been compiled."""
    try:
        return _read(path, program) if path.exists() else None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        logger.warning("%s is damaged (%s); it is kept as %s and compiled anew", path, error, set_aside(path).name)
        return None


def _write(path: Path, compiled: Conductor, record: dict[str, Any]) -> None:
    prompts = {
        name: {"instructions": prompt.instructions, "demos": [dict(demo) for demo in prompt.demos]}
        for name, prompt in prompts_of(compiled).items()
    }
    write_atomically(path, json.dumps({"record": record, "prompts": prompts}, indent=2, ensure_ascii=False) + "\n")


def _read(path: Path, program: Conductor) -> Compiled:
    content = json.loads(path.read_text(encoding="utf-8"))
    copy: Conductor = program.deepcopy()
    put_prompts(
        copy,
        {
            name: Prompt(prompt["instructions"], [dspy.Example(**demo) for demo in prompt["demos"]])
            for name, prompt in content["prompts"].items()
        },
    )
    return Compiled(copy, content["record"])

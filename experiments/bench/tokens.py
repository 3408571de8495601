"""Tokens for a right answer: early exit against the full run of the same budget, and against CePO's pattern of calls.

    python -m coda_dspy.experiments.bench.tokens
    python -m coda_dspy.experiments.bench.tokens --engine local/qwen2.5-coder-0.5b --data gsm8k --output runs/x

Without an engine, answers are drawn from given distributions, a third of the questions each. All arms draw the same
samples, so that an arm is compared with its full run sample by sample; a folder with --output goes on after a crash.
"""

import random
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import click

from coda_dspy import AdaptiveCoda, Budget, Coda, connect
from coda_dspy.cli.display import quiet_libraries
from coda_dspy.cli.evaluate import chosen
from coda_dspy.cli.options import EngineChoice, engine_options
from coda_dspy.data import Question, load
from coda_dspy.evaluation import Result
from coda_dspy.evaluation.statistics import accuracy, mean_tokens, paired_difference
from coda_dspy.experiments.bench.measuring import Machine, Row, output_option, publish
from coda_dspy.experiments.running import Setup, measure
from coda_dspy.program import Conductor
from coda_dspy.testing import ScriptedCall, ScriptedEngine

# Chances of the right answer and of two wrong ones: easy questions, hard ones, and those that nobody knows.
DISTRIBUTIONS = ((0.90, 0.05, 0.05), (0.55, 0.25, 0.20), (0.40, 0.30, 0.30))
# Words of a reply, about as a 0.5B model writes on GSM8K.
WORDS = {"plan": 120, "judge": 80}
OTHER_WORDS = 250
JUDGE_IS_RIGHT = 0.7  # how often a drawn judge rates a solution on the right side


class Comparison(NamedTuple):
    """An arm, and the one that it is to save tokens against."""

    arm: str
    against: str


COMPARISONS = (
    Comparison("vote lossless", "vote full"),
    Comparison("vote beta", "vote full"),
    Comparison("adaptive lossless", "adaptive full"),
    Comparison("adaptive beta", "adaptive full"),
    Comparison("adaptive lossless", "CePO pattern"),
    Comparison("adaptive beta", "CePO pattern"),
)


def arms(votes: int) -> dict[str, Conductor]:
    """The programs that are compared.

    CePO's pattern is Algorithm 1 with all its calls and a judge, whatever the question. CePO rates every candidate;
    our judge only rates where candidates disagree, so that the pattern here is the cheaper one.
    """
    voting = Budget(num_attempts_baseline=votes, num_attempts_coda=0)
    adaptive = Budget(best_of_n=3, n_plans=2)
    rules = {"full": "off", "lossless": "lossless", "beta": "beta"}
    made: dict[str, Conductor] = {
        f"{name} {rule}": AdaptiveCoda(budget.replace(early_exit=exit_by))
        for name, budget in (("vote", voting), ("adaptive", adaptive))
        for rule, exit_by in rules.items()
    }
    return made | {"CePO pattern": Coda(adaptive.replace(verifier="judge", early_exit="off"))}


def simulated(number: int) -> list[Question]:
    """Questions whose answers are drawn; the right one is 0."""
    return [Question(f"drawn-{i}", f"Draw number {i}.", "0") for i in range(number)]


def drawn(call: ScriptedCall) -> str:
    """A reply that depends on the question and the place of the call; a judge's also on what it is shown."""
    number = int(call.prompt.split("Draw number ")[1].split(".")[0])
    chance = random.Random(repr((number, call.stage, call.sample)))
    text = "word " * WORDS.get(call.stage, OTHER_WORDS)
    if call.stage == "judge":
        return f"{text}\nRating: {8 if (chance.random() < JUDGE_IS_RIGHT) == ('Answer: 0' in call.prompt) else 3}"
    if call.stage == "plan":
        return text
    return f"{text}\nAnswer: {chance.choices(range(3), DISTRIBUTIONS[number % 3])[0]}"


def row_of_arm(name: str, results: Sequence[Result]) -> Row:
    """What one arm came to."""
    score, each = accuracy(results), mean_tokens(results)
    right = sum(bool(result.correct) for result in results)
    whole = sum(result.tokens or 0 for result in results)
    return {
        "arm": name,
        "accuracy": str(score),
        "tokens a question": "unknown" if each is None else round(each),
        "tokens a right answer": "unknown" if each is None or not right else round(whole / right),
        "calls a question": sum(result.calls for result in results) / len(results),
    }


def row_of_comparison(pair: Comparison, found: Mapping[str, Sequence[Result]]) -> Row:
    """What an arm saves, and what that costs."""
    ours, theirs = found[pair.arm], found[pair.against]
    tokens = [mean_tokens(results) for results in (ours, theirs)]
    same = sum(one.answer == other.answer for one, other in zip(ours, theirs, strict=True))
    return {
        "arm": pair.arm,
        "against": pair.against,
        "share of its tokens": "unknown" if tokens[0] is None or not tokens[1] else tokens[0] / tokens[1],
        "same answer": f"{same} of {len(ours)}",
        "accuracy": str(paired_difference(theirs, ours)),
    }


@click.command()
@engine_options
@click.option("--data", help="Questions for the engine: a set, a benchmark, or a file.")
@click.option("--limit", type=click.IntRange(1), default=60, show_default=True, help="Questions.")
@click.option("--votes", type=click.IntRange(1), default=16, show_default=True, help="Attempts of a vote.")
@click.option("--workers", type=click.IntRange(1), default=8, show_default=True, help="Questions at a time.")
@output_option
def main(data: str | None, limit: int, votes: int, workers: int, output: Path | None, **options: Any) -> None:
    """Print what each arm costs and gets right, and what early exit saves."""
    quiet_libraries()
    if (options["engine"] is None) != (data is None):
        raise click.UsageError("--engine and --data belong together; without them, answers are drawn")
    machine = Machine()
    if data is None:
        lm, questions = connect(ScriptedEngine(drawn, label="drawn")), simulated(limit)
    else:
        lm, questions = EngineChoice(**options).connect(), chosen(load(data), None, limit)
    with TemporaryDirectory() if output is None else nullcontext(str(output)) as folder:
        rows = measure("tokens", arms(votes), questions, Setup(lm, Path(folder), workers=workers))
    found = {row.name: row.results for row in rows}
    what = f"{len(questions)} questions on {lm.model}, the same samples for all arms. {machine}."
    publish("tokens", [row_of_arm(name, results) for name, results in found.items()], [what], output)
    publish("tokens-saved", [row_of_comparison(pair, found) for pair in COMPARISONS], [what], output)


if __name__ == "__main__":
    main()

"""Does our way of asking cost an engine skill? A plain chat prompt against the direct path, Coda and AdaptiveCoda.

    python -m coda_dspy.experiments.format_skill --engine local/qwen2.5-coder-0.5b --data gsm8k.jsonl --limit 60

The plain prompt shares nothing with the program: it goes to the engine itself, and its answer is the last number of the
reply. Each finished question is saved, so the same command goes on where it stopped.
"""

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import click
import dspy
from dspy.lm15 import request_from_openai_chat

from coda_dspy import AdaptiveCoda, Budget, Coda, connect
from coda_dspy.cli.display import console, count, quiet_libraries, table
from coda_dspy.data import Question, load
from coda_dspy.evaluation import JsonLines, Result, evaluate
from coda_dspy.evaluation.statistics import accuracy, mean_tokens, paired_difference
from coda_dspy.program import Conductor

SYSTEM = "You are a careful math tutor. Solve the problem step by step, briefly. End with one line: Answer: <number>"
BUDGET = Budget.preset("quick")
DIRECT = BUDGET.replace(num_attempts_baseline=1, num_attempts_coda=0, temperature={"direct": 0.0})
PROGRAMS: dict[str, Conductor] = {
    "direct": AdaptiveCoda(DIRECT),
    "coda": Coda(BUDGET.replace(best_of_n=2, n_plans=2)),
    "adaptive": AdaptiveCoda(BUDGET.replace(num_attempts_baseline=3, best_of_n=1, n_plans=2)),
}


def plain_chat(lm: dspy.LM, question: Question) -> Result:
    """One greedy reply to a plain chat prompt, its last number compared as a number."""
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question.question}]
    body = {"model": "engine", "messages": messages, "temperature": 0.0, "max_tokens": 400}
    reply = lm.engine.inner.complete(request_from_openai_chat(body))
    text = reply.message.text or ""
    number = last_number(text)
    right = number is not None and abs(float(number) - float(question.answer)) < 1e-6
    tokens = reply.usage.total_tokens or 0
    cut = ["cut off"] if reply.finish_reason == "length" else []
    return Result(
        question.id, number, question.answer, right, text, tokens=tokens, known_tokens=tokens, calls=1, failures=cut
    )


def last_number(text: str) -> str | None:
    """The number after the last "answer", or else the last number of the reply."""
    declared = re.findall(r"answer(?:\s+is)?\s*[:=]?\s*\**\s*\\?\$?\s*(-?\d[\d,]*(?:\.\d+)?)", text, re.IGNORECASE)
    numbers = declared or re.findall(r"(-?\d[\d,]*(?:\.\d+)?)", text)
    return numbers[-1].replace(",", "") if numbers else None


def measure(arm: str, lm: dspy.LM, questions: Sequence[Question], folder: Path, workers: int) -> list[Result]:
    """The results of one arm on the questions, new ones saved as they come."""
    store = JsonLines(folder / f"{arm}.jsonl")
    if arm != "plain":
        with dspy.context(lm=lm):
            return evaluate(PROGRAMS[arm], questions, store=store, workers=workers)
    done = {row["id"]: Result(**row) for row in store.read()}

    def ask(question: Question) -> None:
        if question.id not in done:
            done[question.id] = plain_chat(lm, question)
            store.append(asdict(done[question.id]))

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(ask, questions))
    return [done[question.id] for question in questions]


@click.command()
@click.option("--engine", required=True)
@click.option("--api-base")
@click.option("--data", required=True, help="Maths questions whose answers are numbers, as JSON Lines.")
@click.option("--limit", type=int, default=60, show_default=True)
@click.option("--arms", default="plain,direct", show_default=True, help="Of plain, direct, coda, adaptive.")
@click.option("--output", type=click.Path(path_type=Path), required=True, help="Folder for the results.")
@click.option("--workers", type=int, default=8, show_default=True)
def main(engine: str, api_base: str | None, data: str, limit: int, arms: str, output: Path, workers: int) -> None:
    """Measure the arms on the first questions of a file and compare them in pairs with the plain prompt."""
    quiet_libraries()
    questions = load(data)[:limit]
    lm = connect(engine, api_base, cache=False)
    results = {arm: measure(arm, lm, questions, output, workers) for arm in arms.split(",")}
    rows = []
    for arm, found in results.items():
        difference = str(paired_difference(results["plain"], found)) if "plain" in results else ""
        rows.append([arm, str(accuracy(found)), difference, count(mean_tokens(found))])
    console.print(table(engine, ["arm", "accuracy", "against plain", "tokens each"], rows))


if __name__ == "__main__":
    main()

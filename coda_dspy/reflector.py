"""The reflector: compares several executions and resolves what is inconsistent (Algorithm 1, `reflect`)."""

from collections.abc import Sequence

import dspy

from coda_dspy import answers
from coda_dspy.calling import ask
from coda_dspy.errors import NoAnswer
from coda_dspy.programs import check, feedback_on
from coda_dspy.question import Step, current_question
from coda_dspy.sampling import Sample
from coda_dspy.signatures import MergePrograms, Reflect
from coda_dspy.solution import Solution


class Reflector(dspy.Module):
    """Makes one synthesis of the executions of an attempt."""

    def __init__(self) -> None:
        super().__init__()
        self.reflect = dspy.Predict(Reflect)
        self.merge = dspy.Predict(MergePrograms)

    def forward(self, sample: Sample, executions: Sequence[Solution]) -> Solution:
        """One synthesis; of programs, one that is tried on the public tests.

        Raises:
            CallFailed: The reply was cut off or empty, the engine failed, or no answer can be read in it.
        """
        task = current_question().task
        ending = answers.wanted(task)
        inputs = {"question": task.text, "solutions": _numbered(executions), "ending": ending}
        predict = self.merge if task.kind == "code" else self.reflect
        reply = ask(predict, "reflect", sample._replace(step="reflect"), inputs)
        answer = answers.extract(task, reply.text)
        if answer is None:
            raise NoAnswer("reflect")
        return Solution(answer, reply, trusted=_passes(answer, sample))


def _passes(answer: str, sample: Sample) -> bool:
    """Whether nothing is known against an answer: a program that fails a public test is not to be trusted."""
    question = current_question()
    task = question.task
    failed = feedback_on(check(answer, task.cases, task.entry_point)) if task.kind == "code" else ""
    if failed:
        question.transcript.append(Step("reflect", sample, f"The program fails:\n{failed}"))
    return not failed


def _numbered(executions: Sequence[Solution]) -> str:
    """The executions one under the other; of programs, with the public tests that they fail."""
    task = current_question().task
    texts = []
    for number, execution in enumerate(executions, start=1):
        if task.kind != "code":
            texts.append(f"Solution {number}:\n{execution.reply.text}")
            continue
        failed = feedback_on(check(execution.answer, task.cases, task.entry_point), most=1)
        passing = "It passes the tests that are known." if task.cases else "No tests are known."
        verdict = f"It fails:\n{failed}" if failed else passing
        texts.append(f"Program {number}:\n```python\n{execution.answer}\n```\n{verdict}")
    return "\n\n".join(texts)

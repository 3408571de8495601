"""The reflector: compares several executions and resolves what is inconsistent (Algorithm 1, `reflect`)."""

from collections.abc import Sequence

import dspy

from coda_dspy import answers
from coda_dspy.calling import ask
from coda_dspy.errors import NoAnswer
from coda_dspy.executor import Solution
from coda_dspy.question import current_question
from coda_dspy.sampling import Sample
from coda_dspy.signatures import Reflect


class Reflector(dspy.Module):
    """Makes one synthesis of the executions of an attempt."""

    def __init__(self) -> None:
        super().__init__()
        self.reflect = dspy.Predict(Reflect)

    def forward(self, sample: Sample, executions: Sequence[Solution]) -> Solution:
        """One synthesis.

        Raises:
            CallFailed: The reply was cut off or empty, the engine failed, or no answer can be read in it.
        """
        task = current_question().task
        texts = [f"Solution {number}:\n{e.reply.text}" for number, e in enumerate(executions, start=1)]
        inputs = {"question": task.text, "solutions": "\n\n".join(texts), "ending": answers.wanted(task)}
        reply = ask(self.reflect, "reflect", sample._replace(step="reflect"), inputs)
        answer = answers.extract(task, reply.text)
        if answer is None:
            raise NoAnswer("reflect")
        return Solution(answer, reply)

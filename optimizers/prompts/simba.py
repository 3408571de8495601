"""DSPy's SIMBA: rules that a teacher draws from a good and a bad sample of one question, and demonstrations."""

from math import ceil

from .base import Optimizer
from .board import Prompt, prompts_of
from .search import Search
from .student import Student, as_examples

_SAMPLES = 3  # of a question; so many candidates and one more are made in a step
_MOST_BATCH = 8  # questions of a step


class Simba(Optimizer):
    """Learns from questions that the engine sometimes gets right; from those that it never or always does, nothing.

    It chooses on the training questions and leaves the validation questions alone.
    """

    name = "simba"
    reflects = True

    def _questions(self, proposals: int, train: int, validation: int) -> int:
        steps, batch = _steps(proposals), min(train, _MOST_BATCH)
        # Once each to see which roles take part; the samples, the candidates; and the best ones on all questions.
        return train + steps * batch * (2 * _SAMPLES + 1) + (min(_SAMPLES, steps) + 1) * train

    def _lessons(self, questions: int, proposals: int, roles: int, train: int, validation: int) -> int:
        return _steps(proposals) * (_SAMPLES + 1)

    def _search(self, search: Search, proposals: int) -> dict[str, Prompt]:
        import dspy
        from dspy.adapters.chat_adapter import ChatAdapter
        from dspy.teleprompt import SIMBA

        from ..metrics import is_correct

        student = Student(search, search.taking_part())
        optimizer = SIMBA(
            metric=is_correct,
            bsize=min(len(search.train), _MOST_BATCH),
            num_candidates=_SAMPLES,
            max_steps=_steps(proposals),
            max_demos=self.max_demos,
            prompt_model=search.teacher,
            num_threads=self.workers,
        )
        # Of the teacher; its second try in JSON would be a call that nobody planned.
        with dspy.context(adapter=ChatAdapter(use_json_adapter_fallback=False)):
            compiled = optimizer.compile(student, trainset=as_examples(search.train), seed=search.seed)
        return prompts_of(compiled)

    def _best_so_far(self, search: Search) -> dict[str, Prompt]:
        judged = {question.id for question in search.train}
        return search.board.best(judged, min(len(judged), _MOST_BATCH))


def _steps(proposals: int) -> int:
    return ceil(proposals / (_SAMPLES + 1))

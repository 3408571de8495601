"""DSPy's MIPROv2: instructions that a teacher proposes, and sets of demonstrations, combined by a Bayesian search."""

from math import ceil

from .base import Optimizer
from .board import Prompt
from .search import Search
from .student import Student, as_examples

_MOST_CANDIDATES = 5  # instructions, the present one included, and sets of demonstrations of each role
_EXAMPLES_A_LESSON = 10
_MOST_LESSONS_ON_DATA = 11


class Mipro(Optimizer):
    """Tries combinations of instructions and demonstrations on all validation questions.

    The teacher sees examples, demonstrations and the present instructions. It does not see the program's code, whose
    description would take two more calls an instruction.
    """

    name = "mipro"
    reflects = True
    chooses = True

    def _questions(self, proposals: int, train: int, validation: int) -> int:
        # Once each to see which roles take part; the sets of demonstrations, of which one is empty; and the trials,
        # of which one more is the program as it is.
        return train + (_candidates(proposals) - 1) * train + (proposals + 1) * validation

    def _lessons(self, questions: int, proposals: int, roles: int, train: int, validation: int) -> int:
        return min(ceil(train / _EXAMPLES_A_LESSON) + 1, _MOST_LESSONS_ON_DATA) + _candidates(proposals) * roles

    def _search(self, search: Search, proposals: int) -> dict[str, Prompt]:
        import dspy
        from dspy.teleprompt import MIPROv2

        from coda_dspy.adapter import SectionAdapter

        from ..metrics import is_correct

        student = Student(search, search.taking_part())
        optimizer = MIPROv2(
            metric=is_correct,
            prompt_model=search.teacher,
            task_model=search.engine,
            max_bootstrapped_demos=self.max_demos,
            max_labeled_demos=0,
            auto=None,
            num_candidates=_candidates(proposals),
            num_threads=self.workers,
            max_errors=len(search.train) + len(search.validation),
            seed=search.seed,
            track_stats=False,
        )
        with dspy.context(adapter=SectionAdapter()):  # of the teacher; students have their own
            optimizer.compile(
                student,
                trainset=as_examples(search.train),
                valset=as_examples(search.validation),
                num_trials=proposals,
                minibatch=False,
                program_aware_proposer=False,
                view_data_batch_size=_EXAMPLES_A_LESSON,
            )
        return search.best()


def _candidates(proposals: int) -> int:
    return min(proposals + 1, _MOST_CANDIDATES)

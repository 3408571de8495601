"""Demonstrations from questions that the engine itself got right.

They suit a weak model on few examples: there is no need for a model that can reflect on prompts, only for worked
solutions, and the engine's own are in a style that it can follow.
"""

from .base import Optimizer
from .board import Prompt, prompts_of
from .search import Search
from .student import Student, as_examples


class Bootstrap(Optimizer):
    """DSPy's BootstrapFewShot: the first right answers, one question after the other.

    Roles that took part in none keep the demonstrations that they have.
    """

    name = "bootstrap"

    def _questions(self, proposals: int, train: int, validation: int) -> int:
        return train if self.max_demos else 0

    def _search(self, search: Search, proposals: int) -> dict[str, Prompt]:
        from dspy.teleprompt import BootstrapFewShot

        from ..metrics import is_correct

        optimizer = BootstrapFewShot(
            metric=is_correct,
            max_bootstrapped_demos=self.max_demos,
            max_labeled_demos=0,  # a labelled example has an answer, but no working that a role could follow
            max_errors=len(search.train),
        )
        compiled = optimizer.compile(Student(search), trainset=as_examples(search.train))
        return {name: prompt for name, prompt in prompts_of(compiled).items() if prompt.demos}


class RandomSearch(Optimizer):
    """DSPy's BootstrapFewShotWithRandomSearch: several such sets, the best of them on the validation questions."""

    name = "bootstrap-random-search"
    chooses = True

    def _questions(self, proposals: int, train: int, validation: int) -> int:
        # Once each to see which roles take part, and to have the answers at hand; then no demonstrations, and each set.
        return train + validation + proposals * (train + validation) if self.max_demos else 0

    def _search(self, search: Search, proposals: int) -> dict[str, Prompt]:
        from dspy.teleprompt import BootstrapFewShotWithRandomSearch

        from ..metrics import is_correct

        student = Student(search, search.taking_part())
        shuffled = as_examples(search.shuffled(search.train))
        optimizer = BootstrapFewShotWithRandomSearch(
            metric=is_correct,
            max_bootstrapped_demos=self.max_demos,
            max_labeled_demos=0,
            num_candidate_programs=proposals - 1,
            num_threads=self.workers,
            max_errors=len(search.train) + len(search.validation),
        )
        # -3 has no demonstrations, -1 those of the first questions; -2 has labels only, which are none.
        candidates = [-3, *range(-1, proposals - 1)]
        optimizer.compile(student, trainset=shuffled, valset=as_examples(search.validation), restrict=candidates)
        return search.best()

"""What all optimizers share: how a budget becomes a plan, and how a search begins and ends."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import dspy

from coda_dspy.engines import redact
from coda_dspy.errors import CodaError, UserError
from coda_dspy.evaluation import Gradable, Result
from coda_dspy.program import Conductor

from .allowance import LESSON_TOKENS, Allowance, Ended
from .board import Prompt, put_prompts
from .counting import most_calls, most_roles
from .gate import most_tries
from .interface import OptimizerFailed, Planned
from .search import Search
from .taming import tamed
from .teacher import LessonMeter, counted, self_taught

FEWEST_PROPOSALS = 3
_PROPOSALS = 8  # where no budget says otherwise
_MOST_PROPOSALS = 256
_LONGEST_PROMPT = 8192  # tokens; a longer one may not fit at the end of a search

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Optimizer(ABC):
    """An optimizer as `PromptOptimizer` has it; each of its kind says what a proposal costs, and how it searches.

    Args:
        max_demos: The most demonstrations of one role; with 0 none is added.
        max_questions: The most questions to ask; by default those of eight proposals.
        tokens_each: Tokens that a question takes, as measured; without them tokens are not planned.
        workers: Questions at the same time.
    """

    max_demos: int = 2
    max_questions: int | None = None
    tokens_each: float | None = None
    workers: int = 8

    name: ClassVar[str]
    reflects: ClassVar[bool] = False  # whether a teacher proposes instructions
    chooses: ClassVar[bool] = False  # whether prompts are compared on the validation questions

    def plan(
        self,
        program: Conductor,
        train: Sequence[Gradable],
        validation: Sequence[Gradable],
        teacher: dspy.LM | None,
    ) -> Planned:
        """See `PromptOptimizer.plan`."""
        if teacher is not None and not self.reflects:
            raise UserError(f"a teacher proposes instructions, which {self.name} does not use; give none, or use gepa")
        if self.chooses and not validation:
            raise UserError(f"{self.name} compares prompts on validation questions; give it some")
        questions, lessons = self._most(program, len(train), len(validation))
        if not questions:
            return Planned(0, 0, 0)
        calls_each = most_calls(program)
        calls = questions * calls_each + lessons + _tries_more(program, teacher) if calls_each is not None else None
        if self.tokens_each is None:
            return Planned(questions, calls, None)
        # A demonstration makes a prompt longer by at most about one call; a new instruction counts for another one.
        longer = 2 + self.max_demos
        # No call starts that might not fit, so there has to be room for the longest one when all others are over.
        longest = max(program.budget.max_tokens.values()) + _LONGEST_PROMPT
        tokens = int(questions * self.tokens_each * longer) + lessons * LESSON_TOKENS + longest
        return Planned(questions, calls, tokens)

    def most_questions(self, train: int, validation: int) -> int:
        """Questions that so many training and validation questions make at most.

        Raises:
            UserError: `max_questions` does not suffice for three proposals.
        """
        return self._questions(self._proposals(train, validation), train, validation)

    def compile(
        self,
        program: Conductor,
        train: Sequence[Gradable],
        validation: Sequence[Gradable],
        *,
        teacher: dspy.LM | None = None,
        seed: int = 0,
        keep_going: Callable[[], bool] = lambda: True,
        on_question: Callable[[Result], None] = lambda result: None,
    ) -> Conductor:
        """See `PromptOptimizer.compile`."""
        planned = self.plan(program, train, validation, teacher)
        compiled = _copy(program, program.lm)
        if planned.questions:
            _, lessons = self._most(program, len(train), len(validation))
            allowance = Allowance(planned, lessons, keep_going, on_question)
            search = self._begun(program, _open(train), validation, teacher, seed, allowance)
            put_prompts(compiled, self._found(search))
        return compiled

    @abstractmethod
    def _questions(self, proposals: int, train: int, validation: int) -> int:
        """The most questions that so many proposals take."""

    def _lessons(self, questions: int, proposals: int, roles: int, train: int, validation: int) -> int:
        """The most calls to the teacher."""
        return 0

    @abstractmethod
    def _search(self, search: Search, proposals: int) -> dict[str, Prompt]:
        """The best prompts that a search finds; none where it finds none."""

    def _best_so_far(self, search: Search) -> dict[str, Prompt]:
        """The best prompts of a search that had to end."""
        return search.best()

    def _proposals(self, train: int, validation: int) -> int:
        """How many proposals the budget suffices for."""
        if self.max_questions is None:
            return _PROPOSALS
        fewest = self._questions(FEWEST_PROPOSALS, train, validation)
        if fewest > self.max_questions:
            raise UserError(
                f"{self.name} cannot try {FEWEST_PROPOSALS} proposals with {self.max_questions} questions; "
                f"give it at least {fewest} (with {train} training and {validation} validation questions)"
            )
        tried = range(FEWEST_PROPOSALS, _MOST_PROPOSALS + 1)
        return max(n for n in tried if self._questions(n, train, validation) <= self.max_questions)

    def _most(self, program: Conductor, train: int, validation: int) -> tuple[int, int]:
        """The most questions, and the most calls to the teacher."""
        proposals = self._proposals(train, validation)
        questions = self._questions(proposals, train, validation)
        return questions, self._lessons(questions, proposals, most_roles(program), train, validation)

    def _begun(
        self,
        program: Conductor,
        train: Sequence[Gradable],
        validation: Sequence[Gradable],
        teacher: dspy.LM | None,
        seed: int,
        allowance: Allowance,
    ) -> Search:
        engine = program.lm or dspy.settings.lm
        if engine is None:
            raise UserError("no engine is set; give the program one, or use dspy.configure(lm=...)")
        warning = self_taught(engine, teacher) if self.reflects else None
        if warning:
            logger.warning("%s", warning)
        taught = counted(teacher or engine, allowance)
        copy = _copy(program, None)  # on the engine of the context, so that samples can be drawn on other rollouts
        adapter = dspy.settings.adapter
        return Search(copy, train, validation, engine, taught, seed, self.workers, allowance, adapter)

    def _found(self, search: Search) -> dict[str, Prompt]:
        """What the search finds, or the best so far where it had to end."""
        settings: dict[str, Any] = {"lm": search.engine, "trace": None, "coda_call": LessonMeter(search.allowance)}
        try:
            with tamed(), dspy.context(**settings):
                return self._search(search, self._proposals(len(search.train), len(search.validation)))
        except Ended:
            if search.allowance.error is not None:
                raise search.allowance.error from None
            return self._best_so_far(search)
        except CodaError:
            raise
        except Exception as error:  # whatever an optimizer breaks on, the program is as it was
            raise OptimizerFailed(redact(f"{self.name} failed: {type(error).__name__}: {error}")) from error
        finally:
            search.allowance.close()


def _open(questions: Sequence[Gradable]) -> list[Gradable]:
    """The questions whose text may stand in a prompt."""
    found = [question for question in questions if not getattr(question, "private", False)]
    if not found:
        raise UserError("there is no training question whose text may be kept in prompts; give others, or use none")
    return found


def _tries_more(program: Conductor, teacher: dspy.LM | None) -> int:
    """Tries beyond the first that the last call may need."""
    engines = [lm for lm in (program.lm or dspy.settings.lm, teacher) if lm is not None]
    return max((most_tries(lm) - 1 for lm in engines), default=0)


def _copy(program: Conductor, engine: dspy.LM | None) -> Conductor:
    """A copy with this engine of its own; copying a program alone would copy its engine too."""
    copy: Conductor = program.deepcopy()
    for _, part in copy.named_sub_modules(Conductor):
        part.lm = engine
    return copy

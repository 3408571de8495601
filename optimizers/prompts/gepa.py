"""GEPA: a teacher reads what went wrong at each role, and rewrites that role's instructions.

Through `gepa.optimize`, on which `dspy.GEPA` is built: that one shows a teacher the calls of a trace only, and so no
reply that was cut off, and has its questions asked by `dspy.Evaluate`.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import dspy
from dspy.utils.exceptions import AdapterParseError

from coda_dspy.adapter import PlainAdapter
from coda_dspy.answers import strip_thinking
from coda_dspy.evaluation import Gradable

from ..metrics import shortened
from .base import Optimizer
from .board import Prompt, prompts_of
from .feedback import feedback_on, verdict_on
from .search import Search
from .watching import Asked, Call

_BATCH = 3  # questions that a proposal is made from, and tried on before all others
_MOST_GIVEN = 1200  # characters of each: what a role was given, what it replied
_MOST_INSTRUCTION = 2000  # characters; a longer one costs tokens in every call
_FENCED = re.compile(r"```\w*\n(.*?)```", re.DOTALL)


class RewriteInstruction(dspy.Signature):
    """The instruction above is given to a language model together with a problem. The examples show what the model was given, what it replied and what came of it. Write a better instruction: say concretely what the model has to do so that such faults do not happen, keep what works, and mention no single problem and no single answer. Reply with the new instruction and nothing else."""  # noqa: E501

    examples: str = dspy.InputField(desc="Examples")
    instruction: str = dspy.InputField(desc="Instruction")
    rewritten: str = dspy.OutputField(desc="the new instruction")


class Gepa(Optimizer):
    """Keeps a rewritten instruction that does better on a few training questions, and tries it on all of validation."""

    name = "gepa"
    reflects = True
    chooses = True

    def _questions(self, proposals: int, train: int, validation: int) -> int:
        return validation + proposals * _each(validation)

    def _lessons(self, questions: int, proposals: int, roles: int, train: int, validation: int) -> int:
        return (questions - validation) // (2 * _BATCH)  # most proposals end after their few training questions

    def _search(self, search: Search, proposals: int) -> dict[str, Prompt]:
        from gepa import optimize

        def is_over(gepa_state: Any) -> bool:
            return not search.allowance.fits(_each(len(search.validation)), lessons=1)

        adapter: Any = _Adapter(search)
        turns: Any = _Turns()
        optimize(
            seed_candidate={name: prompt.instructions for name, prompt in prompts_of(search.program).items()},
            trainset=list(search.train),
            valset=list(search.validation),
            adapter=adapter,
            module_selector=turns,
            reflection_minibatch_size=_BATCH,
            stop_callbacks=[is_over],
            logger=_Silent(),
            track_best_outputs=False,
            seed=search.seed,
        )
        return search.best()


def _each(validation: int) -> int:
    """The most questions of one proposal: the few before and after, and all of validation."""
    return 2 * _BATCH + validation


class _Adapter:
    """How GEPA has candidates answer, and has their instructions rewritten."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._rewrite = dspy.Predict(RewriteInstruction)
        self._rewritten = 0

    def evaluate(self, batch: list[Gradable], candidate: dict[str, str], capture_traces: bool = False) -> Any:
        from gepa import EvaluationBatch

        program = self._search.program.deepcopy()
        for name, predict in program.named_predictors():
            predict.signature = predict.signature.with_instructions(candidate[name])
        asked = self._search.ask_all(program, batch)
        return EvaluationBatch(
            outputs=[one.result.answer for one in asked],
            scores=[float(bool(one.result.correct)) for one in asked],
            trajectories=asked if capture_traces else None,
        )

    def make_reflective_dataset(
        self, candidate: dict[str, str], eval_batch: Any, components_to_update: list[str]
    ) -> dict[str, list[dict[str, str]]]:
        return {role: examples_of(role, eval_batch.trajectories) for role in components_to_update}

    def propose_new_texts(
        self, candidate: dict[str, str], reflective_dataset: Any, components_to_update: list[str]
    ) -> dict[str, str]:
        """The new instructions; none for a role for which the teacher's reply cannot be used."""
        found = {role: self._proposed(candidate[role], reflective_dataset[role]) for role in components_to_update}
        return {role: text for role, text in found.items() if text and text != candidate[role]}

    def _proposed(self, instruction: str, examples: Sequence[dict[str, str]]) -> str:
        """One proposal, on a sample of its own; "" for a reply that is cut off, empty or too long."""
        self._rewritten += 1
        teacher = self._search.teacher.copy(rollout_id=self._search.seed * 1000 + self._rewritten)
        shown = "\n\n".join(f"Example {n}\n{_written(example)}" for n, example in enumerate(examples, start=1))
        try:
            with dspy.context(lm=teacher, adapter=PlainAdapter()):
                reply = self._rewrite(examples=shown, instruction=instruction).rewritten
        except AdapterParseError:  # nothing but thinking
            return ""
        return "" if _is_cut(teacher) else _instruction_in(reply)


class _Turns:
    """Which role's instruction is rewritten next: of those that took part, the one that went wrong and waited most."""

    def __init__(self) -> None:
        self._turns: Counter[str] = Counter()

    def __call__(
        self, state: Any, trajectories: list[Asked], scores: list[float], index: int, candidate: dict[str, str]
    ) -> list[str]:
        calls = [(call, asked) for asked in trajectories if not asked.result.correct for call in asked.calls]
        wrong = [call for call, asked in calls if verdict_on(call, asked).right is False]
        roles = dict.fromkeys(call.role for call in wrong or [call for call, _ in calls])
        chosen = min(roles or candidate, key=lambda role: self._turns[role])
        self._turns[chosen] += 1
        return [chosen]


class _Silent:
    def log(self, message: str) -> None: ...


def examples_of(role: str, asked: Sequence[Asked]) -> list[dict[str, str]]:
    """What a teacher is shown of a role: one call of each question, one that went wrong where there is any."""
    examples = []
    for one in asked:
        calls = [call for call in one.calls if call.role == role]
        if calls:
            call = min(calls, key=lambda call: verdict_on(call, one).right is not False)
            examples.append(_example(call, one))
    return examples


def _example(call: Call, asked: Asked) -> dict[str, str]:
    given = "\n".join(f"{name}: {text}" for name, text in call.inputs.items())
    return {
        "Given": shortened(given, _MOST_GIVEN),
        "Reply": shortened(call.output, _MOST_GIVEN) or "(nothing)",
        "What came of it": feedback_on(call, asked),
    }


def _written(example: dict[str, str]) -> str:
    return "\n".join(f"{title}:\n{text}" for title, text in example.items())


def _is_cut(teacher: dspy.LM) -> bool:
    """Whether the last reply was cut off: half an instruction is none."""
    if not teacher.history:
        return False
    response = teacher.history[-1]["response"]
    ends = [response, *getattr(response, "choices", ())]  # LiteLLM's have their reason in the choice
    return any(getattr(end, "finish_reason", None) == "length" for end in ends)


def _instruction_in(reply: str) -> str:
    visible, _ = strip_thinking(reply)
    fenced = _FENCED.findall(visible)
    text = (fenced[-1] if fenced else visible).strip().strip('"').strip()
    return text if len(text) <= _MOST_INSTRUCTION else ""

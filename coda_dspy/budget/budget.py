"""The budget itself: its fields, and what they must not be together."""

from collections.abc import Mapping
from typing import Any, Self

from dspy.predict.parameter import Parameter

from coda_dspy.budget.fields import BY_STAGE, DEFAULTS, EFFORTS, checked
from coda_dspy.budget.presets import PRESETS
from coda_dspy.errors import UserError


class Budget(Parameter):
    """How much compute one question may take. A DSPy parameter, so it is saved and loaded with its program.

    Args:
        best_of_n: Attempts of Algorithm 1, 1 to 64; each gives one candidate.
        n_plans: Plans (and their executions) of one attempt, 1 to 64.
        max_plan_tries: How often one plan may be tried when its reply is cut off or empty, 1 to 16.
        plan_diversity: First propose a different approach for each attempt.
        use_planner: Without it, executions answer without a plan (an ablation of the paper).
        plan_paths: The planner says for each plan whether to reason in words or to compute by program, and so it is
            executed (maths only).
        use_reflection: Without it, every execution is a candidate itself (an ablation of the paper).
        use_tests: Without it, programs are tried neither on public tests nor on the examples in the task (an ablation
            of the paper).
        verifier: Who chooses among candidates. `majority`, `judge` (absolute ratings), `pairwise` (comparisons of the
            three leading answers, in both orders) choose in Algorithm 1. The others decide the last vote of
            Algorithm 2 too: `weighted` (each vote weighs what was learned of its path, and so do paths that agree and
            the judges that were found to be better than chance; `majority` where nothing was learned), `agreement`
            (what was reached both in words and by program counts more), `genselect` (one comparison of all answers,
            voted on), `check` (programs that test the answers; maths), `distinguish` (the two leading programs are run
            on inputs that tell them apart; code), `codet` (programs and generated tests that agree; code). All but
            `judge` ask only where the vote is open.
        num_attempts_baseline: Direct attempts of Algorithm 2, step 1, 0 to 256.
        num_attempts_coding: Runs of the coding agent, step 2, 0 to 256; for maths only.
        num_attempts_coda: Runs of Algorithm 1 in step 3 of Algorithm 2, 0 to 64.
        refine_rounds: How often an execution is sent back with what is wrong with it, 0 to 16: no readable answer, a
            program that fails, a public test that is not passed.
        first_path: `direct` (the paper's order) or `code`: which of steps 1 and 2 of Algorithm 2 comes first. `learned`
            takes what was learned of the question's kind, or else the paper's order.
        stop_on_agreement: Ask once directly and once by program first, and stop where the two agree (maths only). Not a
            rule of the paper.
        early_exit: `lossless` launches votes in waves and stops when no vote can change the answer; `beta` stops when
            a Beta posterior is 95 % sure of the leader (the answer may differ); `learned` when the answer-count model
            of the engine is 95 % sure that the leader wins the full run, and is `beta` where there is no such model;
            `off` runs everything. `True` and `False` stand for `lossless` and `off`.
        reasoning_effort: `high`, `medium` or `low` for all stages, or by stage, where the engine takes one. It steps
            down when a reply is cut off or the engine fails.
        temperature: One number from 0 to 2 for all stages, or numbers by stage (`{"plan": 0.8}`).
        max_tokens: One number for all stages, or numbers by stage; the cap of one reply, 1 to 1,000,000.
        max_total_tokens: Tokens in and out that one question may take. No call is launched beyond it; calls in flight
            end. `None`: no limit.

    Raises:
        UserError: A field is unknown or out of range; the message names field, value and range.
    """

    def __init__(self, **fields: Any) -> None:
        for name, default in DEFAULTS.items():
            object.__setattr__(self, name, dict(default) if isinstance(default, dict) else default)
        for name, value in fields.items():
            setattr(self, name, value)
        _refuse_identical_samples(self)
        _refuse_lonely_agreement(self)

    def __setattr__(self, name: str, value: Any) -> None:
        value = checked(name, value)
        if name in BY_STAGE:
            value = {**getattr(self, name), **value}
        object.__setattr__(self, name, value)

    best_of_n: int
    n_plans: int
    max_plan_tries: int
    plan_diversity: bool
    use_planner: bool
    plan_paths: bool
    use_reflection: bool
    use_tests: bool
    first_path: str
    stop_on_agreement: bool
    verifier: str
    num_attempts_baseline: int
    num_attempts_coding: int
    num_attempts_coda: int
    refine_rounds: int
    early_exit: str
    reasoning_effort: dict[str, str | None]
    temperature: dict[str, float]
    max_tokens: dict[str, int]
    max_total_tokens: int | None

    @classmethod
    def preset(cls, name: str) -> Self:
        """A named budget: `quick`, `paper-qwen3`, `paper-gpt-oss` or `max`."""
        if name not in PRESETS:
            raise UserError(f"budget preset {name!r} does not exist; choose one of: {', '.join(PRESETS)}")
        return cls(**PRESETS[name])

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed; numbers by stage are merged into the present ones."""
        return type(self)(**{**self.dump_state(), **self._merged(changes)})

    def _merged(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        merged = dict(changes)
        for name in BY_STAGE:
            if isinstance(merged.get(name), Mapping):
                merged[name] = {**getattr(self, name), **merged[name]}
        return merged

    def efforts(self, stage: str) -> list[str | None]:
        """The reasoning efforts that a stage tries in turn, from the chosen one down."""
        chosen = self.reasoning_effort[stage]
        if chosen is None:
            return [None]
        return list(reversed(EFFORTS[: EFFORTS.index(chosen) + 1]))

    # The protocol of a DSPy parameter: this is what saving and loading a program calls.
    def reset(self) -> None:
        """A budget has nothing to forget: optimizers that reset prompts leave it as it is."""

    def dump_state(self, json_mode: bool = True) -> dict[str, Any]:
        return {name: dict(value) if isinstance(value, dict) else value for name, value in vars(self).items()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        # Built anew first: a state with one bad field changes nothing.
        self.__dict__.update(type(self)(**state).__dict__)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Budget) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # it changes, and DSPy tells parameters apart by identity

    def __repr__(self) -> str:
        reference = vars(Budget())
        changed = {name: value for name, value in vars(self).items() if value != reference[name]}
        return f"Budget({', '.join(f'{name}={value!r}' for name, value in changed.items())})"


def _refuse_lonely_agreement(budget: Budget) -> None:
    if budget.stop_on_agreement and not (budget.num_attempts_baseline and budget.num_attempts_coding):
        raise UserError(
            f"stop_on_agreement compares a direct answer with a coded one, but num_attempts_baseline is "
            f"{budget.num_attempts_baseline} and num_attempts_coding {budget.num_attempts_coding}; raise both above 0"
        )


def _refuse_identical_samples(budget: Budget) -> None:
    """At temperature 0 every sample is the same reply: more than one of them is money for nothing."""
    if budget.num_attempts_baseline > 1 and budget.temperature["direct"] == 0:
        raise UserError(
            f"num_attempts_baseline is {budget.num_attempts_baseline}, but temperature.direct is 0: all attempts would "
            "be the same reply; use temperature.direct above 0, or num_attempts_baseline 1"
        )
    if budget.num_attempts_coding > 1 and budget.temperature["code"] == 0:
        raise UserError(
            f"num_attempts_coding is {budget.num_attempts_coding}, but temperature.code is 0: all programs would be "
            "the same; use temperature.code above 0, or num_attempts_coding 1"
        )
    samples = budget.best_of_n * budget.n_plans * budget.num_attempts_coda
    stages = ("plan", "execute") if budget.use_planner else ("execute",)
    if samples > 1 and all(budget.temperature[stage] == 0 for stage in stages):
        names = " and ".join(f"temperature.{stage}" for stage in stages)
        raise UserError(
            f"best_of_n times n_plans times num_attempts_coda is {samples}, but {names} is 0: all executions would be "
            "the same reply; use a temperature above 0, or 1 for each of the three"
        )

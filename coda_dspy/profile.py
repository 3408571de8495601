"""A profile: what tuning produces for one engine. One JSON file, without pickle, key or endpoint.

Loading is all or nothing, a mismatch names its field, and save, load, save gives the same bytes (DESIGN.md, 9).
"""

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self, get_args

import dspy
from pydantic import BaseModel, ConfigDict, ValidationError

from coda_dspy.adapter import adapter_named
from coda_dspy.budget import FIELDS, Budget
from coda_dspy.conductor import AdaptiveCoda, Coda
from coda_dspy.engines import connect, redact
from coda_dspy.engines.connect import check_decoding
from coda_dspy.errors import UserError
from coda_dspy.program import Conductor

VERSION: Literal[1] = 1
# The engine alone: one direct, greedy call and nothing behind it.
ASKED_ONCE: dict[str, Any] = {
    "num_attempts_baseline": 1,
    "num_attempts_coding": 0,
    "num_attempts_coda": 0,
    "best_of_n": 1,
    "n_plans": 1,
    "stop_on_agreement": False,
    "refine_rounds": 0,
    "temperature": {"direct": 0.0},
}
# The coding agent alone: one greedy program, run once.
CODED_ONCE: dict[str, Any] = {
    **ASKED_ONCE,
    "num_attempts_baseline": 0,
    "num_attempts_coding": 1,
    "temperature": {"code": 0.0},
}
# Direct attempts and their vote, nothing else.
VOTED: dict[str, Any] = {"num_attempts_coding": 0, "num_attempts_coda": 0, "stop_on_agreement": False}
_CHANGES = {"direct": ASKED_ONCE, "code": CODED_ONCE, "self-consistency": VOTED}
Algorithm = Literal["adaptive", "coda", "direct", "code", "self-consistency"]
ALGORITHMS: tuple[str, ...] = get_args(Algorithm)


class Prompt(BaseModel):
    """What one role is asked: instructions and demonstrations (values by field name)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    instructions: str
    demos: list[dict[str, str]] = []


class Profile(BaseModel):
    """What tuning found for one engine.

    Args:
        format: Always `coda-dspy-profile`.
        version: Version of the file's layout.
        engine: The engine's name, without address or key.
        algorithm: one of `ALGORITHMS`.
        adapter: `plain` or `sections`.
        decoding: Sampling settings that `connect` is given.
        budget: The fields of `Budget`.
        prompts: Instructions and demonstrations by predictor.
        scores: The figures that justify the choice, with their intervals and sample sizes.
        data: What it was tuned on: name, hash, sizes of the splits.
        versions: Versions of the packages that produced it.
        probe: What `coda probe` measured of the engine; not in the file where it was not probed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["coda-dspy-profile"]
    version: Literal[1]
    engine: str
    algorithm: Algorithm = "adaptive"
    adapter: str = "plain"
    decoding: dict[str, Any] = {}
    budget: dict[str, Any]
    prompts: dict[str, Prompt]
    scores: dict[str, Any] = {}
    data: dict[str, Any] = {}
    versions: dict[str, str] = {}
    probe: dict[str, Any] | None = None

    @classmethod
    def of(cls, program: Conductor, engine: str, **fields: Any) -> Self:
        """The profile of a program as it is now.

        Args:
            program: An `AdaptiveCoda`.
            engine: The engine's name.
            fields: Any of `algorithm`, `decoding`, `scores`, `data`, `probe`.
        """
        check_decoding(fields.get("decoding", {}))
        return cls(
            format="coda-dspy-profile",
            version=VERSION,
            engine=engine,
            adapter=program.adapter or "plain",
            budget=program.budget.dump_state(),
            prompts={name: _prompt_of(predict) for name, predict in program.named_predictors()},
            versions=versions(),
            **fields,
        )

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read and check a profile.

        Raises:
            UserError: No such file, no JSON, another version, or a field that does not fit; the message names it.
        """
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise UserError(f"profile {path} cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise UserError(f"profile {path} is not JSON: {error}") from error
        return cls.parse(content, str(path))

    @classmethod
    def parse(cls, content: Any, source: str = "profile") -> Self:
        """Check the content of a profile; `source` names it in errors."""
        if isinstance(content, Mapping) and content.get("version") not in (None, VERSION):
            raise UserError(
                f"{source}: version is {content['version']!r}, but this coda_dspy reads version {VERSION}; "
                "tune again, or install the version that wrote it"
            )
        try:
            profile = cls.model_validate(content)
        except ValidationError as error:
            raise UserError(f"{source}: {_named_fields(error)}") from error
        profile.adaptive()  # budget, adapter and predictors have to fit as well
        return profile

    def program(self, lm: dspy.LM | None = None, algorithm: str | None = None) -> Conductor:
        """A program with this profile's prompts and budget.

        Args:
            lm: The engine; by default the one of `dspy.settings`.
            algorithm: one of `ALGORITHMS`; by default the profile's own.
        """
        return with_algorithm(self.adaptive(lm), algorithm or self.algorithm)

    def adaptive(self, lm: dspy.LM | None = None) -> AdaptiveCoda:
        """The whole program, of which every algorithm is a part.

        Raises:
            UserError: The profile names a predictor or a budget field that does not exist, or lacks a predictor.
        """
        adapter_named(self.adapter)
        missing = [name for name in FIELDS if name not in self.budget]
        if missing:
            raise UserError(f"profile of {self.engine}: budget.{missing[0]} is missing; tune again")
        program = AdaptiveCoda(Budget(**self.budget), adapter=self.adapter, lm=lm)
        predictors = dict(program.named_predictors())
        for name in sorted(set(predictors) ^ set(self.prompts)):
            problem = "is missing" if name in predictors else "names a predictor that does not exist"
            raise UserError(f"profile of {self.engine}: prompts.{name} {problem}; tune again")
        for name, predict in predictors.items():
            _apply(self.prompts[name], predict, f"prompts.{name}")
        return program

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the profile; whatever goes wrong, a file that was there before stays whole.

        Raises:
            UserError: The file cannot be written (no permission, disk full).
        """
        content = self.model_dump(mode="json", exclude={"probe"} if self.probe is None else None)
        text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        write_atomically(Path(path), redact(text))


def load(profile: str | os.PathLike[str], engine: Any = None, api_base: str | None = None) -> Conductor:
    """A tuned program, ready to be called.

    Example:
        >>> program = coda_dspy.load("profiles/qwen2.5-coder-0.5b.json")  # doctest: +SKIP
        >>> program(question="What is 12 * 13?").answer  # doctest: +SKIP
        '156'

    Args:
        profile: Path of the profile.
        engine: Name of an engine, or a `dspy.LM`. By default the engine that is configured in DSPy, or else the one
            that the profile was tuned for.
        api_base: Address of the engine's server.

    Raises:
        UserError: The profile does not fit; nothing is loaded then.
    """
    content = Profile.read(profile)
    if engine is None and dspy.settings.lm is not None:
        return content.program()
    lm = engine if isinstance(engine, dspy.LM) else connect(engine or content.engine, api_base, **content.decoding)
    return content.program(lm)


def with_algorithm(program: AdaptiveCoda, algorithm: str) -> Conductor:
    """The program that runs one of the algorithms with the prompts and the budget of an `AdaptiveCoda`.

    `direct` is the engine asked once, greedily: the path that easy questions take. `code` is one greedy program for a
    maths problem, run once. `self-consistency` is the vote of `num_attempts_baseline` direct attempts. These three
    change the program's budget.

    Raises:
        UserError: There is no algorithm of that name.
    """
    if algorithm == "adaptive":
        return program
    if algorithm == "coda":
        coda: Coda = program.coda
        coda.adapter, coda.lm = program.adapter, program.lm
        return coda
    if algorithm in _CHANGES:
        program.budget.load_state(program.budget.replace(**_CHANGES[algorithm]).dump_state())
        return program
    raise UserError(f"algorithm {algorithm!r} does not exist; choose one of: {', '.join(ALGORITHMS)}")


def write_atomically(path: Path, text: str) -> None:
    """Replace a file in one step: readers see the old content or the new one, and a failure leaves the old one.

    Raises:
        UserError: The file cannot be written.
    """
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(_mode_of(path))
        Path(temporary).replace(path)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise UserError(f"{path} cannot be written: {error.strerror}; what was there before is unchanged") from error


def _mode_of(path: Path) -> int:
    """The permissions of the file that is replaced, or those that a new file gets (temporary files are private)."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _prompt_of(predict: dspy.Predict) -> Prompt:
    fields = [*predict.signature.input_fields, *predict.signature.output_fields]
    demos = [{name: str(demo[name]) for name in fields if demo.get(name)} for demo in map(dict, predict.demos)]
    return Prompt(instructions=predict.signature.instructions, demos=demos)


def _apply(prompt: Prompt, predict: dspy.Predict, name: str) -> None:
    fields = {*predict.signature.input_fields, *predict.signature.output_fields}
    for number, demo in enumerate(prompt.demos):
        unknown = sorted(set(demo) - fields)
        if unknown:
            raise UserError(f"{name}.demos.{number} has no field {unknown[0]!r}; its fields are: {', '.join(fields)}")
    predict.signature = predict.signature.with_instructions(prompt.instructions)
    predict.demos = [dspy.Example(**demo) for demo in prompt.demos]


def _named_fields(error: ValidationError) -> str:
    problems = [f"{'.'.join(map(str, p['loc'])) or 'the file'}: {p['msg']}" for p in error.errors()[:3]]
    return "; ".join(problems)


def versions() -> dict[str, str]:
    """The versions of what decides how a program behaves."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for package in ("coda-dspy", "dspy", "optuna", "xllamacpp"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found

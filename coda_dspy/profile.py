"""A profile: what tuning produces for one engine. One JSON file, without pickle, key or endpoint.

Loading is all or nothing, a mismatch names its field, and save, load, save gives the same bytes (DESIGN.md, 9).
"""

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal, Self

import dspy
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from coda_dspy.adapter import adapter_named
from coda_dspy.algorithms import Algorithm, with_algorithm
from coda_dspy.bounds import MOST_DEMOS, MOST_IN_A_PROMPT, named, read_json, refuse_absurd
from coda_dspy.budget import FIELDS, Budget
from coda_dspy.conductor import AdaptiveCoda
from coda_dspy.engines import redact
from coda_dspy.engines.connect import check_decoding
from coda_dspy.errors import UserError
from coda_dspy.files import write_atomically
from coda_dspy.learned import Learned
from coda_dspy.program import Conductor

VERSION: Literal[1] = 1


class Prompt(BaseModel):
    """What one role is asked: instructions and demonstrations (values by field name)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    instructions: str
    demos: list[dict[str, str]] = Field([], max_length=MOST_DEMOS)


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
        learned: What tuning learned of the engine, by kind of question, for use at run time (see `Learned`).
            Not in the file where nothing was.
        probe: What `coda probe` measured of the engine; not in the file where it was not probed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["coda-dspy-profile"]
    version: Literal[1]
    engine: str = Field(min_length=1)
    algorithm: Algorithm = "adaptive"
    adapter: str = "plain"
    decoding: dict[str, Any] = {}
    budget: dict[str, Any]
    prompts: dict[str, Prompt]
    scores: dict[str, Any] = {}
    data: dict[str, Any] = {}
    versions: dict[str, str] = {}
    learned: dict[str, Any] = {}
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
            versions=installed_versions(),
            learned=program.learned.dump_state(),
            **fields,
        )

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read and check a profile.

        Raises:
            UserError: No such file, no JSON, another version, or a field that does not fit; the message names it.
        """
        return cls.parse(read_json(path), str(path))

    @classmethod
    def parse(cls, content: Any, source: str = "profile") -> Self:
        """Check the content of a profile; `source` names it in errors."""
        try:
            refuse_absurd(content)
            _refuse_version(content)
            profile = cls.model_validate(content)
            check_decoding(profile.decoding)
            profile.program()  # budget, adapter and predictors have to fit as well
        except ValidationError as error:
            raise UserError(f"{source}: {_named_fields(error)}") from error
        except UserError as error:
            raise UserError(f"{source}: {error}") from error
        return profile

    @classmethod
    def renewed(cls, path: str | os.PathLike[str]) -> tuple[Self, list[str]]:
        """Read a profile of an earlier version as one of this: what is new since stands in it as it is written.

        Returns:
            The profile, and the names of the roles and the fields of the budget that were new.

        Raises:
            UserError: As for `read`, for everything else that does not fit.
        """
        content = read_json(path)
        added: list[str] = []
        now = cls.of(AdaptiveCoda(), "any").model_dump(mode="json")
        for group in ("budget", "prompts"):
            found = content.get(group) if isinstance(content, Mapping) else None
            if isinstance(found, dict):
                missing = {name: value for name, value in now[group].items() if name not in found}
                found |= missing
                added += [named((group, name)) for name in missing]
        return cls.parse(content, str(path)), added

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
        _refuse_misfit("budget", FIELDS, self.budget, "a field")
        program = AdaptiveCoda(Budget(**self.budget), self.adapter, lm, Learned.parse(self.learned))
        predictors = dict(program.named_predictors())
        _refuse_misfit("prompts", predictors, self.prompts, "a predictor")
        for name, predict in predictors.items():
            _apply(self.prompts[name], predict, f"prompts.{name}")
        return program

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the profile; whatever goes wrong, a file that was there before stays whole.

        Raises:
            UserError: The file cannot be written (no permission, disk full).
        """
        unknown = {name for name, nothing in (("learned", {}), ("probe", None)) if getattr(self, name) == nothing}
        content = self.model_dump(mode="json", exclude=unknown)
        text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        write_atomically(Path(path), redact(text))


def _prompt_of(predict: dspy.Predict) -> Prompt:
    fields = [*predict.signature.input_fields, *predict.signature.output_fields]
    demos = [{name: str(demo[name]) for name in fields if demo.get(name)} for demo in map(dict, predict.demos)]
    return Prompt(instructions=predict.signature.instructions, demos=demos)


def _refuse_version(content: Any) -> None:
    version = content.get("version", VERSION) if isinstance(content, Mapping) else VERSION
    if version != VERSION:
        raise UserError(
            f"version is {version!r:.60}, but this coda_dspy reads version {VERSION}; "
            "tune again, or install the version that wrote it"
        )


def _refuse_misfit(group: str, known: Collection[str], found: Collection[str], what: str) -> None:
    for name in sorted(set(known) ^ set(found)):
        problem = (
            "is missing; if an earlier version wrote this profile, renew it: coda profile renew OLD NEW"
            if name in known
            else f"names {what} that does not exist; tune again"
        )
        raise UserError(f"{named((group, name))} {problem}")


def _apply(prompt: Prompt, predict: dspy.Predict, name: str) -> None:
    size = len(prompt.instructions) + sum(len(text) for demo in prompt.demos for text in demo.values())
    if size > MOST_IN_A_PROMPT:
        raise UserError(f"{name} has {size:,} characters; at most {MOST_IN_A_PROMPT:,} are read")
    if not prompt.instructions.strip():  # DSPy would write some of its own
        raise UserError(f"{name}.instructions is empty; tune again")
    fields = {*predict.signature.input_fields, *predict.signature.output_fields}
    for number, demo in enumerate(prompt.demos):
        unknown = sorted(set(demo) - fields)
        if unknown:
            raise UserError(f"{name}.demos.{number} has no field {unknown[0]!r}; its fields are: {', '.join(fields)}")
    predict.signature = predict.signature.with_instructions(prompt.instructions)
    predict.demos = [dspy.Example(**demo) for demo in prompt.demos]


def _named_fields(error: ValidationError) -> str:
    problems = [f"{named(tuple(map(str, p['loc'])))}: {p['msg']}" for p in error.errors()[:3]]
    return "; ".join(problems)


def installed_versions() -> dict[str, str]:
    """The packages that a profile depends on, as they are here."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for package in ("coda-dspy", "dspy", "optuna", "xllamacpp"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found

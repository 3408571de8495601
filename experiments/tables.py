"""The paper's tables (arXiv 2509.19762), and two of our own, as specs: which variants are compared, and on what.

The paper's figures are shown where they are at hand.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

KINDS = ("math", "choice", "code")


@dataclass(frozen=True)
class Variant:
    """One way to answer, a row of a table.

    Args:
        name: As the table calls it.
        algorithm: One of `coda_dspy.algorithms.ALGORITHMS`.
        budget: Fields of the budget that the variant sets.
    """

    name: str
    algorithm: str
    budget: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Derived:
    """A row that is read off the candidates of others, and needs no call of its own.

    Args:
        name: As the table calls it.
        variants: Right is a question where any candidate of any of these is right.
    """

    name: str
    variants: tuple[str, ...]


@dataclass(frozen=True)
class PaperFigure:
    """What the paper reports."""

    engine: str
    benchmark: str
    variant: str
    value: float


@dataclass(frozen=True)
class Table:
    """One table of the paper.

    Args:
        name: What it is called on the command line.
        title: What it asks.
        kinds: Kinds of questions that it is about.
        variants: The rows that are measured; the first is what the others are compared with.
        budget: Fields of the budget that all variants start from.
        derived: The rows that are read off them.
        paper: The paper's figures.
    """

    name: str
    title: str
    kinds: tuple[str, ...]
    variants: tuple[Variant, ...]
    budget: Mapping[str, Any] = field(default_factory=dict)
    derived: tuple[Derived, ...] = ()
    paper: tuple[PaperFigure, ...] = ()


# One answer, on the sample with which Algorithm 2 begins.
_ONE = {"num_attempts_baseline": 1, "num_attempts_coding": 0, "num_attempts_coda": 0}
_ONE_CODED = {**_ONE, "num_attempts_baseline": 0, "num_attempts_coding": 1}

_ENGINE = Variant("engine", "adaptive", _ONE)
_CODA = Variant("Coda", "coda")
_ABLATIONS = (
    _CODA,
    Variant("without planner", "coda", {"use_planner": False}),
    Variant("without self-reflection", "coda", {"use_reflection": False}),
)
# Every candidate is drawn: recall counts what was there to choose from.
_DRAWN = {"best_of_n": 3, "n_plans": 2, "early_exit": "off"}
_RECALL = (Derived("recall@best_of_N", ("Coda",)),)

# Not of the paper: single answers by each path, on the samples with which Algorithm 2 begins.
_OWN = (
    Table(
        "paths",
        "Which path suits an engine, and what Algorithm 2 makes of both",
        ("math",),
        (
            Variant("direct", "adaptive", _ONE),
            Variant("code", "adaptive", _ONE_CODED),
            Variant("code with refinement", "adaptive", {**_ONE_CODED, "refine_rounds": 2}),
            Variant("adaptive", "adaptive", {"num_attempts_coding": 3, "refine_rounds": 2, "stop_on_agreement": True}),
        ),
    ),
    Table(
        "refinement",
        "What refinement on public tests is worth",
        ("code",),
        (
            Variant("one program", "adaptive", _ONE),
            Variant("with refinement", "adaptive", {**_ONE, "refine_rounds": 2}),
            Variant("adaptive", "adaptive", {"refine_rounds": 2}),
        ),
    ),
)

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        Table(
            "table1",
            "The engine alone and with the adaptive conductor (Algorithm 2)",
            KINDS,
            (_ENGINE, Variant("engine + Coda", "adaptive")),
            paper=(
                PaperFigure("Qwen3-8B", "AIME 2025", "engine", 0.683),
                PaperFigure("Qwen3-8B", "AIME 2025", "engine + Coda", 0.800),
            ),
        ),
        Table(
            "table2",
            "The engine alone and with Algorithm 1",
            KINDS,
            (_ENGINE, Variant("engine + Coda", "coda")),
            paper=(
                PaperFigure("gpt-oss-20b", "LiveCodeBench", "engine", 0.721),
                PaperFigure("gpt-oss-20b", "LiveCodeBench", "engine + Coda", 0.820),
            ),
        ),
        Table("table3", "What planner and reflection are worth", ("math", "choice"), _ABLATIONS, _DRAWN, _RECALL),
        Table("table4", "What planner and reflection are worth on code", ("code",), _ABLATIONS, _DRAWN, _RECALL),
        Table(
            "table5",
            "Which path solves what: in words, by program, by either",
            ("math",),
            (Variant("direct", "adaptive", _ONE), Variant("code", "adaptive", _ONE_CODED)),
            derived=(Derived("either", ("direct", "code")),),
        ),
        Table(
            "table6",
            "What the coding agent is worth within Algorithm 2",
            ("math",),
            (
                Variant("without coding", "adaptive", {"num_attempts_coding": 0}),
                Variant("with coding", "adaptive", {"num_attempts_coding": 3}),
            ),
            paper=(
                PaperFigure("Qwen3-8B", "AIME 2025", "without coding", 0.727),
                PaperFigure("Qwen3-8B", "AIME 2025", "with coding", 0.800),
            ),
        ),
        Table(
            "table7",
            "What it is worth to see public tests",
            ("code",),
            (
                Variant("baseline", "adaptive", {**_ONE, "use_tests": False}),
                Variant("Coda", "coda", {"use_tests": False}),
                Variant("Coda with tests", "coda"),
            ),
            {"refine_rounds": 2},
            paper=(
                PaperFigure("as in the paper", "LiveCodeBench", "Coda", 0.563),
                PaperFigure("as in the paper", "LiveCodeBench", "Coda with tests", 0.605),
            ),
        ),
        *_OWN,
    )
}
"""The tables by their names."""

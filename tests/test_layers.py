"""Imports go one way: experiments -> optimizers -> coda_dspy -> signatures, with data beside and the CLI outside."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("signatures", "coda_dspy", "optimizers", "data", "experiments")
# Layers below coda_dspy's own name; whatever else is called coda_dspy.* belongs to the core.
NAMED_LAYERS = ("signatures", "optimizers", "data", "experiments", "cli")

# Which layers a layer may import.
ALLOWED = {
    "signatures": {"signatures"},
    "core": {"core", "signatures"},
    "data": {"data", "core"},
    "optimizers": {"optimizers", "core", "signatures", "data"},
    "experiments": {"experiments", "optimizers", "core", "signatures", "data", "cli"},
    "cli": {"cli", "core", "signatures"},
}
# The CLI is the outermost face: it may reach everything, but only where a command needs it.
ALLOWED_LAZILY = {"cli": {"optimizers", "data", "experiments"}}
CORE_FOR_DATA = ("coda_dspy.errors", "coda_dspy.task", "coda_dspy.answers", "coda_dspy.programs")


class Import(NamedTuple):
    target: str
    line: int
    lazy: bool


def layer_of_module(name: str) -> str:
    """`coda_dspy.data.loaders` -> `data`; `coda_dspy.budget` -> `core`."""
    second = name.split(".")[1:2]
    return second[0] if second and second[0] in NAMED_LAYERS else "core"


def layer_of_file(path: str) -> str:
    if path.startswith("coda_dspy/cli/") or path in ("coda_dspy/cli.py", "coda_dspy/__main__.py"):
        return "cli"
    folder = path.split("/")[0]
    return "core" if folder == "coda_dspy" else folder


def package_of_file(path: str) -> list[str]:
    """The package that a file's relative imports start from."""
    folders = path.split("/")[:-1]
    return folders if folders[0] == "coda_dspy" else ["coda_dspy", *folders]


def targets(node: ast.AST, package: list[str]) -> list[str]:
    """The full names that one statement or call imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = package[: len(package) - node.level + 1] if node.level else []
        prefix = ".".join([*base, *([node.module] if node.module else [])])
        return [f"{prefix}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        name = getattr(node.func, "attr", getattr(node.func, "id", None))
        if name in ("import_module", "__import__"):
            return [str(node.args[0].value)]
    return []


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def imports(node: ast.AST, package: list[str], lazy: bool = False) -> Iterator[Import]:
    """All imports below a node; lazy are those that do not run when the module is imported."""
    for child in ast.iter_child_nodes(node):
        for target in targets(child, package):
            yield Import(target, getattr(child, "lineno", 0), lazy)
        inside = (
            lazy or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or is_type_checking(child)
        )
        yield from imports(child, package, inside)


def within(name: str, modules: tuple[str, ...]) -> bool:
    return any(name == module or name.startswith(f"{module}.") for module in modules)


def is_allowed(layer: str, found: Import) -> bool:
    top = found.target.split(".")[0]
    if top != "coda_dspy":
        # `import data` works only beside a checkout; installed, there is just coda_dspy.data.
        return top not in FOLDERS
    target_layer = layer_of_module(found.target)
    if layer == "data" and target_layer == "core":
        return within(found.target, CORE_FOR_DATA)
    return target_layer in ALLOWED[layer] or (found.lazy and target_layer in ALLOWED_LAZILY.get(layer, ()))


def offences(path: str, source: str) -> list[str]:
    """The imports of one file that go the wrong way."""
    layer = layer_of_file(path)
    found = imports(ast.parse(source), package_of_file(path))
    return [f"{path}:{item.line} ({layer}) imports {item.target}" for item in found if not is_allowed(layer, item)]


def test_imports_go_one_way() -> None:
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    assert ROOT / "coda_dspy" / "task.py" in files
    wrong = [
        line for path in files for line in offences(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("signatures/planner.py", "import dspy\nfrom coda_dspy.signatures.shared import RULES"),
        ("signatures/__init__.py", "from .planner import Plan"),
        ("coda_dspy/planner.py", "from coda_dspy.signatures import Plan\nfrom coda_dspy import budget\nimport json"),
        ("coda_dspy/engines/connect.py", "from . import ledger\nfrom ..errors import EngineError"),
        ("data/loaders.py", "from coda_dspy.task import Task\nfrom coda_dspy.errors import UserError"),
        ("data/loaders.py", "from coda_dspy.answers.math import extract\nfrom coda_dspy.data.files import read"),
        ("optimizers/search.py", "from coda_dspy.data import load\nfrom coda_dspy import Coda"),
        ("experiments/tables.py", "import coda_dspy.optimizers\nimport coda_dspy.data"),
        ("coda_dspy/cli/tune.py", "def run():\n    from coda_dspy.optimizers import tune\n    import coda_dspy.data"),
        ("coda_dspy/cli/paper.py", "def run():\n    from coda_dspy import experiments"),
        ("coda_dspy/__main__.py", "from coda_dspy.cli import main"),
        ("experiments/tables.py", "from coda_dspy.cli.display import table"),
    ],
)
def test_the_right_way_is_let_through(path: str, source: str) -> None:
    assert offences(path, source) == []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("signatures/planner.py", "from coda_dspy.task import Task"),
        ("signatures/planner.py", "import coda_dspy"),
        ("coda_dspy/planner.py", "from coda_dspy.optimizers import tune"),
        ("coda_dspy/planner.py", "from coda_dspy import data"),
        ("coda_dspy/planner.py", "def later():\n    import coda_dspy.experiments.tables"),
        ("coda_dspy/planner.py", "import importlib\nimportlib.import_module('coda_dspy.optimizers')"),
        ("coda_dspy/planner.py", "from coda_dspy.cli import main"),
        ("coda_dspy/engines/connect.py", "from ..data import load"),
        ("coda_dspy/planner.py", "import signatures"),
        ("data/loaders.py", "from coda_dspy.voting import plurality"),
        ("data/loaders.py", "from coda_dspy import Task"),
        ("data/loaders.py", "from coda_dspy.signatures import Plan"),
        ("data/loaders.py", "from coda_dspy.optimizers import tune"),
        ("data/loaders.py", "from .. import conductor"),
        ("optimizers/search.py", "from coda_dspy.experiments import tables"),
        ("optimizers/search.py", "def later():\n    import coda_dspy.cli.main"),
        ("coda_dspy/cli/tune.py", "from coda_dspy.optimizers import tune"),
        ("coda_dspy/cli/tune.py", "class Command:\n    import coda_dspy.data"),
    ],
)
def test_the_wrong_way_is_seen(path: str, source: str) -> None:
    assert len(offences(path, source)) == 1

"""Questions by name: the sets that come with the project, public benchmarks, and files.

Everything here is plain Python, so that the CLI can check a file of questions before any heavy library is loaded.
"""

from importlib.resources import files
from pathlib import Path

from coda_dspy.data.benchmarks import BENCHMARKS
from coda_dspy.data.jsonl import parse, read_questions
from coda_dspy.data.question import Question
from coda_dspy.errors import UserError

BUILTIN: tuple[str, ...] = ("choice", "code", "math")
"""Names of the sets that come with the project."""


def builtin(name: str) -> list[Question]:
    """Return a set that comes with the project, in the order of its file.

    Args:
        name: One of `BUILTIN`: `choice`, `code` or `math`.

    Raises:
        UserError: No set has this name.
    """
    if name not in BUILTIN:
        raise UserError(f"{name!r} is not a built-in set; choose one of: {', '.join(BUILTIN)}")
    file = f"{name}.jsonl"
    return parse(files("coda_dspy.data").joinpath(file).read_bytes(), file, need_answers=True)


def load(name_or_path: str | Path, *, need_answers: bool = True) -> list[Question]:
    """Return a built-in set or a public benchmark by its name, or else the questions of a file.

    A name goes before a file of that name; write `./math` for the file.

    Args:
        name_or_path: One of `BUILTIN`; one of `BENCHMARKS`, which is fetched from the Hugging Face hub; `NAME=FILE`
            with the official rows of a benchmark in a local file; or the path of a file in JSON Lines.
        need_answers: As for `read_questions`.

    Raises:
        UserError: None of these; the file has a fault (see `read_questions`); or the benchmark cannot be fetched.
    """
    if name_or_path in BUILTIN:
        return builtin(str(name_or_path))
    name, local, file = str(name_or_path).partition("=")
    if name in BENCHMARKS:
        benchmark = BENCHMARKS[name]
        return list((benchmark.read(file) if local else benchmark.fetch()).questions)
    if not _exists(Path(name_or_path)):
        raise UserError(
            f"{str(name_or_path)!r} is neither a built-in set nor a file; choose one of: {', '.join(BUILTIN)}, "
            f"a benchmark ({', '.join(BENCHMARKS)}), or give the path of a JSON Lines file"
        )
    return read_questions(name_or_path, need_answers=need_answers)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # for example a name that is too long, such as a whole question
        return False

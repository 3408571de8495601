"""Find the program in a reply."""

import ast
import re
import warnings
from collections.abc import Sequence
from textwrap import dedent

# A fence opens with the name of a language or none; a reply that was begun for the model may lack the closing one.
_BLOCK = re.compile(r"^[ \t]*```([\w+-]*)[ \t]*\n(.*?)(?:^[ \t]*```|\Z)", re.MULTILINE | re.DOTALL)
# What Python has to say of a model's program, quoting it raw, is for nobody's terminal.
warnings.filterwarnings("ignore", category=SyntaxWarning, module="<unknown>")
warnings.filterwarnings("ignore", category=DeprecationWarning, module="<unknown>")
_LONGEST = 100_000  # characters; parsing a megabyte takes half a minute, and nobody asks for such a program
_PYTHON = ("python", "py", "python3")


def program_in(reply: str, entry_point: str | None = None) -> str | None:
    """The program of a reply, or `None`.

    The last code block that is whole Python counts (of those that define the entry point, where one is wanted), with
    the functions of earlier ones that it uses. Blocks without a language count only where none is labelled Python, and
    bare values never: models quote outputs. Without any block, a reply that is Python from end to end is the program.

    Args:
        reply: What the model said.
        entry_point: Name of the function or method that the program has to define.
    """
    reply = reply.replace("\r\n", "\n")
    blocks = [(language.lower(), dedent(body).strip("\n")) for language, body in _BLOCK.findall(reply)]
    labelled = [body for language, body in blocks if language in _PYTHON and _is_program(body)]
    candidates = labelled or [body for language, body in blocks if not language and _is_program(body)] or _bare(reply)
    wanted = [program for program in candidates if entry_point in defined_in(program)] if entry_point else []
    return (wanted[-1] if wanted else _with_its_functions(candidates)) if candidates else None


def _with_its_functions(programs: Sequence[str]) -> str:
    """The last program, behind those that define a function which it uses: models show a call in a block of its own."""
    *earlier, last = programs
    used = {node.id for node in ast.walk(ast.parse(last)) if isinstance(node, ast.Name)} - defined_in(last)
    return "\n\n".join([*(program for program in earlier if defined_in(program) & used), last])


def defined_in(program: str) -> set[str]:
    """Names of all functions and methods that a program defines."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(ast.parse(program)) if isinstance(node, functions)}


def without_comments(program: str) -> str:
    """A program in one spelling, and without comments; what is no Python stays as it is."""
    try:
        return ast.unparse(ast.parse(program))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return program.strip()


def blocks_in(reply: str) -> list[str]:
    """The contents of all code blocks, whatever is in them."""
    return [dedent(body).rstrip() for _, body in _BLOCK.findall(reply.replace("\r\n", "\n"))]


def _is_program(text: str) -> bool:
    """Whether a text is Python that does something; a quoted output is often a number, which is Python too."""
    if len(text) > _LONGEST:
        return False
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant | ast.Name)) for node in body)


def _bare(reply: str) -> Sequence[str]:
    text = reply.strip()
    prose = not re.search(r"^[ \t]*(?:def |class |import |from |print\()", text, re.MULTILINE)
    return [text] if not prose and _is_program(text) else []

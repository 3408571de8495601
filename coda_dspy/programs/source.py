"""Find the program in a reply."""

import ast
import re
from collections.abc import Sequence

# A fence opens with the name of a language or none; a reply that was begun for the model may lack the closing one.
_BLOCK = re.compile(r"^[ \t]*```[ \t]*([\w+-]*)[ \t]*\n(.*?)(?:^[ \t]*```|\Z)", re.MULTILINE | re.DOTALL)
_PYTHON = ("", "python", "py", "python3")


def program_in(reply: str, entry_point: str | None = None) -> str | None:
    """The program of a reply, or `None`.

    The last code block that is whole Python counts (of those that define the entry point, where one is wanted): models
    put examples of use and outputs into further blocks. Without any block, a reply that is Python from end to end is
    the program.

    Args:
        reply: What the model said.
        entry_point: Name of the function or method that the program has to define.
    """
    blocks = [body for language, body in _BLOCK.findall(reply) if language.lower() in _PYTHON]
    candidates = [block.strip("\n") for block in blocks if _is_python(block)] or _bare(reply)
    wanted = [program for program in candidates if entry_point is None or entry_point in defined_in(program)]
    found = wanted or candidates
    return found[-1] if found else None


def defined_in(program: str) -> set[str]:
    """Names of all functions and methods that a program defines."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(ast.parse(program)) if isinstance(node, functions)}


def blocks_in(reply: str) -> list[str]:
    """The contents of all code blocks, whatever is in them."""
    return [body.rstrip() for _, body in _BLOCK.findall(reply)]


def _is_python(text: str) -> bool:
    try:
        return bool(ast.parse(text).body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _bare(reply: str) -> Sequence[str]:
    text = reply.strip()
    prose = not re.search(r"^\s*(?:def |class |import |from |print\()", text, re.MULTILINE)
    return [text] if not prose and _is_python(text) else []

"""The text that really runs: a program with what its statement takes for granted, and what calls it.

The program is compiled apart, under a name of its own: lines in its tracebacks are its own lines, and its imports from
`__future__` stand where they must.
"""

PROGRAM = "program.py"

# Statements of functions take these for granted (LeetCode's do, and a completion may leave out the prompt's imports).
_PRELUDE = (
    "import bisect, collections, functools, heapq, itertools, math, operator, random, re, string; "
    "from bisect import *; from collections import *; from functools import *; from heapq import *; "
    "from itertools import *; from math import *; from string import *; from typing import *; from builtins import *\n"
)

# Prints of the program must not mix with its result, and what it reads must not eat its arguments: both are put aside
# before it begins.
_ASIDE = (
    "import io, sys; sys._coda = (sys.stdout, sys.stdin.read()); sys.stdout, sys.stdin = sys.stderr, io.StringIO()\n"
)
_LOAD = """
import linecache as _coda_lines
_coda_source = {program!r}
_coda_lines.cache[{name!r}] = (len(_coda_source), None, _coda_source.splitlines(True), {name!r})
exec(compile(_coda_source, {name!r}, "exec", dont_inherit=True), globals())
"""
_TAKE = """
def _coda_taken():
    import sys
    out, given = getattr(sys, "_coda", None) or (sys.stdout, sys.stdin.read())
    sys.stdout = sys.stderr
    return out, given
"""
_CALL = """
def _coda_call():
    import json
    out, given = _coda_taken()
    arguments = [json.loads(line) for line in given.splitlines() if line.strip()]
    owner = globals().get("Solution")
    function = getattr(owner(), {name!r}, None) if owner is not None else None
    function = function or globals()[{name!r}]
    print(json.dumps(function(*arguments)), file=out)

_coda_call()
"""
# Values travel as Python literals, which tell a tuple from a list. What equals a value of a built-in type may travel as
# that.
_EVALUATE = """
def _coda_plain(value):
    if getattr(value, "shape", None) == () and type(value).__module__ == "numpy":
        value = value.item()
    if type(value).__name__ in ("Fraction", "Decimal") and value == float(value):
        value = int(value) if value == int(value) else float(value)
    for kind in (bool, int, float, complex, str):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    for kind in (tuple, list):
        if isinstance(value, kind):
            return kind(map(_coda_plain, value))
    if isinstance(value, (set, frozenset, type({}.keys()))):
        return set(map(_coda_plain, value))
    if isinstance(value, dict):
        return {_coda_plain(key): _coda_plain(item) for key, item in value.items()}
    return value

def _coda_evaluate():
    import json
    out, given = _coda_taken()
    for call in json.loads(given):
        print(ascii(_coda_plain(eval(call, globals()))), file=out)

_coda_evaluate()
"""


def calling(program: str, name: str) -> str:
    """Reads JSON arguments, calls a function or a method of `Solution`, and prints its value as JSON."""
    return _ASIDE + _loaded(program) + _TAKE + _CALL.format(name=name)


def evaluating(program: str) -> str:
    """Reads a JSON list of expressions, and prints the value of each as a Python literal."""
    return _ASIDE + _loaded(program) + _TAKE + _EVALUATE


def followed_by(program: str, snippet: str, token: str) -> str:
    """The program, code that asserts something of it, and a token that shows that it came so far."""
    return f"{_loaded(program)}\n{snippet}\nprint({token!r})\n"


def _loaded(program: str) -> str:
    return _PRELUDE + _LOAD.format(program=program, name=PROGRAM)

"""A living interpreter: pieces of code one after another, in one namespace, with tools that are called on the host.

One JSON line comes in for each piece. Lines go out: `tool` for each call of a tool (its answer comes in as a line), and
at the end one of `result`, `final`, `syntax` or `error`.
"""

import ast
import io
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from types import FrameType, ModuleType
from typing import Any, NoReturn, TextIO

from . import program
from .protocol import write_line


class _Submitted(BaseException):
    """Leaves the program at `SUBMIT`, past any `except Exception`."""

    def __init__(self, value: dict[str, Any]) -> None:
        super().__init__()
        self.value = value


class _TimeUp(BaseException):
    pass


class _Capped(io.StringIO):
    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def write(self, text: str) -> int:
        if self.tell() + len(text) > self._most:
            raise RuntimeError(f"more than {self._most} characters printed")
        return super().write(text)


def run(requests: int, replies: int, most: int) -> NoReturn:
    """Serve requests until they end, then end this process."""
    main = ModuleType("__main__")
    sys.modules["__main__"] = main
    with os.fdopen(requests, encoding="utf-8") as lines:
        session = _Session(lines, replies, main.__dict__, most)
        for line in lines:
            session.serve(json.loads(line))
    os._exit(0)


class _Session:
    def __init__(self, lines: TextIO, replies: int, names: dict[str, Any], most: int) -> None:
        self._lines = lines
        self._replies = replies
        self._names = names
        self._most = most

    def serve(self, request: Mapping[str, Any]) -> None:
        for name in request["tools"]:
            self._names[name] = self._tool(name)
        self._names["SUBMIT"] = _submit(request["output_fields"])
        self._names.update(request["variables"])
        printed = _Capped(self._most)
        sys.stdin, sys.stdout, sys.stderr = io.StringIO(), printed, printed
        reply = self._reply(str(request["code"]), float(request["seconds"]))
        write_line(self._replies, {**reply, "stdout": printed.getvalue()})

    def _reply(self, code: str, seconds: float) -> dict[str, Any]:
        try:
            first, last = _split(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return {"type": "syntax", "error": str(error)}
        program.remember_source(code)
        try:
            _alarm(seconds)
            exec(first, self._names)
            value = None if last is None else eval(last, self._names)
            return {"type": "result", "value": _jsonable(value)}
        except _Submitted as submitted:
            return {"type": "final", "value": {name: _jsonable(value) for name, value in submitted.value.items()}}
        except _TimeUp:
            return {"type": "error", "error": f"TimeoutError: the limit of {seconds:g} seconds was reached"}
        except BaseException as error:  # noqa: BLE001 - a program may raise anything
            return {"type": "error", "error": _described(error)}
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _tool(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            arguments = [_jsonable(value) for value in args]
            named = {key: _jsonable(value) for key, value in kwargs.items()}
            left = signal.setitimer(signal.ITIMER_REAL, 0)[0]  # the host's time is not the program's
            write_line(self._replies, {"type": "tool", "name": name, "args": arguments, "kwargs": named})
            answer = json.loads(self._lines.readline())
            signal.setitimer(signal.ITIMER_REAL, left)
            if "error" in answer:
                raise RuntimeError(answer["error"])
            return answer["value"]

        call.__name__ = name
        return call


def _split(code: str) -> tuple[Any, Any]:
    """The statements, and the last of them as an expression where it is one."""
    tree = ast.parse(code, program.NAME)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    compiled = compile(tree, program.NAME, "exec", dont_inherit=True)
    if not isinstance(last, ast.Expr):
        return compiled, None
    return compiled, compile(ast.Expression(last.value), program.NAME, "eval", dont_inherit=True)


def _submit(fields: list[dict[str, Any]] | None) -> Callable[..., NoReturn]:
    names = [str(field["name"]) for field in fields] if fields else ["output"]

    def submit(*args: Any, **kwargs: Any) -> NoReturn:
        value = dict(zip(names, args, strict=False)) | kwargs
        if set(value) != set(names) or len(args) + len(kwargs) != len(names):
            raise TypeError(f"SUBMIT needs exactly: {', '.join(names)}")
        raise _Submitted(value)

    return submit


def _alarm(seconds: float) -> None:
    def handler(_signal: int, _frame: FrameType | None) -> None:
        raise _TimeUp

    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _jsonable(value: Any) -> Any:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return repr(value)
    return value


def _described(error: BaseException) -> str:
    """The error and the line of the program it came from."""
    frames = [entry for entry in traceback.extract_tb(error.__traceback__) if entry.filename == program.NAME]
    where = f" (line {frames[-1].lineno}: {frames[-1].line})" if frames else ""
    try:
        return f"{type(error).__name__}: {error}{where}"
    except BaseException:  # noqa: BLE001 - its __str__ is the program's own
        return f"{type(error).__name__}{where}"

"""The sandbox as a `dspy.CodeInterpreter`, for DSPy's own code-running modules."""

from __future__ import annotations

import json
import keyword
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, ClassVar, NoReturn, Self

from coda_dspy.sandbox.errors import SandboxLost
from coda_dspy.sandbox.limits import Limits
from coda_dspy.sandbox.sandbox import Sandbox
from coda_dspy.sandbox.session import Session


class SandboxInterpreter:
    """One session of a sandbox in the shape that `dspy.RLM` and others ask for. One instance for one thread.

    Hand DSPy a factory: `dspy.configure(interpreter_factory=lambda: SandboxInterpreter(sandbox))`.

    Args:
        sandbox: Where the code runs. It stays open when the interpreter is shut down.
        tools: Functions of this process that the code may call. Their arguments are hostile input.
        output_fields: What `SUBMIT` takes, as dicts with a `name`; None: one value.
        limits: `seconds` for each `execute` (time spent in tools is not counted), the rest for the session.

    Attributes:
        execution_instructions: What DSPy tells the model about this runtime.
    """

    execution_instructions: ClassVar[str] = (
        "Code runs as ordinary CPython in a locked-down process. State persists from one execution to the next. There "
        "is no network, no subprocess and no access to the user's files. numpy and sympy can be imported where they "
        "are installed."
    )

    def __init__(
        self,
        sandbox: Sandbox,
        tools: Mapping[str, Callable[..., Any]] | None = None,
        output_fields: list[dict[str, Any]] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.tools: dict[str, Callable[..., Any]] = dict(tools or {})
        self.output_fields = output_fields
        self._sandbox = sandbox
        self._limits = limits or Limits()
        self._session: Session | None = None
        self._ended = False
        self._busy = False

    def start(self) -> None:
        """Start the session, unless it runs already.

        Raises:
            CodeInterpreterError: It has ended, or does not start.
        """
        if self._ended:
            _fail("the session has ended")
        if self._session is None:
            try:
                self._session = self._sandbox.session(self._limits)
            except SandboxLost as error:
                self._ended = True
                _fail(str(error), error)

    def execute(self, code: str, variables: dict[str, Any] | None = None) -> Any:
        """Run one piece of code.

        Returns:
            `dspy.primitives.code_interpreter.FinalOutput` after `SUBMIT`; else the value of the last expression, or
            what was printed, or None.

        Raises:
            SyntaxError: The code does not compile.
            CodeExecutionError: It raised, or took too long and could be stopped; the session goes on.
            CodeInterpreterError: The session is lost, or the request cannot be made.
        """
        if self._busy:
            _fail("a tool cannot run code in the interpreter that called it")
        given = _checked(code, variables or {}, self.tools)
        self.start()
        self._busy = True
        try:
            return self._executed(code, given)
        finally:
            self._busy = False

    def _executed(self, code: str, variables: Mapping[str, Any]) -> Any:
        from dspy.primitives.code_interpreter import CodeExecutionError, FinalOutput

        session = self._session
        if session is None:
            _fail("the session has ended")
        try:
            reply = session.execute(code, variables, self.tools, self.output_fields)
        except SandboxLost as error:
            self.shutdown()
            _fail(str(error), error)
        except BaseException:  # also Ctrl-C: a session cut in the middle of a piece of code is of no more use
            self.shutdown()
            raise
        if reply["type"] == "final":
            return FinalOutput(reply["value"])
        if reply["type"] == "syntax":
            raise SyntaxError(str(reply["error"]))
        if reply["type"] == "error":
            raise CodeExecutionError(_with_output(reply))
        return reply["value"] if reply["value"] is not None else (reply["stdout"] or None)

    def shutdown(self) -> None:
        """End the session. A second call does nothing."""
        self._ended = True
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def __call__(self, code: str, variables: dict[str, Any] | None = None) -> Any:
        return self.execute(code, variables)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()


def _checked(code: str, variables: Mapping[str, Any], tools: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(code, str):
        _fail("code must be a string")
    wrong = [name for name in (*variables, *tools) if not _is_name(name)]
    if wrong:
        _fail(f"variables and tools must be named by Python identifiers, not {wrong!r}")
    try:
        json.dumps(dict(variables), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        _fail(f"variables must be JSON values: {error}", error)
    return variables


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name)


def _with_output(reply: Mapping[str, Any]) -> str:
    printed = str(reply["stdout"]).strip()
    return f"{reply['error']}\nprinted before: {printed}" if printed else str(reply["error"])


def _fail(message: str, cause: BaseException | None = None) -> NoReturn:
    from dspy.primitives.code_interpreter import CodeInterpreterError

    raise CodeInterpreterError(message) from cause

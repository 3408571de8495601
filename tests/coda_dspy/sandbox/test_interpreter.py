"""The sandbox behind DSPy's interpreter protocol."""

import subprocess
import sys
import time
from collections.abc import Iterator

import dspy
import pytest
from dspy.primitives.code_interpreter import CodeExecutionError, CodeInterpreter, CodeInterpreterError, FinalOutput

from coda_dspy.sandbox import Limits, Sandbox
from coda_dspy.sandbox.interpreter import SandboxInterpreter


@pytest.fixture
def interpreter(any_sandbox: Sandbox) -> Iterator[SandboxInterpreter]:
    with SandboxInterpreter(any_sandbox, limits=Limits(seconds=2)) as one:
        yield one


def test_it_has_the_shape_that_dspy_asks_for(any_sandbox: Sandbox) -> None:
    assert isinstance(SandboxInterpreter(any_sandbox), CodeInterpreter)


def test_importing_the_sandbox_does_not_import_dspy() -> None:
    code = "import sys, coda_dspy.sandbox, coda_dspy.sandbox.interpreter\nprint('dspy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_names_stay_from_one_piece_to_the_next(interpreter: SandboxInterpreter) -> None:
    assert interpreter.execute("x = 2") is None
    assert interpreter.execute("def f(n): return n * x * k", {"k": 10}) is None
    assert interpreter.execute("f(3)") == 60
    assert interpreter("print('printed')") == "printed\n"
    assert interpreter.execute("print('printed')\n7") == 7
    assert interpreter.execute("{1, 2}") == "{1, 2}"


def test_submit(interpreter: SandboxInterpreter) -> None:
    assert interpreter.execute("SUBMIT(3)") == FinalOutput({"output": 3})
    interpreter.output_fields = [{"name": "a"}, {"name": "b"}]
    assert interpreter.execute("try:\n    SUBMIT(1, b=2)\nexcept Exception:\n    pass") == FinalOutput({"a": 1, "b": 2})
    with pytest.raises(CodeExecutionError, match="SUBMIT needs exactly: a, b"):
        interpreter.execute("SUBMIT(1)")


def test_errors_of_the_program_go_back_to_the_model(interpreter: SandboxInterpreter) -> None:
    with pytest.raises(SyntaxError):
        interpreter.execute("x = = 1")
    with pytest.raises(CodeExecutionError, match=r"ZeroDivisionError: division by zero \(line 2: 1 / 0\)"):
        interpreter.execute("print('so far')\n1 / 0")
    with pytest.raises(CodeExecutionError, match="SystemExit"):
        interpreter.execute("raise SystemExit(3)")
    with pytest.raises(CodeExecutionError, match="characters printed"):
        interpreter.execute("print('x' * 10**7)")
    assert interpreter.execute("1 + 1") == 2


def test_a_loop_is_stopped_and_the_session_goes_on(interpreter: SandboxInterpreter) -> None:
    interpreter.execute("kept = 5")
    begun = time.monotonic()
    with pytest.raises(CodeExecutionError, match="limit of 2 seconds"):
        interpreter.execute("while True: pass")
    assert time.monotonic() - begun < 3
    assert interpreter.execute("kept") == 5


def test_a_loop_that_cannot_be_stopped_ends_the_session(any_sandbox: Sandbox) -> None:
    interpreter = SandboxInterpreter(any_sandbox, limits=Limits(seconds=0.3))
    code = "import signal\nsignal.setitimer(signal.ITIMER_REAL, 0)\nwhile True: pass"
    with pytest.raises(CodeInterpreterError, match="session is lost") as raised:
        interpreter.execute(code)
    assert not isinstance(raised.value, CodeExecutionError)
    with pytest.raises(CodeInterpreterError, match="has ended"):
        interpreter.execute("1")
    assert any_sandbox.run("print(1)").stdout == "1\n"


@pytest.mark.parametrize("code", ["import os\nos._exit(0)", "import ctypes\nctypes.string_at(0)"])
def test_a_process_that_ends_ends_the_session(interpreter: SandboxInterpreter, code: str) -> None:
    with pytest.raises(CodeInterpreterError, match="ended"):
        interpreter.execute(code)


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "[]",
        "{}",
        '{"type": "result"}',
        '{"type": "tool", "name": "t", "args": 1, "kwargs": {}}',
        "[" * 9999,
    ],
)
def test_a_forged_reply_ends_the_session(interpreter: SandboxInterpreter, line: str) -> None:
    code = f"""
import os
for descriptor in range(3, 1024):
    try:
        os.write(descriptor, {line!r}.encode() + b"\\n")
    except OSError:
        pass
"""
    with pytest.raises(CodeInterpreterError, match="malformed"):
        interpreter.execute(code)


def test_tools_run_here(interpreter: SandboxInterpreter) -> None:
    def broken(**_: object) -> None:
        raise KeyError("inside")

    interpreter.tools.update({"double": lambda x: 2 * x, "broken": broken, "odd": lambda: object()})
    assert interpreter.execute("double(4) + double(x=1)") == 10
    with pytest.raises(CodeExecutionError, match="RuntimeError: KeyError: 'inside'"):
        interpreter.execute("broken(a=1)")
    with pytest.raises(CodeExecutionError, match="TypeError"):
        interpreter.execute("odd()")


def test_the_time_of_a_tool_is_not_the_program_s(any_sandbox: Sandbox) -> None:
    with SandboxInterpreter(any_sandbox, {"slow": lambda: time.sleep(0.8)}, limits=Limits(seconds=0.5)) as interpreter:
        assert interpreter.execute("slow()\n3") == 3


def test_a_tool_cannot_come_back(interpreter: SandboxInterpreter) -> None:
    interpreter.tools["again"] = lambda: interpreter.execute("1")
    with pytest.raises(CodeExecutionError, match="a tool cannot run code"):
        interpreter.execute("again()")
    assert interpreter.execute("2") == 2


def test_what_cannot_be_sent_is_refused_before(interpreter: SandboxInterpreter) -> None:
    with pytest.raises(CodeInterpreterError, match="JSON"):
        interpreter.execute("1", {"x": object()})
    with pytest.raises(CodeInterpreterError, match="identifiers"):
        interpreter.execute("1", {"x y": 1})
    assert interpreter.execute("1") == 1


def test_shutdown_is_the_end(interpreter: SandboxInterpreter) -> None:
    interpreter.start()
    interpreter.shutdown()
    interpreter.shutdown()
    with pytest.raises(CodeInterpreterError, match="has ended"):
        interpreter.start()


def test_dspy_s_own_module_uses_it(any_sandbox: Sandbox) -> None:
    from dspy.utils import DummyLM

    replies = [{"reasoning": "", "code": "print(6 * 7)"}, {"reasoning": "", "code": "SUBMIT(str(6 * 7))"}]
    with dspy.context(lm=DummyLM(replies), adapter=dspy.ChatAdapter()):
        rlm = dspy.RLM("question -> answer", interpreter_factory=lambda: SandboxInterpreter(any_sandbox))
        assert rlm(question="6 * 7?").answer == "42"

"""Run model-written programs where they can do no harm.

`README.md` in this folder says what the sandbox contains and what it does not. Nothing here imports DSPy, but for
`coda_dspy.sandbox.interpreter`, which does so when it runs.
"""

from coda_dspy.sandbox.errors import SandboxLost, SandboxUnavailable
from coda_dspy.sandbox.limits import Limits
from coda_dspy.sandbox.opening import KINDS, open_sandbox
from coda_dspy.sandbox.reporting import SandboxReport, report
from coda_dspy.sandbox.result import ExecutionResult
from coda_dspy.sandbox.sandbox import Sandbox
from coda_dspy.sandbox.session import Session

__all__ = [
    "KINDS",
    "ExecutionResult",
    "Limits",
    "Sandbox",
    "SandboxLost",
    "SandboxReport",
    "SandboxUnavailable",
    "Session",
    "open_sandbox",
    "report",
]

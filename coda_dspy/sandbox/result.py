"""What one run gave."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ExecutionResult:
    """What one run gave. Text comes from the program: it is data, terminal escapes included.

    Attributes:
        stdout: What the program printed, decoded from UTF-8; bytes that are no UTF-8 become U+FFFD.
        stderr: The same for standard error. At a time limit it ends with the place where the program stood, if the
            program let itself be asked.
        exit_code: The program's own exit code, or minus the number of the signal that ended it. None where the sandbox
            ended it, or never ran it.
        timed_out: The run reached its limit of wall or CPU seconds.
        truncated: The run printed more than `output_bytes` and was ended.
        seconds: Wall-clock seconds.
        cpu_seconds: CPU seconds of the program.
        max_rss_mb: The most memory in use at one time, Python and preloaded packages included.
        error: The sandbox failed, not the program; never to be graded as a wrong answer. Empty otherwise.
        isolation: What the run was contained by: `namespaces`, `landlock` or `none`.
    """

    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = None
    timed_out: bool = False
    truncated: bool = False
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    max_rss_mb: float = 0.0
    error: str = ""
    isolation: str = ""

    @property
    def ok(self) -> bool:
        """Whether the program ran to its end, within its limits, with exit code 0. Says nothing about its output."""
        return self.exit_code == 0 and not (self.error or self.timed_out or self.truncated)

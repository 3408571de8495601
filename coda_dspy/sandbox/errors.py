"""The failures that this folder raises by name."""

from collections.abc import Mapping

from coda_dspy.errors import CodaError, UserError


class SandboxUnavailable(UserError):
    """No sandbox of the kind asked for starts on this machine.

    Attributes:
        reasons: Why each kind that was tried did not start.
    """

    def __init__(self, reasons: Mapping[str, str]) -> None:
        tried = "; ".join(f"{kind}: {reason}" for kind, reason in reasons.items())
        super().__init__(
            f"no sandbox for model-written programs starts here ({tried}). Ways out: allow user namespaces to ordinary "
            "users (on Ubuntu: sysctl kernel.apparmor_restrict_unprivileged_userns=0); use a Linux kernel from 5.13 on "
            "with Landlock switched on; or run everything in a container or virtual machine that you can lose, and ask "
            'by name for "unsafe-subprocess", which contains nothing'
        )
        self.reasons = dict(reasons)


class SandboxLost(CodaError):
    """The sandbox's own process did not start, died, or does not answer. The next run starts another."""

"""The three ways to run a program; the name of each travels in `Job.mode`."""

from typing import NoReturn

from . import batch, program, session
from .protocol import Job


def run(job: Job, code: str, extra: tuple[int, ...]) -> NoReturn:
    """Run what the job asks for, and end this process.

    Args:
        extra: `batch`: the report, then one descriptor for each input. `session`: requests, replies.
    """
    if job.mode == "batch":
        batch.run(code, extra[1:], extra[0], job)
    if job.mode == "session":
        session.run(extra[0], extra[1], job.output_bytes)
    program.run(code, job)

"""The command line: `python -m coda_dspy`, or `coda`. Commands are imported when they are called."""

import os
import signal
import sys
from contextlib import suppress
from importlib import import_module
from io import StringIO

import click

from coda_dspy import __version__
from coda_dspy.errors import UserError

_COMMANDS = {
    "solve": "Answer one question, or a file of them.",
    "evaluate": "Measure a program on questions, or compare two measurements.",
    "select": "Compare ways to choose among the candidates of an evaluation.",
    "report": "Write the report of a measurement: one HTML file to look at.",
    "probe": "Measure in a few minutes what an engine can do, and how fast.",
    "track": "Deliver what an MLflow store did not take.",
    "tune": "Compile prompts and search the budget for an engine.",
    "profile": "Show, compare and check profiles.",
    "engines": "List the local engines, and fetch their weights.",
    "doctor": "Say what this machine has: sandbox, engines, versions.",
}


class _LazyGroup(click.Group):
    """Knows its commands by name and help line, so that `--help` loads none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"coda_dspy.cli.{name}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="coda-dspy")
def cli() -> None:
    """Conduct a small language model so that it answers like a larger one.

    Bad input ends with exit code 2, a run that Ctrl-C or SIGTERM interrupts with 130; what was finished is saved.
    """


def main() -> None:
    """Run the command line."""
    run_command(cli)


def run_command(command: click.Command) -> None:
    """Run a command and end the process; errors that the user can mend are one line, without a traceback."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as batch systems end a run: the same as Ctrl-C
    _raise_file_limit()
    try:
        code = int(command.main(standalone_mode=False) or 0)
    except UserError as error:
        _complain(f"error: {error}")
        code = 2
    except click.ClickException as error:
        shown = StringIO()
        error.show(shown)
        _complain(shown.getvalue().rstrip())
        code = 2
    except (KeyboardInterrupt, click.Abort):
        for impatient in (signal.SIGINT, signal.SIGTERM):
            signal.signal(impatient, signal.SIG_IGN)
        _complain("\ninterrupted; what was finished is saved, the same command goes on")
        code = 130
    leave(code)


def _raise_file_limit() -> None:
    """As many open files as the system allows: each thread that asks the engine may hold four, for cache and socket."""
    with suppress(ImportError, OSError, ValueError):
        import resource  # not on Windows, which has no such limit

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _complain(message: str) -> None:
    """Texts of servers and names of files stand in error messages, so control characters are left out here as well."""
    from coda_dspy.cli.display import safe

    click.echo(safe(message), err=True)


def leave(code: int) -> None:
    """End the process; at once where it failed.

    Calls in flight are worth nothing then, and their threads would hold the process up for as long as they take.
    """
    if code in (2, 130):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)

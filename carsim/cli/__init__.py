"""Command line: arguments in, tables out; the only place that prints.

Each subcommand lives in the module of its name and is imported when it is called, so that
``carsim --help`` starts without NumPy, pandas or SimPy.
"""

import importlib
import sys
import warnings
from typing import TextIO

import click

from carsim.errors import CarsimError

COMMANDS = {
    "run": "Simulate one design on a trace and compare it with the alternatives.",
    "speculate": "Show what judging several proposed tokens in one pass gains.",
    "compare": "Show what differs between two runs, and what that did.",
    "metrics": "List every metric with its unit, meaning and formula.",
    "studio": "Change a design in the browser, and see at once what that does.",
    "report": "Make one HTML page of a folder of results.",
    "sweep": "Evaluate every point of a study, durably, on all cores or a cluster.",
    "search": "Look for the Pareto front of a study by evaluating some of its points.",
    "pareto": "Show the Pareto front of what a sweep or a search has stored.",
    "capture": "Decode a video with the reference decoder and write its trace.",
    "trace": "Inspect trace files, or draw synthetic ones.",
    "decode": "Run the reference decoder against golden vectors.",
    "config": "Show resolved designs and the schema of the YAML.",
    "dram": "Show what a DRAM sustains, and the table of standards.",
    "array": "Show what one matrix product takes on one array, and what limits it.",
    "validate": "Hold predictions against published figures.",
}
"""Subcommand -> its one-line help. The command is ``carsim.cli.NAME:NAME``."""


class LazyGroup(click.Group):
    """A group whose commands are imported only when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order in which a user meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import ``carsim.cli.<name>`` and return its command of the same name."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(
            importlib.import_module(f"carsim.cli.{cmd_name}"), cmd_name
        )
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the table, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="carsim")
def carsim() -> None:
    """Simulate and explore FastCar accelerators of auto-regressive video generation."""


def main() -> None:
    """Entry point: one clear line and a non-zero exit status for every error a user can cause."""
    warnings.showwarning = _note
    try:
        status = carsim.main(prog_name="carsim", standalone_mode=False)
    except CarsimError as error:
        click.echo(f"carsim: {error}", err=True)
        sys.exit(error.exit_status)
    except click.ClickException as error:
        click.echo(_one_line(error), err=True)
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("carsim: interrupted; nothing was half-written", err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)
    sys.exit(status if isinstance(status, int) else 0)


def _note(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A warning as one line, without the place in the code where it was made."""
    click.echo(f"carsim: note: {message}", err=True)


def _one_line(error: click.ClickException) -> str:
    """What is wrong with the arguments, and where help is; the help itself if there were none."""
    message = error.format_message()
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None or message == context.get_help():
        return message
    message = " ".join(message.split()).rstrip(".")
    return f"carsim: {message}; see '{context.command_path} --help'"

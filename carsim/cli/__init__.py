"""Command line: arguments in, tables out; the only place that prints.

Each subcommand lives in the module of its name and is imported when it is called, so that
``carsim --help`` starts without NumPy, pandas or SimPy.
"""

import errno
import importlib
import os
import signal
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any

import click

from carsim.base.environment import SIGNALS
from carsim.base.errors import CarsimError, InputError
from carsim.base.text import closest, one_line

COMMANDS = {
    "run": "Simulate one design on a trace and compare it with the alternatives.",
    "explain": "Print the first screen of a stored run with the formula of each line.",
    "compare": "Show what differs between two runs, and what that did.",
    "studio": "Change a design in the browser, and see at once what that does.",
    "report": "Make one HTML page of a folder of results, or show its Pareto front.",
    "sweep": "Evaluate every point of a study, durably, on all cores or a cluster.",
    "merge": "Join the folders of shards, or of sweeps of one study.",
    "search": "Find the machine that meets a target, or the Pareto front of a study.",
    "capture": "Decode a video with the reference decoder and write its trace.",
    "idea": "Test an idea in one file: its contract, cost, time, energy and loss.",
    "trace": "Inspect trace files.",
    "measure": "Time dense and replaying decoding on this machine.",
    "calibrate": "Fit the overheads of a board to a few measured decoding speeds.",
    "config": "Show designs, presets, metrics and schemas.",
    "validate": "Hold predictions against published figures.",
    "reproduce": "Draw a paper's table and figure beside carsim's.",
}
"""Subcommand -> its one-line help. The command is ``carsim.cli.NAME:NAME``."""

MOVED = {"array": "validate array", "metrics": "config metrics", "pareto": "report DIR --front"}
"""Command of an earlier version -> how it is now written."""

PLUGIN_FILES = "carsim.plugin_files"
"""Key of a context under which the files of ``--plugin`` are kept, as they were typed."""


def _load_plugins(ctx: click.Context, _: click.Parameter, files: tuple[str, ...]) -> None:
    """Load what other options may name, and keep the files for commands that are printed."""
    ctx.meta[PLUGIN_FILES] = files
    if files or os.environ.get("CARSIM_PLUGINS"):
        from carsim.base.plugins import load_plugins

        load_plugins(files)


_PLUGINS = click.Option(
    ["--plugin", "plugins"],
    metavar="FILE.py",
    multiple=True,
    is_eager=True,
    expose_value=False,
    callback=_load_plugins,
    help="Load kinds from this file; may be repeated. CARSIM_PLUGINS lists files, too.",
)


class LazyGroup(click.Group):
    """A group with commands that are imported only when they are called.

    Args:
        lazy: Subcommand -> its one-line help.
    """

    def __init__(self, *args: Any, lazy: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = lazy

    def invoke(self, ctx: click.Context) -> Any:
        """Call the command; whoever reads its output may stop, which click takes for a failure.

        Errors that name parameters in backquotes name the command's options instead.
        """
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            _drop_output()
            return 0
        except InputError as error:
            command = self.get_command(ctx, ctx.invoked_subcommand or "")
            raise error.named(_options(command) if command else {}) from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order in which a user meets them."""
        return [*self.commands, *self.lazy]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Of a lazy one, import ``carsim.cli.<name>`` and return its command of the same name.

        Of a command that moved or is misspelt, say how it is written.
        """
        commands = self.list_commands(ctx)
        if cmd_name and cmd_name not in commands and not cmd_name.startswith("-"):
            moved = MOVED.get(cmd_name) if ctx.parent is None else None
            if moved:
                hint = f"it is now 'carsim {moved}'"
            else:
                hint = closest(cmd_name, commands).strip() or "there is no similar one"
            ctx.fail(f"No such command {cmd_name!r}; {hint}")
        command = super().get_command(ctx, cmd_name)
        if cmd_name in self.lazy:
            command = getattr(importlib.import_module(f"carsim.cli.{cmd_name}"), cmd_name)
        if command and not isinstance(command, click.Group) and _PLUGINS not in command.params:
            command.params.append(_PLUGINS)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing any."""
        help_of = {}
        for name, command in self.commands.items():
            help_of[name] = command.get_short_help_str(200)
        help_of |= self.lazy
        with formatter.section("Commands"):
            formatter.write_dl(list(help_of.items()))


@click.command(
    cls=LazyGroup,
    lazy=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(package_name="carsim")
def carsim() -> None:
    """Simulate and explore accelerators that generate video and text.

    Begin with: carsim run zcu102 --trace vilau_8f
    """


def main() -> None:
    """Entry point: one clear line and a non-zero exit status for every error a user can cause."""
    warnings.showwarning = lambda message, *_, **__: complain(
        f"note: {message}".replace("`within`", "--within")
    )
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal that lacks a letter shows a ?
    pressed: list[int] = []
    unless_ignored = (signal.default_int_handler, signal.SIG_DFL)
    numbers = (*SIGNALS, signal.SIGTERM)
    caught = [number for number in numbers if signal.getsignal(number) in unless_ignored]
    for number in caught:
        signal.signal(number, partial(_interrupt, pressed))
    try:
        status = _status(pressed)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        status = 0
    except OSError as error:
        place, cure = _place(error)
        _drop_output()
        complain(f"{place}: cannot be used ({error.strerror}); {cure}")
        status = InputError.exit_status
    for number in caught:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # there is nothing left to interrupt
    sys.exit(status)


def _place(error: OSError) -> tuple[str, str]:
    """The place of an error and its cure; errors of some places name no file."""
    if error.filename is not None:
        return str(error.filename), "name another"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return "open files", "allow more with ulimit -n, or take fewer workers"
    if error.errno not in (errno.ENOENT, errno.ENOSYS, errno.EACCES, errno.EROFS):
        return "standard output", "send it elsewhere, or make room"
    try:
        os.getcwd()  # noqa: PTH109 - no more is asked of it
    except OSError:
        return "the working directory", "change to one that exists"
    return "shared memory of processes", "mount /dev/shm, or take --workers 0"


def _interrupt(pressed: list[int], number: int, _: FrameType | None) -> None:
    """Ctrl-C and its like, which libraries may turn into errors of their own (pydantic)."""
    pressed.append(number)
    raise KeyboardInterrupt


def _status(pressed: Sequence[int]) -> int:
    """Call the command; the exit status. What cannot be written or opened is left to the caller."""
    try:
        _check(sys.argv[1:])
        status = carsim.main(prog_name="carsim", standalone_mode=False)
    except CarsimError as error:
        complain(str(error))
        return error.exit_status
    except click.ClickException as error:
        click.echo(_one_line(error), err=True)
        return 2
    except MemoryError:
        complain("there is not enough memory; take fewer rows, frames or points")
        return InputError.exit_status
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        from carsim.base.plugins import blamed

        plugin_error = blamed(error)
        if plugin_error is not None:
            complain(str(plugin_error))
            return plugin_error.exit_status
        if not (pressed or isinstance(error, click.Abort | KeyboardInterrupt)):
            raise
        said = "interrupted", "nothing was half-written", str(error.__cause__ or "")
        complain("; ".join(filter(None, said)))
        return 128 + (pressed or [signal.SIGINT])[0]
    return status if isinstance(status, int) else 0


def _options(command: click.Command) -> dict[str, str]:
    """Options of a command, and one of a sweep it may read, by the parameters that they set.

    An option that may be repeated sets a parameter with a name in the plural, but a message names
    one of its values: ``target`` and ``targets`` are both ``--target``.
    """
    names = {"front_only": "--front-only"}
    for option in command.params:
        if isinstance(option, click.Option) and option.name:
            flag = option.opts[-1]
            names[option.name] = flag
            names.setdefault(flag.lstrip("-").replace("-", "_"), flag)
    return names


def complain(text: str) -> None:
    """Say something in one line on standard error, whatever it quotes."""
    with suppress(OSError):  # click.echo would write into the line of a bar
        print(f"carsim: {one_line(text)}", file=sys.stderr or sys.__stderr__)


def _check(arguments: Sequence[str]) -> None:
    """Refuse what no file and no option can be called."""
    for number, argument in enumerate(arguments, start=1):
        if not argument:
            raise InputError(f"argument {number}", "is empty", "leave it out, or fill it in")
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise InputError(repr(argument), "is not UTF-8 text", "rename what it names") from None


def _drop_output() -> None:
    """Send what is still to be printed nowhere, so that Python does not try again as it ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _one_line(error: click.ClickException) -> str:
    """The mistake in the arguments, and where help is; the help itself if there were none."""
    message = error.format_message()
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None or message == context.get_help():
        return message
    message = " ".join(message.split()).rstrip(".")
    return one_line(f"carsim: {message}; see '{context.command_path} --help'")

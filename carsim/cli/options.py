"""Options that several commands have."""

import shlex
from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any

import click

from carsim.base.errors import InputError
from carsim.base.paths import overlap
from carsim.cli import PLUGIN_FILES
from carsim.workload.workload import Workload, workload_of

if TYPE_CHECKING:
    from carsim.design import Design


class FiniteRange(click.FloatRange):
    """A range that NaN and infinity lie outside of; click compares them with the ends only."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; fails for any other."""
        found = super().convert(value, param, ctx)
        if not isfinite(found):
            self.fail(f"{value} is no finite number", param, ctx)
        return found


JSON = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document, and nothing else."
)


def width_option(beside: str, default: float) -> Callable[..., Any]:
    """The option ``--width`` of a figure.

    Args:
        beside: The option without which no figure is drawn.
        default: Width in inches.
    """
    return click.option(
        "--width",
        type=FiniteRange(2, 20),
        default=default,
        show_default=True,
        metavar="INCHES",
        help=f"With {beside}: width of the figure; 3.5 is a column, 7.16 a page.",
    )


TRACE = click.option(
    "--trace",
    "traces",
    metavar="FILE",
    type=click.Path(),
    multiple=True,
    help="Short for --workload trace:FILE, a file or a name; again for one captured under sparse "
    "attention.",
)
WORKLOAD = click.option(
    "--workload",
    metavar="WORK",
    help="What is decoded: text:2048+512 (prompt and new tokens), video:8, "
    "video:8,replay=0.5,pairs=0.9, diffusion:MODEL,480x832, chunks:MODEL, image:MODEL,518x518, "
    "trace:NAME, or a YAML file of the fields.",
)
BOARD = click.option("--board", help="Preset of the board, say kv260.")
MODEL = click.option(
    "--model", help="Preset of the model, say tinyllama_1b, or its config.json of Hugging Face."
)


SHORT_FOR = {
    "--board": ("board.preset",),
    "--model": ("model.preset", "model.from"),
    "--tau": ("policy.tau",),
    "--batch": ("policy.batch",),
}
"""Option -> fields that it sets, which ``--set`` could set as well."""


def work_of(workload: str | None, traces: Iterable[str] = ()) -> Workload | None:
    """The workload of the options ``--workload`` and ``--trace``; None if neither is given.

    Raises:
        InputError: Both are given, or a workload that makes no sense.
    """
    named = tuple(traces)
    if workload is not None and named:
        raise InputError("--workload", "says what is decoded, and so does --trace", "give one")
    if named:
        return Workload("trace", traces=named)
    return None if workload is None else workload_of(workload)


def design_given(
    design: str | None,
    board: str | None,
    model: str | None,
    overrides: Iterable[str],
    workload: Workload | None,
) -> "Design":
    """The design of an argument, or one that is chosen for ``--board`` and ``--model``.

    Raises:
        InputError: Neither a design nor both of them, or all; anything wrong with them.
    """
    if design is None:
        from carsim.runs.first import Wish, completed

        if model is None and workload is not None:
            model = workload.model
        if board is None or model is None:
            raise InputError("DESIGN", "is missing", "name one, or say --board and --model")
        check_set_once("--board", overrides)
        check_set_once("--model", overrides)
        return completed(Wish.of(board, model, overrides=tuple(overrides), workload=workload))
    if board is not None or model is not None:
        cure = "leave it out, or say --set board.preset=NAME and --set model.preset=NAME"
        raise InputError("DESIGN", "has a board and a model already", cure)
    from carsim.runs.opening import open_design

    return open_design(design, tuple(overrides), workload)


def check_set_once(option: str, overrides: Iterable[str]) -> None:
    """Refuse an override of what a short option of :data:`SHORT_FOR` sets already.

    Raises:
        InputError: An override sets a field of the option, a part of it or what holds it.
    """
    for text in overrides:
        path = text.partition("=")[0].strip()
        for field in SHORT_FOR[option]:
            if overlap(path, field):
                problem = f"{option} sets it, too" if path == field else f"{option} sets {field}"
                raise InputError(f"`overrides` {path}", problem, "leave one of them out")


def overriding(
    text: str = "Change the design, say machine.cores=8", side: str = ""
) -> Callable[..., Any]:
    """The option ``--set``, as ``overrides``; of one of two sides ``--set-a``, as ``set_a``.

    Args:
        text: What it changes, and an example.
        side: The side.
    """
    words = [f"--set-{side}"] if side else ["--set", "overrides"]
    return click.option(
        *words, metavar="PATH=VALUE", multiple=True, help=f"{text}; may be repeated."
    )


def plugin_files() -> tuple[str, ...]:
    """Files of ``--plugin`` of the command that runs, as they were typed."""
    context = click.get_current_context(silent=True)
    return () if context is None else context.meta.get(PLUGIN_FILES, ())


def plugin_options() -> str:
    """Options that load the plugins of the command that runs, for commands that it prints.

    It is empty, or begins with a space.
    """
    return "".join(f" --plugin {shlex.quote(file)}" for file in plugin_files())


def command_of(ctx: click.Context, given: Mapping[str, Any], outputs: Iterable[str] = ()) -> str:
    """The command that has these parameters, as a manifest keeps it.

    Args:
        ctx: Where the command was called.
        given: Its parameters.
        outputs: Parameters that decide no figure, which are left out.
    """
    words = ctx.command_path.split()
    for param in ctx.command.params:
        value = given.get(str(param.name))
        if param.name in outputs or value in (None, False, (), param.default):
            continue
        for each in value if isinstance(value, tuple) else (value,):
            words += [param.opts[-1]] * isinstance(param, click.Option)
            words += [str(each)] * (value is not True)
    return shlex.join(words) + plugin_options()

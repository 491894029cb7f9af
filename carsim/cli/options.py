"""Options that several commands have."""

import shlex
from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any

import click

from carsim.base.errors import InputError
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
    "video:8,replay=0.5,pairs=0.9, trace:NAME, or a YAML file of the fields.",
)
BOARD = click.option("--board", help="Preset of the board, say kv260.")
MODEL = click.option(
    "--model", help="Preset of the model, say tinyllama_1b, or its config.json of Hugging Face."
)


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
    from carsim.runs.first import Wish, completed, open_design

    if design is None:
        if board is None or model is None:
            raise InputError("DESIGN", "is missing", "name one, or say --board and --model")
        return completed(Wish.of(board, model, overrides=tuple(overrides), workload=workload))
    if board is not None or model is not None:
        cure = "leave it out, or say --set board.preset=NAME and --set model.preset=NAME"
        raise InputError("DESIGN", "has a board and a model already", cure)
    return open_design(design, tuple(overrides), workload)


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
    return shlex.join(words)

"""Options that state what is decoded, for commands that also take traces."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from carsim.base.errors import InputError

if TYPE_CHECKING:
    from carsim.decisions.trace import Stated

_OPTIONS = (
    click.option("--frames", type=int, metavar="T", help="Without a trace: frames of a video."),
    click.option("--tokens", type=int, metavar="N", help="Without a trace: tokens of a text."),
    click.option("--prompt", type=int, metavar="P", help="Tokens of the prompt of either."),
    click.option(
        "--context",
        metavar="A:B",
        help="A text by the tokens that its first and last token attend to; or N for one token.",
    ),
    click.option(
        "--replay",
        type=float,
        metavar="SHARE",
        help="Draw decisions of which this share replays after the first frame.",
    ),
    click.option(
        "--pairs",
        type=float,
        metavar="SHARE",
        help="With --replay: share of decisions on which the rows of a pair agree.",
    ),
    click.option("--seed", type=int, metavar="N", help="With --replay: seed of the draws."),
)


def stated_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command, which gets them as keywords for :func:`stated_of`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def stated_of(traces: Sequence[str], **given: Any) -> "Stated | None":
    """What the options state; None if they state nothing.

    Args:
        traces: Traces that are named beside them.
        **given: The options by name, None where one is not given.

    Raises:
        InputError: Options beside a trace, or ones that contradict each other.
    """
    chosen = {name: value for name, value in given.items() if value is not None}
    if not chosen:
        return None
    if traces:
        name = next(iter(chosen))
        problem = "says what is decoded, and so does --trace"
        raise InputError(f"--{name}", problem, "leave out one of them")
    from carsim.decisions.trace import Stated

    if "context" in chosen:
        chosen["context"] = parse_context(chosen["context"])
    return Stated(**chosen)


def parse_context(text: str) -> tuple[int, int]:
    """First and last context of ``N`` or ``FIRST:LAST``.

    Raises:
        InputError: Neither.

    >>> parse_context("512"), parse_context("1:1024")
    ((512, 512), (1, 1024))
    """
    first, _, last = text.partition(":")
    try:
        return int(first), int(last or first)
    except ValueError:
        raise InputError("--context", f"got {text!r}", "give N or FIRST:LAST") from None

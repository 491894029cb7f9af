"""Options that several commands have."""

from collections.abc import Callable
from typing import Any

import click

FORMAT = click.Choice(["png", "svg", "pdf"])

FIGURES = click.option(
    "--figures", type=FORMAT, help="Format of the figures that are written  [default: png]."
)


def overriding(text: str = "Change the design, say machine.cores=8") -> Callable[..., Any]:
    """The option ``--set``, as ``overrides``.

    Args:
        text: What it changes, and an example.
    """
    return click.option(
        "--set",
        "overrides",
        metavar="PATH=VALUE",
        multiple=True,
        help=f"{text}; may be repeated.",
    )

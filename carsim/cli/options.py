"""Options that several commands have."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def completing(names: Callable[[], Iterable[str]], *suffixes: str) -> Complete:
    """Completion of an argument by names, and by files and folders beside the shell.

    Args:
        names: Called when a shell asks.
        suffixes: Ends of the names of files.
    """

    def complete(_: click.Context, __: click.Parameter, start: str) -> list[str]:
        base, slash, last = start.rpartition("/")
        folder, found = Path(base + slash or "."), []
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path.name.startswith(".") > last.startswith("."):
                continue  # hidden
            if path.suffix in suffixes or path.is_dir():
                found.append(f"{base}{slash}{path.name}{'/' * path.is_dir()}")
        return [each for each in (*names(), *found) if each.startswith(start)]

    return complete


def _designs() -> Iterable[str]:
    from carsim.design import shipped_designs

    return shipped_designs()


def _traces() -> Iterable[str]:
    from carsim.decisions.trace.shipped import shipped_traces

    return shipped_traces()


def presets(section: str) -> Complete:
    """Completion by the presets of a section of a design."""

    def names() -> Iterable[str]:
        from carsim.design.load import shipped_presets

        return shipped_presets()[section]

    return lambda context, parameter, start: [n for n in names() if n.startswith(start)]


DESIGNS = completing(_designs, ".yaml", ".yml")
TRACES = completing(_traces, ".npz")
STUDIES = completing(tuple, ".yaml", ".yml")

FORMAT = click.Choice(["png", "svg", "pdf"])

JSON = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document, and nothing else."
)
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

"""Where tables go: a terminal in its width, and a pipe unwrapped and without colours."""

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import click
from rich.console import Console, RenderableType
from rich.text import Text

from carsim.cli.plain_table import fitted, rich_table
from carsim.text import Table

PIPED_WIDTH = 10_000
"""Lines that go to a file or another program are never wrapped."""

LEAST_WIDTH = 80
"""A narrower terminal wraps lines itself; cutting numbers off would be worse."""

Part = str | Table | RenderableType


def output_console() -> Console:
    """A console on standard output. Colours follow NO_COLOR and whether a person is looking."""
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    elif console.width < LEAST_WIDTH:
        console.width = LEAST_WIDTH
    return console


def show(console: Console, parts: Iterable[Part]) -> None:
    """Print parts one below the other; into a pipe, without the blanks that fill up lines."""
    if console.is_terminal:
        for part in parts:
            _print(console, part)
        return
    with console.capture() as capture:
        for part in parts:
            _print(console, part)
    text = "\n".join(line.rstrip() for line in capture.get().splitlines())
    click.echo(text.encode(console.encoding, "replace").decode(console.encoding))


def in_order(sections: Iterable[tuple[str, Sequence[Part]]]) -> Iterator[Part]:
    """Headings and what stands under them, as parts for :func:`show`."""
    for place, (heading, parts) in enumerate(sections):
        if place:
            yield ""
        if heading:
            yield Text(heading, style="bold red" if heading.startswith("MISFIT") else "bold")
        yield from parts


def _print(console: Console, part: Part) -> None:
    if isinstance(part, Table):
        for block in fitted(part, console.width):
            console.print(rich_table(block, ascii_only=console.options.ascii_only))
    elif isinstance(part, str):
        marks = {"MISFIT": "bold red", "warning:": "yellow"}
        style = next((s for m, s in marks.items() if part.lstrip("- ").startswith(m)), "")
        indent = " " * (len(part) - len(part.lstrip(" -")))
        console.print(Text(textwrap.fill(part, console.width, subsequent_indent=indent), style))
    else:
        console.print(part)


@contextmanager
def progress(doing: str) -> Iterator[Callable[[str], None]]:
    """Show on standard error what is being done, if a person is looking.

    Yields:
        To be told what is being done next.
    """
    console = Console(stderr=True, markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(doing) as status:
        yield lambda now: status.update(now)

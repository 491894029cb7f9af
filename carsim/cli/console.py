"""Where tables go: a terminal in its width, and a pipe unwrapped and without colours."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import click
from rich.console import Console, RenderableType

PIPED_WIDTH = 10_000
"""Lines that go to a file or another program are never wrapped."""

LEAST_WIDTH = 100
"""A narrower terminal wraps lines itself; cutting numbers off would be worse."""


def output_console() -> Console:
    """A console on standard output. Colours follow NO_COLOR and whether a person is looking."""
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = PIPED_WIDTH
    elif console.width < LEAST_WIDTH:
        console.width = LEAST_WIDTH
    return console


def show(console: Console, parts: Iterable[RenderableType]) -> None:
    """Print parts one below the other; into a pipe, without the blanks that fill up lines."""
    if console.is_terminal:
        for part in parts:
            console.print(part)
        return
    with console.capture() as capture:
        for part in parts:
            console.print(part)
    text = "\n".join(line.rstrip() for line in capture.get().splitlines())
    click.echo(text.encode(console.encoding, "replace").decode(console.encoding))


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

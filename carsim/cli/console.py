"""Where tables go: a terminal in its width, and a pipe unwrapped and without colours."""

import json
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from itertools import chain
from threading import Event, Thread
from time import monotonic

import click
from rich.console import Console, RenderableType
from rich.text import Text

from carsim.base.text import CONTROL, Table, visible
from carsim.cli.plain_table import fitted, rich_table

PIPED_WIDTH = 10_000
"""Lines that go to a file or another program are never wrapped."""

LEAST_WIDTH = 80
"""A narrower terminal wraps lines itself; cutting numbers off would be worse."""

FIRST_SIGN_S, NEXT_SIGN_S = 20.0, 60.0
"""Seconds after which a command whose standard error is no terminal says that it lives."""

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
            _print(console, _visible(part))
        return
    with console.capture() as capture:
        for part in parts:
            _print(console, _visible(part))
    text = "\n".join(line.rstrip() for line in capture.get().splitlines())
    # Click would write UTF-8 where a terminal says that it knows ASCII alone.
    click.echo(text.encode(console.encoding, "replace").decode(console.encoding))


def say(*lines: str) -> None:
    """Print lines that stand by themselves, each wrapped at the terminal's width."""
    show(output_console(), lines)


def show_json(document: Mapping[str, object]) -> None:
    """Print results as one JSON document, with the version of the models that they come from."""
    whole = {**document, "carsim_version": document.get("carsim_version", version("carsim"))}
    click.echo(json.dumps(whole, indent=2, allow_nan=False))


def in_order(sections: Iterable[tuple[str, Sequence[Part]]]) -> Iterator[Part]:
    """Headings and what stands under them, as parts for :func:`show`."""
    for place, (heading, parts) in enumerate(sections):
        if place:
            yield ""
        if heading:
            yield Text(heading, style="bold red" if heading.startswith("MISFIT") else "bold")
        yield from parts


def _visible(part: Part) -> Part:
    """The part without what a terminal would obey, which names out of a file may hold."""
    if isinstance(part, str):
        return visible(part)
    if isinstance(part, Table) and any(map(CONTROL.search, chain(part.headings, *part.rows))):
        clean = [
            tuple(visible(cell) if CONTROL.search(cell) else cell for cell in row)
            for row in (part.headings, *part.rows)
        ]
        return replace(part, headings=clean[0], rows=tuple(clean[1:]))
    return part


def _print(console: Console, part: Part) -> None:
    if isinstance(part, Table):
        for block in fitted(part, console.width):
            table = rich_table(block, console.width, ascii_only=console.options.ascii_only)
            console.print(table)
    elif isinstance(part, str):
        marks = {"MISFIT": "bold red", "warning:": "yellow"}
        style = next((s for m, s in marks.items() if part.lstrip("- ").startswith(m)), "")
        indent = " " * (len(part) - len(part.lstrip(" -")))
        lines = textwrap.fill(
            part,
            console.width,
            subsequent_indent=indent,
            break_long_words=False,  # a path stays one that can be copied
            break_on_hyphens=False,
        )
        console.print(Text(lines, style), soft_wrap=True)
    else:
        console.print(part)


@contextmanager
def progress(doing: str) -> Iterator[Callable[[str], None]]:
    """Show on standard error what is being done; a line a minute where nobody looks.

    Yields:
        To be told what is being done next.
    """
    console = Console(stderr=True, markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        with signs_of_life(doing) as tell:
            yield tell
        return
    with console.status(doing) as status:
        yield lambda now: status.update(now)


@contextmanager
def signs_of_life(doing: str) -> Iterator[Callable[[str], None]]:
    """Say in lines on standard error that a long command lives, and what it is doing.

    The first comes after :data:`FIRST_SIGN_S` seconds, so that short commands stay silent.

    Yields:
        To be told what is being done next.
    """
    now, began, ended = doing, monotonic(), Event()

    def say_so() -> None:
        wait = FIRST_SIGN_S
        while not ended.wait(wait):
            click.echo(f"carsim: {now} ({monotonic() - began:,.0f} s so far)", err=True)
            wait = NEXT_SIGN_S

    def tell(what: str) -> None:
        nonlocal now
        now = what

    thread = Thread(target=say_so, daemon=True)
    thread.start()
    try:
        yield tell
    finally:
        ended.set()
        thread.join()


@contextmanager
def progress_bar(name: str) -> Iterator[Callable[..., None]]:
    """A bar on standard error that leaves nothing behind; a line a minute where nobody looks.

    Yields:
        To be told how much is done, how much there is, and the rate in words.
    """
    console = Console(stderr=True, markup=False, highlight=False, emoji=False)
    if not console.is_terminal:  # rich before 15 would leave a blank line even if disabled
        with signs_of_life(name) as tell:
            yield lambda done, total, _="": tell(f"{name}: {done:,} of {total:,}")
        return
    from rich import progress as bars

    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TextColumn("{task.fields[rate]}"),
        bars.TextColumn("left"),
        bars.TimeRemainingColumn(),
    )
    with bars.Progress(
        *columns, console=console, transient=True, speed_estimate_period=120
    ) as shown:
        task = shown.add_task(name, total=None, rate="")
        yield lambda done, total, rate="": shown.update(
            task, completed=done, total=total, rate=rate
        )

"""Where tables go: a terminal in its width, and a pipe without colours.

Into a pipe, tables and texts are not wrapped, unless a command asks for the width of a screen.
"""

import json
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from importlib.metadata import version
from time import monotonic

import click
from rich import box
from rich.console import Console, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from carsim.base.text import EIGHTHS, LABEL_WIDTH, SCREEN_WIDTH, Fact, Table, visible

PIPED_WIDTH = 10_000
"""Lines that go to a file or another program are not wrapped, if no other width is asked for."""

LEAST_WIDTH = 80
"""A narrower terminal wraps lines itself; cutting numbers off would be worse."""

GAP = 3
"""Characters between columns; one at either edge."""

LEAST_TEXT = 18
"""Characters that a column of text keeps beside numbers; longer texts are wrapped."""

LINE_S = 60.0
"""Seconds from one line about progress to the next, where no terminal shows a bar."""

Part = str | Table | Fact | RenderableType


def output_console(piped_width: int = PIPED_WIDTH) -> Console:
    """A console on standard output. Colours follow NO_COLOR and whether a person is looking.

    Args:
        piped_width: Columns of lines that go to a file or another program.
    """
    console = Console(markup=False, highlight=False, emoji=False)
    console.width = max(LEAST_WIDTH, console.width) if console.is_terminal else piped_width
    return console


def show(console: Console, parts: Iterable[Part]) -> None:
    """Print parts one below the other; into a pipe, without the blanks that fill up lines."""
    with nullcontext() if console.is_terminal else console.capture() as capture:
        for part in parts:
            _print(console, part)
    if capture is not None:
        text = "\n".join(line.rstrip() for line in capture.get().splitlines())
        # Click would write UTF-8 where a terminal says that it knows ASCII alone.
        if not _can_write(BLOCKS, console.encoding):
            text = text.translate(dict.fromkeys(map(ord, BLOCKS), "#"))
        click.echo(text.encode(console.encoding, "replace").decode(console.encoding))


def say(*parts: Part) -> None:
    """Print parts that stand by themselves, texts wrapped at the terminal's width."""
    show(output_console(), parts)


def say_screen(*parts: Part) -> None:
    """Print what people read: also in a pipe, texts and facts are wrapped as on a screen.

    Tables that are not compact stay whole in a pipe, so that programs can read them.
    """
    for part in parts:
        is_whole = isinstance(part, Table) and not part.compact
        show(output_console(PIPED_WIDTH if is_whole else SCREEN_WIDTH), [part])


def show_json(document: Mapping[str, object]) -> None:
    """Print results as one JSON document, with the version of the models that they come from."""
    complete = dict(document)
    complete.setdefault("carsim_version", version("carsim"))
    click.echo(json.dumps(complete, indent=2, allow_nan=False))


def print_results(as_json: bool, document: Mapping[str, object], parts: Iterable[Part]) -> None:
    """Print results as JSON if that is asked for, else as texts and tables."""
    if as_json:
        show_json(document)
    else:
        say(*parts)


def in_order(sections: Iterable[tuple[str, Sequence[Part]]]) -> Iterator[Part]:
    """Headings and what stands under them, as parts for :func:`show`."""
    for number, (heading, parts) in enumerate(sections):
        if number > 0:
            yield ""
        if heading:
            yield Text(heading, style="bold red" if heading.startswith("MISFIT") else "bold")
        yield from parts


BLOCKS = f"\u2588{EIGHTHS.strip()}"
"""Characters of bars."""


def _can_write(text: str, encoding: str) -> bool:
    """Whether an encoding has all characters of a text."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _print(console: Console, part: Part) -> None:
    """Print a part, without what a terminal would obey, which names out of a file may hold."""
    if isinstance(part, Table):
        for block in _blocks(part, console.width):
            console.print(_rich_table(block, console.width))
    elif isinstance(part, Fact):
        _print_fact(console, part)
    elif isinstance(part, str):
        _print_text(console, part)
    else:
        console.print(part)


def _print_text(console: Console, text: str) -> None:
    """Print a text in lines, a warning in its colour; further lines of an item are indented."""
    without_indent = text.lstrip(" -")
    if without_indent.startswith("MISFIT"):
        style = "bold red"
    elif without_indent.startswith("warning:"):
        style = "yellow"
    else:
        style = ""
    lines = textwrap.fill(
        visible(text),
        console.width,
        # A path stays one that can be copied.
        break_long_words=False,
        break_on_hyphens=False,
        subsequent_indent=" " * (len(text) - len(without_indent)),
    )
    console.print(Text(lines, style), soft_wrap=True)


def _print_fact(console: Console, fact: Fact) -> None:
    """Print a fact: its label, and beside it the lines of its text."""
    for number, line in enumerate(fact.lines(console.width, LABEL_WIDTH)):
        text = Text(line)
        if number == 0:
            text.stylize("bold", 0, len(fact.label))
        console.print(text, soft_wrap=True)


def _blocks(table: Table, width: int) -> Iterator[Table]:
    """The table in blocks of columns, none wider than the terminal; numbers are never cut.

    >>> wide = Table(("policy", "a", "b"), (("dense", "1" * 30, "2" * 30),))
    >>> [block.headings for block in _blocks(wide, 60)]
    [('policy', 'a'), ('policy', 'b')]
    """
    widths = _widths(table)
    text_widths = widths[: table.text_columns]
    gap = GAP
    edges = 2
    if table.compact:
        gap = _compact_gap(table, width)
        edges = 0

    def split(most_text: int) -> list[list[int]]:
        """Columns of numbers by block, if a text takes at most so many characters."""
        texts = sum(min(text_width, most_text) + gap for text_width in text_widths)
        room = width - edges + gap - texts  # the last column needs no gap behind it
        blocks: list[list[int]] = [[]]
        filled = 0
        for column in range(table.text_columns, len(widths)):
            filled += widths[column] + gap
            if blocks[-1] and filled > room:
                blocks.append([])
                filled = widths[column] + gap
            blocks[-1].append(column)
        return blocks

    # Of all widths of texts that need the fewest blocks, the largest: the first of equal ones.
    longest = max([LEAST_TEXT, *text_widths])
    blocks = min(map(split, range(longest, LEAST_TEXT - 1, -1)), key=len)
    for block in blocks:
        columns = [*range(table.text_columns), *block]
        headings = tuple(table.headings[column] for column in columns)
        rows = [tuple(row[column] for column in columns) for row in table.rows]
        yield replace(table, headings=headings, rows=tuple(rows))


def _compact_gap(table: Table, width: int) -> int:
    """Characters between the columns of a compact table: two if it fits so, else one."""
    widths = _widths(table)
    return 2 if sum(widths) + 2 * (len(widths) - 1) <= width else 1


def _rich_table(table: Table, width: int) -> RichTable:
    """The table: numbers to the right, rows that matter bold, what breaks something in red."""
    widths = _widths(table)
    is_plain = not any(table.headings)
    if is_plain:
        rich = RichTable.grid(padding=(0, 2))
    elif table.compact:
        gap = _compact_gap(table, width)
        rich = RichTable(box=None, pad_edge=False, padding=(0, gap, 0, 0))
    else:
        has_numbers = table.text_columns < len(widths)
        gap = GAP if has_numbers else 2
        # Rich puts a blank on the other side of each column itself, and the padding has one.
        rich = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, gap - 2))
    for column, heading in enumerate(table.headings):
        is_number = column >= table.text_columns
        if is_number:
            heading = textwrap.fill(heading, max(1, widths[column]))
        # In a compact table a word, or a bar, is never cut.
        is_of_words = not any(" " in row[column] for row in table.rows)
        rich.add_column(
            visible(heading),
            overflow="fold",
            style="bold" if is_plain and column == 0 else None,
            justify="right" if is_number else "left",
            no_wrap=is_number or (table.compact and is_of_words),
        )
    for number, row in enumerate(table.rows):
        rich.add_row(*map(visible, row), style=_row_style(table, number))
    return rich


def _row_style(table: Table, row: int) -> str | None:
    """Style of a row: red if it breaks something, bold if it matters most."""
    if row in table.marked:
        return "bold red"
    return "bold" if row in table.strong else None


def _widths(table: Table) -> list[int]:
    """Of each column: its longest cell, or the longest word of its heading.

    Headings of compact tables are not broken.
    """
    widths = []
    for column, heading in enumerate(table.headings):
        texts = [heading] if table.compact else heading.split()
        texts += [row[column] for row in table.rows]
        widths.append(max(map(len, texts), default=0))
    return widths


def _live_console() -> Console | None:
    """A console on standard error, if that is a terminal."""
    console = Console(stderr=True, markup=False, highlight=False, emoji=False)
    return console if console.is_terminal else None


@contextmanager
def progress(doing: str) -> Iterator[Callable[[str], None]]:
    """Show on standard error what is being done, if that is a terminal.

    Yields:
        To be told what is being done next.
    """
    console = _live_console()
    with console.status(doing) if console else nullcontext() as status:
        yield lambda now: status.update(now) if status else None


@contextmanager
def progress_bar(name: str, *, is_steady: bool = True) -> Iterator[Callable[..., None]]:
    """A bar on standard error that leaves nothing behind; into a file, a line a minute.

    Args:
        name: Name of the work.
        is_steady: Its rate tells when it ends; the bar shows the time left, else the time so far.

    Yields:
        To be told how much is done, how much there is, and the rate in words.
    """
    console = _live_console()
    if console is None:  # rich before 15 would leave a blank line even if disabled
        last_line_s = monotonic()

        def tell(done: float, total: float, rate: str = "") -> None:
            nonlocal last_line_s
            if monotonic() > last_line_s + LINE_S:
                last_line_s = monotonic()
                click.echo(f"{name}: {done / max(1, total):.0%} {rate}", err=True)

        yield tell
        return
    from rich import progress as bars

    *usual_columns, time_left = bars.Progress.get_default_columns()
    time = time_left if is_steady else bars.TimeElapsedColumn()
    bar = bars.Progress(
        *usual_columns,
        time,
        bars.TextColumn("{task.fields[rate]}"),
        console=console,
        transient=True,
        speed_estimate_period=120,
    )
    with bar:
        task = bar.add_task(name, total=None, rate="")
        yield lambda done, total, rate="": bar.update(task, completed=done, total=total, rate=rate)

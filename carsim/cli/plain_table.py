"""The one renderer of tables in the terminal."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich import box
from rich.table import Table

from carsim.base.text import Table as PlainTable

LEAST_TEXT = 18
"""Characters that a column of text keeps beside numbers; longer texts are wrapped."""

BAR_WIDTH, LEAST_BAR = 20, 6
"""Characters of the longest bar; bars give way to texts, and go where so few are left."""

GAP, TEXT_GAP = 3, 2
"""Characters between columns, and between those of a table of text alone; one at either edge."""


def fitted(plain: PlainTable, width: int) -> Iterator[PlainTable]:
    """The table in blocks of columns, none wider than the terminal; numbers are never cut.

    Texts are wrapped only where that saves a block.

    >>> wide = PlainTable(("policy", "a", "b"), (("dense", "1" * 30, "2" * 30),))
    >>> [block.headings for block in fitted(wide, 60)]
    [('policy', 'a'), ('policy', 'b')]
    """
    texts = plain.text_columns
    rows = (plain.headings, *plain.rows)
    widths = [_width(plain, column) for column in range(len(plain.headings))]
    gap = _gap(plain)
    room = width - 2 + gap
    longest = max((LEAST_TEXT, *widths[:texts]))
    # Of all widths of texts that need the fewest blocks, the largest.
    blocks = min(
        (
            _blocks(
                [w + gap for w in widths[texts:]],
                room - sum(min(w, most) + gap for w in widths[:texts]),
            )
            for most in range(longest, LEAST_TEXT - 1, -1)
        ),
        key=len,
    )
    for block in blocks:
        kept = [*range(texts), *(texts + column for column in block)]
        headings, *cells = (tuple(row[column] for column in kept) for row in rows)
        yield replace(plain, headings=headings, rows=tuple(cells))


def _blocks(widths: Sequence[int], room: int) -> list[list[int]]:
    """Places of columns in blocks that fit, one at least in each; widths include gaps."""
    blocks: list[list[int]] = [[]]
    for column in range(len(widths)):
        if blocks[-1] and sum(widths[c] for c in (*blocks[-1], column)) > room:
            blocks.append([])
        blocks[-1].append(column)
    return blocks


def rich_table(plain: PlainTable, width: int, *, ascii_only: bool = False) -> Table:
    """The table: numbers to the right, rows that matter bold, what breaks something in red.

    A single column of cells with bars is drawn with them, as long as the width allows.
    """
    shares = [[getattr(cell, "share", None) for cell in row] for row in plain.rows]
    barred = [c for c, column in enumerate(zip(*shares, strict=True)) if any(column)]
    free = width - 2 - sum(_width(plain, c) + _gap(plain) for c in range(len(plain.headings)))
    longest = min(BAR_WIDTH, free)
    bars = barred[0] if len(barred) == 1 and longest >= LEAST_BAR else None
    right = _gap(plain) - 2  # beside the blank that parts columns, and one on the left
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, right))
    if not any(plain.headings):
        table = Table.grid(padding=(0, 2))
    for column, heading in enumerate(plain.headings):
        is_text = column < plain.text_columns
        table.add_column(
            heading if is_text else textwrap.fill(heading, max(1, _width(plain, column))),
            justify="left" if is_text else "right",
            no_wrap=not is_text,
            overflow="fold",
            style="bold" if not any(plain.headings) and not column else None,
        )
        if column == bars:
            table.add_column("", no_wrap=True)
    full = "#" if ascii_only else "█"
    for place, row in enumerate(plain.rows):
        cells = list(row)
        if bars is not None:
            share = min(1.0, shares[place][bars] or 0.0)
            cells.insert(bars + 1, full * round(share * longest))
        style = "bold red" if place in plain.marked else "bold" if place in plain.strong else None
        table.add_row(*cells, style=style)
    return table


def _gap(plain: PlainTable) -> int:
    return GAP if plain.text_columns < len(plain.headings) else TEXT_GAP


def _width(plain: PlainTable, column: int) -> int:
    """Of a column: its longest cell, or the longest word of its heading."""
    texts = [*plain.headings[column].split(), *(row[column] for row in plain.rows)]
    return max(map(len, texts), default=0)

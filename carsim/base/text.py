"""Numbers and tables as people read them."""

import html
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import isfinite
from typing import NamedTuple


def number(value: float, digits: int = 4) -> str:
    """A number to so many significant digits, thousands separated, without an exponent.

    Whole numbers are given in full.

    >>> [number(x) for x in (0, 387.3087, 7523.69, 1234567.8, 0.00123456, 250.0, 99.7, 0.99999)]
    ['0', '387.3', '7,524', '1,234,568', '0.001235', '250', '99.70', '1.000']
    >>> number(float("inf"))  # the threshold of a replay that never happens
    'inf'
    """
    if not isfinite(value):
        return str(float(value))
    if value == round(value):
        return f"{value:,.0f}"
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])
    return f"{value:,.{max(0, digits - 1 - exponent)}f}"


CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""What is no text but a command to a terminal, or half of a character."""


def visible(text: str) -> str:
    r"""A text with control characters spelled out; line ends and tabs stay.

    >>> visible("a\x1b[31m")
    'a\\x1b[31m'
    """
    return CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


MOST_CHARACTERS = 1000
"""Of one line; a message that is longer hides what it says."""


def one_line(text: str) -> str:
    r"""A text, which may come out of a file, as one line that a terminal shows and does not obey.

    A long one loses its middle, since it begins with a place and ends with a cure.

    >>> one_line("a\x1b[31m\n" + "b" * 2000)[:20], len(one_line("b" * 2000))
    ('a\\x1b[31m\\nbbbbbbbbb', 1000)
    """
    half = MOST_CHARACTERS // 2
    if len(text) > MOST_CHARACTERS:
        text = f"{text[: half - 2]} ...{text[2 - half :]}"
    return visible(text).replace("\n", r"\n").replace("\t", r"\t")


def percent(share: float, decimals: int = 1) -> str:
    """A share as a percentage.

    >>> percent(0.4521), percent(1.0), percent(0.4521, 2)
    ('45.2 %', '100.0 %', '45.21 %')
    """
    return f"{100 * share:.{decimals}f} %"


def quantity(value: float | str | None, unit: str = "", digits: int = 4) -> str:
    """A value of a unit as people read it, the unit left out unless it is part of the number.

    Args:
        value: A number, a truth value or a text; None where there is none.
        unit: ``share`` is written as a percentage, ``x`` (a ratio) with decimals, one digit fewer.
        digits: Significant digits.

    >>> [quantity(0.5, "share"), quantity(1.25, "x"), quantity(12.0, "s"), quantity(None)]
    ['50.0 %', '1.250', '12', '-']
    """
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if unit == "share":
        return percent(value, digits - 3)
    return f"{value:.{digits - 1}f}" if unit == "x" else number(value, digits)


def signed_percent(change: float, digits: int = 2) -> str:
    """A relative change with its sign, never minus zero.

    >>> signed_percent(-0.0894), signed_percent(-0.00001)
    ('-8.94 %', '+0.00 %')
    """
    return f"{round(100 * change, digits) + 0.0:+.{digits}f} %"


def signed(value: float) -> str:
    """A difference with its sign.

    >>> signed(12.5), signed(-0.5), signed(0.0)
    ('+12.50', '-0.5000', '0')
    """
    return ("+" if value > 0 else "") + number(value)


MOST_SUGGESTED = 3
"""Names that are suggested because what was given shortens them."""
SURE = 0.8
"""Likeness from which on a single name is suggested, as :mod:`difflib` has it."""
LEAST_BEGINNING = 3
"""Characters that such a beginning has at least."""
MOST_NAMES = 24
"""More known names than these are not listed beside a suggestion."""


def closest(name: object, known: Iterable[str]) -> str:
    """A question that names the known names that were probably meant, or nothing.

    >>> closest("coers", ["batch", "cores"]), closest("zzz", ["batch"])
    ("did you mean 'cores'? ", '')
    >>> closest("wan", ["tiny", "wan2.1_1.3b", "wan2.1_14b"])
    "did you mean 'wan2.1_1.3b' or 'wan2.1_14b'? "
    """
    import difflib

    names = list(known)
    given = str(name)
    close = difflib.get_close_matches(given, names, 3)
    close.sort(key=lambda each: sorted(each) != sorted(given))  # swapped letters first
    likeness = difflib.SequenceMatcher(None, given, close[0]).ratio() if close else 0.0
    shortened = [candidate for candidate in names if _shortens(given, candidate)]
    if not shortened or likeness >= SURE:
        return f"did you mean {close[0]!r}? " if close else ""
    suggested = [repr(candidate) for candidate in shortened[:MOST_SUGGESTED]]
    if len(shortened) > MOST_SUGGESTED:
        suggested.append("another that begins so")
    first = ", ".join(suggested[:-1])
    return f"did you mean {' or '.join(filter(None, [first, suggested[-1]]))}? "


def _shortens(given: str, name: str) -> bool:
    """Whether a text is the beginning of a name, or the initials of its words.

    >>> _shortens("DDR4", "DDR4-2400"), _shortens("fps", "frames_per_s"), _shortens("d", "dsp")
    (True, True, False)
    """
    initials = "".join(word[0] for word in name.split("_") if word)
    if len(given) < LEAST_BEGINNING:
        return False
    return name.lower().startswith(given.lower()) or initials == given


def choose(name: object, known: Iterable[str], words: str = "choose one of", more: str = "") -> str:
    """The cure for an unknown name: the one that was probably meant, and all that are known.

    >>> choose("coers", ["batch", "cores"])
    "did you mean 'cores'? choose one of batch, cores"

    Args:
        name: The unknown name.
        known: All known names.
        words: Words before them.
        more: What lists all names if they are many; empty if nothing does.
    """
    names = list(known)
    if more and len(names) > MOST_NAMES:
        return f"{closest(name, names)}{more}"
    return f"{closest(name, names)}{words} {', '.join(names)}"


def count(n: int, one: str, many: str = "") -> str:
    """So many of a thing.

    >>> count(1, "core"), count(3, "batch", "batches"), count(2048, "step")
    ('1 core', '3 batches', '2,048 steps')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def span(low: str, high: str, joint: str = "-") -> str:
    """Both ends of an interval as they are written; one of them where they are alike.

    >>> span("1.2", "1.4"), span("1.4", "1.4")
    ('1.2-1.4', '1.4')
    """
    return low if low == high else f"{low}{joint}{high}"


def with_ends(text: str, low: str, high: str, joint: str = "-") -> str:
    """A figure with its interval in brackets, unless the interval has no width as it is written.

    >>> with_ends("1.3", "1.2", "1.4"), with_ends("1.3", "1.3", "1.3")
    ('1.3 (1.2-1.4)', '1.3')
    """
    return text if low == high else f"{text} ({span(low, high, joint)})"


def amount(n: float, unit: str) -> str:
    """So much of a thing; ``B`` stands for bytes.

    >>> amount(2520, "DSP"), amount(4_094_000_000, "B"), amount(65536, "B")
    ('2,520 DSP', '4.094 GB', '64.0 KiB')
    """
    if unit != "B":
        return f"{number(n)} {unit}"
    return f"{n / 1e9:.3f} GB" if abs(n) >= 10_000_000 else f"{n / 1024:,.1f} KiB"


def shortened(text: str, most: int = 60) -> str:
    """One line of at most so many characters; a longer one loses its end.

    >>> shortened("a long label", 8), shortened("short", 8)
    ('a lon...', 'short')
    """
    line = one_line(text)
    return line if len(line) <= most else f"{line[: most - 3]}..."


EIGHTHS = " \u258f\u258e\u258d\u258c\u258b\u258a\u2589"
"""Blocks of no to seven eighths of a character."""


def text_bar(share: float, most: int) -> str:
    """A bar of characters.

    Args:
        share: Length, as a share of the longest possible.
        most: Characters of the longest bar.

    >>> text_bar(1.0, 4), text_bar(0.5, 4), len(text_bar(0.3, 4))
    ('\u2588\u2588\u2588\u2588', '\u2588\u2588', 2)
    """
    eighths = round(8 * most * min(1.0, max(0.0, share)))
    full_characters, rest = divmod(eighths, 8)
    return "\u2588" * full_characters + (EIGHTHS[rest] if rest else "")


BAR = "bar"
"""Variable of the style sheet that has the length of a bar."""


class Figure(str):
    """A cell that shows a text, is sorted by a number, and may have a bar.

    Args:
        text: What people read.
        value: What it is sorted by; None goes last.
        share: Length of the bar, as a share of the longest possible; None for no bar.
    """

    value: float | None
    share: float | None

    def __new__(cls, text: str, value: float | None, share: float | None = None) -> "Figure":
        """Text with its number."""
        figure = super().__new__(cls, text)
        figure.value = value
        figure.share = share
        return figure


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as people read them; terminal, Markdown and HTML are renderings of it.

    Attributes:
        headings: One per column.
        rows: As many cells each as there are headings; :class:`Figure` where a cell has a number.
        text_columns: So many columns from the left hold text; the others are aligned as numbers.
        marked: Rows that break something, by index.
        strong: Rows that matter most, by index.
        title: What the table shows; may be empty.
        compact: A terminal draws no rules and no blank lines about it.
    """

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: int = 1
    marked: frozenset[int] = frozenset()
    strong: frozenset[int] = frozenset()
    title: str = ""
    compact: bool = False

    def lines(self, width: int) -> list[str]:
        """Lines of plain text: texts to the left, wrapped if they have to be, numbers to the right.

        Numbers are never cut, so that a table of many of them may be wider.

        Args:
            width: Characters of a line.

        >>> of_runs = Table(("metric", "of A"), (("latency", "9.5 s"), ("a b c d", "12 s")))
        >>> for line in of_runs.lines(16):
        ...     print(line)
        metric    of A
        -------  -----
        latency  9.5 s
        a b c d   12 s
        """
        widths = self._plain_widths(width)
        rule = tuple("-" * column_width for column_width in widths)
        lines: list[str] = []
        for row in (self.headings, rule, *self.rows):
            lines += self._row_lines(row, widths)
        return lines

    def _plain_widths(self, width: int) -> list[int]:
        """Characters of each column; headings of numbers are wrapped to the widest number."""
        widths = []
        for column, heading in enumerate(self.headings):
            is_text = column < self.text_columns
            heading_words = [heading] if is_text else heading.split()
            texts = heading_words + [row[column] for row in self.rows]
            widths.append(max(map(len, texts), default=0))
        of_numbers = sum(2 + column_width for column_width in widths[self.text_columns :])
        most_text = (width - of_numbers) // self.text_columns - 2
        for column in range(self.text_columns):
            widths[column] = min(widths[column], max(LEAST_TEXT_WIDTH, most_text))
        return widths

    def _row_lines(self, row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
        """Lines of a row, each cell wrapped to the width of its column."""
        wrapped_cells = []
        for cell, column_width in zip(row, widths, strict=True):
            wrapped_cells.append(textwrap.wrap(cell, column_width) or [""])
        for texts in zip_longest(*wrapped_cells, fillvalue=""):
            aligned = []
            for column, text in enumerate(texts):
                is_text = column < self.text_columns
                column_width = widths[column]
                aligned.append(text.ljust(column_width) if is_text else text.rjust(column_width))
            yield "  ".join(aligned).rstrip()


_BEFORE_UNIT = re.compile(r"(?<=\d) (?=%|[sJ]\b|MHz\b|USD\b|GB/s)")

LEAST_TEXT_WIDTH = 12
"""Columns of a text beside numbers in a plain table; longer texts are wrapped."""

SCREEN_WIDTH = 80
"""Columns of texts that people read, also out of a pipe."""

LABEL_WIDTH = 11
"""Columns of the label of a :class:`Fact`."""


class Fact(NamedTuple):
    """A line with a label, such as ``fits  yes``; a terminal wraps it under its text.

    Attributes:
        label: The question in a word or two.
        text: The answer; a line end in it begins a line.
    """

    label: str
    text: str

    def lines(self, width: int, label_width: int) -> list[str]:
        """Lines of a screen, the text wrapped beside the label.

        >>> Fact("fits", "yes, it does").lines(12, label_width=6)
        ['fits  yes,', '      it', '      does']
        """
        label = f"{self.label:<{label_width}}"
        indent = " " * len(label)
        if not self.text:
            return [self.label]
        lines: list[str] = []
        # A number stays on one line with its unit.
        text = _BEFORE_UNIT.sub("\u00a0", visible(self.text))
        for line in text.split("\n"):
            lines += textwrap.wrap(
                line,
                width,
                initial_indent=indent if lines else label,
                subsequent_indent=indent,
                break_long_words=False,
                break_on_hyphens=False,
            )
        return [line.replace("\u00a0", " ") for line in lines]


def html_table(table: Table) -> str:
    """A table as HTML without its title, everything in it escaped.

    >>> html_table(Table(("a", "b"), (("<x>", Figure("1,000", 1000.0)),))).splitlines()[3]
    '<tr><td>&lt;x&gt;</td><td class="number" data-value="1000.0">1,000</td></tr>'
    """
    lines = []
    for index, cells in enumerate(table.rows):
        classes = []
        if index in table.marked:
            classes.append("marked")
        if index in table.strong:
            classes.append("strong")
        row_class = f' class="{" ".join(classes)}"' if classes else ""
        lines.append(f"<tr{row_class}>{_cells(cells, 'td', table.text_columns)}</tr>")
    head = f"<tr>{_cells(table.headings, 'th', table.text_columns)}</tr>"
    return f"<table>\n<thead>{head}</thead>\n<tbody>\n" + "\n".join(lines) + "\n</tbody>\n</table>"


def _cells(cells: Sequence[str], tag: str, text_columns: int) -> str:
    """The cells of a row as HTML.

    Args:
        cells: The cells.
        tag: ``td``, or ``th`` for headings.
        text_columns: So many columns from the left hold text, the others numbers.
    """
    texts = []
    for column, cell in enumerate(cells):
        attributes = "" if column < text_columns else ' class="number"'
        if isinstance(cell, Figure):
            if cell.value is not None:
                attributes += f' data-value="{float(cell.value)!r}"'
            if cell.share is not None:
                percent_of_bar = 100 * min(1.0, max(0.0, cell.share))
                attributes += f' style="--{BAR}: {percent_of_bar:.1f}%"'
        text = html.escape(cell)
        if tag == "th":  # a heading may be broken within a name
            text = text.replace("_", "_<wbr>").replace(".", ".<wbr>")
        texts.append(f"<{tag}{attributes}>{text}</{tag}>")
    return "".join(texts)

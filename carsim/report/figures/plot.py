"""The parts of every figure: named numbers in panels, drawn by two renderings.

A figure is a function that takes results and gives a :class:`Plot`. :mod:`.draw` turns a plot into
a file (PNG, SVG, PDF), :mod:`.interactive` into a chart of a page. Tests read the numbers of a plot
without drawing it: ``plot["joules per video"]["energy"].x``.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

Scale = Literal["linear", "log"]

LOG_RATIO = 20.0
"""A positive axis whose largest value is this many times its smallest is logarithmic."""
DOUBLES = 1.8
"""Values that grow by this factor or more from one to the next have a logarithmic axis."""

MOST_TICKS = 8
"""Distinct values of an axis that have a tick each; of more, the drawing chooses round numbers."""

Dash = Literal["solid", "dash", "dot"]
DASHES: tuple[Dash, ...] = ("solid", "dash", "dot")
Number = float | None


@dataclass(frozen=True)
class Series:
    """Numbers under one name. K of them.

    Attributes:
        name: Name of the series, as the legend shows it; empty for a series without an entry.
        x: K numbers; None where there is none. ``steps`` have K + 1 edges.
        y: K numbers; lines of a panel with categories are counted from 0.
        mark: ``bar`` from ``base`` to ``x``, ``points``, ``line`` through points that are not
            shown, ``marked line``, ``steps``, each as high as ``y`` from its edge to the next, or
            ``arrows``: start, end and None for each.
        colour: Colour of all of them.
        base: K starts of bars; all 0 if empty.
        low: K lower ends of intervals of ``x``; no intervals if empty.
        high: K upper ends.
        text: K labels, drawn beside bars and points.
        inside: Labels stand in the bars instead.
        hover: K texts for the pointer; names and numbers if empty.
        keys: K numbers that a click tells of, such as points of a study.
        marker: Marker of points: a name of matplotlib that :mod:`.interactive` knows.
        hatch: Hatch of bars, to tell them apart in grey: a slash of either way, ``x`` or ``.``.
        dash: Dash pattern of lines.
        height: Height of bars, in lines of the panel.
        size: Size of points, in typographic points.
        hollow: Points are rings.
        shade: K numbers that colour points, with a colour bar; ``colour`` has no effect then.
        shade_label: With its unit.
        colours: K colours of bars, such as those of policies; all :attr:`colour` if empty.
        hatches: K hatches of bars, with ``colours``.
        axis: The vertical axis that ``y`` is read on.
    """

    name: str
    x: Sequence[Number]
    y: Sequence[Number]
    mark: Literal["bar", "points", "line", "marked line", "steps", "arrows"]
    colour: str
    base: Sequence[float] = ()
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    text: Sequence[str] = ()
    hover: Sequence[str] = ()
    keys: Sequence[int] = ()
    marker: str = "o"
    hatch: str = ""
    dash: Dash = "solid"
    height: float = 0.65
    size: float = 6.0
    hollow: bool = False
    shade: Sequence[float] = ()
    shade_label: str = ""
    colours: Sequence[str] = ()
    hatches: Sequence[str] = ()
    axis: Literal["left", "right"] = "left"
    inside: bool = False


def scale_of(numbers: Iterable[Sequence[Number]]) -> Scale:
    """Scale of an axis of numbers: logarithmic if they are positive and span :data:`LOG_RATIO`."""
    values = [value for sequence in numbers for value in sequence if value is not None]
    is_positive = min(values, default=0.0) > 0
    is_log = is_positive and max(values) >= LOG_RATIO * min(values)
    return "log" if is_log else "linear"


def scale_of_choices(values: Sequence[float]) -> Scale:
    """Scale of an axis of chosen values: logarithmic too if all neighbours double, or nearly so.

    >>> scale_of_choices([8, 16, 32]), scale_of_choices([1, 2, 3, 4])
    ('log', 'linear')
    """
    choices = sorted(set(values))
    is_positive = len(choices) > 2 and choices[0] > 0
    if is_positive and all(after >= DOUBLES * before for before, after in pairwise(choices)):
        return "log"
    return scale_of([choices])


def ticks_of(values: Iterable[float]) -> tuple[float, ...]:
    """Ticks at the values themselves, where these are few; none where there are many.

    >>> ticks_of([32, 8, 16, 8])
    (8, 16, 32)
    """
    choices = tuple(sorted(set(values)))
    return choices if len(choices) <= MOST_TICKS else ()


@dataclass(frozen=True)
class Panel:
    """Axes with what is drawn on them.

    Attributes:
        x_label: With its unit.
        series: Series, the first undermost.
        y_label: With its unit.
        categories: Names of the lines from the top down; none if the vertical axis has numbers.
        x_range: Ends of the axis; fitted to the numbers if not given.
        y_range: Likewise.
        x_scale: Scale of the axis.
        y_scale: Likewise.
        x_ticks: Values that have a tick; the drawing chooses round numbers if empty.
        verticals: Positions of thin vertical lines.
        share: Width or height, relative to the other panels.
        right_label: Label of a second vertical axis, on the right; no such axis if empty.
        right_range: Ends of that axis.
    """

    x_label: str
    series: tuple[Series, ...]
    y_label: str = ""
    categories: tuple[str, ...] = ()
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    x_scale: Scale = "linear"
    y_scale: Scale = "linear"
    x_ticks: tuple[float, ...] = ()
    verticals: Sequence[float] = ()
    share: float = 1.0
    right_label: str = ""
    right_range: tuple[float, float] | None = None

    def __getitem__(self, name: str) -> Series:
        """The series of a name, or of that before its first comma."""
        for series in self.series:
            before_comma = series.name.partition(",")[0]
            if name in (series.name, before_comma):
                return series
        raise KeyError(name)


@dataclass(frozen=True)
class Plot:
    """A figure.

    Attributes:
        title: Above it.
        panels: From left to right if they share the vertical axis, else from the top down.
        alt: Description in words, for those who cannot see it.
        caption: Hints for reading it.
        size_in: Width and height on paper, inches.
        shares: ``y``: panels stand side by side on one vertical axis; ``x``: above each other on
            one horizontal axis; ``beside``: side by side, with axes of their own; nothing: above
            each other.
        misfit: The design does not fit its board, which the title says.
        look: ``paper``: smaller type and 300 dpi, as papers print figures.
        hint: On a page, what a click on a mark tells; empty where a click does nothing.
        keeps_title: As a file, too, it has its title, without which nobody knows what it shows.
    """

    title: str
    panels: tuple[Panel, ...]
    alt: str
    caption: str = ""
    size_in: tuple[float, float] = (10.0, 4.6)
    shares: Literal["x", "y", "beside", ""] = ""
    misfit: bool = False
    look: Literal["usual", "paper"] = "usual"
    hint: str = ""
    keeps_title: bool = False

    def __getitem__(self, label: str) -> Panel:
        """The panel with a label on its horizontal axis; if none has it, on its vertical one."""
        by_y_label = {panel.y_label: panel for panel in self.panels}
        by_x_label = {panel.x_label: panel for panel in self.panels}
        return by_x_label[label] if label in by_x_label else by_y_label[label]

    @property
    def full_title(self) -> str:
        """The title, with its mark if the design does not fit its board."""
        return "MISFIT, this design does not fit its board: " * self.misfit + self.title

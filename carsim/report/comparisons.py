"""Predictions beside others' figures: one rendering of comparisons for every output.

All parts of ``carsim validate`` give lists of :class:`carsim.metrics.Comparison`. This module shows
such a list as a table, as JSON and as a figure.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from itertools import cycle, product
from math import fsum
from typing import TYPE_CHECKING, Any

from carsim.base.text import Figure, Table, number
from carsim.metrics import Comparison

FEW = 30
"""Rows that are named; of more than these, figures show how many err by how much."""

if TYPE_CHECKING:
    from carsim.report.figures.plot import Panel, Plot

MOST_COUNTED = 8
"""Groups in one panel; further ones are in the tables alone."""

WIDE = 1.0
"""Relative errors above this are drawn as ratios, on a logarithmic axis."""

LEAST = 1e-3
"""Errors in percent that are smaller, none included, are drawn here."""


def comparison_table(
    rows: Sequence[Comparison], title: str = "", rival: str = "baseline", *, brief: bool = False
) -> Table:
    """A line per comparison, those out of their bound marked; columns that are empty left out.

    Args:
        rows: The comparisons.
        title: Title of the table.
        rival: Name of the model that carsim is compared with.
        brief: Leave out what the rival predicts, so that the table fits a terminal.
    """
    columns: dict[str, list[str]] = {
        "what": [row.what for row in rows],
        "reference": [Figure(f"{number(r.reference)} {r.unit}".strip(), r.reference) for r in rows],
        "carsim": [Figure(number(row.ours), row.ours) for row in rows],
        "error": [_share(row.error) for row in rows],
        "bound": [
            "" if row.bound is None else Figure(f"{100 * row.bound:g} %", row.bound) for row in rows
        ],
        rival: ["" if row.rival is None else Figure(number(row.rival), row.rival) for row in rows],
        f"error of {rival}": [
            "" if row.rival_error is None else _share(row.rival_error) for row in rows
        ],
    }
    kept = [name for name in columns if any(columns[name]) and not (brief and name == rival)]
    return Table(
        tuple(kept),
        tuple(zip(*(columns[name] for name in kept), strict=True)),
        marked=frozenset(place for place, row in enumerate(rows) if not row.ok),
        title=title,
    )


def sources(rows: Sequence[Comparison]) -> list[str]:
    """Sources and notes of the rows: each once, behind the rows that it is of."""
    found: dict[str, dict[str, None]] = {}
    for row in rows:
        for text in (row.note, f"source: {row.source}" if row.source else ""):
            if text:
                found.setdefault(text, {})[row.what] = None
    return [
        f"{'; '.join(of)}: {text}" if len(of) <= FEW else f"{len(of)} rows: {text}"
        for text, of in found.items()
    ]


def comparison_records(rows: Sequence[Comparison]) -> list[dict[str, Any]]:
    """Plain data for JSON: the fields, and what follows from them."""
    return [
        asdict(row) | {"error": row.error, "rival_error": row.rival_error, "ok": row.ok}
        for row in rows
    ]


def comparison_plot(
    title: str, groups: Mapping[str, Sequence[Comparison]], counted: Collection[str] = ()
) -> "Plot":
    """Errors of carsim and of the rival: a panel per group of comparisons.

    Few rows are named, a line each. Of many rows, one panel shows the share that errs by no more
    than each error.

    Args:
        title: Title of the figure.
        groups: Comparisons by the titles of their groups.
        counted: Groups whose rows are not named though they are few.
    """
    from carsim.report.figures.plot import Plot

    named = {n: rows for n, rows in groups.items() if len(rows) <= FEW and n not in counted}
    panels, drawn = [], set[Comparison]()
    for name, rows in named.items():
        if not drawn.issuperset(rows):  # a group may be part of another
            panels.append(_lines(name, rows))
            drawn.update(rows)
    many = {
        name: rows
        for name, rows in groups.items()
        if name not in named
        and not drawn.issuperset(rows)
        and max(100 * abs(row.error) for row in rows) > LEAST
    }
    if many:
        largest = sorted(many, key=lambda name: -len(many[name]))[:MOST_COUNTED]
        panels.append(_shares({name: rows for name, rows in many.items() if name in largest}))
    lines = fsum(panel.share for panel in panels)
    return Plot(
        title,
        tuple(panels),
        alt=f"Errors of carsim and of its rivals: {title}",
        size_in=(10, 0.9 + 0.7 * len(panels) + 0.24 * lines),
        columns=1,
    )


def _lines(name: str, rows: Sequence[Comparison]) -> "Panel":
    from carsim.report.figures import style
    from carsim.report.figures.plot import Panel, Series

    bound = max((row.bound for row in rows if row.bound is not None), default=0.0)
    errors: tuple[list[float | None], ...]
    errors = [row.error for row in rows], [row.rival_error for row in rows]
    is_wide = max(abs(error) for of in errors for error in of if error is not None) > WIDE

    def shown(error: float | None) -> float | None:
        return None if error is None else 1 + error if is_wide else 100 * error

    label = "predicted over reference" if is_wide else "error [%]"
    marks = (("rival", errors[1], style.GREY, "x"), ("carsim", errors[0], style.BLUE, "o"))
    return Panel(
        f"{label}; shaded: the bound, {100 * bound:g} %" if bound else label,
        tuple(
            Series(name, list(map(shown, of)), range(len(rows)), "points", colour, marker=marker)
            for name, of, colour, marker in marks
        ),
        title=name,
        categories=tuple(f"{row.what}, {number(row.reference)} {row.unit}".strip() for row in rows),
        x_scale="log" if is_wide else "linear",
        verticals=(1.0 if is_wide else 0.0,),
        band=(1 - bound, 1 + bound) if is_wide else (-100 * bound, 100 * bound),
        share=len(rows) + 1,
    )


def _shares(groups: Mapping[str, Sequence[Comparison]]) -> "Panel":
    """Cumulative shares of the rows of each group."""
    from carsim.report.figures import style
    from carsim.report.figures.plot import Dash, Panel, Series

    dashes: tuple[Dash, ...] = ("solid", "dash", "dot")
    looks = product(dashes, (style.BLUE, style.ORANGE, style.GREEN, style.PURPLE))
    series = []
    for (name, rows), (dash, colour) in zip(groups.items(), cycle(looks), strict=False):
        errors = sorted(max(LEAST, 100 * abs(row.error)) for row in rows)
        shares = [100 * (place + 1) / len(errors) for place in range(len(errors))]
        label = f"{name} ({len(rows)})"
        series.append(Series(label, errors, shares, "line", colour, dash=dash))
    worst = max(each.x[-1] or LEAST for each in series)
    return Panel(
        f"error of carsim [%]; at the left edge: {LEAST:g} % or less",
        tuple(series),
        "rows that err by no more [%]",
        x_range=(LEAST, 1.5 * worst),
        x_scale="log",
        y_range=(0, 102),
        share=12,
    )


def _share(error: float) -> Figure:
    """A relative error with its sign: two significant digits at least.

    >>> _share(-0.0312), _share(0.00017)
    ('-3.1 %', '+0.017 %')
    """
    digits = 1 if abs(error) >= 0.001 or error == 0 else 3
    return Figure(f"{100 * error:+.{digits}f} %", error)

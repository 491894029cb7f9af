"""Predictions beside others' figures: one rendering of comparisons for every output.

All parts of ``carsim validate`` give lists of :class:`carsim.metrics.Comparison`. This module shows
such a list as a table, as JSON and as a figure.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from math import fsum
from typing import Any

from carsim.base.text import Figure, Table, number
from carsim.metrics import Comparison
from carsim.report.figures import style
from carsim.report.figures.plot import Panel, Plot, Series

FEW = 30
"""Rows that are named; of more than these, figures show how many err by how much."""

WIDE = 1.0
"""Relative errors above this are drawn as ratios, on a logarithmic axis."""


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
) -> Plot:
    """Errors of carsim and of the rival: a panel per group of few rows, a line each.

    One more panel has a line for each further group, with the errors of all its rows.

    Args:
        title: Title of the figure.
        groups: Comparisons by the titles of their groups.
        counted: Groups whose rows are not named though they are few.
    """
    named = {n: rows for n, rows in groups.items() if len(rows) <= FEW and n not in counted}
    panels, drawn = [], set[Comparison]()
    for name, rows in named.items():
        if not drawn.issuperset(rows):  # a group may be part of another
            names = (f"{row.what}, {number(row.reference)} {row.unit}".strip() for row in rows)
            panels.append(
                _panel(name, [(what, [row]) for what, row in zip(names, rows, strict=True)])
            )
            drawn.update(rows)
    many = [
        (f"{n} ({len(rows)})", rows) for n, rows in groups.items() if not drawn.issuperset(rows)
    ]
    if many:
        panels.append(_panel("all rows of further groups", many))
    lines = fsum(panel.share for panel in panels)
    return Plot(
        title,
        tuple(panels),
        alt=f"Errors of carsim and of its rivals: {title}",
        size_in=(10, 0.9 + 0.7 * len(panels) + 0.24 * lines),
        columns=1,
    )


def _panel(title: str, lines: Sequence[tuple[str, Sequence[Comparison]]]) -> Panel:
    """A line per name, with a point for carsim and one for the rival of each of its rows."""
    rows = [row for _, of_line in lines for row in of_line]
    places = [place for place, (_, of_line) in enumerate(lines) for _ in of_line]
    ours, theirs = [row.error for row in rows], [row.rival_error for row in rows]
    bounds = {row.bound for row in rows}
    bound = bounds.pop() or 0.0 if len(bounds) == 1 else 0.0
    is_wide = max(abs(error) for error in (*ours, *theirs) if error is not None) > WIDE
    label = "predicted over reference" if is_wide else "error [%]"
    marks = (("rival", theirs, style.GREY, "x"), ("carsim", ours, style.BLUE, "o"))

    def shown(error: float | None) -> float | None:
        return None if error is None else 1 + error if is_wide else 100 * error

    return Panel(
        f"{label}; shaded: the bound, {100 * bound:g} %" if bound else label,
        tuple(
            Series(name, [*map(shown, errors)], places, "points", colour, marker=marker, size=4.5)
            for name, errors, colour, marker in marks
        ),
        title=title,
        categories=tuple(name for name, _ in lines),
        x_scale="log" if is_wide else "linear",
        verticals=(1.0 if is_wide else 0.0,),
        band=(1 - bound, 1 + bound) if is_wide else (-100 * bound, 100 * bound),
        share=len(lines) + 1,
    )


def _share(error: float) -> Figure:
    """A relative error with its sign: two significant digits at least.

    >>> _share(-0.0312), _share(0.00017)
    ('-3.1 %', '+0.017 %')
    """
    digits = 1 if abs(error) >= 0.001 or error == 0 else 3
    return Figure(f"{100 * error:+.{digits}f} %", error)

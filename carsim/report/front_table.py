"""The front of a study as a table, for terminals and pages."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from carsim.base.text import Figure, Table, count, quantity
from carsim.explore.robust import DRAWS
from carsim.hardware.expected import Expected
from carsim.metrics import METRICS
from carsim.metrics.metric import finite
from carsim.report.figures.pareto import heading
from carsim.report.run_words import on_a_board
from carsim.report.stored_study import StoredStudy, own_objectives

MOST_ROWS = 60
"""Rows of a table at most, and the knee; CSV and JSON have all."""


AT_END = 0.8
"""Share of a front at an end of an axis from which it is told: better designs may lie beyond."""

ROBUST = "robust"
"""Column with the share of draws of uncertain constants in which a point is on the front."""

ALIKE = "alike"
"""Column with the number of points that a row stands for, itself included."""

MOST_AXES = 6
"""Axes that stand before objectives at most."""


def front_table(study: StoredStudy) -> Table:
    """Points on the front by number, with axes and objectives; the knee is marked.

    After many axes, objectives would stand far from the numbers, so that they come first.
    """
    objectives = dict.fromkeys([*study.objectives, *own_objectives(study.facts)])
    columns = [*study.axes, *objectives]
    if len(study.axes) > MOST_AXES:
        columns = [*objectives, *study.axes]
    rows = study.representatives
    if study.within:
        columns.append(ALIKE)
    if ROBUST in rows:
        columns.append(ROBUST)
    if len(rows) > MOST_ROWS:  # from one end of the front to the other
        evenly_spaced = np.linspace(0, len(rows) - 1, MOST_ROWS).astype(int)
        rows = rows.iloc[np.union1d(evenly_spaced, np.flatnonzero(rows["knee"]))]
    has_knee = len(study.objectives) > 1
    names = []
    for point, is_knee in zip(rows["point"], rows["knee"], strict=True):
        names.append(f"{point} knee" if is_knee and has_knee else f"{point}")
    cells_of_columns = [_cells(column, list(map(finite, rows[column]))) for column in columns]
    return Table(
        ("point", *map(heading, columns)),
        tuple(zip(names, *cells_of_columns, strict=True)),
        strong=frozenset(np.flatnonzero(rows["knee"]).tolist()),
    )


def front_notes(study: StoredStudy) -> Iterator[str]:
    """Notes on the points in the table, a sentence or two each."""
    front = study.front
    different = len(study.representatives)
    if study.within:
        share = f"{100 * study.within:g} %"
        yield (
            f"{count(different, 'row')} for {count(len(front), 'point')}: each stands for those "
            f"that are at most {share} better in every objective (column {ALIKE})."
        )
    elif different < len(front):
        rows = count(different, "row")
        yield f"{rows} for {len(front):,} points: of those equal in all objectives, one."
    if ROBUST in front:
        yield _robustness(study)
    if different > MOST_ROWS:
        evenly = f"{MOST_ROWS} of {different:,} rows are shown, from one end to the other"
        yield f"{evenly}, and the knee; carsim report writes all to pareto.csv."
    fast = int((front["clock_ratio"] > 1).sum())
    if fast:
        clocks = count(fast, "point has a clock", "points have clocks")
        cure = "with clock_ratio <= 1 in its constraints, the study leaves them out"
        yield f"{clocks} beyond published designs; {cure}."
    if different > 1:
        yield from _points_at_ends(study)
    expected = study.facts.get("expected")
    if expected:
        yield f"{on_a_board(Expected(**expected))}."


def _robustness(study: StoredStudy) -> str:
    """A sentence on the points that stay on the front, and how that was found out."""
    shares = study.front[ROBUST]
    always = int((shares == 1).sum())
    of_all = f"{always:,} of {count(len(shares), 'point')}"
    return (
        f"{of_all} stay on the front in all of {DRAWS:,} draws of the constants of energy, "
        f"bandwidth and price; column {ROBUST} has the share of draws. A draw serves all points, "
        "so that common errors cancel."
    )


def _points_at_ends(study: StoredStudy) -> Iterator[str]:
    """Ends of axes at which most of the front lies; beyond them, it may be better."""
    for axis in study.axes:
        for end in study.facts.get("ends", {}).get(axis, ()):
            share = (study.front[axis] == end).mean()
            if share >= AT_END:
                yield f"{axis} is {end:,g}, an end of its axis, in {share:.0%} of the front."


def text_of(name: str, value: Any, digits: int = 4) -> str:
    """A value of a column as people read it."""
    value = finite(value)
    if name == ROBUST:
        return f"{100 * value:.4g} %"
    if name in METRICS:
        return METRICS[name].text(value, digits)
    return f"{value:,.6g}" if isinstance(value, float) else quantity(value)


def _cells(name: str, values: list[Any]) -> list[str]:
    """Values of a column in the fewest digits in which different ones look different."""
    for digits in range(4, 8):
        texts = [text_of(name, value, digits) for value in values]
        if len(set(texts)) == len(set(values)):
            break
    cells = []
    for text, value in zip(texts, values, strict=True):
        is_number = isinstance(value, int | float)
        cells.append(Figure(text, float(value)) if is_number else text)
    return cells

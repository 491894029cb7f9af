"""A first look at a large grid: the best of a few designs, before the bounds of all are known.

Bounds of a million designs take minutes. Until then, a few designs that are spread over the grid
say what figures to expect, and whether any of them meets the constraints. They are chosen by the
golden section, so that all axes vary from each to the next, and none is drawn. Their results are
not stored: the certified front counts its own evaluations.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np

from carsim.explore.evaluate import Row
from carsim.explore.grid import GridStudy
from carsim.explore.pareto import directions
from carsim.explore.points import held_constraints
from carsim.metrics import METRICS

LARGE = 50_000
"""Designs of a grid whose bounds take long enough for a first look."""

MOST_TRIED = 16
"""Designs of a first look. They take half a second."""

MOST_S = 4.0
"""Seconds after which no further design is tried."""

GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class FirstLook:
    """The best of a few designs of a grid.

    Attributes:
        tried: Designs that were evaluated.
        fitting: Those that fit their board and meet all constraints.
        objective: Objective that is looked at: the first of the study.
        best: Its best figure among the fitting designs; None if there are none.
        values: Values of the axes of the best design.
        others: Figures of the other objectives of the best design.
    """

    tried: int
    fitting: int
    objective: str
    best: float | None
    values: Mapping[str, Any]
    others: Mapping[str, Any]

    @property
    def text(self) -> str:
        """The best design of the first look, in one line."""
        tried = f"{self.tried} designs spread over the grid"
        if self.best is None:
            return f"none of {tried} fits and meets the constraints; bounds of all are next"
        axis_values = ", ".join(f"{name}={value}" for name, value in self.values.items())
        figures = {self.objective: self.best, **self.others}
        figure_texts = ", ".join(_told(name, value) for name, value in figures.items())
        return (
            f"{self.fitting} of {tried} fit and meet the constraints; the best has {figure_texts} "
            f"({axis_values}); bounds of all are next"
        )


def first_look(grid: GridStudy, stop: Callable[[], bool]) -> FirstLook | None:
    """Evaluate a few designs of a large grid; None for a small one.

    Args:
        grid: The grid.
        stop: True once nothing more shall begin.
    """
    passing = np.flatnonzero(grid.passing())
    n_designs = len(passing)
    if n_designs < LARGE:
        return None
    signs = directions(grid.study.objectives)
    objective, sign = next(iter(signs.items()))
    until = monotonic() + MOST_S
    tried = 0
    fitting: list[tuple[float, int, Mapping[str, Any], Row]] = []
    while tried < MOST_TRIED and monotonic() < until and not stop():
        # Multiples of the golden ratio, modulo 1, spread evenly however many are tried.
        ordinal = int(n_designs * (tried * GOLDEN % 1))
        point = grid.point(int(passing[ordinal]), ordinal)
        row = grid.evaluated(point)
        tried += 1
        figure = row.get(objective)
        if row["status"] != "ok" or figure is None:
            continue
        if all(held_constraints(grid.study, point, row)):
            fitting.append((sign * figure, ordinal, point.values, row))
    if not fitting:
        return FirstLook(tried, 0, objective, best=None, values={}, others={})
    _, _, values, row = min(fitting, key=lambda design: design[:2])
    return FirstLook(
        tried,
        len(fitting),
        objective,
        best=row[objective],
        values=values,
        others={name: row.get(name) for name in signs if name != objective},
    )


def _told(name: str, value: Any) -> str:
    """A figure with its name and unit."""
    metric = METRICS[name]
    unit = "" if metric.unit in ("share", "x") else metric.unit
    return f"{name} {metric.text(value)} {unit}".rstrip()

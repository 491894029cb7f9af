"""The Pareto front of a study: every pair of objectives, the front among all points."""

from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from carsim.explore.metrics import METRICS
from carsim.report.figures import style

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

MOST_OBJECTIVES = 4
"""Of which all pairs still fit on a page; further ones are left out of the plot."""


class ParetoNumbers(NamedTuple):
    """What the figure shows. P points, F of them on the front, M objectives.

    Attributes:
        title: Of the figure.
        objectives: Columns, first the ones that matter most.
        better: ``min`` or ``max`` of each.
        points: Every point that counts, float[P, M].
        front: The points on the front, float[F, M].
        knee: Place of the knee on the front.
    """

    title: str
    objectives: tuple[str, ...]
    better: tuple[str, ...]
    points: NDArray[np.float64]
    front: NDArray[np.float64]
    knee: int


def pareto_numbers(
    title: str, feasible: "pd.DataFrame", front: "pd.DataFrame", objectives: "Mapping[str, str]"
) -> ParetoNumbers:
    """The numbers of the figure.

    Args:
        title: Name of the study.
        feasible: All points that count.
        front: Those on the front, with the column ``knee``.
        objectives: Column -> ``min`` or ``max``; at least two.
    """
    shown = dict(list(objectives.items())[:MOST_OBJECTIVES])
    names = list(shown)
    points = feasible[names].to_numpy(np.float64)
    left_out = len(objectives) - len(shown)
    further = f" ({left_out} further objectives not shown)" if left_out else ""
    return ParetoNumbers(
        f"{title}: {len(front):,} of {len(points):,} points are on the front of "
        f"{len(objectives)} objectives{further}",
        tuple(names),
        tuple(shown.values()),
        points[np.isfinite(points).all(axis=1)],
        front[names].to_numpy(np.float64),
        int(np.flatnonzero(front["knee"])[0]),
    )


def draw_pareto(numbers: ParetoNumbers) -> Figure:
    """A panel per pair of objectives."""
    pairs = list(combinations(range(len(numbers.objectives)), 2))
    columns = min(3, len(pairs))
    rows = -(-len(pairs) // columns)
    with style.style():
        figure = style.new_figure(
            max(6.5, 3.6 * columns), 0.9 + 3.1 * rows, numbers.title, misfit=False
        )
        grid = list(figure.subplots(rows, columns, squeeze=False).flat)
        for axes, (x, y) in zip(grid, pairs, strict=False):
            _draw_pair(axes, numbers, x, y)
        for axes in grid[len(pairs) :]:
            axes.set_visible(False)
        handles, labels = grid[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return figure


def _draw_pair(axes: Axes, numbers: ParetoNumbers, x: int, y: int) -> None:
    axes.plot(
        numbers.points[:, x],
        numbers.points[:, y],
        ".",
        color=style.GREY,
        alpha=0.5,
        markersize=4,
        label="dominated",
        rasterized=True,
    )
    front = numbers.front
    if len(numbers.objectives) == 2:
        steps = front[np.lexsort((front[:, y], front[:, x]))]
        # What a pair of neighbours promises together is the worse of both in each objective.
        where = "post" if numbers.better[y] == "min" else "pre"
        if numbers.better[x] == "max":
            where = "pre" if where == "post" else "post"
        axes.step(steps[:, x], steps[:, y], where=where, color=style.BLUE, linewidth=0.8)  # type: ignore[arg-type]
    axes.plot(front[:, x], front[:, y], "o", color=style.BLUE, markersize=4, label="on the front")
    axes.plot(
        front[numbers.knee, x],
        front[numbers.knee, y],
        "D",
        color=style.VERMILION,
        markersize=8,
        markerfacecolor="none",
        markeredgewidth=1.6,
        label="knee",
    )
    axes.set_xlabel(_label(numbers, x))
    axes.set_ylabel(_label(numbers, y))
    axes.grid()


def _label(numbers: ParetoNumbers, index: int) -> str:
    name, better = numbers.objectives[index], numbers.better[index]
    arrow = "less is better" if better == "min" else "more is better"
    meaning = METRICS[name].meaning if name in METRICS else ""
    short = meaning if len(meaning) <= 34 else ""
    return f"{name}, {arrow}" + (f"\n{short}" if short else "")

"""Points of a study in the plane of two of their figures, with their Pareto front."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from carsim.base.text import count, quantity
from carsim.explore.frame import origin_note
from carsim.explore.pareto import pareto
from carsim.metrics import METRICS
from carsim.report.figures import style
from carsim.report.figures.plot import DASHES, Panel, Plot, Series, scale_of

if TYPE_CHECKING:
    import pandas as pd

    from carsim.report.stored_study import StoredStudy

MOST_DRAWN = 4000
"""Points that a chart shows beside the front; of more, an even choice is drawn, and it says so."""

COLOURS = (
    *(style.BLUE, style.ORANGE, style.GREEN, style.PURPLE),
    *(style.SKY, style.VERMILION, style.YELLOW, style.GREY),
)

SECTIONS = ("board", "machine", "model", "policy", "energy", "video")
"""Sections of a design, and of what is decoded, that fields of axes are in."""


def heading(name: str) -> str:
    """A column of a study as people read it: the title of a metric with its unit, or of an axis.

    >>> heading("seconds_per_video"), heading("machine.array.rows"), heading("my choice")
    ('time per video [s]', 'array rows', 'my choice')
    """
    return METRICS[name].heading if name in METRICS else axis_title(name)


def axis_title(name: str) -> str:
    """An axis in words: the path of a field without the section that it is in.

    >>> axis_title("policy.tau"), axis_title("board.memories.hbm.ports.count"), axis_title("cores")
    ('tau', 'memories hbm ports count', 'cores')
    """
    section, dot, field = name.partition(".")
    return field.replace(".", " ").replace("_", " ") if dot and section in SECTIONS else name


def front_plot(studies: "Mapping[str, StoredStudy]") -> Plot:
    """Fronts in the first two objectives of the first study; of a single study all points, too.

    Args:
        studies: Studies by the names that the legend shows.
    """
    name, first = next(iter(studies.items()))
    shown = list(first.objectives)[:2]
    x, y = shown if len(shown) > 1 else (first.axes[0], shown[0])
    if first.counted[x].dtype.kind not in "iuf":
        x = "point"
    objectives = {each: first.objectives[each] for each in shown}
    if len(studies) == 1:
        on_front = f"{len(first.front):,} of {count(len(first.counted), 'point')} on the front"
        title = f"{name}: {on_front}{first.so_far}. {origin_note(first.counted)}".removesuffix(". ")
        series = _points(first, objectives, x, y)
    else:
        title, series = "Pareto fronts", []
        looks = zip(COLOURS, cycle(("o", "s", "^", "d")), cycle(DASHES), strict=False)
        for (name, study), (colour, marker, dash) in zip(studies.items(), looks, strict=False):
            front = pareto(study.counted, objectives)
            series.append(replace(_line(front, objectives, x, y), colour=colour, dash=dash))
            series.append(_marks(name, study, front, x, y, colour, marker=marker, size=4))
    names = _label(x, objectives), _label(y, objectives)
    scales = [scale_of(getattr(each, end) for each in series) for end in "xy"]
    panel = Panel(names[0], tuple(series), names[1], x_scale=scales[0], y_scale=scales[1])
    return Plot(title, (panel,), alt="Pareto fronts", size_in=(6.5, 4.0))


def _points(study: "StoredStudy", objectives: Mapping[str, str], x: str, y: str) -> list[Series]:
    """All points of a study, its front and its knee; the line is the front of these two alone."""
    points, front = study.counted if len(study.front) else study.fitting, study.front
    drawn = points.iloc[:: max(1, -(-len(points) // MOST_DRAWN))]  # an even choice
    some = f" ({len(drawn):,} points drawn)" if len(drawn) < len(points) else ""
    name = f"not on the front, {len(points) - len(front):,}{some}"
    series = [_marks(name, study, drawn, x, y, style.GREY, size=2)]
    if len(objectives) == 2 and len(front):
        line = _line(pareto(points, objectives), objectives, x, y)
        is_apart = len(study.objectives) > 2
        series.append(replace(line, name="front of these two alone" if is_apart else ""))
    third = [*study.objectives][2:3]
    shade = {"shade": front[third[0]].tolist(), "shade_label": heading(third[0])} if third else {}
    name = f"on the front{study.so_far}, {len(front):,}"
    series.append(_marks(name, study, front, x, y, style.BLUE, size=4, **shade))
    look: dict[str, Any] = {"size": 10, "marker": "d", "hollow": True}
    name = " ".join(["knee, point", *map(str, study.knee["point"])])
    return [*series, _marks(name, study, study.knee, x, y, style.VERMILION, **look)]


def _marks(
    name: str, study: "StoredStudy", of: "pd.DataFrame", x: str, y: str, colour: str, **look: Any
) -> Series:
    """Points of a study; the pointer shows number, axes and objectives of each."""
    known = of[np.isfinite(of[[x, y]].to_numpy(np.float64)).all(axis=1)]
    told = ["point", *study.axes, *study.objectives]
    hover = [
        ", ".join(f"{heading(each)} {quantity(value)}" for each, value in row.items())
        for row in known[told].to_dict("records")
    ]
    look |= {"hover": hover, "keys": known["point"].tolist()}
    return Series(name, known[x].tolist(), known[y].tolist(), "points", colour, **look)


def _line(front: "pd.DataFrame", objectives: Mapping[str, str], x: str, y: str) -> Series:
    """Steps through the front of two objectives: along them, no pair of values is dominated.

    What two neighbours promise together is the worse of both in each objective.
    """
    corners: list[tuple[float, float]] = []
    for point in front.sort_values([x, y])[[x, y]].itertuples(index=False):
        at, height = float(point[0]), float(point[1])
        if corners:
            last_x, last_y = corners[-1]
            corners.append((at, last_y) if objectives[x] == "min" else (last_x, height))
        corners.append((at, height))
    return Series("", [x for x, _ in corners], [y for _, y in corners], "line", style.BLUE)


def _label(name: str, objectives: Mapping[str, str]) -> str:
    better = {"min": ", less is better", "max": ", more is better", "": ""}
    return heading(name) + better[objectives.get(name, "")]

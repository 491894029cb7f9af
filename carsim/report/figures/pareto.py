"""Points of a study in the plane of two of their figures, with their Pareto front."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from carsim.base.text import count, quantity
from carsim.explore.frame import origin_note
from carsim.explore.pareto import pareto
from carsim.metrics import METRICS
from carsim.report.figures import style
from carsim.report.figures.plot import DASHES, Panel, Plot, Scale, Series, scale_of
from carsim.report.figures.policy_looks import looks_by_policy

if TYPE_CHECKING:
    import pandas as pd

    from carsim.report.stored_study import StoredStudy

MOST_DRAWN = 4000
"""Points that a chart shows beside the front; of more, an even choice is drawn, and it says so."""

OFF_FRONT, ON_FRONT, KNEE = "not on the front", "on the front", "knee"
"""Begin the names of the series of points."""

MOST_CONTEXT, CONTEXT, MARGIN = 4.0, 0.4, 0.05
"""Spans of the front that an axis may have; spans that it has on either side of a front that would
be smaller; and room beyond both, as a share of the axis."""

Range = tuple[float, float] | None

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
            knee = front[front["knee"].astype(bool)]
            look: dict[str, Any] = {"size": 9, "marker": "d", "hollow": True}
            look["text"] = [f"point {number}" for number in knee["point"]]
            series.append(_marks(f"{KNEE} of {name}", study, knee, x, y, colour, **look))
    names = _label(x, objectives), _label(y, objectives)
    panel = viewed(*names, series)
    return Plot(title, (panel,), alt="Pareto fronts", size_in=(6.5, 4.0))


def viewed(x_label: str, y_label: str, series: Sequence[Series]) -> Panel:
    """Series on axes that the front fills; the legend says how many points lie beyond.

    The axes show the front of both objectives and the knee. If that leaves out most points of the
    front, which a third objective can spread, the axes show these points, too.
    """
    narrow = [each for each in series if each.mark == "line" or each.name.startswith(KNEE)]
    on_front = [each for each in series if each.name.startswith(ON_FRONT)]
    panel = _panel(x_label, y_label, series, narrow)
    fronted = {key for each in on_front for key in each.keys}
    if len(_beyond(panel) & fronted) > len(fronted) / 2:
        panel = _panel(x_label, y_label, series, [*narrow, *on_front])
    beyond = len(_beyond(panel))
    if not beyond:
        return panel
    note = Series(f"{beyond:,} beyond the axes", [None], [None], "points", style.LIGHT_GREY, size=2)
    return replace(panel, series=(*panel.series, note))


def _panel(x_label: str, y_label: str, series: Sequence[Series], focus: Sequence[Series]) -> Panel:
    """Axes that show some of the series, and what is near."""
    x_range, x_scale = _view(series, focus, "x")
    y_range, y_scale = _view(series, focus, "y")
    return Panel(
        x_label,
        tuple(series),
        y_label,
        x_range=x_range,
        y_range=y_range,
        x_scale=x_scale,
        y_scale=y_scale,
    )


def _view(
    series: Sequence[Series], focus: Sequence[Series], axis: Literal["x", "y"]
) -> tuple[Range, Scale]:
    """Ends and scale of an axis that shows a focus, and what is near.

    Points far away would squeeze the focus into a dot. They are left outside if all points together
    span more than :data:`MOST_CONTEXT` times what the focus spans.
    """
    every = _positions(series, axis)
    front = _positions(focus, axis)
    scale = scale_of([every])
    if not front:
        return None, scale
    if scale == "log":
        every, front = np.log10(every).tolist(), np.log10(front).tolist()
    # A front of a single value has no span of its own.
    span = max(front) - min(front) or max(every) - min(every) or abs(front[0]) or 1.0
    first, last = min(every), max(every)
    if last - first > MOST_CONTEXT * span:
        first = max(first, min(front) - CONTEXT * span)
        last = min(last, max(front) + CONTEXT * span)
    room = MARGIN * (last - first or span)
    ends = first - room, last + room
    return (10 ** ends[0], 10 ** ends[1]) if scale == "log" else ends, scale


def _positions(series: Sequence[Series], axis: Literal["x", "y"]) -> list[float]:
    return [at for each in series for at in getattr(each, axis) if at is not None]


def _beyond(panel: Panel) -> set[int]:
    """Numbers of the points that lie outside of the axes."""
    if panel.x_range is None or panel.y_range is None:
        return set()
    (left, right), (low, high) = panel.x_range, panel.y_range
    return {
        key
        for series in panel.series
        for key, x, y in zip(series.keys, series.x, series.y, strict=False)
        if x is not None and y is not None and not (left <= x <= right and low <= y <= high)
    }


def _points(study: "StoredStudy", objectives: Mapping[str, str], x: str, y: str) -> list[Series]:
    """All points of a study, its front and its knee; the line is the front of these two alone."""
    points, front = study.counted if len(study.front) else study.fitting, study.front
    drawn = points.iloc[:: max(1, -(-len(points) // MOST_DRAWN))]  # an even choice
    some = f" ({len(drawn):,} points drawn)" if len(drawn) < len(points) else ""
    name = f"{OFF_FRONT}, {len(points) - len(front):,}{some}"
    series = [_marks(name, study, drawn, x, y, style.GREY, size=2)]
    if len(objectives) == 2 and len(front):
        line = _line(pareto(points, objectives), objectives, x, y)
        is_apart = len(study.objectives) > 2
        series.append(replace(line, name="front of these two alone" if is_apart else ""))
    third = [*study.objectives][2:3]
    shade: dict[str, Any] = {}
    if third:
        shade = {"shade": front[third[0]].tolist(), "shade_label": heading(third[0])}
    name = f"{ON_FRONT}{study.so_far}, {len(front):,}"
    if len(study.policies) > 1:
        series += _policy_marks(study, x, y)
    else:
        series.append(_marks(name, study, front, x, y, style.BLUE, size=4, **shade))
    look: dict[str, Any] = {"size": 10, "marker": "d", "hollow": True}
    name = " ".join([f"{KNEE}, point", *map(str, study.knee["point"])])
    look["text"] = [f"knee, point {number}" for number in study.knee["point"]]
    return [*series, _marks(name, study, study.knee, x, y, style.VERMILION, **look)]


def _policy_marks(study: "StoredStudy", x: str, y: str) -> list[Series]:
    """The front of a study of several policies: a series for each policy, in its own look.

    A third objective is then shown by the pointer alone.
    """
    front = study.front
    looks = looks_by_policy(study.policies)
    series = []
    for name, points in front.groupby("policy_name", sort=True):
        look = looks[str(name)]
        title = f"{ON_FRONT}{study.so_far}: {name}, {len(points):,}"
        drawn = _marks(title, study, points, x, y, look.colour, marker=look.marker, size=4.5)
        series.append(drawn)
    return series


def _marks(
    name: str, study: "StoredStudy", of: "pd.DataFrame", x: str, y: str, colour: str, **look: Any
) -> Series:
    """Points of a study; the pointer shows number, axes and objectives of each."""
    known = of[np.isfinite(of[[x, y]].to_numpy(np.float64)).all(axis=1)]
    told = ["point", *study.axes, *study.objectives]
    if len(study.policies) > 1:
        told.append("policy_name")
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

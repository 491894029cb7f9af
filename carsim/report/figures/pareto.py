"""Points of a study in the plane of two of their figures, with their Pareto front."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from typing import TYPE_CHECKING, Literal

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

OFF_FRONT = "not on the front"
ON_FRONT = "on the front"
KNEE = "knee"
"""Begin the names of the series of points."""

MOST_CONTEXT = 4.0
"""An axis shows all points if they span at most this many times what the front spans."""
CONTEXT = 0.4
"""Else it shows this much on either side of the front, over what the front spans."""
MOST_SPREAD = 10.0
"""An axis shows a front that a third objective spreads to this many times the front of two."""
MARGIN = 0.05
"""Empty room at both ends of an axis, as a share of its length."""

FRONT_MARKERS = ("o", "s", "^", "d")
"""Markers of fronts of several studies, in order."""

Range = tuple[float, float] | None
AxisName = Literal["x", "y"]

COLOURS = (
    style.BLUE,
    style.ORANGE,
    style.GREEN,
    style.PURPLE,
    style.SKY,
    style.VERMILION,
    style.YELLOW,
    style.GREY,
)
"""Colours of fronts of several studies, in order."""

SECTIONS = ("board", "machine", "model", "policy", "energy", "video")
"""Sections of a design, and of what is decoded, that fields of axes are in."""


@dataclass(frozen=True)
class Plane:
    """The plane of two columns of a study.

    Attributes:
        x: Column of the horizontal axis.
        y: Column of the vertical axis.
        objectives: Metric -> ``min`` or ``max``, of those columns that are objectives.
    """

    x: str
    y: str
    objectives: Mapping[str, str]

    def label(self, column: str) -> str:
        """The label of the axis of a column, which says whether less or more is better."""
        direction = self.objectives.get(column)
        if direction is None:
            return heading(column)
        better = "less" if direction == "min" else "more"
        return f"{heading(column)}, {better} is better"


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
    if dot and section in SECTIONS:
        return field.replace(".", " ").replace("_", " ")
    return name


def front_plot(studies: "Mapping[str, StoredStudy]") -> Plot:
    """Fronts in the first two objectives of the first study; of a single study all points, too.

    Args:
        studies: Studies by the names that the legend shows.
    """
    name, first = next(iter(studies.items()))
    plane = _plane(first)
    if len(studies) == 1:
        on_front = f"{len(first.front):,} of {count(len(first.counted), 'point')} on the front"
        title = f"{name}: {on_front}{first.so_far}. {origin_note(first.counted)}".removesuffix(". ")
        series = _series_of_study(first, plane)
    else:
        title = "Pareto fronts"
        series = []
        looks = zip(COLOURS, cycle(FRONT_MARKERS), cycle(DASHES), strict=False)
        for (label, study), look in zip(studies.items(), looks, strict=False):
            colour, marker, dash = look
            front = pareto(study.counted, plane.objectives)
            line = _line(front, plane)
            points = _points(label, study, front, plane)
            knee = _knee_of(label, study, front, plane)
            series.append(replace(line, colour=colour, dash=dash))
            series.append(replace(points, colour=colour, marker=marker, size=4))
            series.append(replace(knee, colour=colour))
    panel = viewed(plane.label(plane.x), plane.label(plane.y), series)
    return Plot(title, (panel,), alt="Pareto fronts", size_in=(6.5, 4.0))


def _plane(study: "StoredStudy") -> Plane:
    """The plane of the first two objectives of a study.

    If there is one objective, it is drawn over the study's first axis, or over the numbers of
    points if that axis has no numbers.
    """
    names = list(study.objectives)[:2]
    if len(names) == 2:
        x, y = names
    else:
        x = study.axes[0]
        y = names[0]
    if study.counted[x].dtype.kind not in "iuf":
        x = "point"
    return Plane(x, y, objectives={name: study.objectives[name] for name in names})


def viewed(x_label: str, y_label: str, series: Sequence[Series]) -> Panel:
    """Series on axes that the front fills; the legend says how many points lie beyond.

    The axes show the front of both objectives and the knee. A third objective can spread the front
    further. The axes show all of it unless that would squeeze the front of both into a dot, and
    most points of the front are in sight without.
    """
    on_front = [drawn for drawn in series if drawn.name.startswith(ON_FRONT)]
    focus = [drawn for drawn in series if drawn.mark == "line" or drawn.name.startswith(KNEE)]
    panel = _panel(x_label, y_label, series, focus)
    front_points = {point for drawn in on_front for point in drawn.keys}
    missed = _beyond(panel) & front_points
    is_most = len(missed) > len(front_points) / 2
    if missed and (is_most or not _is_squeezed(focus, on_front, panel)):
        panel = _panel(x_label, y_label, series, [*focus, *on_front])
        missed = _beyond(panel) & front_points
    beyond = len(_beyond(panel))
    if not beyond:
        return panel
    name = f"{beyond:,} beyond the axes"
    if missed:
        name += f", {len(missed):,} of them on the front"
    # A series without a point is an entry of the legend, and nothing else.
    note = Series(name, [None], [None], "points", style.LIGHT_GREY, size=2)
    return replace(panel, series=(*panel.series, note))


def _is_squeezed(focus: Sequence[Series], on_front: Sequence[Series], panel: Panel) -> bool:
    """Whether axes of the whole front would squeeze the series in focus into a dot.

    Args:
        focus: Series that the axes have to show.
        on_front: The whole front.
        panel: Gives the scales of the axes.
    """
    scales: dict[AxisName, Scale] = {"x": panel.x_scale, "y": panel.y_scale}
    for axis, scale in scales.items():
        focus_span = _span(_positions(focus, axis), scale)
        front_span = _span(_positions([*focus, *on_front], axis), scale)
        if focus_span and front_span > MOST_SPREAD * focus_span:
            return True
    return False


def _span(positions: Sequence[float], scale: Scale) -> float:
    """Distance from the first to the last position on an axis of this scale."""
    if scale == "log":
        return math.log10(max(positions) / min(positions))
    return max(positions) - min(positions)


def _panel(x_label: str, y_label: str, series: Sequence[Series], focus: Sequence[Series]) -> Panel:
    """Series on axes that show the series ``focus`` in full, and what is near."""
    x_range, x_scale = _range_and_scale(series, focus, "x")
    y_range, y_scale = _range_and_scale(series, focus, "y")
    return Panel(
        x_label,
        tuple(series),
        y_label,
        x_range=x_range,
        y_range=y_range,
        x_scale=x_scale,
        y_scale=y_scale,
    )


def _range_and_scale(
    series: Sequence[Series], focus: Sequence[Series], axis: AxisName
) -> tuple[Range, Scale]:
    """Ends and scale of an axis that shows the points of ``focus``, and what is near.

    Points far away would squeeze the focus into a dot. They are left outside if all points together
    span more than :data:`MOST_CONTEXT` times what the focus spans.

    Returns:
        The ends, in the unit of the axis, or None if there is no point in focus; and the scale.
    """
    positions = _positions(series, axis)
    in_focus = _positions(focus, axis)
    scale = scale_of([positions])
    if not in_focus:
        return None, scale
    if scale == "linear":
        return _focused_range(positions, in_focus), scale
    # Distances on a logarithmic axis are those of the logarithms.
    low, high = _focused_range(np.log10(positions).tolist(), np.log10(in_focus).tolist())
    return (10**low, 10**high), scale


def _focused_range(positions: Sequence[float], in_focus: Sequence[float]) -> tuple[float, float]:
    """Ends of an axis around all positions, or around those in focus if the others are far away."""
    first = min(positions)
    last = max(positions)
    focus_first = min(in_focus)
    focus_last = max(in_focus)
    # A front of a single value has no span of its own.
    focus_span = focus_last - focus_first or last - first or abs(in_focus[0]) or 1.0
    if last - first > MOST_CONTEXT * focus_span:
        first = max(first, focus_first - CONTEXT * focus_span)
        last = min(last, focus_last + CONTEXT * focus_span)
    margin = MARGIN * (last - first or focus_span)
    return first - margin, last + margin


def _positions(series: Sequence[Series], axis: AxisName) -> list[float]:
    """Coordinates of all points of the series on one axis."""
    positions: list[float] = []
    for drawn in series:
        coordinates = drawn.x if axis == "x" else drawn.y
        positions += [coordinate for coordinate in coordinates if coordinate is not None]
    return positions


def _beyond(panel: Panel) -> set[int]:
    """Numbers of the points that lie outside of the axes."""
    if panel.x_range is None or panel.y_range is None:
        return set()
    left, right = panel.x_range
    bottom, top = panel.y_range
    beyond = set()
    for series in panel.series:
        for point, x, y in zip(series.keys, series.x, series.y, strict=False):
            if x is None or y is None:
                continue
            is_inside = left <= x <= right and bottom <= y <= top
            if not is_inside:
                beyond.add(point)
    return beyond


def _series_of_study(study: "StoredStudy", plane: Plane) -> list[Series]:
    """All points of a study, its front and its knee.

    The line is the front of the two objectives of the plane. A study of three objectives has
    points on its front that lie beside this line.
    """
    front = study.front
    points = study.counted if len(front) else study.fitting
    series = [_off_front(study, points, plane)]
    if len(plane.objectives) == 2 and len(front):
        line = _line(pareto(points, plane.objectives), plane)
        has_third = len(study.objectives) > 2
        series.append(replace(line, name="front of these two alone" if has_third else ""))
    if len(study.policies) > 1:
        series += _front_by_policy(study, plane)
    else:
        series.append(_front_of_one_policy(study, plane))
    numbers = [str(number) for number in study.knee["point"]]
    labels = [f"knee, point {number}" for number in numbers]
    name = " ".join([f"{KNEE}, point", *numbers])
    knee = replace(_points(name, study, study.knee, plane), text=labels)
    series.append(replace(knee, colour=style.VERMILION, size=10, marker="d", hollow=True))
    return series


def _off_front(study: "StoredStudy", points: "pd.DataFrame", plane: Plane) -> Series:
    """The points of a study, or an even choice of them if they are many.

    The name tells how many of them are not on the front.
    """
    step = max(1, math.ceil(len(points) / MOST_DRAWN))
    drawn = points.iloc[::step]
    name = f"{OFF_FRONT}, {len(points) - len(study.front):,}"
    if len(drawn) < len(points):
        name += f" ({len(drawn):,} points drawn)"
    return replace(_points(name, study, drawn, plane), colour=style.GREY, size=2)


def _front_of_one_policy(study: "StoredStudy", plane: Plane) -> Series:
    """The front of a study; a third objective, if there is one, gives the colours of its points."""
    front = study.front
    name = f"{ON_FRONT}{study.so_far}, {len(front):,}"
    points = replace(_points(name, study, front, plane), colour=style.BLUE, size=4)
    objectives = list(study.objectives)
    if len(objectives) < 3:
        return points
    third = objectives[2]
    return replace(points, shade=front[third].tolist(), shade_label=heading(third))


def _front_by_policy(study: "StoredStudy", plane: Plane) -> list[Series]:
    """The front of a study of several policies: a series for each policy, in its own look.

    A third objective is then shown by the pointer alone.
    """
    looks = looks_by_policy(study.policies)
    series = []
    for policy, points in study.front.groupby("policy_name", sort=True):
        look = looks[str(policy)]
        name = f"{ON_FRONT}{study.so_far}: {policy}, {len(points):,}"
        drawn = _points(name, study, points, plane)
        series.append(replace(drawn, colour=look.colour, marker=look.marker, size=4.5))
    return series


def _knee_of(label: str, study: "StoredStudy", front: "pd.DataFrame", plane: Plane) -> Series:
    """The knee of a front among the fronts of other studies, as a ring with its number."""
    knee = front[front["knee"].astype(bool)]
    labels = [f"point {number}" for number in knee["point"]]
    points = _points(f"{KNEE} of {label}", study, knee, plane)
    return replace(points, text=labels, size=9, marker="d", hollow=True)


def _points(name: str, study: "StoredStudy", rows: "pd.DataFrame", plane: Plane) -> Series:
    """Points of a study, in black; the pointer shows number, axes and objectives of each.

    Points without a number on one of the two axes are left out.

    Args:
        name: Name of the series.
        study: The study, which says what the pointer shows.
        rows: A row per point.
        plane: The columns to draw.
    """
    has_place = np.isfinite(rows[[plane.x, plane.y]].to_numpy(np.float64)).all(axis=1)
    placed = rows[has_place]
    columns = ["point", *study.axes, *study.objectives]
    if len(study.policies) > 1:
        columns.append("policy_name")
    hover = []
    for row in placed[columns].to_dict("records"):
        texts = [f"{heading(str(column))} {quantity(value)}" for column, value in row.items()]
        hover.append(", ".join(texts))
    return Series(
        name,
        x=placed[plane.x].tolist(),
        y=placed[plane.y].tolist(),
        mark="points",
        colour=style.BLACK,
        hover=hover,
        keys=placed["point"].tolist(),
    )


def _line(front: "pd.DataFrame", plane: Plane) -> Series:
    """Steps through the front of two objectives: along them, no pair of values is dominated.

    What two neighbours promise together is the worse of both in each objective. So a step turns
    at the larger ``x`` and the larger ``y`` if both are to be small.

    Args:
        front: Points of the front.
        plane: Its two objectives.
    """
    corners_x: list[float] = []
    corners_y: list[float] = []
    for row in front.sort_values([plane.x, plane.y])[[plane.x, plane.y]].itertuples(index=False):
        x = float(row[0])
        y = float(row[1])
        if corners_x:
            if plane.objectives[plane.x] == "min":
                corners_x.append(x)
                corners_y.append(corners_y[-1])
            else:
                corners_x.append(corners_x[-1])
                corners_y.append(y)
        corners_x.append(x)
        corners_y.append(y)
    return Series("", corners_x, corners_y, "line", style.BLUE)

"""The points of a study as columns that the explorer of a page and of the studio draws.

Numbers are packed in binary: an axis of few values takes a byte or two per point, an objective
four. So 20,000 points of ten columns take about 1 MB of a page.

Families: points of the front whose objectives all differ by less than :data:`SAME` are one family.
Published measurements of the same work on the same chip differ by as much, so that no board would
tell them apart. The first family is led by the best point of the first objective, and holds all
points that are as good as its leader; the next is led by the best of the others.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.base.text import Figure, Table, quantity
from carsim.base.yaml_file import mapping_of
from carsim.explore.axis import PSEUDO_PATHS, Axis, parse_axis, value_of_cell
from carsim.explore.study import StudyFile
from carsim.hardware.expected import LEAST_SD
from carsim.metrics import METRICS, PHASES
from carsim.report.figures.pareto import heading
from carsim.report.figures.plot import scale_of, scale_of_choices
from carsim.report.figures.policy_looks import looks_by_policy, policy_look
from carsim.report.front_table import text_of
from carsim.report.stored_study import StoredStudy

if TYPE_CHECKING:
    import pandas as pd

SAME = LEAST_SD
"""Relative difference below which two points are equal."""

MOST_CODES = 256
"""Values of a column that is stored as their numbers; a column of more numbers holds themselves."""

MOST_BINS = 8
"""Groups of equally many points that an axis of more values is judged by."""

LEAST_WORTH = 0.0005
"""An axis that is worth less is shown as worth 0.0 %."""

Json = dict[str, Any]


def explorer(study: StoredStudy) -> Json | None:
    """The document that ``explorer.js`` draws; None if no point counts.

    Args:
        study: The study.

    Raises:
        InputError: An objective or a constraint that is none.
    """
    points = study.counted
    if points.empty:
        return None
    front = study.front
    rank = np.isin(points["point"], front["point"]).astype(np.int64)
    rank += np.isin(points["point"], study.knee["point"])
    axes = _axes(study)
    columns = [_axis_column(points[name], axes.get(name)) for name in study.axes]
    columns += [_figure_column(points[name], way) for name, way in study.objectives.items()]
    return {
        "points": len(points),
        "numbers": packed(points["point"].to_numpy(np.uint32)),
        "rank": packed(rank.astype(np.uint8)),
        "family": packed(_family_of_points(study, points).astype(np.uint16)),
        "same": SAME,
        "columns": columns,
        "objectives": [*study.objectives],
        "times": _times(points),
        "limit": _codes(points["limit"].astype(str)) if "limit" in points else None,
        "policy": _policies(study),
        "command": _command(study),
        "name": study.name,
        "so_far": study.so_far.strip(),
    }


def packed(numbers: NDArray[Any]) -> Json:
    """An array of numbers in little-endian binary.

    >>> packed(np.array([1, 2], np.uint8))
    {'dtype': 'uint8', 'base64': 'AQI='}
    """
    little = numbers.astype(numbers.dtype.newbyteorder("<"))
    return {"dtype": numbers.dtype.name, "base64": base64.b64encode(little.tobytes()).decode()}


def _codes(values: "pd.Series[Any]", order: Sequence[Any] = ()) -> Json:
    """Values as numbers of the different ones, which are texts."""
    labels = [*order] or sorted(values.unique().tolist())
    number_of = {label: number for number, label in enumerate(labels)}
    numbers = np.array([number_of[value] for value in values])
    small = np.uint8 if len(labels) <= MOST_CODES else np.uint32
    return {"labels": list(map(str, labels)), "codes": packed(numbers.astype(small))}


def _axis_column(values: "pd.Series[Any]", axis: Axis | None) -> Json:
    """A column of an axis: its numbers or names, and what each sets in a command."""
    name = str(values.name)
    column: Json = {"name": name, "title": heading(name), "kind": "axis"}
    distinct = values.unique().tolist()
    if values.dtype.kind in "iuf":
        distinct.sort()
        column["scale"] = scale_of_choices(distinct)
        if len(distinct) > MOST_CODES:
            return column | {"values": packed(values.to_numpy(np.float64))}
        column["ticks"] = distinct
    else:
        column["scale"] = "category"
    if axis is not None:
        column["sets"] = [_sets_of(axis, value) for value in distinct]
    return column | _codes(values, distinct)


def _figure_column(values: "pd.Series[Any]", way: str) -> Json:
    """A column of an objective; ``way`` is ``min`` or ``max``."""
    name = str(values.name)
    numbers = values.to_numpy(np.float64)
    finite_numbers = numbers[np.isfinite(numbers)].tolist()
    return {
        "name": name,
        "title": heading(name),
        "kind": "objective",
        "better": way,
        "scale": scale_of([finite_numbers]),
        "values": packed(values.to_numpy(np.float32)),
    }


def _policies(study: StoredStudy) -> Json | None:
    """Policies of the points, with their looks; None if all points have the same one."""
    if len(study.policies) < 2:
        return None
    looks = looks_by_policy(study.policies)
    names = study.counted["policy_name"].fillna("").astype(str)
    codes = _codes(names, sorted({*study.policies, *names}))
    shown = [looks.get(label, policy_look(label)) for label in codes["labels"]]
    return codes | {
        "colours": [look.colour for look in shown],
        "markers": [look.marker for look in shown],
    }


def _times(points: "pd.DataFrame") -> list[Json]:
    """Seconds of each block, of those that take any."""
    times = []
    for phase, title in PHASES.items():
        name = f"{phase}_s"
        if name in points and points[name].fillna(0).any():
            seconds = points[name].to_numpy(np.float32)
            times.append({"title": title, "values": packed(seconds)})
    return times


def _axes(study: StoredStudy) -> Mapping[str, Axis]:
    """The axes as the study's file describes them; none for a study that is no such file."""
    file = StudyFile.model_validate(mapping_of(study.facts["study"], study.name))
    return {name: parse_axis(name, body, name) for name, body in file.axes.items()}


def _sets_of(axis: Axis, cell: Any) -> list[tuple[str, str]]:
    """Fields that a value of an axis sets, as ``carsim run`` takes them."""
    changes = axis.changes(value_of_cell(axis, cell))
    return [(path, _written(setting)) for path, setting in changes.items()]


def _written(value: Any) -> str:
    """A value as an option has it."""
    return value if isinstance(value, str) else json.dumps(value)


def _command(study: StoredStudy) -> Json | None:
    """Parts of the command that runs a point; None where no option stands for a field."""
    file = StudyFile.model_validate(mapping_of(study.facts["study"], study.name))
    paths = {*file.set}
    for name, body in file.axes.items():
        axis = parse_axis(name, body, name)
        paths |= {path for value in axis.values[:1] for path in axis.changes(value)}
    if paths & ({*PSEUDO_PATHS} - {"design", "trace", "workload"}):
        return None
    if not isinstance(file.workload, str | None):
        return None
    traces = [file.traces] if isinstance(file.traces, str) else list(file.traces or ())
    return {
        "design": file.design,
        "traces": traces,
        "workload": file.workload,
        "set": [(path, _written(value)) for path, value in file.set.items()],
    }


def equal_points(values: NDArray[np.float64], same: float = SAME) -> NDArray[np.intp]:
    """Number of the family of each point, [P].

    Unlike :func:`carsim.explore.pareto.families`, which thins a front, it joins points only if they
    differ little in both directions.

    Args:
        values: Objectives of points, the best of the first one first, [P, M].
        same: Relative difference below which two values are equal.

    >>> equal_points(np.array([[100.0, 9.0], [101.0, 9.1], [120.0, 5.0], [103.0, 9.2]])).tolist()
    [0, 0, 1, 0]
    """
    family = np.full(len(values), -1)
    number = 0
    for place, leader in enumerate(values):
        if family[place] >= 0:
            continue
        near = (np.abs(values - leader) <= same * np.abs(leader)).all(axis=1)
        family[near & (family < 0)] = number
        number += 1
    return family


def _family_of_points(study: StoredStudy, points: "pd.DataFrame") -> NDArray[np.intp]:
    """Number of the family of each point of the front, from 1; 0 for all others."""
    front = study.front
    if front.empty:
        return np.zeros(len(points), np.intp)
    numbers = 1 + equal_points(front[[*study.objectives]].to_numpy(np.float64))
    by_point = dict(zip(front["point"].tolist(), numbers.tolist(), strict=True))
    return np.array([by_point.get(point, 0) for point in points["point"].tolist()], np.intp)


class Worth(NamedTuple):
    """Worth of the choice of an axis in one objective.

    Attributes:
        share: Best value at the worst choice over that at the best one, minus 1.
        best: Choice with the best value, in words.
        worst: Choice with the worst value.
    """

    share: float
    best: str
    worst: str


def worth(
    study: StoredStudy, axis: str, objective: str, of: "pd.DataFrame | None" = None
) -> Worth | None:
    """Worth of an axis: the cost of its worst choice, all other axes chosen anew.

    Of each choice, the best point counts. An axis of many values is judged by groups of them.

    Args:
        study: The study.
        axis: Name of the axis.
        objective: Name of the objective.
        of: Points to judge by; all that count, if left out.

    Returns:
        None where all points have one choice, or no choice has a positive value.
    """
    import pandas as pd

    points = (study.counted if of is None else of)[[axis, objective]].dropna()
    choices = points[axis]
    if choices.dtype.kind in "iuf" and choices.nunique() > MOST_CODES:
        choices = pd.qcut(choices, MOST_BINS, duplicates="drop").astype(str)
    way = study.objectives[objective]
    best_of = points[objective].groupby(choices, sort=False).agg(way)
    if len(best_of) < 2 or best_of.min() <= 0:
        return None
    share = float(best_of.max() / best_of.min() - 1)
    best = best_of.idxmin()
    worst = best_of.idxmax()
    if way == "max":
        best, worst = worst, best
    return Worth(share, best=text_of(axis, best), worst=text_of(axis, worst))


class Elsewhere(NamedTuple):
    """Worth of an axis away from the best point.

    Attributes:
        share: As :attr:`Worth.share`, among the points of one choice of another axis.
        other: The other axis.
        choice: That choice, in words.
    """

    share: float
    other: str
    choice: str


def worth_elsewhere(study: StoredStudy, axis: str, objective: str) -> Elsewhere | None:
    """The point where an axis is worth most that is worth nothing at the best point.

    A schedule is worth nothing at a batch of one, say, and much at a batch of sixteen.

    Args:
        study: The study.
        axis: Name of the axis.
        objective: Name of the objective.

    Returns:
        The choice of one other axis at which the axis is worth most; None if that is less than
        :data:`LEAST_WORTH`.
    """
    most: Elsewhere | None = None
    for other in study.axes:
        choices = study.counted[other]
        if other == axis or not 1 < choices.nunique() <= MOST_BINS:
            continue
        for choice, points in study.counted.groupby(other, sort=False):
            figure = worth(study, axis, objective, points)
            share = _share(figure)
            if share >= LEAST_WORTH and (most is None or share > most.share):
                most = Elsewhere(share, other=other, choice=text_of(other, choice))
    return most


def worth_table(study: StoredStudy) -> Table:
    """Worth of each axis in each objective, the axis that matters most first.

    The bars of an objective are scaled to the axis that is worth most in it. An axis that is worth
    nothing at the best point is shown with the choice of another axis at which it is worth most.
    """
    worths = {
        axis: {objective: worth(study, axis, objective) for objective in study.objectives}
        for axis in study.axes
    }
    largest = {
        objective: max((_share(of_axis[objective]) for of_axis in worths.values()), default=0.0)
        for objective in study.objectives
    }

    def cell(axis: str, objective: str) -> str:
        figure = worths[axis][objective]
        if figure is None:
            return "-"
        text = f"{100 * figure.share:.1f} %"
        if figure.share < LEAST_WORTH:
            elsewhere = worth_elsewhere(study, axis, objective)
            if elsewhere is not None:
                where = f"{heading(elsewhere.other)} {elsewhere.choice}"
                text += f" (up to {100 * elsewhere.share:.1f} % at {where})"
            return Figure(text, figure.share, 0.0)
        text += f" ({figure.best} best, {figure.worst} worst)"
        return Figure(text, figure.share, figure.share / largest[objective])

    by_worth = sorted(worths, key=lambda axis: -max(map(_share, worths[axis].values())))
    rows = [
        (heading(axis), *(cell(axis, objective) for objective in study.objectives))
        for axis in by_worth
    ]
    headings = ("axis", *(heading(name) for name in study.objectives))
    title = "What each axis is worth: its worst choice costs so much, all other axes chosen anew"
    return Table(headings, tuple(rows), title=title)


def _share(figure: Worth | None) -> float:
    """A worth as a share; 0 where it is not known."""
    return 0.0 if figure is None else figure.share


def cheapest_near(study: StoredStudy, within: float = 0.05) -> str:
    """The front's point with the least of the second objective near the best of the first.

    Args:
        study: The study.
        within: Relative distance from the best of the first objective.

    Returns:
        A sentence; empty without two objectives or without a front.
    """
    front = study.front
    names = [*study.objectives]
    if len(names) < 2 or front.empty:
        return ""
    first, second = names[:2]
    best = front[first].iloc[0]
    near = front[(front[first] - best).abs() <= within * abs(best)]
    least = near[second].argmin() if study.objectives[second] == "min" else near[second].argmax()
    point = near.iloc[int(least)]
    choices = ", ".join(f"{heading(axis)} {quantity(point[axis])}" for axis in study.axes)
    figures = f"{heading(first)} {text_of(first, point[first])}"
    figures += f", {heading(second)} {text_of(second, point[second])}"
    title = METRICS[second].title if second in METRICS else second
    better = "least" if study.objectives[second] == "min" else "most"
    return (
        f"Within {100 * within:.0f} % of the best {heading(first)}, point {point['point']} has the "
        f"{better} {title}: {figures}, with {choices}."
    )

"""Exact Pareto fronts and knees, in any number of objectives.

A point dominates another if it is at least as good in every objective and better in one; the front
is what no point dominates. Equal points do not dominate each other: all of them are on it. But
points that are alike in every metric, such as mappings that one core cannot tell apart, are one
machine under several names: the front of a frame of carsim's metrics holds the first of them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from carsim.base.errors import InputError
from carsim.base.text import closest, count
from carsim.explore.expression import Expression
from carsim.metrics import METRICS

if TYPE_CHECKING:
    import pandas as pd

    from carsim.explore.study import Study

Floats = NDArray[np.float64]


def pareto(
    frame: "pd.DataFrame",
    objectives: Mapping[str, str] | Sequence[str],
    constraints: Sequence[str] = (),
    *,
    robust: "Study | str | Path | Mapping[str, Any] | None" = None,
) -> "pd.DataFrame":
    """The Pareto front of a frame of results.

    Args:
        frame: A row per point. Where it has a column ``status``, only rows that are ``ok`` count.
        objectives: Columns, each with ``min`` or ``max``; metrics of carsim may go without.
        constraints: Conditions over columns that points have to meet, such as ``dsp <= 2000``.
        robust: The study of the results, a mapping of its file, or its file. With it, the front has
            a column ``robust``: the share of draws of the uncertain constants of energy, bandwidth
            and price in which the point is on the front. A draw serves all points
            (:mod:`carsim.explore.robust`). Points near the front are simulated again for it.

    Returns:
        The rows of the front, best in the first objective first, with a column ``knee`` that is
        True for the one nearest to the best of everything (see :func:`knee`). Of rows that are
        alike in all metrics the first.

    Raises:
        InputError: No such column, no direction, or no point that counts. With ``robust``, an
            objective whose interval is unknown, or results of another study or of other code.
    """
    signs = directions(objectives)
    for name in signs:
        _check_column(frame, name, f"objective {name}")
    candidates = feasible(frame, constraints)
    values = candidates[list(signs)].to_numpy(np.float64) * np.array(list(signs.values()))
    on_front = np.isfinite(values).all(axis=1)
    if not on_front.any():
        counts = count(len(frame), "point") if len(frame) else "no points"
        problem = f"none of {counts} fits, meets the constraints and has {', '.join(signs)}"
        if shares := _shares_met(frame, constraints):
            problem += f"; {shares}"
        fitting = feasible(frame)
        empty = [name for name in signs if len(fitting) and fitting[name].isna().all()]
        if empty:
            problem = f"no point has a value of {', '.join(empty)}"
        cure = "sweep more points, relax a constraint or take other objectives"
        raise InputError("objectives", problem, cure)
    on_front[on_front] = front(values[on_front])
    best = candidates[on_front]
    if METRICS.keys() >= signs.keys():
        best = best[~best.duplicated([name for name in METRICS if name in best])]
    values = best[list(signs)].to_numpy(np.float64) * np.array(list(signs.values()))
    best = best.assign(knee=np.arange(len(best)) == knee(values))
    if robust is not None:
        best = best.assign(robust=_robust_shares(robust, candidates, best, signs))
    first, sign = next(iter(signs.items()))
    return best.sort_values(first, ascending=sign > 0, kind="stable").reset_index(drop=True)


def _robust_shares(
    study: "Study | str | Path | Mapping[str, Any]",
    candidates: "pd.DataFrame",
    on_front: "pd.DataFrame",
    signs: Mapping[str, int],
) -> Floats:
    """Share of draws in which each point of a front is on it, see :mod:`carsim.explore.robust`."""
    from carsim.explore.robust import robust_shares
    from carsim.explore.study import Study, load_study

    _check_column(candidates, "point", "`robust`")
    study = study if isinstance(study, Study) else load_study(study)
    return robust_shares(study, candidates, on_front, signs)


def directions(
    objectives: Mapping[str, str] | Sequence[str], place: str = "objectives"
) -> dict[str, int]:
    """Objective -> 1 where less is better, -1 where more is.

    Args:
        objectives: Columns with ``min`` or ``max``, or texts as of :func:`parse_objectives`.
        place: Their name in errors.

    Raises:
        InputError: None at all, a name twice, or neither ``min`` nor ``max``.
    """
    if not isinstance(objectives, Mapping):
        objectives = parse_objectives(objectives)
    if not objectives:
        raise InputError(place, "are missing", "name at least one, such as latency_s")
    for name, better in objectives.items():
        if better not in ("min", "max"):
            raise InputError(f"objective {name}", f"got {better!r}", "say min or max")
    return {name: 1 if better == "min" else -1 for name, better in objectives.items()}


def parse_objectives(texts: Sequence[str]) -> dict[str, str]:
    """Objectives as they are typed: ``NAME``, ``NAME:min`` or ``NAME:max``.

    Raises:
        InputError: One twice, or one without a direction that is no metric or has none of its own.

    >>> parse_objectives(["latency_s", "busy:min"])
    {'latency_s': 'min', 'busy': 'min'}
    """
    objectives: dict[str, str] = {}
    for text in texts:
        name, colon, better = text.partition(":")
        if name in objectives:
            raise InputError(f"objective {name}", "is named twice", "name it once")
        objectives[name] = better if colon else direction_of(name, f"objective {name}")
    return objectives


def direction_of(name: str, place: str = "objective") -> Literal["min", "max"]:
    """``min`` if a smaller value of a metric is better, else ``max``.

    Args:
        name: The metric, which may come out of a file and be no word.
        place: Its place in the error about an unknown one, which shows the name in quotes.

    Raises:
        InputError: Neither is, or it is unknown.
    """
    better = METRICS.find(name, place).better
    if better is None:
        problem = "is neither better large nor small"
        raise InputError(f"objective {name}", problem, "say which: NAME: min or max")
    return "min" if better == "lower" else "max"


def feasible(frame: "pd.DataFrame", constraints: Sequence[str] = ()) -> "pd.DataFrame":
    """Rows whose status is ``ok`` and that meet all constraints.

    Raises:
        InputError: A constraint that is none, or over columns that are not there.
    """
    rows_left = frame[frame["status"] == "ok"] if "status" in frame else frame
    for text in constraints:
        expression = Expression(text, "constraint")
        for name in sorted(expression.names):
            _check_column(frame, name, f"constraint {text}")
        columns = [*expression.names] or [*rows_left.columns[:1]]
        records = rows_left[columns].to_dict("records")
        holds = [expression.holds(record.__getitem__) for record in records]
        # As an array: an empty list would select columns.
        rows_left = rows_left[np.array(holds, np.bool_)]
    return rows_left


def front(values: Floats) -> NDArray[np.bool_]:
    """True for points that no other dominates, bool[P], given float[P, M] of which less is better.

    Points are taken in lexicographic order, in which none comes before one that dominates it: the
    first is on the front, and so is the first of those that are better than it in something.

    >>> front(np.array([[1.0, 3.0], [2.0, 2.0], [2.0, 3.0], [1.0, 3.0]]))
    array([ True,  True, False,  True])
    """
    points, inverse = np.unique(values, axis=0, return_inverse=True)  # sorts them
    on_front = np.zeros(len(points), bool)
    indices = np.arange(len(points))
    while len(indices):
        on_front[indices[0]] = True
        is_better_somewhere = (points < points[0]).any(axis=1)
        points = points[is_better_somewhere]
        indices = indices[is_better_somewhere]
    return on_front[inverse.ravel()]


def knee(values: Floats) -> int:
    """The index of the compromise on a front, float[P, M] of which less is better.

    Each objective is scaled to 0 (the best of the front) to 1 (the worst); the knee is the point
    nearest to 0 in all of them, the first of equals.

    >>> knee(np.array([[0.0, 1000.0], [1.0, 100.0], [10.0, 0.0]]))
    1
    """
    best = values.min(axis=0)
    worst = values.max(axis=0)
    span = np.where(worst > best, worst - best, 1.0)
    scaled = (values - best) / span
    return int(np.argmin((scaled**2).sum(axis=1)))


def families(values: Floats, share: float, first: int) -> NDArray[np.intp]:
    """Index of the point that stands for each point, int[P], given float[P, M], less being better.

    A point stands for another if it is worse than it by at most ``share`` in every objective.
    Points are taken in their order, ``first`` before all: a point for which no earlier one stands,
    stands for itself.

    >>> families(np.array([[1.0, 9.0], [1.01, 8.95], [2.0, 5.0]]), share=0.02, first=0)
    array([0, 0, 2])
    """
    limits = values + share * np.abs(values)
    stands_for = np.full(len(values), -1)
    order = [first, *(point for point in range(len(values)) if point != first)]
    for point in order:
        if stands_for[point] >= 0:
            continue
        is_near = (values[point] <= limits).all(axis=1)
        stands_for[is_near & (stands_for < 0)] = point
    return stands_for


def _shares_met(frame: "pd.DataFrame", constraints: Sequence[str]) -> str:
    """Number of points that fit and meet each constraint by itself, in words."""
    n_fitting = len(feasible(frame))
    if not n_fitting or not constraints:
        return ""
    n_met = [len(feasible(frame, [text])) for text in constraints]
    phrases = [f"{constraints[0]} holds for {n_met[0]} of {n_fitting} that fit"]
    phrases += [f"{text} for {n}" for text, n in zip(constraints[1:], n_met[1:], strict=True)]
    return ", ".join(phrases)


def _check_column(frame: "pd.DataFrame", name: str, place: str) -> None:
    if name not in frame:
        hint = closest(name, map(str, frame.columns))
        raise InputError(place, f"{name!r} is no column of the results", f"{hint}name another")

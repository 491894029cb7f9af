"""Refuse a study whose objectives or constraints are metrics that no point can have.

Without this, every point is evaluated before the front turns out to be empty.

Model: the work that is decoded (video or text) and the figures that follow from a design and its
fit are looked at, without a simulation, for all values of the axes that can decide them. All other
axes stay at their first values with which a point is not refused. Where these axes have more than
:data:`MOST_LOOKED_AT` combinations, nothing is refused.
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from carsim.base.errors import InputError
from carsim.base.paths import overlap
from carsim.explore.axis import Axis
from carsim.explore.evaluate import Evaluator
from carsim.explore.points import changes_of
from carsim.explore.study import Study
from carsim.metrics import METRICS, Setting
from carsim.metrics.table import INTERVALS, NEEDS_DENSE
from carsim.runs.pipeline import fit_of

MOST_LOOKED_AT = 64
"""Combinations of values of deciding axes that are looked at."""

DECIDING = ("design", "workload", "trace", "board", "model")
"""Fields that decide if a metric has a value: the technology, the price, the kind of work."""

OF_BANDWIDTH = (
    "latency_s",
    "seconds_per_video",
    "tokens_per_s",
    "stream_tokens_per_s",
    "ms_per_token",
)
"""Metrics with a value at each end of the bandwidth."""

ONLY_IN_RUNS = tuple(end for name in OF_BANDWIDTH for end in INTERVALS[name])
"""Metrics that ``carsim run`` alone computes: it simulates both ends of the bandwidth."""

MAKERS = ("decoder", "network")
"""Kind of model that makes a video or a text, where that decides if a metric has a value."""

CURE = "take another metric ('carsim config metrics' lists them)"


class _Example(NamedTuple):
    """Figures and facts of one combination of deciding values, and of all points that have it.

    Attributes:
        work: Kind of work, ``video`` or ``text``.
        maker: What makes it, ``decoder`` or ``network``.
        board: Name of the board.
        figures: Figures that follow from the design and its fit, by metric.
    """

    work: str
    maker: str
    board: str
    figures: Mapping[str, Any]


def check_answerable(study: Study) -> None:
    """Refuse objectives and constraints that no point of a study can have.

    Raises:
        InputError: The first such metric, with its reason.
    """
    used = dict.fromkeys(study.objectives, "objectives")
    axes = {axis.name for axis in study.axes}
    for condition in study.constraints:
        for name in sorted((condition.names & METRICS.keys()) - axes):
            used.setdefault(name, "constraints")
    if not used:
        return
    examples = list(_examples(study))
    for name, key in used.items():
        problem = _lack(study, name, examples)
        if problem:
            raise InputError(f"study {study.name}: $.{key}", f"{name} {problem}", CURE)


def _lack(study: Study, name: str, examples: list[_Example]) -> str:
    """Reason for which no point has a metric; empty if some may have it."""
    if name in ONLY_IN_RUNS:
        return "has no value in a study: only carsim run computes it"
    if name in NEEDS_DENSE and study.file.baseline is False:
        return "has no value without dense decoding ($.baseline is false)"
    metric = METRICS[name]
    if metric.only_for in MAKERS:
        works = {example.maker for example in examples}
    else:
        works = {example.work for example in examples}
    if examples and metric.only_for and metric.only_for not in works:
        return f"has no value for a {' or '.join(sorted(works))}"
    if not metric.of_design or not examples:
        return ""
    if any(example.figures[name] is not None for example in examples):
        return ""
    boards = dict.fromkeys(example.board for example in examples)
    return f"has no value on {', '.join(boards)}"


def _examples(study: Study) -> Iterator[_Example]:
    """Combinations of all values that decide about metrics; none if they are too many."""
    deciding = [axis for axis in study.axes if _decides(axis)]
    further_axes = [axis for axis in study.axes if axis not in deciding]
    combinations = itertools.product(*(axis.values for axis in deciding))
    looked_at = list(itertools.islice(combinations, MOST_LOOKED_AT + 1))
    if len(looked_at) > MOST_LOOKED_AT:
        return
    evaluator = Evaluator(study)
    for combination in looked_at:
        values = {axis.name: value for axis, value in zip(deciding, combination, strict=True)}
        example = _example(study, evaluator, values, further_axes)
        if example is not None:
            yield example


def _example(
    study: Study, evaluator: Evaluator, values: Mapping[str, Any], others: list[Axis]
) -> _Example | None:
    """One combination with the first values of the other axes that go with it; None if none do."""
    longest = max((len(axis.values) for axis in others), default=1)
    for index in range(min(longest, MOST_LOOKED_AT)):
        values_of_others = {}
        for axis in others:
            last = len(axis.values) - 1
            values_of_others[axis.name] = axis.values[min(index, last)]
        try:
            point = evaluator.asked(changes_of(study, {**values, **values_of_others}))
            fit = fit_of(point.design, point.sources, point.video, point.replays)
            setting = Setting(point.design, fit)
            figures = {
                metric.name: metric.of(None, setting)
                for metric in METRICS.values()
                if metric.of_design
            }
        except InputError:
            continue
        return _Example(
            work=point.video.kind,
            maker="decoder" if point.design.model.network is None else "network",
            board=point.design.board.name,
            figures=figures,
        )
    return None


def _decides(axis: Axis) -> bool:
    """An axis may decide if a metric has a value."""
    return any(overlap(path, field) for path in axis.paths for field in DECIDING)

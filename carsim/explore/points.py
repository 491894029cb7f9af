"""The points of a study: all combinations of axis values or a drawn sample, filtered."""

import hashlib
import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from carsim.base.errors import InputError
from carsim.base.groups import grouped
from carsim.base.paths import is_within
from carsim.explore.study import MOST_POINTS, Study, value_of
from carsim.machine.hardware import SECTION_COLUMNS

DECISION_PATHS = ("policy.tau", "policy.decision_scope")
"""Fields of which nothing but decisions follows: no hardware and no fit."""

SOFT_PATHS = (*DECISION_PATHS, "policy.schedule", "energy", "trace", "replay")
"""Axes below these leave the phases of the hardware as they are: such points are neighbours."""

ALIKE_PATHS = (
    *SOFT_PATHS,
    "board",
    "machine.exchange_bytes_per_cycle",
    *(f"machine.{section}.{name}" for section, names in SECTION_COLUMNS.items() for name in names),
)
"""Axes in which designs that are simulated together may differ: of numbers, or as above. Designs
whose buffers hold other numbers of tiles are not."""

_encode = json.JSONEncoder(default=repr).encode
_encode_sorted = json.JSONEncoder(default=repr, sort_keys=True).encode


@dataclass(frozen=True)
class Point:
    """One point of a study.

    Attributes:
        ordinal: Its place in the study.
        id: Hash of its content and of its axis values.
        values: Value of each axis, by name.
        changes: Fields to set, by path; pseudo paths among them.
        key: Hash of its content: of all that its result depends on.
    """

    ordinal: int
    id: str
    values: Mapping[str, Any]
    changes: Mapping[str, Any]
    key: str = ""

    def without(self, *paths: str) -> str:
        """Equal for points whose other changes are equal."""
        return _encode_sorted(
            {
                path: value
                for path, value in self.changes.items()
                if not any(is_within(path, left_out) for left_out in paths)
            }
        )


def chunks_of(points: Iterable[Point]) -> list[list[Point]]:
    """Points whose hardware is simulated together; those that share it side by side."""
    ordered = sorted(points, key=lambda point: point.without(*SOFT_PATHS))
    structures = (point.without(*ALIKE_PATHS) for point in ordered)
    return list(grouped(zip(structures, ordered, strict=True)).values())


def make_points(study: Study) -> list[Point]:
    """All points of a study, in its order.

    Raises:
        InputError: Too many, or none that passes the filters.
    """
    points: dict[str, Point] = {}
    for values in sampled(study):
        point = make_point(study, len(points), values)
        points.setdefault(point.id, point)
    if not points:
        raise study.no_points
    return list(points.values())


def sampled(study: Study) -> Iterator[dict[str, Any]]:
    """Values of axes that a study draws and that pass its filters, repetitions among them."""
    drawn = grid_values(study) if study.file.sampling.method == "grid" else _drawn(study)
    return filter(partial(passes, study), drawn)


def make_point(study: Study, ordinal: int, values: Mapping[str, Any]) -> Point:
    """The point of given axis values."""
    changes = changes_of(study, values)
    key = study.contents.key(changes)
    text = _encode([key, sorted(values.items())])
    identity = hashlib.sha256(text.encode()).hexdigest()[:32]
    return Point(ordinal, identity, values=dict(values), changes=changes, key=key)


def passes(study: Study, values: Mapping[str, Any]) -> bool:
    """All filters hold at given axis values."""
    if not study.filters:
        return True
    point = Point(0, "", values, changes_of(study, values))
    look_up = partial(field_of, study, point)
    return all(condition.holds(look_up) for condition in study.filters)


def held_constraints(study: Study, point: Point, row: Mapping[str, Any]) -> list[bool]:
    """Truth of each constraint for a result."""

    def look_up(name: str) -> Any:
        return row[name] if name in row else field_of(study, point, name)

    return [constraint.holds(look_up) for constraint in study.constraints]


def field_of(study: Study, point: Point, name: str) -> Any:
    """The value of an axis at a point, or of a field of its design as far as paths tell."""
    if name in point.values:
        return point.values[name]
    for path, value in point.changes.items():
        if is_within(name, path):
            return value if name == path else value_of(value, name[len(path) + 1 :])
    if name == "replay":
        return True  # points replay unless they say false
    base = study.designs[point.changes["design"]] if "design" in point.changes else study.base
    return value_of(base, name)


def grid_values(study: Study) -> Iterator[dict[str, Any]]:
    """All combinations of the values of a study's axes, in order.

    Raises:
        InputError: More than :data:`~carsim.explore.study.MOST_POINTS` combinations.
    """
    check_size(study)
    names = [axis.name for axis in study.axes]
    for combination in itertools.product(*(axis.values for axis in study.axes)):
        yield dict(zip(names, combination, strict=True))


def points_at_most(study: Study) -> int:
    """Points of a study before filters: all combinations of values, or those that it draws."""
    return study.file.sampling.points or math.prod(len(axis.values) for axis in study.axes)


def check_size(study: Study) -> None:
    """Refuse a grid of too many points.

    Raises:
        InputError: More than :data:`~carsim.explore.study.MOST_POINTS` combinations.
    """
    size = math.prod(len(axis.values) for axis in study.axes)
    if size > MOST_POINTS:
        problem = f"span {size:,} combinations, more than {MOST_POINTS:,}"
        cure = "take fewer values, or sample by lhs"
        raise InputError(f"study {study.name}: $.axes", problem, cure)


def changes_of(study: Study, values: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that axis values set, and those that all points share."""
    changes = dict(study.file.set)
    for axis in study.axes:
        changes |= axis.changes(values[axis.name])
    return changes


# -------------------------------------------------------------------- private


def _drawn(study: Study) -> Iterator[dict[str, Any]]:
    """A Latin hypercube of axis values: every axis has one point in each of its strata."""
    wanted = study.file.sampling.points
    assert wanted is not None  # checked when the study was read
    rng = np.random.default_rng(study.file.sampling.seed)
    strata = np.stack([rng.permutation(wanted) for _ in study.axes], axis=1)
    for shares in (strata + rng.random(strata.shape)) / wanted:
        pairs = zip(study.axes, shares, strict=True)
        yield {axis.name: axis.at(float(share)) for axis, share in pairs}

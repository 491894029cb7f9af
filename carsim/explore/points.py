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
    *(f"machine.{name}.{each}" for name, names in SECTION_COLUMNS.items() for each in names),
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
        id: Hash of all that its result depends on.
        values: Value of each axis, by name.
        changes: Fields to set, by path; pseudo paths among them.
    """

    ordinal: int
    id: str
    values: Mapping[str, Any]
    changes: Mapping[str, Any]

    def without(self, *paths: str) -> str:
        """Equal for points whose other changes are equal."""
        return _encode_sorted(
            {
                path: value
                for path, value in self.changes.items()
                if not any(f"{path}.".startswith(f"{each}.") for each in paths)
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
    drawn = grid_values(study) if study.file.sampling.method == "grid" else _drawn(study)
    points: dict[str, Point] = {}
    for values in filter(partial(passes, study), drawn):
        point = make_point(study, len(points), values)
        points.setdefault(point.id, point)
    if not points:
        raise study.no_points
    return list(points.values())


def make_point(study: Study, ordinal: int, values: Mapping[str, Any]) -> Point:
    """The point of given axis values."""
    changes = changes_of(study, values)
    text = _encode([study.inputs_sha256, sorted(changes.items()), sorted(values.items())])
    return Point(ordinal, hashlib.sha256(text.encode()).hexdigest()[:32], dict(values), changes)


def passes(study: Study, values: Mapping[str, Any]) -> bool:
    """All filters hold at given axis values."""
    if not study.filters:
        return True
    point = Point(0, "", values, changes_of(study, values))
    return all(each.holds(lambda name: field_of(study, point, name)) for each in study.filters)


def held_constraints(study: Study, point: Point, row: Mapping[str, Any]) -> list[bool]:
    """Truth of each constraint for a result."""
    return [
        each.holds(lambda name: row[name] if name in row else field_of(study, point, name))
        for each in study.constraints
    ]


def field_of(study: Study, point: Point, name: str) -> Any:
    """The value of an axis at a point, or of a field of its design as far as paths tell."""
    if name in point.values:
        return point.values[name]
    for path, value in point.changes.items():
        if f"{name}.".startswith(f"{path}."):
            return value if name == path else value_of(value, name[len(path) + 1 :])
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

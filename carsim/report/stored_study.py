"""Read back the store of a sweep or a search: its study, its results, their front."""

import json
import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from carsim.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

Value = float | str | None
Row = dict[str, Value]

DEFAULT_OBJECTIVES = {"seconds_per_video": "min", "energy_per_video_j": "min"}
"""Of a study that names none."""


@dataclass(frozen=True)
class StoredStudy:
    """A study with its results.

    Attributes:
        name: Of the study.
        kind: ``sweep`` or ``search``.
        text: The study file.
        version: Of the carsim that made it.
        axes: Names of what varies.
        objectives: Metric -> ``min`` or ``max``.
        constraints: Conditions that results have to meet.
        traces: File -> hash.
        frame: All results, see :func:`carsim.explore.frame.frame_of`.
    """

    name: str
    kind: str
    text: str
    version: str
    axes: tuple[str, ...]
    objectives: dict[str, str]
    constraints: tuple[str, ...]
    traces: dict[str, str]
    frame: "pd.DataFrame"

    @cached_property
    def rows(self) -> list[Row]:
        """All results."""
        return _rows(self.frame)

    @cached_property
    def fitting(self) -> list[Row]:
        """Results that are answers."""
        return [row for row in self.rows if row["status"] == "ok"]

    @cached_property
    def counts(self) -> Counter[Value]:
        """Points by status."""
        return Counter(row["status"] for row in self.rows)

    @cached_property
    def counted(self) -> "pd.DataFrame":
        """Results that fit and meet the constraints.

        Raises:
            InputError: A constraint that is none.
        """
        from carsim.explore.pareto import feasible

        return feasible(self.frame, self.constraints)

    @cached_property
    def front_frame(self) -> "pd.DataFrame":
        """The Pareto front, best in the first objective first; empty if no point counts.

        Raises:
            InputError: An objective or a constraint that is none.
        """
        from carsim.explore.pareto import pareto

        try:
            return pareto(self.counted, self.objectives)
        except InputError as error:
            if error.place == "objectives":  # nothing counts
                return self.counted.head(0)
            raise

    @cached_property
    def front(self) -> list[Row]:
        """The same as rows."""
        return _rows(self.front_frame)

    @cached_property
    def members(self) -> frozenset[Value]:
        """Points on the front."""
        return frozenset(row["point"] for row in self.front)

    @property
    def knee(self) -> Row | None:
        """The compromise on the front."""
        return next((row for row in self.front if row["knee"] == "true"), None)

    def best(self, name: str, rows: list[Row]) -> Row | None:
        """The best of some results in an objective."""
        sign = 1 if self.objectives[name] == "min" else -1
        known = [(sign * value, row) for row in rows if isinstance(value := row[name], int | float)]
        return min(known, key=lambda pair: pair[0])[1] if known else None


def read_study(folder: Path) -> StoredStudy:
    """The study that a folder holds.

    Raises:
        InputError: It holds none, or a broken one.
    """
    from carsim.explore.frame import frame_of
    from carsim.explore.store import open_store

    with open_store(folder) as store:
        try:
            meta, frame = store.meta(), frame_of(store)
            objectives = _texts(json.loads(meta["objectives"]))
            return StoredStudy(
                name=meta["name"],
                kind=meta["kind"],
                text=meta["study"],
                version=meta["version"],
                axes=tuple(map(str, json.loads(meta["axes"]))),
                objectives=objectives or DEFAULT_OBJECTIVES,
                constraints=tuple(map(str, json.loads(meta["constraints"]))),
                traces=_texts(json.loads(meta["traces"])),
                frame=frame,
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            cure = "sweep into another folder"
            raise InputError(store.path, "is broken", cure) from None


def _texts(document: Any) -> dict[str, str]:
    return {str(key): str(value) for key, value in document.items()}


def _rows(frame: "pd.DataFrame") -> list[Row]:
    return [
        {str(name): _value(value) for name, value in row.items()}
        for row in frame.to_dict("records")
    ]


def _value(value: Any) -> Value:
    """A cell of a frame: a finite number, a text, or nothing."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return value if math.isfinite(value) else None
    return None if value is None else str(value)

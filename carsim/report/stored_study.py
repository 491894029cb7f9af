"""Read back the store of a sweep or a search: its study, its results, their front."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from carsim.base.errors import InputError
from carsim.explore.expression import Expression
from carsim.explore.frame import frame_of
from carsim.explore.pareto import directions, families, feasible, pareto
from carsim.explore.store import Store, open_store
from carsim.explore.stored_copy import read_copy
from carsim.explore.study import Study

if TYPE_CHECKING:
    import pandas as pd

MEANINGS = {
    "ok": "evaluated",
    "misfit": "do not fit their board",
    "invalid": "are refused",
    "failed": "failed",
}
"""Status of a result, in words."""


@dataclass(frozen=True)
class StoredStudy:
    """A study with its results.

    Attributes:
        facts: What its store says of it.
        axes: Names of what varies.
        objectives: Metric -> ``min`` or ``max``.
        constraints: Conditions that results have to meet.
        frame: All results, see :func:`carsim.explore.frame.frame_of`.
        damaged: Lines of the store that are damaged, whose results are lost.
        within: Share by which points may be worse that stand for others in a printed front.
        robust: The study as loaded, if its front shall say how robust each point is; else None.
    """

    facts: Mapping[str, Any]
    axes: tuple[str, ...]
    objectives: dict[str, str]
    constraints: tuple[str, ...]
    frame: "pd.DataFrame"
    damaged: tuple[str, ...] = ()
    within: float = 0.0
    robust: Study | None = None

    @classmethod
    def of(cls, store: Store) -> "StoredStudy":
        """The study of a store."""
        facts = dict(store.facts)
        if store.damaged:
            facts["within"] = None  # nothing is proven of a store that has lost points
        study = cls.of_frame(facts, frame_of(store))
        return replace(study, damaged=tuple(store.damaged))

    @classmethod
    def of_frame(cls, facts: Mapping[str, Any], frame: "pd.DataFrame") -> "StoredStudy":
        """The study of the facts of a store and a frame of its results."""
        return cls(
            facts=facts,
            axes=tuple(facts["axes"]),
            objectives=own_objectives(facts),
            constraints=tuple(facts["constraints"]),
            frame=frame,
            within=facts.get("within") or 0.0,
        )

    def seen(
        self, objectives: Mapping[str, str] | None, constraints: Sequence[str]
    ) -> "StoredStudy":
        """The study with other objectives, if there are any, and further constraints.

        A front answers for some of its objectives, and with limits to any: what dominates a point
        is within limits that the point meets.

        Raises:
            InputError: A sweep has left points out that may be on another front.
        """
        wanted = dict(objectives or self.objectives)
        is_unchanged = wanted == self.objectives and not constraints
        if not is_unchanged and not self._answers(wanted, constraints):
            self.check_whole()
        return replace(self, objectives=wanted, constraints=(*self.constraints, *constraints))

    def _answers(self, objectives: Mapping[str, str], constraints: Sequence[str]) -> bool:
        """Whether this front has the front of these objectives within these constraints.

        Args:
            objectives: Metric -> ``min`` or ``max``.
            constraints: Further conditions.
        """
        if self.facts["kind"] != "front" or not objectives.items() <= self.objectives.items():
            return False
        own_directions = directions(self.objectives).items()
        for text in constraints:
            # Metric -> direction that a limit pushes it to; empty if it is not such a limit.
            limited = Expression(text, "constraint").limited
            if not limited or not limited.items() <= own_directions:
                return False
        return True

    def check_whole(self) -> None:
        """Refuse a sweep that has left points out where these may be better than all others.

        Raises:
            InputError: It has.
        """
        if self.is_part:
            points = f"{len(self.frame):,} of {self.facts['points']:,} points"
            cure = "write them into the study, and sweep to a new folder"
            if not self.is_proven:
                cure = f"finish the sweep, or {cure}"
            raise InputError(self.name, f"has {points}, and others may be better there", cure)

    @property
    def is_part(self) -> bool:
        """Points of a sweep have no result: it was interrupted, or left them out."""
        total: int = self.facts["points"]
        return self.facts["kind"] != "search" and len(self.frame) < total

    @property
    def is_complete(self) -> bool:
        """Each point has a result, or a proof that it is not on the front; never of a search."""
        if self.facts["kind"] == "search" or self.damaged or self.counts["failed"]:
            return False
        return not self.is_part or self.is_proven

    @property
    def name(self) -> str:
        """Name of the study."""
        return str(self.facts["name"])

    @cached_property
    def assumed(self) -> str:
        """Assumptions behind all results, in one line, as of :func:`carsim.runs.assumed.assumed`.

        It is empty in a store that does not say so.
        """
        line: str = self.facts.get("assumed", "")
        labels = self.frame["decisions"].dropna().unique()
        if not line or not len(labels):
            return line
        decisions = "decisions as column decisions says"
        if len(labels) == 1:
            is_dense = str(labels[0]).startswith("dense: ")
            decisions = "nothing replays" if is_dense else f"decisions {labels[0]}"
        return f"{line.removesuffix('.')}; {decisions}."

    @cached_property
    def counts(self) -> Counter[str]:
        """Points by status."""
        return Counter(self.frame["status"])

    @property
    def outcome(self) -> str:
        """Points by status, in words."""
        texts = []
        for status, meaning in MEANINGS.items():
            points = self.counts[status]
            if points:
                texts.append(f"{points:,} {meaning}")
        return ", ".join(texts)

    @cached_property
    def fitting(self) -> "pd.DataFrame":
        """Results that are answers."""
        return self.frame[self.frame["status"] == "ok"]

    @cached_property
    def counted(self) -> "pd.DataFrame":
        """Answers that meet the constraints.

        Raises:
            InputError: A constraint that is none.
        """
        return feasible(self.frame, self.constraints)

    @cached_property
    def front(self) -> "pd.DataFrame":
        """The Pareto front, best in the first objective first; empty if no point counts.

        Of points that are equal in some of the study's objectives, those count that are on the
        front of all of them.

        Raises:
            InputError: An objective or a constraint that is none.
        """
        candidates = self.counted
        stored_objectives = own_objectives(self.facts)
        try:
            if self.objectives.items() < stored_objectives.items():
                candidates = pareto(candidates, stored_objectives).drop(columns="knee")
            return pareto(candidates, self.objectives, robust=self.robust)
        except InputError as error:
            if error.place == "objectives":  # nothing counts
                return self.counted.head(0).assign(knee=False)
            raise

    @cached_property
    def representatives(self) -> "pd.DataFrame":
        """Points of the front that stand for all of it, with a column ``alike``.

        ``alike`` is the number of points that each stands for, itself included: those that are
        equal to it in all objectives, or that it is worse than by at most ``within`` in each. The
        knee is among them.
        """
        front = self.front
        if front.empty:
            return front.assign(alike=0)
        sign_of_metric = directions(self.objectives)
        signs = list(sign_of_metric.values())
        values = front[list(sign_of_metric)].to_numpy(float) * signs  # [points, objectives]
        knee = int(np.flatnonzero(front["knee"])[0])
        representative_of_point = families(values, self.within, knee)
        rows, point_counts = np.unique(representative_of_point, return_counts=True)
        return front.iloc[rows].assign(alike=point_counts)

    @cached_property
    def policies(self) -> tuple[str, ...]:
        """Names of the policies of the points that count; none in a store that has no such names.

        Raises:
            InputError: A constraint that is none.
        """
        names = self.counted["policy_name"].dropna().unique()
        return tuple(sorted(map(str, names)))

    @property
    def is_proven(self) -> bool:
        """No point without a result is on the front, but for a share that its sweep allowed."""
        return self.facts.get("within") is not None

    @property
    def so_far(self) -> str:
        """Empty, or `` so far`` where points without a result may be on the front."""
        return " so far" if self.is_part and not self.is_proven else ""

    @property
    def knee(self) -> "pd.DataFrame":
        """The compromise on the front: one row, or none without a front."""
        return self.front[self.front["knee"].astype(bool)]


def own_objectives(facts: Mapping[str, Any]) -> dict[str, str]:
    """Objectives of a stored study."""
    return facts["objectives"] or {"seconds_per_video": "min", "energy_per_video_j": "min"}


def read_study(folder: Path) -> StoredStudy:
    """The study that a folder holds.

    Raises:
        InputError: It holds none, or a broken one.
    """
    copy = read_copy(folder)
    if copy is not None:
        return StoredStudy.of_frame(copy.facts, copy.frame)
    with open_store(folder) as store:
        return StoredStudy.of(store)

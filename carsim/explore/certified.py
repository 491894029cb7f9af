"""The exact front of a whole grid from few exact evaluations, with a proof for all other designs.

Every design has a lower bound of each objective (:mod:`carsim.explore.bounds`). Designs are
evaluated in the order of the sum of their scaled bounds, each with those of the next designs that
can be simulated together with it. A design whose bound is dominated by an exact result is never
evaluated: it cannot be on the front. Neither is a design whose bound breaks a constraint. Whatever
dominates a bound has a smaller sum and comes earlier, so that few designs are evaluated in vain.

Where many designs are nearly equal, as memory is the limit of all for instance, bounds alone rule
out few. With a share, those are left out as well whose bound is better than an exact result by at
most this share in every objective.
"""

import warnings
from collections import Counter
from collections.abc import Sequence
from itertools import compress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from carsim.base.errors import SolverError
from carsim.explore.bounds import unbounded
from carsim.explore.grid import Floats, GridStudy
from carsim.explore.grid_bounds import grid_bounds, unbounded_limits
from carsim.explore.pareto import directions
from carsim.explore.points import Point, held_constraints
from carsim.explore.store import Store
from carsim.explore.workers import Result

CHUNK = 32
"""Designs of a task at most."""

BLOCK = 1 << 13
"""Designs that are compared with the front at a time."""

MANY = 40_000
"""After so many evaluations, with more designs left, it is told how fewer would do."""


class CertifiedFront:
    """Chooses the designs of a grid that must be evaluated, until its front is certain.

    Args:
        grid: A grid with objectives; its workers are needed until this has been made.
        within: Share by which a design that is left out may be better, at least 0 and below 1.
        kept: File in which bounds are kept for the next time; None keeps none.

    Attributes:
        bounds: Bounds of all points of the flattened grid.
        total: Designs of the grid that pass the filters, all of which are bounded.
        dominated: Those whose bound an exact result dominates, but for that share.
        misfits: Those without a result that cannot fit their board, or break a constraint on what
            they take of it, by the parts and constraints.

    Raises:
        InputError: No objectives, or no point that passes the filters.
        KeyboardInterrupt: It was stopped while bounds were computed.
    """

    def __init__(self, grid: GridStudy, within: float = 0.0, kept: Path | None = None) -> None:
        study = grid.study
        self._signs = directions(study.objectives, f"study {study.name}: $.objectives")
        if names := ", ".join(unbounded(self._signs)):
            note = f"there is no bound of {names}: all designs that fit are evaluated"
            warnings.warn(note, stacklevel=2)
        for note in grid.refusals():
            warnings.warn(note, stacklevel=2)
        self._study = study
        self._grid = grid
        self._passing = np.flatnonzero(grid.passing())
        self.total = len(self._passing)
        if not self.total:
            raise study.no_points
        self._structures = grid.structures()[self._passing]
        if names := ", ".join(unbounded_limits(study)):
            note = f"there is no bound of {names}: constraints on it leave out no design"
            warnings.warn(note, stacklevel=2)
        self.bounds = grid_bounds(grid, kept)
        self._bounds: Floats = self.bounds.objectives[self._passing]
        self._loose = self._bounds * (1 + within * np.sign(self._bounds))
        self._front: Floats = np.empty((0, len(self._signs)))
        self._added: list[Floats] = []
        # By part or constraint, [parts, total]
        self._parts = list(self.bounds.missing)
        is_missing = [points[self._passing] for points in self.bounds.missing.values()]
        self._missing = np.reshape(np.array(is_missing, np.bool_), (-1, self.total))
        self.misfits = Counter[tuple[str, ...]]()
        self.dominated = 0
        fitting = np.flatnonzero(~self._missing.any(axis=0))
        self._order: NDArray[np.intp] = fitting[np.argsort(_score(self._bounds[fitting]))]
        self._pending: NDArray[np.intp] = self._order[:0]
        self._evaluated = 0
        self._is_told = within > 0

    @property
    def processor_s(self) -> float:
        """Seconds that other processes have worked at the bounds."""
        return self._grid.processor_s

    def resume(self, store: Store) -> None:
        """Take over what a store holds."""
        is_stored = np.zeros(self.total, np.bool_)
        for ordinal, values, row in store.rows():
            is_stored[ordinal] = True
            self.learn([(Point(ordinal, "", values, values), row)])
        missing = self._missing.T[~is_stored]  # [designs, parts]
        self.misfits = Counter(
            tuple(compress(self._parts, is_missing)) for is_missing in missing if is_missing.any()
        )
        self._order = self._order[~is_stored[self._order]]

    def next(self) -> list[Point]:
        """The most promising designs that are left, neighbours side by side; none at the end."""
        self._pending = self._open(self._pending, self._added)
        self._added = []
        if self._evaluated >= MANY and not self._is_told:
            self._is_told = True
            self._order = self._open(self._order, self._front)
            n_left = len(self._order) + len(self._pending)
            if n_left > MANY:
                note = f"{self._evaluated:,} designs are evaluated, and up to {n_left:,} are left"
                cure = "many are nearly equal. Started again with `within` 0.01, it leaves out most"
                warnings.warn(f"{note}: {cure}", stacklevel=2)
        while len(self._pending) < BLOCK and len(self._order):  # few have few of their kind
            block, self._order = np.split(self._order, [BLOCK])
            self._pending = np.concatenate([self._pending, self._open(block, self._front)])
        structures = self._structures[self._pending]
        like_the_first = np.flatnonzero(structures == structures[:1])[:CHUNK]
        chosen = self._pending[like_the_first]
        self._pending = np.delete(self._pending, like_the_first)
        return [
            self._grid.point(int(self._passing[ordinal]), int(ordinal))
            for ordinal in sorted(chosen)
        ]

    def learn(self, results: Sequence[Result]) -> None:
        """Compare exact results with all others, and with their bounds.

        Raises:
            SolverError: A result is better than its bound.
        """
        self._evaluated += len(results)
        for point, row in results:
            if row["status"] != "ok" or any(row.get(name) is None for name in self._signs):
                continue
            exact = np.array([sign * row[name] for name, sign in self._signs.items()])
            bound = self._bounds[point.ordinal]
            if (exact < bound).any():
                problem = f"has a bound of {bound.tolist()}, and is at {exact.tolist()}"
                cure = "please report this bug with the study; sweep it without `front_only`"
                raise SolverError(f"point {dict(point.values)}", problem, cure)
            is_beaten = (self._front <= exact).all(axis=1).any()
            if not is_beaten and all(held_constraints(self._study, point, row)):
                # What it dominates decides nothing more.
                self._front = np.vstack([self._front, exact])
                self._added.append(exact)

    # ---------------------------------------------------------------- private

    def _open(
        self, designs: NDArray[np.intp], exact: Sequence[Floats] | Floats
    ) -> NDArray[np.intp]:
        """Designs whose bound no exact result dominates, but for the share.

        Args:
            designs: Ordinals of designs.
            exact: Exact results, [objectives] each.
        """
        n_before = len(designs)
        for result in exact:
            bounds = self._loose[designs]
            is_never_worse = (result <= bounds).all(axis=1)
            is_better = (result < bounds).any(axis=1)
            designs = designs[~(is_never_worse & is_better)]
        self.dominated += n_before - len(designs)
        return designs


def _score(bounds: Floats) -> Floats:
    """Sum of scaled bounds; columns without any bound do not count."""
    total = np.zeros(len(bounds))
    for column in bounds.T:
        is_bounded = np.isfinite(column)
        if is_bounded.any():
            least = column[is_bounded].min()
            spread = column[is_bounded].std()
            total += np.where(is_bounded, column - least, 0.0) / (spread or 1.0)
    return total

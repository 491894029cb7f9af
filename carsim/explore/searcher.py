"""Search a design space for its Pareto front with Optuna, instead of evaluating all of it.

Model: every axis is a parameter: its values are numbered where they are numbers that rise or fall,
else categories. A tree-structured Parzen estimator (TPE) proposes points. A point that does
not fit, is refused, fails a filter or breaks a constraint is infeasible, the more so the more it
lacks. Where the estimator proposes what is known already, or what fails a filter, an unknown
neighbour of a point on the front is taken instead: an estimator that has converged proposes little
else than what it knows.

Optuna keeps its trials in memory; a search that goes on makes them anew from the store.
"""

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from carsim.base.environment import library
from carsim.explore.axis import Axis
from carsim.explore.evaluate import Row
from carsim.explore.pareto import directions, front
from carsim.explore.points import Point, grid_values, held_constraints, make_point, passes
from carsim.explore.store import Store
from carsim.explore.study import MOST_POINTS, Study
from carsim.explore.workers import Result

if TYPE_CHECKING:
    import optuna

NEIGHBOURS = 200
"""Neighbours, and then points anywhere, that are tried for one that is unknown."""

REFUSED = 10.0
"""Constraint violation of a refused point. For scale: a design that needs 20 % more DSPs than its
board has violates by 0.2."""

WORST = 1e30
"""Objective of an infeasible point, which samplers go past."""

LACKING = "lacking"
"""Constraint of a trial: how far its point is from being feasible."""


class Known(NamedTuple):
    """A point with its result, and how far it is from being feasible."""

    point: Point
    row: Row
    lacking: float


class Searcher:
    """Chooses the points of a search; a chooser like :class:`~carsim.explore.sweep.AllPoints`.

    Args:
        study: The study; it must name objectives.
        seed: Seed of the sampler, and of the neighbours that are drawn.
        most: Different points to evaluate, earlier calls included.

    Attributes:
        known: Points with their results, by identity.
        total: ``most``.

    Raises:
        InputError: Optuna is not installed, or the study names no objectives.
    """

    def __init__(self, study: Study, seed: int | None = None, most: int = MOST_POINTS) -> None:
        self.dominated = 0
        self.misfits: Counter[tuple[str, ...]] = Counter()
        self.processor_s = 0.0
        self._study = study
        self._signs = directions(study.objectives, f"study {study.name}: $.objectives")
        self._trials = _open_trials(self._signs, seed)
        self._rng = np.random.default_rng(seed)
        self._distributions = {axis.name: _distribution(axis) for axis in study.axes}
        self._pending: dict[str, list[optuna.Trial]] = {}
        self._exhausted = False
        self.known: dict[str, Known] = {}
        self.total = most

    def resume(self, store: Store) -> None:
        """Make trials of the results of a store."""
        from optuna.trial import create_trial

        for ordinal, values, row in store.rows():
            point = make_point(self._study, ordinal, values)
            evaluated = Known(point, row, self._lacking(point, row))
            self.known[point.id] = evaluated
            trial = create_trial(
                params=self._params(point.values),
                distributions=self._distributions,
                values=self._objectives(evaluated),
                constraints={LACKING: evaluated.lacking},
            )
            self._trials.add_trial(trial)

    def next(self) -> list[Point]:
        """A point to evaluate, until enough are known or nothing new is left.

        Raises:
            InputError: There is no point at all.
        """
        if self._exhausted or len(self.known) + len(self._pending) >= self.total:
            return []
        while (point := self._asked()) is None:
            neighbour = self._unknown_neighbour()
            if neighbour is None:
                self._exhausted = True
                if not self.known and not self._pending:
                    raise self._study.no_points
                return []
            self._trials.enqueue_trial(self._params(neighbour))
        return [point]

    def learn(self, results: Sequence[Result]) -> None:
        """Take over the results of points that were proposed."""
        for point, row in results:
            evaluated = Known(point, row, self._lacking(point, row))
            self.known[point.id] = evaluated
            for trial in self._pending.pop(point.id):
                self._tell(trial, evaluated)

    # ---------------------------------------------------------------- private

    def _asked(self) -> Point | None:
        """The point that Optuna proposes; None if it fails a filter, is known or under way."""
        trial = self._trials.ask(self._distributions)
        values = {axis.name: axis.values[trial.params[axis.name]] for axis in self._study.axes}
        point = make_point(self._study, trial.number, values)
        if not passes(self._study, values):
            self._tell(trial, Known(point, {}, REFUSED))
        elif point.id in self.known:
            self._tell(trial, self.known[point.id])
        else:
            self._pending.setdefault(point.id, []).append(trial)
            return point if len(self._pending[point.id]) == 1 else None
        return None

    def _tell(self, trial: "optuna.Trial", known: Known) -> None:
        """Give the result of a point to Optuna."""
        trial.set_constraint(LACKING, known.lacking)
        self._trials.tell(trial, self._objectives(known))

    def _objectives(self, known: Known) -> list[float]:
        """Objectives of a point; those of an infeasible one are worse than any."""
        if known.lacking:
            return [WORST * sign for sign in self._signs.values()]
        return [float(known.row[name]) for name in self._signs]

    def _lacking(self, point: Point, row: Row) -> float:
        """Constraint violation of a result; 0 if it is feasible."""
        if row["status"] == "misfit":
            return float(row["fill"]) - 1
        if row["status"] != "ok" or any(row.get(name) is None for name in self._signs):
            return REFUSED
        constraints_held = held_constraints(self._study, point, row)
        return float(constraints_held.count(False))

    def _params(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters of a trial: the number of the value on each axis."""
        return {axis.name: axis.values.index(values[axis.name]) for axis in self._study.axes}

    def _unknown_neighbour(self) -> dict[str, Any] | None:
        """An unknown point next to one on the front, else any unknown one; values of its axes."""
        axes = self._study.axes
        on_front = self._points_on_front()
        for attempt in range(2 * NEIGHBOURS):
            if on_front and attempt < NEIGHBOURS:
                point = on_front[self._rng.integers(len(on_front))]
                values = dict(point.values)
                axis = axes[self._rng.integers(len(axes))]
                values[axis.name] = self._step(axis, values[axis.name])
            else:
                values = {axis.name: axis.at(self._rng.random()) for axis in axes}
            if self._is_new(values):
                return values
        # What chance has not found may still be there.
        return next(filter(self._is_new, grid_values(self._study)), None)

    def _points_on_front(self) -> list[Point]:
        """Feasible points that no other one dominates."""
        feasible = [evaluated for evaluated in self.known.values() if not evaluated.lacking]
        if not feasible:
            return []
        objectives = np.array([self._objectives(evaluated) for evaluated in feasible])
        signs = list(self._signs.values())
        return [feasible[index].point for index in np.flatnonzero(front(objectives * signs))]

    def _is_new(self, values: dict[str, Any]) -> bool:
        """A point that passes the filters, and is neither known nor under way."""
        point = make_point(self._study, 0, values)
        is_seen = point.id in self.known or point.id in self._pending
        return not is_seen and passes(self._study, values)

    def _step(self, axis: Axis, value: Any) -> Any:
        """A value next to another on an axis; any other one where there is no order."""
        if axis.is_ordered:
            index = axis.values.index(value) + int(self._rng.choice((-1, 1)))
            last = len(axis.values) - 1
            return axis.values[min(max(index, 0), last)]
        return axis.values[self._rng.integers(len(axis.values))]


# -------------------------------------------------------------------- private


def _open_trials(signs: Mapping[str, int], seed: int | None) -> "optuna.Study":
    """An empty study of Optuna, which minimises metrics of sign 1 and maximises those of -1."""
    library("optuna", "search")
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True)
    ways: Any = ["minimize" if sign > 0 else "maximize" for sign in signs.values()]
    return optuna.create_study(sampler=sampler, directions=ways)


def _distribution(axis: Axis) -> "optuna.distributions.BaseDistribution":
    """The numbers of the values of an axis."""
    from optuna.distributions import CategoricalDistribution, IntDistribution

    numbers = range(len(axis.values))
    if axis.is_ordered:
        return IntDistribution(0, numbers[-1])
    return CategoricalDistribution(numbers)

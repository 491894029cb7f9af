"""Search a design space for its Pareto front with Optuna, instead of evaluating all of it.

Model: every axis is a parameter; axes of numbers are searched in their order, others as categories.
A point that does not fit, is refused, fails a filter or breaks a constraint is infeasible, the more
so the more it lacks. What the sampler proposes and is known already costs nothing; after
:data:`REPEATS` such proposals in a row an unknown neighbour of a point on the front is taken
instead, since a sampler that has converged proposes little else than what it knows.

Several processes, on one machine or on many, may search one study: they meet in Optuna's storage,
through which each learns what the others have evaluated.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from time import sleep
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from carsim.errors import InputError
from carsim.explore.axis import Axis
from carsim.explore.evaluate import Row
from carsim.explore.pareto import directions, front
from carsim.explore.points import Point, field_of, grid_values, make_point, passes
from carsim.explore.store import BUSY_SECONDS
from carsim.explore.study import Study

if TYPE_CHECKING:
    import optuna

Sampler = Literal["tpe", "nsga2", "random"]

REPEATS = 3
"""Proposals in a row that are known already; then a neighbour of the front is taken."""

FILTERED = 20
"""Proposals of one call that fail a filter; then a neighbour that passes is taken as well."""

NEIGHBOURS = 200
"""Neighbours that are tried for one that is unknown."""

EXHAUSTED = 2000
"""Proposals in a row that bring nothing new; then all there is has been found."""

REFUSED = 10.0
"""Violation of a point that is refused, next to 0.2 for one that needs 20 % more than there is."""

WORST = 1e30
"""Objective of an infeasible point, which samplers go past; JSON and SQL can hold it."""

LACKING = "lacking"
"""Constraint of a trial: how far its point is from being feasible."""

RESULT = "result"
"""Attribute of a trial that holds the result of its point, for other processes."""


IN_MEMORY = "memory"
"""In place of a storage's URL: trials are kept by this process alone."""

ATTEMPTS = 8
COLLISIONS = ("already exists", "unique constraint", "duplicate", "locked")
"""What databases say of tables that another process is making; they are then opened again."""


PASSWORD = re.compile(r"(?<=://)([^:/@\s]*):\S*(?=@)|(?<=password=)[^&\s]*")
"""In a URL."""


@dataclass(frozen=True)
class Proposal:
    """A point that is worth its evaluation, and the trial that it answers."""

    trial: "optuna.Trial"
    point: Point


class Searcher:
    """One process's view of a search.

    Args:
        study: The study; it must name objectives.
        trials: Optuna's study, from :func:`open_trials`.
        seed: Of the neighbours that are drawn.

    Attributes:
        known: Results by identity of their point, those of other processes included.
    """

    def __init__(self, study: Study, trials: "optuna.Study", seed: int | None = None) -> None:
        self._study = study
        self._trials = trials
        self._signs = directions(study.objectives)
        self._rng = np.random.default_rng(seed)
        self._distributions = {axis.name: _distribution(axis) for axis in study.axes}
        self._pending: dict[str, list[optuna.Trial]] = {}
        self._heard: set[int] = set()
        self.known: dict[str, tuple[Point, Row]] = {}
        self.hear()

    def hear(self) -> None:
        """Take over what other processes have told the storage."""
        from optuna.trial import TrialState

        finished = self._trials.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        for trial in finished:
            if trial.number not in self._heard:
                self._heard.add(trial.number)
                if RESULT in trial.user_attrs:
                    point = make_point(self._study, trial.number, self._values(trial.params))
                    self.known.setdefault(point.id, (point, json.loads(trial.user_attrs[RESULT])))

    def propose(self) -> Proposal | None:
        """The next point to evaluate; None if nothing new is left to be found."""
        repeats = filtered = 0
        for _ in range(EXHAUSTED):
            trial = self._trials.ask(self._distributions)
            values = self._values(trial.params)
            if not passes(self._study, values):
                self._tell(trial, {}, REFUSED)
                filtered += 1
            else:
                point = make_point(self._study, trial.number, values)
                if point.id in self.known:
                    self._tell_row(trial, point, self.known[point.id][1])
                elif point.id in self._pending:
                    self._pending[point.id].append(trial)
                else:
                    self._pending[point.id] = [trial]
                    return Proposal(trial, point)
                repeats += 1
            if repeats >= REPEATS or filtered >= FILTERED:
                neighbour = self._unknown_neighbour()
                if neighbour is None:
                    return None
                self._trials.enqueue_trial(neighbour)
        return None

    def tell(self, proposal: Proposal, row: Row) -> None:
        """Answer a proposal with its result."""
        point = proposal.point
        self.known[point.id] = (point, row)
        first, *others = self._pending.pop(point.id)
        self._tell_row(first, point, row, share=True)
        for trial in others:
            self._tell_row(trial, point, row)

    def adopt(self, point: Point, row: Row) -> None:
        """Take over a result that no trial tells of, and make a trial of it."""
        from optuna.trial import create_trial

        lacking = self._lacking(point, row)
        self._trials.add_trial(
            create_trial(
                params=self._params(point.values),
                distributions=self._distributions,
                values=self._objectives(row, lacking),
                constraints={LACKING: lacking},
                user_attrs={RESULT: json.dumps(row, allow_nan=False)},
            )
        )
        self.known[point.id] = (point, row)

    # ---------------------------------------------------------------- private

    def _tell_row(
        self, trial: "optuna.Trial", point: Point, row: Row, *, share: bool = False
    ) -> None:
        if share:
            trial.set_user_attr(RESULT, json.dumps(row, allow_nan=False))
        self._tell(trial, row, self._lacking(point, row))

    def _tell(self, trial: "optuna.Trial", row: Row, lacking: float) -> None:
        trial.set_constraint(LACKING, lacking)
        self._trials.tell(trial, self._objectives(row, lacking))

    def _objectives(self, row: Row, lacking: float) -> list[float]:
        if lacking:
            return [WORST * sign for sign in self._signs.values()]
        return [float(row[name]) for name in self._signs]

    def _lacking(self, point: Point, row: Row) -> float:
        """How far a result is from being feasible; 0 if it is."""
        if row["status"] == "misfit":
            return float(row["fill"]) - 1
        if row["status"] != "ok" or any(row.get(name) is None for name in self._signs):
            return REFUSED

        def look_up(name: str) -> Any:
            return row[name] if name in row else field_of(self._study, point, name)

        return float(sum(not each.holds(look_up) for each in self._study.constraints))

    def _values(self, params: dict[str, Any]) -> dict[str, Any]:
        return {
            axis.name: params[axis.name]
            if axis.interval is not None
            else axis.values[params[axis.name]]
            for axis in self._study.axes
        }

    def _unknown_neighbour(self) -> dict[str, Any] | None:
        """Parameters of an unknown point next to a point on the front, else of any unknown one."""
        feasible = [(p, row) for p, row in self.known.values() if not self._lacking(p, row)]
        starts = [point for point, _ in feasible]
        if feasible:
            signs = np.array(list(self._signs.values()))
            objectives = np.array([[row[n] for n in self._signs] for _, row in feasible]) * signs
            starts = [starts[place] for place in np.flatnonzero(front(objectives))]
        for attempt in range(2 * NEIGHBOURS):
            if starts and attempt < NEIGHBOURS:
                start = starts[self._rng.integers(len(starts))].values
                params = {axis.name: _place(axis, start[axis.name]) for axis in self._study.axes}
                axis = self._study.axes[self._rng.integers(len(self._study.axes))]
                params[axis.name] = self._step(axis, params[axis.name])
                values = self._values(params)
            else:
                values = {axis.name: axis.at(self._rng.random()) for axis in self._study.axes}
            if self._is_new(values) and passes(self._study, values):
                return self._params(values)
        if any(axis.interval is not None for axis in self._study.axes):
            return None
        # What chance has not found may still be there.
        unknown = (values for values in grid_values(self._study) if self._is_new(values))
        last = next(unknown, None)
        return None if last is None else self._params(last)

    def _is_new(self, values: dict[str, Any]) -> bool:
        point = make_point(self._study, 0, values)
        return point.id not in self.known and point.id not in self._pending

    def _params(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {axis.name: _place(axis, values[axis.name]) for axis in self._study.axes}

    def _step(self, axis: Axis, place: Any) -> Any:
        """A place next to another on an axis; any other one where there is no order."""
        if axis.interval is not None:
            share = _share(axis, place) + self._rng.normal(0, 0.1)
            return axis.at(min(max(share, 0.0), 1.0))
        count = len(axis.values)
        if _is_ordered(axis):
            return min(max(place + int(self._rng.choice((-1, 1))), 0), count - 1)
        return int(self._rng.integers(count))


def open_trials(
    study: Study, storage: str, sampler: Sampler = "tpe", seed: int | None = None
) -> "optuna.Study":
    """Optuna's study for a study, made if there is none yet.

    Args:
        study: The study; its name, inputs and objectives make up the name in the storage.
        storage: Any storage URL that Optuna takes, or :data:`IN_MEMORY`.
        sampler: ``tpe``, ``nsga2`` or ``random``.
        seed: Of the sampler; None draws one, as processes that search together must.

    Raises:
        InputError: Optuna is not installed, the study names no objectives, or the storage cannot be
            used.
    """
    try:
        import optuna
    except ImportError:
        raise InputError(
            "carsim search", "needs Optuna, which is not installed", "pip install 'carsim[search]'"
        ) from None
    if not study.objectives:
        raise InputError(
            f"study {study.name}: $.objectives",
            "are missing",
            "name at least one, such as latency_s",
        )
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    name = f"{study.name} {study.fingerprint[:12]} {' '.join(study.objectives)}"
    signs = directions(study.objectives).values()
    for attempt in count(1):
        try:
            return optuna.create_study(
                storage=_open_storage(storage),
                sampler=_sampler(sampler, seed),
                study_name=name,
                directions=["minimize" if sign > 0 else "maximize" for sign in signs],
                load_if_exists=True,
            )
        except Exception as error:
            # Storages raise what their drivers raise: SQLAlchemy's, the operating system's.
            collided = any(sign in str(error).lower() for sign in COLLISIONS)
            if not collided or attempt == ATTEMPTS:
                raise refusal(storage, error) from error
            sleep(0.1 * attempt)
    raise AssertionError


@contextmanager
def refusing(storage: str) -> Iterator[None]:
    """Turn what a storage raises that fails later, on a full disk for instance, into a refusal.

    Raises:
        InputError: It failed.
    """
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (StorageInternalError, SQLAlchemyError) as error:
        raise refusal(storage, error) from error


def refusal(storage: str, error: Exception) -> InputError:
    """What to say of a storage that has raised an error; passwords in URLs stay unsaid.

    >>> refused = refusal("mysql://ada:se@cret@host/db", OSError("no mysql://ada:se@cret@host"))
    >>> refused.place, refused.problem
    ('--storage mysql://ada:***@host/db', 'cannot be used (no mysql://ada:***@host)')
    >>> refusal("postgresql://host/db?user=ada&password=secret", OSError()).place
    '--storage postgresql://host/db?user=ada&password=***'
    """
    text = str(error.__cause__ or error).partition("[SQL")[0].partition("(Background on")[0]
    reason = _masked(" ".join(text.split()))[:200] or type(error).__name__
    return InputError(
        f"--storage {_masked(storage)}",
        f"cannot be used ({reason})",
        "mend it or name another; what the search has stored stays",
    )


# -------------------------------------------------------------------- private


def _masked(text: str) -> str:
    return PASSWORD.sub(lambda found: f"{found[1]}:***" if found[1] is not None else "***", text)


def _open_storage(storage: str) -> "optuna.storages.BaseStorage | str | None":
    from optuna.storages import RDBStorage

    if storage == IN_MEMORY:
        return None
    if storage.startswith("sqlite:"):
        patient = {"connect_args": {"timeout": BUSY_SECONDS}}
        return RDBStorage(storage, engine_kwargs=patient)
    return storage


def _sampler(name: Sampler, seed: int | None) -> "optuna.samplers.BaseSampler":
    from optuna import samplers

    if name == "tpe":
        return samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True)
    if name == "nsga2":
        return samplers.NSGAIISampler(seed=seed, population_size=20)
    return samplers.RandomSampler(seed=seed)


def _distribution(axis: Axis) -> "optuna.distributions.BaseDistribution":
    from optuna.distributions import (
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    if axis.interval is not None:
        return FloatDistribution(*axis.interval, log=axis.is_log)
    if _is_ordered(axis):
        return IntDistribution(0, len(axis.values) - 1)
    return CategoricalDistribution(range(len(axis.values)))


def _is_ordered(axis: Axis) -> bool:
    """Numbers, rising or falling: neighbours on the axis are alike."""
    if any(isinstance(v, bool) or not isinstance(v, int | float) for v in axis.values):
        return False
    return list(axis.values) in (sorted(axis.values), sorted(axis.values, reverse=True))


def _place(axis: Axis, value: Any) -> Any:
    return value if axis.interval is not None else axis.values.index(value)


def _share(axis: Axis, value: float) -> float:
    """The inverse of :meth:`Axis.at` on a continuous axis."""
    assert axis.interval is not None
    low, high = axis.interval
    if axis.is_log:
        return float(np.log(value / low) / np.log(high / low))
    return (value - low) / (high - low)

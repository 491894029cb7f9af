"""Search a design space for its Pareto front with Optuna, instead of evaluating all of it.

Model: every axis is a parameter with the values of the axis: evenly spaced numbers in their order,
others as categories. A point that does not fit, is refused, fails a filter or breaks a constraint
is infeasible, the more so the more it lacks. What the sampler proposes and is known already costs
nothing; after :data:`REPEATS` such proposals an unknown neighbour of a point on the front is taken
instead, since a sampler that has converged proposes little else than what it knows.

Several processes, on one machine or on many, may search one study: they meet in Optuna's storage,
through which each learns what the others have evaluated.
"""

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from itertools import count
from time import sleep
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote, quote_plus

import numpy as np

from carsim.base.environment import library
from carsim.base.errors import InputError
from carsim.explore.axis import Axis
from carsim.explore.code import code_sha256
from carsim.explore.evaluate import Row
from carsim.explore.pareto import directions, front
from carsim.explore.points import Point, field_of, grid_values, make_point, no_points, passes
from carsim.explore.sqlite_file import BUSY_SECONDS
from carsim.explore.store import Store
from carsim.explore.study import MOST_POINTS, Study
from carsim.explore.workers import Result

if TYPE_CHECKING:
    import optuna

Sampler = Literal["tpe", "nsga2", "random"]

REPEATS = 3
"""Proposals in a row that are known already; then a neighbour of the front is taken."""

FILTERED = 20
"""Proposals in a row that fail a filter; then a neighbour that passes is taken as well."""

NEIGHBOURS = 200
"""Neighbours, and then points anywhere, that are tried for one that is unknown."""

EXHAUSTED = 2000
"""Proposals in a row that bring nothing new; then all there is has been found."""

REFUSED = 10.0
"""Constraint violation of a refused point. For scale: a design that needs 20 % more DSPs than its
board has violates by 0.2."""

WORST = 1e30
"""Objective of an infeasible point, which samplers go past; JSON and SQL can hold it."""

LACKING = "lacking"
"""Constraint of a trial: how far its point is from being feasible."""

RESULT = "result"
"""Attribute of a trial that holds the result of its point, for other processes."""

IN_MEMORY = "memory"
"""In place of a storage's URL: trials are kept by this process alone."""

ATTEMPTS = 20
COLLISIONS = ("already exists", "unique constraint", "duplicate", "locked")
"""Messages of databases whose tables another process is making; open them again then."""


class Searcher:
    """One process's view of a search; a :class:`~carsim.explore.sweep.Chooser`.

    Args:
        study: The study; it must name objectives.
        trials: Optuna's study, from :func:`open_trials`.
        seed: Seed of the neighbours that are drawn.
        most: Different points to evaluate, all processes and earlier calls together.

    Attributes:
        known: Results by identity of their point, those of other processes included.
        total: ``most``.
    """

    dominated = misfits = 0

    def __init__(
        self,
        study: Study,
        trials: "optuna.Study",
        seed: int | None = None,
        most: int = MOST_POINTS,
    ) -> None:
        self._study = study
        self._trials = trials
        self._signs = directions(study.objectives)
        self._rng = np.random.default_rng(seed)
        self._distributions = {axis.name: _distribution(axis) for axis in study.axes}
        self._pending: dict[str, list[optuna.Trial]] = {}
        self._heard: set[int] = set()
        self._exhausted = False
        self.known: dict[str, Result] = {}
        self.total = most
        self.hear()

    def hear(self) -> list[Result]:
        """Take over what other processes have told the storage; what was new."""
        from optuna.trial import TrialState

        found = []
        for trial in self._trials.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
            if trial.number not in self._heard:
                self._heard.add(trial.number)
                if RESULT in trial.user_attrs:
                    point = make_point(self._study, trial.number, self._values(trial.params))
                    if point.id not in self.known and point.id not in self._pending:
                        result = point, json.loads(trial.user_attrs[RESULT])
                        self.known[point.id] = result
                        found.append(result)
        return found

    def resume(self, store: Store) -> None:
        """Make trials of results that none tells of, and store what others have found.

        A search that was killed between storing a result and telling it has left one of them.
        """
        for ordinal, values, row in store.rows():
            point = make_point(self._study, ordinal, values)
            if point.id not in self.known:
                self._adopt(point, row)
        store.add(self.known.values())

    def next(self) -> list[Point]:
        """A point to evaluate, until enough are known or nothing new is left.

        Raises:
            InputError: There is no point at all.
        """
        if self._exhausted or len(self.known) + len(self._pending) >= self.total:
            return []
        point = self.propose()
        self._exhausted = point is None
        if self._exhausted and not self.known and not self._pending:
            raise no_points(self._study)
        return [] if point is None else [point]

    def propose(self) -> Point | None:
        """The next point to evaluate; None if nothing new is left to be found."""
        repeats = filtered = 0
        for _ in range(EXHAUSTED):
            trial = self._trials.ask(self._distributions)
            values = self._values(trial.params)
            point = make_point(self._study, trial.number, values)
            if not passes(self._study, values):
                self._tell(trial, {}, REFUSED)
                filtered += 1
            elif point.id in self.known:
                row = self.known[point.id][1]
                self._tell(trial, row, self._lacking(point, row))
                repeats += 1
            elif point.id in self._pending:
                self._pending[point.id].append(trial)
                repeats += 1
            else:
                self._pending[point.id] = [trial]
                return point
            if repeats >= REPEATS or filtered >= FILTERED:
                neighbour = self._unknown_neighbour()
                if neighbour is None:
                    return None
                self._trials.enqueue_trial(self._params(neighbour))
        return None

    def tell(self, point: Point, row: Row) -> None:
        """The result of a point that was proposed."""
        self.known[point.id] = (point, row)
        trials = self._pending.pop(point.id)
        trials[0].set_user_attr(RESULT, json.dumps(row, allow_nan=False))
        for trial in trials:
            self._tell(trial, row, self._lacking(point, row))

    def learn(self, results: Sequence[Result]) -> list[Result]:
        """Take over some results; those that other processes have told meanwhile."""
        for point, row in results:
            self.tell(point, row)
        return self.hear()

    # ---------------------------------------------------------------- private

    def _adopt(self, point: Point, row: Row) -> None:
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

    def _tell(self, trial: "optuna.Trial", row: Row, lacking: float) -> None:
        trial.set_constraint(LACKING, lacking)
        self._trials.tell(trial, self._objectives(row, lacking))

    def _objectives(self, row: Row, lacking: float) -> list[float]:
        if lacking:
            return [WORST * sign for sign in self._signs.values()]
        return [float(row[name]) for name in self._signs]

    def _lacking(self, point: Point, row: Row) -> float:
        """Constraint violation of a result; 0 if it is feasible."""
        if row["status"] == "misfit":
            return float(row["fill"]) - 1
        if row["status"] != "ok" or any(row.get(name) is None for name in self._signs):
            return REFUSED

        def look_up(name: str) -> Any:
            return row[name] if name in row else field_of(self._study, point, name)

        return float(sum(not each.holds(look_up) for each in self._study.constraints))

    def _values(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Values of the axes that suggested parameters stand for."""
        return {axis.name: _value(axis, params[axis.name]) for axis in self._study.axes}

    def _params(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {axis.name: _param(axis, values[axis.name]) for axis in self._study.axes}

    def _unknown_neighbour(self) -> dict[str, Any] | None:
        """An unknown point next to one on the front, else any unknown one; values of its axes."""
        axes, signs = self._study.axes, list(self._signs.values())
        feasible = [(p, row) for p, row in self.known.values() if not self._lacking(p, row)]
        objectives = np.array([self._objectives(row, 0.0) for _, row in feasible])
        best: Any = np.flatnonzero(front(objectives * signs)) if feasible else []
        for attempt in range(2 * NEIGHBOURS):
            if len(best) and attempt < NEIGHBOURS:
                values = dict(feasible[best[self._rng.integers(len(best))]][0].values)
                axis = axes[self._rng.integers(len(axes))]
                values[axis.name] = self._step(axis, values[axis.name])
            else:
                values = {axis.name: axis.at(self._rng.random()) for axis in axes}
            if self._is_new(values):
                return values
        if any(axis.interval is not None for axis in axes):
            return None
        # What chance has not found may still be there.
        return next(filter(self._is_new, grid_values(self._study)), None)

    def _is_new(self, values: dict[str, Any]) -> bool:
        point = make_point(self._study, 0, values)
        is_seen = point.id in self.known or point.id in self._pending
        return not is_seen and passes(self._study, values)

    def _step(self, axis: Axis, value: Any) -> Any:
        """A value next to another on an axis; any other one where there is no order."""
        if axis.interval is not None:
            share = axis.share(value) + self._rng.normal(0, 0.1)
            return axis.at(min(max(share, 0.0), 1.0))
        if axis.is_ordered:
            place = axis.values.index(value) + int(self._rng.choice((-1, 1)))
            return axis.values[min(max(place, 0), len(axis.values) - 1)]
        return axis.values[self._rng.integers(len(axis.values))]


def open_trials(
    study: Study, storage: str, sampler: Sampler = "tpe", seed: int | None = None
) -> "optuna.Study":
    """Optuna's study for a study, made if there is none yet.

    Args:
        study: The study. Its name in the storage consists of its own name, a hash of its inputs and
            of the code of carsim, and its objectives.
        storage: Any storage URL that Optuna takes, or :data:`IN_MEMORY`.
        sampler: ``tpe``, ``nsga2`` or ``random``.
        seed: Seed of the sampler; None draws one, as processes that search together must.

    Raises:
        InputError: Optuna is not installed, the study names no objectives, or the storage cannot be
            used.
    """
    library("optuna", "search")
    import optuna

    objectives = study.objectives
    if not objectives:
        place = f"study {study.name}: $.objectives"
        raise InputError(place, "are missing", "name at least one, such as latency_s")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    signs = directions(objectives).values()
    name = f"{study.name} {study.fingerprint[:12]} {code_sha256()[:12]} {' '.join(objectives)}"
    for attempt in count(1):
        try:
            trials = optuna.create_study(
                storage=_open_storage(storage),
                sampler=_sampler(sampler, seed),
                study_name=name,
                directions=["minimize" if sign > 0 else "maximize" for sign in signs],
                load_if_exists=True,
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                trials.set_metric_names(list(objectives))
            return trials
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
    """Error message for a storage that has raised an error.

    Of a URL only what is known to be no password is shown: scheme, user, host, database and names
    of options. One that cannot be taken apart is not shown at all.

    >>> refused = refusal("mysql://ada:secret@host/db", OSError("no mysql://ada:secret@host"))
    >>> refused.place, refused.problem
    ('`storage` mysql://ada:***@host/db', 'cannot be used (no mysql://ada:***@host)')
    >>> refusal("postgresql://host/db?user=ada&sslpassword=secret", OSError()).place
    '`storage` postgresql://host/db?user=***&sslpassword=***'
    >>> str(refusal("ada:secret@host/db", OSError("no ada:secret@host/db")))
    '`storage`: is no URL of a storage; write it as mysql://user:password@host/database'
    """
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(storage)
    except (ArgumentError, ValueError):
        url = None
    if url is None or {"@", ":"} & set(f"{url.host}{url.database}"):
        cure = "write it as mysql://user:password@host/database"
        return InputError("`storage`", "is no URL of a storage", cure)
    options = {name: "".join(values) for name, values in url.query.items()}
    text = str(error.__cause__ or error).partition("[SQL")[0].partition("(Background on")[0]
    for secret in filter(None, (str(url.password or ""), *options.values())):
        for spelling in (secret, quote(secret), quote_plus(secret), quote(secret, safe="")):
            text = text.replace(spelling, "***")
    shown = url.set(query={}).render_as_string(hide_password=True)
    named = "&".join(f"{name}=***" for name in options)
    return InputError(
        f"`storage` {shown}{'?' if named else ''}{named}",
        f"cannot be used ({' '.join(text.split())[:200] or type(error).__name__})",
        "mend it or name another; what the search has stored stays",
    )


# -------------------------------------------------------------------- private


def _open_storage(storage: str) -> "optuna.storages.BaseStorage | str | None":
    from optuna.storages import RDBStorage
    from sqlalchemy.pool import NullPool

    if storage == IN_MEMORY:
        return None
    if storage.startswith("sqlite:"):
        # No pool, as nobody would close the connections that wait in it.
        patient = {"connect_args": {"timeout": BUSY_SECONDS}, "poolclass": NullPool}
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
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if axis.interval is not None:
        return FloatDistribution(*axis.interval, log=axis.is_log)
    if (step := _even_step(axis)) is not None:
        low, high = min(axis.values), max(axis.values)
        is_whole = all(isinstance(value, int) for value in axis.values)
        return (IntDistribution if is_whole else FloatDistribution)(low, high, step=step)
    return CategoricalDistribution([_param(axis, value) for value in axis.values])


def _even_step(axis: Axis) -> Any:
    """The step between neighbours of an axis of numbers, as Optuna divides it; None if it varies.

    >>> _even_step(Axis("x", (0.1, 0.2, 0.3))), _even_step(Axis("x", (1, 2, 4)))
    (0.1, None)
    """
    if not axis.is_ordered or len(axis.values) < 2:
        return None
    values = sorted(Decimal(str(value)) for value in axis.values)
    step = values[1] - values[0]
    if any(value != values[0] + place * step for place, value in enumerate(values)):
        return None
    return int(step) if all(isinstance(value, int) for value in axis.values) else float(step)


def _param(axis: Axis, value: Any) -> Any:
    """The suggested parameter that stands for a value: itself, or JSON of lists and mappings."""
    return json.dumps(value) if isinstance(value, list | dict) else value


def _value(axis: Axis, param: Any) -> Any:
    """The value of an axis that a suggested parameter stands for; numbers were rounded on the way.

    >>> _value(Axis("x", (0.1, 0.2, 0.3)), 0.30000000000000004)
    0.3
    """
    if axis.interval is not None:
        return param
    if _even_step(axis) is not None:
        return min(axis.values, key=lambda value: abs(value - param))
    return next(value for value in axis.values if _is_same(_param(axis, value), param))


def _is_same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)

"""Evaluate points elsewhere: in this process, in others, or on a Dask cluster.

:class:`Crew` keeps all workers busy. A task is a chunk of neighbouring points, which share the
phases of their hardware; after about :data:`BUDGET_S` it comes back with what it has finished and
what is left, and the rest is sent again at once, to the worker that has just become free. So
results come in steadily, neighbours stay together, and the death of a worker costs a moment's work.

The points of a task whose process dies are sent again one at a time; the one at which a process
dies again is tried alone, and has failed if that process dies, too. A point whose evaluation raises
an exception has failed as well. Refusals and misfits are results.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing import get_context
from time import monotonic
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

from carsim.base.environment import follow_parent, library
from carsim.base.errors import InputError
from carsim.base.fork_server import start_fork_server
from carsim.base.plugins import load_plugins
from carsim.base.pools import POLL_S, end_broken, fail_if_killed, result_of
from carsim.explore.evaluate import Evaluator, Row
from carsim.explore.parcel import Parcel, forget, made_of, studies
from carsim.explore.points import Point
from carsim.explore.study import Study

BUDGET_S = 1.0
"""After about so long a task comes back with what it has finished."""

WORKER_MODULE = __name__
"""Module that a worker process needs; the server of forks imports it once for all of them."""

COMMIT_S = 0.1
"""After about so long a task in this process comes back; it can be interrupted then alone."""

Argument = TypeVar("Argument")
Done = TypeVar("Done")
Result = tuple[Point, Row]
Answer = tuple[list[Result], list[Point]]
Stop = Callable[[], bool]


def evaluate_some(key: str, points: list[Point], budget_s: float) -> Answer:
    """Runs in a worker: evaluate points until the time is up, at least one.

    Args:
        key: Key of :data:`studies`.
        points: The points.
        budget_s: Seconds after which no further one is begun.

    Returns:
        Results, and the points that are left.

    Raises:
        InputError: As of :meth:`~carsim.explore.parcel.Parcel.unpack`.
    """
    evaluator = made_of(key, Evaluator)
    results: list[Result] = []
    begin_until = monotonic() + budget_s
    points_per_call = evaluator.together if budget_s else 1
    remaining = points
    while remaining and (not results or monotonic() <= begin_until):
        evaluated = remaining[:points_per_call]
        remaining = remaining[points_per_call:]
        results += zip(evaluated, evaluator.evaluate(evaluated), strict=True)
    return results, remaining


class Workers:
    """Runs tasks. This class runs them at once, in this process.

    Args:
        study: The study whose points are evaluated.

    Attributes:
        slots: Tasks that run at a time.
        death: Exception of a task whose worker has died.
    """

    slots = 1
    death: type[Exception] = BrokenProcessPool

    def __init__(self, study: Study) -> None:
        self.key = uuid4().hex
        studies[self.key] = study

    def submit(self, points: list[Point], budget_s: float) -> Future[Answer]:
        """Begin to evaluate points."""
        future: Future[Answer] = Future()
        future.set_result(evaluate_some(self.key, points, min(budget_s, COMMIT_S)))
        return future

    def alone(self, point: Point) -> Row:
        """Evaluate a point of which a worker has died, or say that it has failed."""
        return failure("several workers that evaluated it")

    def check(self, under_way: Iterable[Future[Any]]) -> None:
        """Make sure that there are workers, after some time in which none has finished a task.

        Args:
            under_way: Tasks, which fail if their worker was killed.

        Raises:
            InputError: All are gone.
        """

    def close(self) -> None:
        """End the workers when they have finished what they do."""
        forget(self.key)


class Processes(Workers):
    """Processes on this machine.

    Args:
        study: The study whose points are evaluated.
        count: Number of processes; all cores if None.
    """

    def __init__(self, study: Study, count: int | None) -> None:
        super().__init__(study)
        self.slots = count or available_cores()
        self._name = study.name
        self._parcel = Parcel.of(study)
        self._pool = self._start(self.slots)

    def submit(self, points: list[Point], budget_s: float) -> Future[Answer]:
        """Begin to evaluate points; where a process has died, others take the place of all."""
        try:
            return self._pool.submit(evaluate_some, self.key, points, budget_s)
        except BrokenProcessPool:
            end_broken(self._pool)
            self._pool = self._start(self.slots)
            return self._pool.submit(evaluate_some, self.key, points, budget_s)

    def each(
        self, task: Callable[[str, Argument], Done], parts: Sequence[Argument]
    ) -> Iterator[Done]:
        """Results of a task for several arguments, in their order.

        Args:
            task: Function of the key of the study and an argument.
            parts: The arguments.

        Raises:
            InputError: A process has died.
        """
        try:
            futures = deque(self._pool.submit(task, self.key, argument) for argument in parts)
            while futures:
                yield result_of(self._pool, futures.popleft())
        except BrokenProcessPool:
            end_broken(self._pool)
            problem = "a process was killed; memory may have run out"
            cure = "start it again, if need be with fewer --workers"
            raise InputError(f"study {self._name}", problem, cure) from None

    def alone(self, point: Point) -> Row:
        """Evaluate one point in a process of its own."""
        with self._start(1) as pool, suppress(BrokenProcessPool):
            future = pool.submit(evaluate_some, self.key, [point], 0.0)
            ((_, row),), _ = result_of(pool, future)
            return row
        return failure("processes that evaluated it, the last one alone")

    def check(self, under_way: Iterable[Future[Any]]) -> None:
        """Start others if a process was killed and the pool did not notice."""
        if fail_if_killed(self._pool, under_way):
            self._pool = self._start(self.slots)

    def close(self) -> None:
        """End the processes when they have finished what they do."""
        self._pool.shutdown(cancel_futures=True)
        super().close()

    def _start(self, count: int) -> ProcessPoolExecutor:
        # Never a fork of this process, whose threads may hold locks; where there is a server of
        # forks, it has imported all that a worker needs once for all of them.
        processes = get_context("forkserver" if start_fork_server(WORKER_MODULE) else "spawn")
        return ProcessPoolExecutor(count, processes, _start, (self.key, self._parcel))


class _Chunk(NamedTuple):
    """Points of one task; careful, it comes back after each since a process died of one of them."""

    points: list[Point]
    careful: bool = False


class Crew:
    """Keeps workers busy with chunks of points.

    Args:
        workers: The workers, which it closes in the end.
    """

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._queue: deque[_Chunk] = deque()
        self._under_way: dict[Future[Answer], _Chunk] = {}
        self.close = workers.close

    @property
    def idle(self) -> int:
        """Workers that nothing waits for or is under way on."""
        return self._workers.slots - len(self._queue) - len(self._under_way)

    def add(self, points: list[Point]) -> None:
        """Queue points that are evaluated one after the other, as far as there are others."""
        self._queue.append(_Chunk(points))

    def take(self, stop: Stop) -> list[Result] | None:
        """Wait for some results.

        Args:
            stop: Asked before anything is started; True lets what is under way finish, and no more.

        Returns:
            Results, none if a worker has died for instance; None if nothing is under way.

        Raises:
            InputError: No workers are left.
        """
        while self._queue and len(self._under_way) < self._workers.slots and not stop():
            chunk = self._queue.popleft()
            future = self._workers.submit(chunk.points, 0.0 if chunk.careful else BUDGET_S)
            self._under_way[future] = chunk
        if not self._under_way:
            return None
        done, _ = wait(self._under_way, POLL_S, FIRST_COMPLETED)
        if not done:
            self._workers.check(self._under_way)
        results: list[Result] = []
        for future in done:
            chunk = self._under_way.pop(future)
            finished, remaining = self._outcome(future, chunk)
            results += finished
            self._requeue(remaining)
        return results

    def _outcome(self, future: Future[Answer], chunk: _Chunk) -> tuple[list[Result], _Chunk]:
        """Results of a task that has ended, and the points that are to be evaluated again.

        Where a worker has died of a careful chunk, its first point is evaluated alone.
        """
        try:
            finished, remaining = future.result()
        except CancelledError:
            self._workers.check(self._under_way)
            return [], chunk
        except self._workers.death:
            if not chunk.careful:
                return [], _Chunk(chunk.points, careful=True)
            first, *remaining = chunk.points
            return [(first, self._workers.alone(first))], _Chunk(remaining, careful=True)
        return finished, _Chunk(remaining, chunk.careful)

    def _requeue(self, remaining: _Chunk) -> None:
        """Put points at the head of the queue, divided among workers that are idle."""
        points = remaining.points
        if not points:
            return
        shares = max(1, min(self.idle, len(points)))
        for share in range(shares):
            self._queue.appendleft(_Chunk(points[share::shares], remaining.careful))


def start_crew(study: Study, workers: int | None, scheduler: str | None = None) -> Crew:
    """Workers for the points of a study.

    Args:
        study: The study.
        workers: Processes on this machine; all cores if None, this process if 0.
        scheduler: Address of a Dask scheduler, whose workers are taken instead.

    Raises:
        InputError: No scheduler there, no workers, or the extra ``cluster`` is not installed.
    """
    if scheduler is not None:
        library("distributed", "`scheduler`")
        from carsim.explore.cluster import Cluster

        return Crew(Cluster(study, scheduler))
    return Crew(Workers(study) if workers == 0 else Processes(study, workers))


def failure(who: str) -> Row:
    """The row of a point that could not be evaluated."""
    return {"status": "failed", "reason": f"killed {who}; memory may have run out", "seconds": 0.0}


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# -------------------------------------------------------------------- private


def _start(name: str, parcel: Parcel) -> None:
    """Runs first in a worker: it finishes its task on Ctrl-C, and does not outlive its parent."""
    follow_parent()
    try:
        load_plugins(parcel.plugins)
    except InputError as error:
        # Raised here, it would end the process, and each process that takes its place.
        studies[name] = InputError("a worker process", f"cannot start: {error}")
        return
    studies[name] = parcel

"""Evaluate points in other processes, on this machine or on a Dask cluster.

As many tasks are under way as there are workers. A task is a neighbourhood of points, which share
the phases of their hardware; it comes back after a while with what it has finished and what is
left, and the rest is sent again at once, to the worker that has just become free. So results come
in steadily, neighbours stay together, and the death of a worker costs a moment's work.

Points whose process dies are sent again one at a time; the one at which a process dies again is
tried alone, and has failed when :data:`KILLS` processes died of it. Nothing else fails: refusals
and misfits are results.
"""

import gc
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing import (
    connection,
    get_all_start_methods,
    get_context,
    parent_process,
)
from multiprocessing.context import ForkServerContext
from pathlib import Path
from platform import node
from time import monotonic
from typing import Any

from carsim.environment import environment
from carsim.errors import InputError
from carsim.explore.code import code_sha256
from carsim.explore.evaluate import Context, Evaluator, Row
from carsim.explore.points import Point

BUDGET_S = 2.0
"""After about so long a task comes back with what it has finished."""

COMMIT_S = 0.1
"""In this process, results are handed over about so often."""

KILLS = 2
"""So many processes may die of one point, which they evaluated alone, before it has failed."""

Result = tuple[Point, Row]
Answer = tuple[list[Result], list[Point]]
Stop = Callable[[], bool]

CONNECT_S = 10
"""For how long a Dask scheduler may take to answer."""

_evaluators: dict[str, Evaluator] = {}
_context: Context | None = None


@dataclass(frozen=True)
class Lot:
    """Neighbouring points that are evaluated together.

    Attributes:
        points: The points.
        careful: A process died of one of them: come back after each.
    """

    points: list[Point]
    careful: bool = False


def evaluate_some(context: Context | None, points: list[Point], budget_s: float) -> Answer:
    """Runs in a worker: evaluate points until the time is up, at least one.

    Args:
        context: What they need, or None for what the worker was started with.
        points: The points.
        budget_s: Seconds after which no further one is begun.

    Returns:
        Results, and the points that are left.

    Raises:
        InputError: This worker runs other code than whoever asks.
    """
    context = context or _context
    assert context is not None
    if context.code != code_sha256():
        raise InputError(
            "--scheduler",
            f"the worker on {node()} runs other code of carsim",
            "install the same on all machines",
        )
    if context.key not in _evaluators:
        _evaluators.clear()
        _evaluators[context.key] = Evaluator(context)
    evaluator = _evaluators[context.key]
    results: list[Result] = []
    until = monotonic() + budget_s
    for done, point in enumerate(points):
        if done and monotonic() > until:
            return results, points[done:]
        results.append((point, evaluator.evaluate(point)))
    return results, []


def evaluate_here(context: Context, points: Iterable[Point], stop: Stop) -> Iterator[list[Result]]:
    """Evaluate points in this process, neighbours one after the other."""
    evaluator = Evaluator(context)
    results: list[Result] = []
    since = monotonic()
    for lot in neighbourhoods(points):
        for point in lot.points:
            if stop():
                break
            results.append((point, evaluator.evaluate(point)))
            if monotonic() - since > COMMIT_S:
                yield results
                results, since = [], monotonic()
    yield results


def evaluate_local(
    context: Context, points: list[Point], workers: int, stop: Stop
) -> Iterator[list[Result]]:
    """Evaluate points in processes on this machine.

    Args:
        context: What they need.
        points: The points; neighbours need not be side by side.
        workers: Number of processes.
        stop: Asked before anything is started; True lets what is under way finish, and no more.

    Yields:
        Results as they come in.
    """
    left = neighbourhoods(points)
    while left and not stop():
        doubtful: list[Point] = []
        with start_pool(context, workers) as pool:
            yield from _spread(pool, None, left, workers, stop, BrokenProcessPool, doubtful)
        for point in doubtful:
            if not stop():
                yield [(point, evaluate_alone(context, point))]


def evaluate_cluster(
    context: Context, points: list[Point], address: str, stop: Stop
) -> Iterator[list[Result]]:
    """Evaluate points on the workers of a Dask cluster; see :func:`evaluate_local`.

    Dask itself repeats what a dead worker was at, and gives up what kills several of them.

    Raises:
        InputError: No scheduler there, no workers, or the extra ``cluster`` is not installed.
    """
    try:
        from distributed import Client, KilledWorker
    except ImportError:
        raise InputError(
            "--scheduler", "needs Dask, which is not installed", "pip install 'carsim[cluster]'"
        ) from None
    place = f"--scheduler {address}"
    try:
        client = Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(place, f"no Dask scheduler there ({reason})", "start one") from None
    with client:
        workers = sum(client.nthreads().values())
        if not workers:
            raise InputError(place, "the scheduler has no workers", "start some first")
        doubtful: list[Point] = []
        left = neighbourhoods(points)
        pool = client.get_executor(pure=False)
        while left and not stop():
            # Dask keeps as many copies as it thinks fit; with the last holder the context is lost.
            shared = client.scatter(context, broadcast=True, hash=False)
            try:
                yield from _spread(pool, shared, left, workers, stop, KilledWorker, doubtful)
            except CancelledError:
                if client.status != "running":
                    what = "the scheduler is gone"
                elif not client.nthreads():
                    what = "the scheduler has lost all of its workers"
                else:
                    continue
                cure = "start one, then the same command again: what is stored stays"
                raise InputError(place, what, cure) from None
        yield [(point, _failure("several workers of the cluster")) for point in doubtful]


def neighbourhoods(points: Iterable[Point]) -> deque[Lot]:
    """Points by neighbourhood, in the order in which they are first met."""
    by_key: dict[str, list[Point]] = {}
    for point in points:
        by_key.setdefault(point.neighbourhood, []).append(point)
    return deque(Lot(lot) for lot in by_key.values())


def start_pool(context: Context, workers: int) -> ProcessPoolExecutor:
    """Processes that evaluate points of a context, see :func:`evaluate_some`."""
    # Never a fork of this process, whose threads may hold locks; where there is a server of forks,
    # it has imported all that a worker needs once for all of them.
    methods = get_all_start_methods()
    processes = get_context("forkserver" if "forkserver" in methods else "spawn")
    if isinstance(processes, ForkServerContext):
        processes.set_forkserver_preload([__name__])
        _start_forkserver()
    return ProcessPoolExecutor(
        workers, mp_context=processes, initializer=_start, initargs=(context,)
    )


def evaluate_alone(context: Context, point: Point) -> Row:
    """Evaluate one point in a process of its own, again if that dies; failed if that dies, too."""
    for _ in range(KILLS):
        with start_pool(context, 1) as pool:
            try:
                ((_, row),), _ = pool.submit(evaluate_some, None, [point], 0.0).result()
            except BrokenProcessPool:
                continue
            return row
    return _failure(f"{KILLS} processes that evaluated it alone")


# -------------------------------------------------------------------- private


def _spread(
    pool: Executor,
    shared: Any,
    left: deque[Lot],
    workers: int,
    stop: Stop,
    death: type[Exception],
    doubtful: list[Point],
) -> Iterator[list[Result]]:
    """Keep all workers busy until nothing is left, or the pool is broken.

    Args:
        pool: Where tasks run.
        shared: The context as tasks are given it.
        left: What to evaluate; what was not begun, or has to be begun again, remains.
        workers: Tasks under way at a time.
        stop: As in :func:`evaluate_local`.
        death: What a task raises whose worker has died.
        doubtful: Receives the points of which a worker has died.

    Raises:
        CancelledError: The pool has given up tasks, because it lost the context for instance; what
            they were to evaluate is left.
    """
    under_way: dict[Future[Answer], Lot] = {}
    broken = given_up = False
    while True:
        while left and len(under_way) < workers and not (broken or given_up or stop()):
            lot = left[0]
            try:
                budget_s = 0.0 if lot.careful else BUDGET_S
                under_way[pool.submit(evaluate_some, shared, lot.points, budget_s)] = lot
            except BrokenProcessPool:
                broken = True
            else:
                left.popleft()
        if not under_way:
            if given_up:
                raise CancelledError
            return
        done, _ = wait(under_way, return_when=FIRST_COMPLETED)
        for future in done:
            lot = under_way.pop(future)
            try:
                results, rest = future.result()
            except CancelledError:
                given_up = True
                left.append(lot)
                continue
            except death:
                broken = death is BrokenProcessPool
                if lot.careful:
                    doubtful.append(lot.points[0])
                    rest = lot.points[1:]
                else:
                    rest = lot.points
                left.extendleft([Lot(rest, careful=True)] if rest else [])
                continue
            yield results
            idle = workers - len(under_way) - len(left)
            left.extendleft(Lot(part, lot.careful) for part in _split(rest, idle))


def _split(points: list[Point], parts: int) -> list[list[Point]]:
    """Points in so many parts of about equal length, where idle workers would take them.

    >>> _split([1, 2, 3, 4, 5], 2), _split([1, 2], -1), _split([], 3)
    ([[1, 2], [3, 4, 5]], [[1, 2]], [])
    """
    count = max(1, min(parts, len(points)))
    bounds = [len(points) * part // count for part in range(count + 1)]
    return [points[a:b] for a, b in pairwise(bounds) if a < b]


def _start(context: Context) -> None:
    """Runs first in a worker: it finishes its task on Ctrl-C, and does not outlive its parent."""
    global _context
    _context = context
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None

    def leave_with_parent() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=leave_with_parent, daemon=True).start()
    # What is here now stays until the end: to look through it for garbage cost a point 8 %.
    gc.freeze()


def _start_forkserver() -> None:
    """Start the server of forks, unless it runs, so that it imports what this process would.

    Left alone, it looks for modules in the working directory first (Python up to 3.12), where
    another carsim may lie.
    """
    from multiprocessing import forkserver

    path = os.pathsep.join(folder or str(Path.cwd()) for folder in sys.path)
    with environment({"PYTHONSAFEPATH": "1", "PYTHONPATH": path}):
        forkserver.ensure_running()


def _failure(who: str) -> Row:
    reason = f"killed {who}; memory may have run out"
    return {"status": "failed", "reason": reason, "seconds": 0.0}

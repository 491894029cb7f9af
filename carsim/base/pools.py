"""Pools of processes any of which may be killed at any moment, most often because memory ran out.

A :class:`~concurrent.futures.ProcessPoolExecutor` notices that, except in one case: it waits
without end for the rest of a result whose process was killed while it sent it.
"""

from collections.abc import Iterable
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

POLL_S = 5.0
"""So often it is asked whether the processes are still there."""

Done = TypeVar("Done")


def result_of(pool: ProcessPoolExecutor, future: Future[Done]) -> Done:
    """The result of a task, or what it raises.

    Raises:
        BrokenProcessPool: A process was killed.
    """
    while not wait([future], POLL_S).done:
        fail_if_killed(pool, [future])
    return future.result()


def fail_if_killed(pool: ProcessPoolExecutor, under_way: Iterable[Future[Any]]) -> bool:
    """End a pool that does not notice that a process was killed; asked when nothing has happened.

    Args:
        pool: The pool.
        under_way: What it works at. If a process was killed, it fails with BrokenProcessPool.

    Returns:
        Whether a process was killed.
    """
    if all(each.is_alive() for each in [*(pool._processes or {}).values()]):
        return False
    end_broken(pool)
    for future in under_way:
        if not future.done():
            future.set_exception(BrokenProcessPool("a process was killed"))
    return True


def end_broken(pool: ProcessPoolExecutor) -> None:
    """End a pool of which a process was killed."""
    # One that was being started as the others were ended would be waited for without end.
    for left in [*(pool._processes or {}).values()]:
        left.kill()
    results: Any = pool._result_queue
    if results is not None:
        results._writer.close()  # as all others are closed now, no rest is waited for
    pool.shutdown()

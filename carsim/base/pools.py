"""Pools of processes any of which may be killed at any moment, most often because memory ran out.

A :class:`~concurrent.futures.ProcessPoolExecutor` notices that, except in one case: it waits
without end for the rest of a result whose process was killed while it sent it.
"""

import ast
import sys
from collections.abc import Iterable
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from carsim.base.errors import InputError

POLL_S = 5.0
"""So often it is asked whether the processes are still there."""

Done = TypeVar("Done")

GUARD = 'if __name__ == "__main__":'
"""Line of a script above what worker processes shall not run again."""


def check_guarded() -> None:
    """Refuse to start processes from a line of a script that each of them would run again.

    A process that is not forked imports the script that started it. If the script calls carsim at
    its top level, outside of ``if __name__ == "__main__":``, each worker would start workers.

    Simplification: a call in another thread, of which the script's own line is not known, is taken
    to be guarded.

    Raises:
        InputError: The call is not guarded; says what to write.
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None and not _is_top_level(frame):
        frame = frame.f_back
    if frame is None:
        return
    file = frame.f_code.co_filename
    line = frame.f_lineno
    if getattr(sys.modules.get("__main__"), "__file__", None) is None:
        return  # a prompt or a notebook, which processes do not import
    try:
        script = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    if not any(_guards(statement, line) for statement in script.body):
        place = f"{Path(file).name}:{line}"
        problem = "starts worker processes, each of which runs this script again"
        raise InputError(place, problem, f"write {GUARD} above, or set `workers` to 0")


def _is_top_level(frame: FrameType) -> bool:
    """True for the frame of the script that Python was started with."""
    return frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") == "__main__"


def _guards(statement: ast.stmt, line: int) -> bool:
    """True if a statement is an `if` over ``__name__`` that holds a line."""
    if not isinstance(statement, ast.If):
        return False
    names = {node.id for node in ast.walk(statement.test) if isinstance(node, ast.Name)}
    return "__name__" in names and statement.lineno < line <= (statement.end_lineno or 0)


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
    processes = list((pool._processes or {}).values())
    if all(process.is_alive() for process in processes):
        return False
    end_broken(pool)
    for future in under_way:
        if not future.done():
            future.set_exception(BrokenProcessPool("a process was killed"))
    return True


def end_broken(pool: ProcessPoolExecutor) -> None:
    """End a pool of which a process was killed."""
    # One that was being started as the others were ended would be waited for without end.
    for process in list((pool._processes or {}).values()):
        process.kill()
    results: Any = pool._result_queue
    if results is not None:
        results._writer.close()  # as all others are closed now, no rest is waited for
    pool.shutdown()

"""Worker processes of one thread each, so that sums round the same however many there are."""

import multiprocessing
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from carsim.base.environment import environment, follow_parent
from carsim.base.errors import InputError
from carsim.base.plugins import load_plugins, loaded_plugins
from carsim.base.pools import check_guarded, fail_if_killed

Result = TypeVar("Result")

Advance = Callable[[int], None]
"""Called by a piece of work with the number of units it has done since the last call."""

Progress = Callable[[int, int], None]
"""Called in the parent now and then with units done and units in all."""

_THREADS = [f"{name}_THREADS" for name in ("OMP_NUM", "OPENBLAS_NUM", "MKL_NUM", "VECLIB_MAXIMUM")]
_shared: dict[str, Any] = {}
"""In a worker: the counter of units done, and the event that asks it to stop."""


def run_in_workers(
    pieces: Sequence[Callable[[Advance], Result]],
    *,
    total: int,
    workers: int,
    progress: Progress | None,
) -> list[Result]:
    """Run pieces of work, in processes of one thread each.

    Args:
        pieces: Functions that can be pickled; each reports its units as it goes.
        total: Units of all pieces.
        workers: Most processes at a time; 0 runs all in this process, with the threads it has.
        progress: Told about every fifth of a second.

    Returns:
        Their results, in order.

    Raises:
        InputError: A worker died, most likely of want of memory.
    """
    if workers == 0:
        return [piece(lambda units: None) for piece in pieces]
    check_guarded()
    context = multiprocessing.get_context("spawn")
    done = context.Value("q", 0)
    stop = context.Event()
    with (
        environment(dict.fromkeys(_THREADS, "1")),
        ProcessPoolExecutor(
            max_workers=max(1, min(workers, len(pieces))),
            mp_context=context,
            initializer=_start_worker,
            initargs=(done, stop, loaded_plugins()),
        ) as pool,
    ):
        try:
            futures: list[Future[Result]] = [pool.submit(_work, piece) for piece in pieces]
            pending = set(futures)
            while pending:
                done_now, pending = wait(pending, timeout=0.2, return_when=FIRST_EXCEPTION)
                if not done_now:
                    fail_if_killed(pool, pending)
                for future in done_now:
                    future.result()  # an error stops all the others
                if progress:
                    progress(done.value, total)
            return [future.result() for future in futures]
        except BrokenProcessPool as error:
            cure = "free some memory, or set `workers` to 1"
            raise InputError("decoding", "a worker process died", cure) from error
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)


def _start_worker(done: Any, stop: Any, plugins: Mapping[str, str]) -> None:
    follow_parent()  # which hears of Ctrl-C, and sets stop
    try:
        load_plugins(plugins)
    except InputError as error:
        # Raised here, it would break the pool, which would say that memory has run out.
        _shared["refusal"] = InputError("a worker process", f"cannot start: {error}")
    _shared.update(done=done, stop=stop)


def _work(piece: Callable[[Advance], Result]) -> Result:
    if refusal := _shared.get("refusal"):
        raise refusal

    def advance(units: int) -> None:
        if _shared["stop"].is_set():
            raise KeyboardInterrupt
        with _shared["done"].get_lock():
            _shared["done"].value += units

    return piece(advance)

"""Run a study: every point that the store does not hold yet, results stored as they come in."""

import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING

from carsim.base.files import unwritable
from carsim.explore.points import make_points
from carsim.explore.sqlite_file import sole_writer
from carsim.explore.store import Store, open_folder
from carsim.explore.study import Study, load_study
from carsim.explore.workers import Stop, evaluate, prepare

if TYPE_CHECKING:
    import pandas as pd

STUDY_FILE = "study.yaml"


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a sweep.

    Attributes:
        total: Points of the study.
        evaluated: Those that this call has evaluated.
        seconds: Seconds since it began.
        counts: Results by status.
    """

    total: int
    evaluated: int
    seconds: float
    counts: Counter[str]

    @property
    def finished(self) -> int:
        """Points with a result."""
        return self.counts.total()

    @property
    def points_per_minute(self) -> float:
        """Rate of this call so far."""
        return 60 * self.evaluated / self.seconds if self.seconds else 0.0


Tell = Callable[[Progress], None]


def sweep(
    study: Study | str | Path,
    out: str | Path | None = None,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    retry_failed: bool = False,
) -> "pd.DataFrame":
    """Evaluate all points of a study.

    Where it uses processes, a script that calls it needs ``if __name__ == "__main__":`` around what
    it runs, as always with :mod:`multiprocessing`.

    Args:
        study: A study, or its file.
        out: Folder of the store; without one, results are kept in memory alone.
        workers: Processes; all cores if left out, 0 evaluates in this process.
        scheduler: Address of a Dask scheduler, whose workers are taken instead.
        retry_failed: Evaluate points again that have failed.

    Returns:
        A row per point, see :func:`carsim.explore.frame.frame_of`.

    Raises:
        InputError: A study, a store or a scheduler that cannot be used.
    """
    from carsim.explore.frame import frame_of

    study = study if isinstance(study, Study) else load_study(study)
    with Store(":memory:") if out is None else open_folder(Path(out)) as store:
        fill(store, study, out=out, workers=workers, scheduler=scheduler, retry_failed=retry_failed)
        return frame_of(store)


def fill(
    store: Store,
    study: Study,
    *,
    out: str | Path | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    retry_failed: bool = False,
    tell: Tell = lambda _: None,
) -> Progress:
    """Evaluate all points of a study that a store does not hold.

    Args:
        store: Store for the results.
        study: The study.
        out: Folder of the store, which is locked meanwhile and receives a copy of the study.
        workers: As in :func:`sweep`.
        scheduler: As there.
        retry_failed: As there.
        tell: Told how far it is, at the start and after every few results.

    Returns:
        How far it got: all the way.

    Raises:
        InputError: The store is of another study, or it cannot be written; what it holds stays.
        KeyboardInterrupt: Ctrl-C was pressed; what was under way has been stored.
    """
    with ExitStack() as stack:
        interrupted = stack.enter_context(interruptible())
        if scheduler is None and workers != 0:
            prepare()  # while it imports, points are made and what is stored is read
        points = make_points(study)
        if out is not None:
            stack.enter_context(sole_writer(Path(out)))
        store.claim(study, "sweep")
        if out is not None:
            keep_copy(study, Path(out))
        if retry_failed:
            store.forget("failed")
        finished = store.finished()
        todo = [point for point in points if point.id not in finished]
        counts, start, evaluated = Counter(finished.values()), monotonic(), 0

        def progress() -> Progress:
            return Progress(len(points), evaluated, monotonic() - start, Counter(counts))

        tell(progress())
        if interrupted():
            raise KeyboardInterrupt
        if not todo:
            return progress()
        incoming = evaluate(study, todo, workers=workers, scheduler=scheduler, stop=interrupted)
        for results in stack.enter_context(closing(incoming)):
            store.add(results)
            evaluated += len(results)
            counts.update(row["status"] for _, row in results)
            tell(progress())
        if evaluated < len(todo):
            raise KeyboardInterrupt
        return progress()


@contextmanager
def interruptible() -> Iterator[Stop]:
    """Turn the first Ctrl-C into a flag; a second one interrupts at once."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed.is_set
        return

    def press(number: int, frame: FrameType | None) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()

    before = signal.signal(signal.SIGINT, press)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)


def keep_copy(study: Study, out: Path) -> None:
    """The study beside its results; a file of that name that is there already stays."""
    copy = out / STUDY_FILE
    try:
        if not copy.exists():
            copy.write_text(study.text, encoding="utf-8")
    except OSError as error:
        raise unwritable(copy, error) from None

"""Run a study: every point that the store does not hold yet, or a search among them.

Results are stored as they come in; what was interrupted goes on where it was.
"""

import logging
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from math import fsum
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, Any

from carsim.base.errors import InputError
from carsim.base.pools import check_guarded
from carsim.base.yaml_file import shown
from carsim.explore.accepting import accept, open_other
from carsim.explore.answerable import check_answerable
from carsim.explore.axis_notes import axis_notes, sample_note
from carsim.explore.certificate import write_certificate
from carsim.explore.certified import CertifiedFront
from carsim.explore.first_look import FirstLook, first_look
from carsim.explore.grid import GridStudy, Step
from carsim.explore.grid_bounds import BOUNDS_FILE
from carsim.explore.points import Point, chunks_of, make_points, points_at_most
from carsim.explore.searcher import Searcher
from carsim.explore.shards import ALL_POINTS, Shard
from carsim.explore.store import Store, open_folder
from carsim.explore.study import Study, load_study, study_of_axes
from carsim.explore.work_notes import work_notes
from carsim.explore.workers import Crew, Processes, Result, Stop, prepare, start_crew

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a sweep.

    Attributes:
        total: Points of the study.
        evaluated: Those that this call has evaluated.
        seconds: Seconds since it began.
        counts: Results by status.
        dominated: Points without a result that are proven to be dominated.
        misfits: Points without a result that are proven not to fit or to break a constraint, by the
            parts that they lack and the constraints.
        processor_s: Processor time of bounds in other processes, and of points that were evaluated.
        whole_s: Seconds of the whole call, bounds included; 0 until it has ended.
        reused: Points whose results were taken over by content, from this folder or others.
        bounded: Designs of which bounds have been computed, and of how many, until that is done.
        look: The best of a few designs of a large grid, once, before its bounds are computed.
    """

    total: int
    evaluated: int
    seconds: float
    counts: Counter[str]
    dominated: int = 0
    misfits: Counter[tuple[str, ...]] = field(default_factory=Counter)
    processor_s: float = 0.0
    whole_s: float = 0.0
    bounded: tuple[int, int] | None = None
    look: FirstLook | None = None
    reused: int = 0

    @property
    def finished(self) -> int:
        """Points with a result, or with a proof that it is not needed."""
        return self.counts.total() + self.dominated + self.misfits.total()

    @property
    def points_per_minute(self) -> float:
        """Rate of this call so far."""
        return 60 * self.evaluated / self.seconds if self.seconds else 0.0


TOLD_S = 0.1
"""Seconds from one word on how far bounds are to the next."""

SMALL = 32
"""Points that :func:`sweep` evaluates in its own process if it is not asked for others: they take
about as long as starting processes does, and need no guard in a script."""

log = logging.getLogger("carsim")

GOES_ON = "the same command goes on where it was"

Tell = Callable[[Progress], None]


def sweep(
    study: Study | str | Path | Mapping[str, Any],
    out: str | Path | Mapping[str, Any] | None = None,
    *,
    workload: str | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    front_only: bool = False,
    within: float = 0.0,
    shard: str | None = None,
    reuse: Sequence[str | Path] = (),
    accept_code: bool = False,
) -> "pd.DataFrame":
    """Evaluate all points of a study, or those that its front takes.

    Where it uses processes, a script that calls it needs ``if __name__ == "__main__":`` around what
    it runs, as always with :mod:`multiprocessing`. A script without that line is told so.

    Args:
        study: A study, its file, or a mapping of what would stand in the file. A design if axes
            follow.
        out: Folder of the store; without one, results are kept in memory alone. Or the axes of a
            design, such as ``{"policy.tau": [0.0, 0.5]}``.
        workload: With axes: what is decoded, such as ``video:8``; by default what the model makes.
        workers: Processes; 0 evaluates in this process. If left out, a study of at most
            :data:`SMALL` points is evaluated in this process, others on all cores.
        scheduler: Address of a Dask scheduler, whose workers are taken instead.
        front_only: Of a grid, leave out points that are proven to be dominated or not to fit.
        within: With `front_only`, leave out also points that are better than an evaluated one by at
            most this share in every objective, such as 0.01.
        shard: Evaluate one part of the study alone, such as ``3/16``, the third of 16;
            :func:`carsim.explore.merge.merge` joins the folders of all parts.
        reuse: Folders of other sweeps, whose results of equal points are taken over.
        accept_code: Go on with a store of other code, if that code gives equal results: the front
            and 200 drawn points are evaluated again.

    Returns:
        A row per point that was evaluated, see :func:`carsim.explore.frame.frame_of`.

    Raises:
        InputError: A study, a store or a scheduler that cannot be used.
    """
    how: dict[str, Any] = {"front_only": front_only, "within": within, "shard": shard}
    how |= {"reuse": reuse, "accept_code": accept_code}
    if isinstance(out, Mapping):
        if isinstance(study, Study | Mapping):
            raise InputError("`study`", "has axes already", "name a design, or leave axes out")
        study, out = study_of_axes(study, out, workload), None
    elif workload is not None:
        cure = "name a design and axes, or write it into the study"
        raise InputError("`workload`", "goes with axes", cure)
    return _framed(study, out, workers=workers, scheduler=scheduler, **how)


def search(
    study: Study | str | Path,
    points: int,
    out: str | Path | None = None,
    *,
    seed: int | None = None,
    workers: int | None = None,
) -> "pd.DataFrame":
    """Look for the Pareto front of a study by evaluating some of its points.

    Args:
        study: A study with objectives, or its file.
        points: Different points to evaluate, earlier calls included.
        out: Folder of the store; without one, results are kept in memory alone.
        seed: Seed of the sampler.
        workers: Processes; as of :func:`sweep`.

    Returns:
        A row per point that this store holds, see :func:`carsim.explore.frame.frame_of`;
        :func:`carsim.pareto` takes the front of it.

    Raises:
        InputError: A study or a store that cannot be used.
    """
    return _framed(study, out, points=points, seed=seed, workers=workers)


def _framed(
    study: Study | str | Path | Mapping[str, Any], out: str | Path | None, **how: Any
) -> "pd.DataFrame":
    from carsim.explore.frame import frame_of

    study = study if isinstance(study, Study) else load_study(study)
    check_answerable(study)
    points = how.get("points") or points_at_most(study)
    if how.get("workers") is None and how.get("scheduler") is None and points <= SMALL:
        how["workers"] = 0
    with Store() if out is None else open_folder(out) as store:
        fill(store, study, **how)
        frame = frame_of(store)
        axes = [axis.name for axis in study.axes]
        notes = [sample_note(study), *axis_notes(frame, axes), *work_notes(study)]
        for note in filter(None, notes):
            log.warning("carsim: %s", note)
        return frame


class AllPoints:
    """Chooses the points that are evaluated: all of some points.

    Other choosers have the same attributes and methods.

    Attributes:
        total: Points of the study.
        dominated: As of :class:`Progress`.
        misfits: As of :class:`Progress`.
    """

    dominated, misfits, processor_s = 0, Counter[tuple[str, ...]](), 0.0

    def __init__(self, points: Sequence[Point]) -> None:
        self._points = points
        self.total = len(points)
        self._chunks: deque[list[Point]] = deque()

    def resume(self, store: Store) -> None:
        """Take over what a store holds: it is left out."""
        finished = store.finished()
        self._chunks.extend(chunks_of(p for p in self._points if p.id not in finished))

    def next(self) -> list[Point]:
        """Points for an idle worker, whose hardware is simulated together; none at the end."""
        return self._chunks.popleft() if self._chunks else []

    def learn(self, results: Sequence[Result]) -> None:
        """Take over some results, from which nothing follows for other points."""


Chooser = AllPoints | CertifiedFront | Searcher


def fill(
    store: Store,
    study: Study,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    front_only: bool = False,
    within: float = 0.0,
    shard: str | None = None,
    reuse: Sequence[str | Path] = (),
    accept_code: bool = False,
    points: int | None = None,
    seed: int | None = None,
    tell: Tell = lambda _: None,
) -> Progress:
    """Evaluate the points of a study that a store does not hold, or search among them.

    Args:
        store: Store for the results.
        study: The study.
        workers: As in :func:`sweep`.
        scheduler: As there.
        front_only: As there.
        within: As there.
        shard: As there.
        reuse: As there.
        accept_code: As there.
        points: Search: stop when so many are known, or nothing unknown is left.
        seed: As in :func:`search`.
        tell: Told how far it is, at the start and after every few results.

    Returns:
        How far it got.

    Raises:
        InputError: The store is of another study, or it cannot be written; what it holds stays.
        KeyboardInterrupt: Ctrl-C was pressed; what was under way has been stored.
    """
    with interruptible() as stop, ExitStack() as stack:
        begun = monotonic()
        if not 0 <= within < 1 or (within and not front_only):
            cure = "give a share of at least 0 and below 1, with `front_only`"
            raise InputError("`within`", f"got {shown(within)}", cure)
        part = None if shard is None else Shard.parse(shard)
        if part is not None and front_only:
            problem = "is a part of a whole sweep, and a front needs all of its designs"
            raise InputError("`shard`", problem, "leave out `shard` or `front_only`")
        label = ALL_POINTS if part is None else part.label
        kind = "search" if points is not None else "front" if front_only else "sweep"
        study = study.lean if front_only else study
        store.others = [stack.enter_context(open_other(folder)) for folder in reuse]
        if accept_code and store.facts:
            accept(store, study)
        if store.facts:  # refused before bounds are computed
            store.claim(study, kind, shard=label)
        has_processes = scheduler is None and workers != 0
        if has_processes:
            check_guarded()
            prepare()  # while it imports, points are made and what is stored is read
        chooser: Chooser
        if points is not None:
            chooser = Searcher(study, seed, points)
        elif front_only:
            with closing(Processes(study, workers)) if has_processes else nullcontext() as own:
                grid = GridStudy(study, own, _step(stop, tell))
                look = None if store.facts else first_look(grid, stop)
                if look is not None:
                    tell(Progress(0, 0, monotonic() - begun, Counter(), look=look))
                chooser = CertifiedFront(
                    grid,
                    within,
                    kept=None if store.path is None else store.path.with_name(BOUNDS_FILE),
                )
        else:
            every_point = make_points(study)
            chooser = AllPoints(every_point if part is None else part.points_of(every_point))
        n_points = chooser.total if part is None else len(every_point)
        store.claim(study, kind, n_points, label)
        chooser.resume(store)
        crew = partial(start_crew, study, workers, scheduler)
        done = work_off(store, chooser, crew, stop, tell)
        if front_only and not done.counts["failed"]:
            store.prove(within)
            assert isinstance(chooser, CertifiedFront)
            write_certificate(store, study, chooser.bounds, within)
        return replace(done, whole_s=monotonic() - begun)


def work_off(
    store: Store, chooser: Chooser, start: Callable[[], Crew], stop: Stop, tell: Tell
) -> Progress:
    """Evaluate what a chooser chooses, and store results as they come in.

    Args:
        store: The store.
        chooser: What to evaluate.
        start: Starts workers, if there is something to do.
        stop: True once nothing more shall begin.
        tell: As in :func:`fill`.

    Raises:
        KeyboardInterrupt: It was stopped.
    """
    work = _Work(store, chooser, tell)
    tell(work.progress())
    first = work.next(stop)
    if first:
        with closing(start()) as crew:
            crew.add(first)
            while True:
                while crew.idle > 0 and (points := work.next(stop)):
                    crew.add(points)
                results = crew.take(stop)
                if results is None:
                    break
                work.finish(results)
    if stop() and work.progress().finished < chooser.total:
        raise KeyboardInterrupt
    return work.progress()


class _Work:
    """Results of one call of a sweep so far.

    Args:
        store: The store that gets them.
        chooser: What to evaluate.
        tell: Told how far it is.
    """

    def __init__(self, store: Store, chooser: Chooser, tell: Tell) -> None:
        self._store, self._chooser, self._tell = store, chooser, tell
        self._counts, self._begun = store.counts(), monotonic()
        self._evaluated = self._reused = 0
        self._processor_s = chooser.processor_s

    def progress(self) -> Progress:
        """How far it is."""
        return Progress(
            total=self._chooser.total,
            evaluated=self._evaluated,
            seconds=monotonic() - self._begun,
            counts=Counter(self._counts),
            dominated=self._chooser.dominated,
            misfits=self._chooser.misfits,
            processor_s=self._processor_s,
            reused=self._reused,
        )

    def next(self, stop: Stop) -> list[Point]:
        """Points to evaluate, of which no result can be taken over; none at the end."""
        while not stop() and (points := self._chooser.next()):
            if not self._store.has_others:
                return points
            rows = [(point, self._store.row_of(point)) for point in points]
            taken = [(point, row) for point, row in rows if row is not None]
            if taken:
                self._reused += len(taken)
                self._take(taken)
            if left := [point for point, row in rows if row is None]:
                return left
        return []

    def finish(self, results: Sequence[Result]) -> None:
        """Take results of workers."""
        self._evaluated += len(results)
        self._processor_s += fsum(row["seconds"] for _, row in results)
        self._take(results)

    def _take(self, results: Sequence[Result]) -> None:
        self._store.add(results)
        self._chooser.learn(results)
        self._counts.update(row["status"] for _, row in results)
        self._tell(self.progress())


def _step(stop: Stop, tell: Tell) -> Step:
    """Tells every now and then of how many designs there are bounds, and ends when it is asked."""
    told = begun = monotonic()

    def step(done: int, designs: int) -> None:
        nonlocal told
        if stop():
            raise KeyboardInterrupt(f"{GOES_ON}, with bounds from the beginning")
        if monotonic() > told + TOLD_S:
            told = monotonic()
            tell(Progress(0, 0, told - begun, Counter(), bounded=(done, designs)))

    return step


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
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(str(error) or GOES_ON) from None
    finally:
        signal.signal(signal.SIGINT, before)

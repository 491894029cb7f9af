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
from carsim.base.fork_server import start_fork_server
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
from carsim.explore.workers import (
    WORKER_MODULE,
    Crew,
    Processes,
    Result,
    Stop,
    start_crew,
)

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a sweep.

    Attributes:
        total: Points of the study.
        evaluated: Points that this call has evaluated.
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
"""Seconds between two reports on how many bounds have been computed."""

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
    if isinstance(out, Mapping):
        study = _study_of_axes(study, out, workload)
        folder = None
    elif workload is not None:
        cure = "name a design and axes, or write it into the study"
        raise InputError("`workload`", "goes with axes", cure)
    else:
        folder = out
    options = SweepOptions(
        workers=workers,
        scheduler=scheduler,
        front_only=front_only,
        within=within,
        shard=shard,
        reuse=reuse,
        accept_code=accept_code,
    )
    return _framed(study, folder, options)


def _study_of_axes(
    design: Study | str | Path | Mapping[str, Any], axes: Mapping[str, Any], workload: str | None
) -> Study:
    """The study of a design and axes; what is a study already is refused."""
    if isinstance(design, Study | Mapping):
        raise InputError("`study`", "has axes already", "name a design, or leave axes out")
    return study_of_axes(design, axes, workload)


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
    return _framed(study, out, SweepOptions(points=points, seed=seed, workers=workers))


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """Which points of a study are evaluated, and where; fields as the arguments of :func:`fill`."""

    workers: int | None = None
    scheduler: str | None = None
    front_only: bool = False
    within: float = 0.0
    shard: str | None = None
    reuse: Sequence[str | Path] = ()
    accept_code: bool = False
    points: int | None = None
    seed: int | None = None

    @property
    def has_processes(self) -> bool:
        """Points are evaluated by processes of this computer."""
        return self.scheduler is None and self.workers != 0

    @property
    def kind(self) -> str:
        """``sweep``, ``front`` or ``search``: what the store holds in the end."""
        if self.points is not None:
            return "search"
        return "front" if self.front_only else "sweep"

    def check(self) -> None:
        """Refuse options that contradict each other.

        Raises:
            InputError: A share without a front or out of range, or a part of a front.
        """
        if not 0 <= self.within < 1 or (self.within and not self.front_only):
            cure = "give a share of at least 0 and below 1, with `front_only`"
            raise InputError("`within`", f"got {shown(self.within)}", cure)
        if self.shard is not None:
            Shard.parse(self.shard)  # refuses what is no part
            if self.front_only:
                problem = "is a part of a whole sweep, and a front needs all of its designs"
                raise InputError("`shard`", problem, "leave out `shard` or `front_only`")


def _framed(
    study: Study | str | Path | Mapping[str, Any], out: str | Path | None, options: SweepOptions
) -> "pd.DataFrame":
    """Evaluate points of a study, and give the results as a frame; notes go to the log."""
    from carsim.explore.frame import frame_of

    study = study if isinstance(study, Study) else load_study(study)
    check_answerable(study)
    points = options.points or points_at_most(study)
    if options.workers is None and options.scheduler is None and points <= SMALL:
        options = replace(options, workers=0)
    with Store() if out is None else open_folder(out) as store:
        _fill(store, study, options, tell=_tell_nobody)
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
        processor_s: Processor time that choosing has taken in other processes, in seconds.
    """

    def __init__(self, points: Sequence[Point]) -> None:
        self.dominated = 0
        self.misfits: Counter[tuple[str, ...]] = Counter()
        self.processor_s = 0.0
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
    tell: Tell | None = None,
) -> Progress:
    """Evaluate the points of a study that a store does not hold, or search among them.

    Args:
        store: Store for the results.
        study: The study.
        workers: As in :func:`sweep`.
        scheduler: As in :func:`sweep`.
        front_only: As in :func:`sweep`.
        within: As in :func:`sweep`.
        shard: As in :func:`sweep`.
        reuse: As in :func:`sweep`.
        accept_code: As in :func:`sweep`.
        points: Search: stop when so many are known, or nothing unknown is left.
        seed: As in :func:`search`.
        tell: Told how far it is, at the start and after every few results.

    Returns:
        How far it got.

    Raises:
        InputError: The store is of another study, or it cannot be written; what it holds stays.
        KeyboardInterrupt: Ctrl-C was pressed; what was under way has been stored.
    """
    options = SweepOptions(
        workers=workers,
        scheduler=scheduler,
        front_only=front_only,
        within=within,
        shard=shard,
        reuse=reuse,
        accept_code=accept_code,
        points=points,
        seed=seed,
    )
    return _fill(store, study, options, tell=tell or _tell_nobody)


def _tell_nobody(progress: Progress) -> None:
    """Default of the callback that gets the progress."""


def _fill(store: Store, study: Study, options: SweepOptions, tell: Tell) -> Progress:
    """Evaluate what the options ask for; results and errors as of :func:`fill`."""
    with interruptible() as stop, ExitStack() as stack:
        started_at = monotonic()
        options.check()
        study = study.lean if options.front_only else study
        store.others = [stack.enter_context(open_other(folder)) for folder in options.reuse]
        if options.accept_code and store.facts:
            accept(store, study)
        shard = None if options.shard is None else Shard.parse(options.shard)
        label = ALL_POINTS if shard is None else shard.label
        if store.facts:  # refused before bounds are computed
            store.claim(study, options.kind, shard=label)
        if options.has_processes:
            check_guarded()
            # The server imports while points are made and stored results are read.
            start_fork_server(WORKER_MODULE)
        chooser: Chooser
        if options.points is not None:
            chooser = Searcher(study, options.seed, options.points)
            n_points = chooser.total
        elif options.front_only:
            chooser = _certified_front(store, study, options, stop=stop, tell=tell)
            n_points = chooser.total
        else:
            points_of_study = make_points(study)
            n_points = len(points_of_study)
            chooser = AllPoints(
                points_of_study if shard is None else shard.points_of(points_of_study)
            )
        store.claim(study, options.kind, n_points, shard=label)
        chooser.resume(store)
        start = partial(start_crew, study, options.workers, options.scheduler)
        done = work_off(store, chooser, start, stop=stop, tell=tell)
        if isinstance(chooser, CertifiedFront) and not done.counts["failed"]:
            store.prove(options.within)
            write_certificate(store, study, chooser.bounds, options.within)
        return replace(done, whole_s=monotonic() - started_at)


def _certified_front(
    store: Store, study: Study, options: SweepOptions, *, stop: Stop, tell: Tell
) -> CertifiedFront:
    """The chooser of a front, with bounds of all designs; a first look is told before them."""
    started_at = monotonic()
    in_processes = options.has_processes
    with closing(Processes(study, options.workers)) if in_processes else nullcontext() as processes:
        grid = GridStudy(study, processes, _step(stop, tell))
        look = None if store.facts else first_look(grid, stop)
        if look is not None:
            seconds = monotonic() - started_at
            tell(Progress(total=0, evaluated=0, seconds=seconds, counts=Counter(), look=look))
        bounds_file = None if store.path is None else store.path.with_name(BOUNDS_FILE)
        return CertifiedFront(grid, options.within, kept=bounds_file)


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
        self._store = store
        self._chooser = chooser
        self._tell = tell
        self._started_at = monotonic()
        self._counts = store.counts()
        self._evaluated = 0
        self._reused = 0
        self._processor_s = chooser.processor_s

    def progress(self) -> Progress:
        """Progress of the call so far."""
        return Progress(
            total=self._chooser.total,
            evaluated=self._evaluated,
            seconds=monotonic() - self._started_at,
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
            stored_results = []
            unknown_points = []
            for point in points:
                row = self._store.row_of(point)
                if row is None:
                    unknown_points.append(point)
                else:
                    stored_results.append((point, row))
            if stored_results:
                self._reused += len(stored_results)
                self._take(stored_results)
            if unknown_points:
                return unknown_points
        return []

    def finish(self, results: Sequence[Result]) -> None:
        """Take results of workers."""
        self._evaluated += len(results)
        self._processor_s += fsum(row["seconds"] for _, row in results)
        self._take(results)

    def _take(self, results: Sequence[Result]) -> None:
        """Store results, let the chooser learn from them, and tell how far it is."""
        self._store.add(results)
        self._chooser.learn(results)
        self._counts.update(row["status"] for _, row in results)
        self._tell(self.progress())


def _step(stop: Stop, tell: Tell) -> Step:
    """A callback that tells every :data:`TOLD_S` how many bounds there are, and ends when asked."""
    started_at = monotonic()
    last_told_at = started_at

    def step(done: int, designs: int) -> None:
        """Tell that bounds of some designs are done, unless it was told a moment ago."""
        nonlocal last_told_at
        if stop():
            raise KeyboardInterrupt(f"{GOES_ON}, with bounds from the beginning")
        if monotonic() > last_told_at + TOLD_S:
            last_told_at = monotonic()
            seconds = last_told_at - started_at
            bounded = (done, designs)
            tell(Progress(total=0, evaluated=0, seconds=seconds, counts=Counter(), bounded=bounded))

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

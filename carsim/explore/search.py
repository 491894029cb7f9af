"""Run a search: propose, evaluate in processes, store, tell; resumable and shared by processes."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from carsim.explore.evaluate import Context, Evaluator, Row, context_of
from carsim.explore.points import Point, make_point, no_points
from carsim.explore.searcher import (
    IN_MEMORY,
    Proposal,
    Sampler,
    Searcher,
    open_trials,
    refusing,
)
from carsim.explore.store import Store
from carsim.explore.study import Study, load_study
from carsim.explore.sweep import (
    Progress,
    Tell,
    available_cores,
    interruptible,
    keep_copy,
    open_folder,
    study_meta,
)
from carsim.explore.workers import Answer, evaluate_alone, evaluate_some, start_pool

if TYPE_CHECKING:
    import pandas as pd

TRIALS_FILE = "optuna.sqlite"


def search(
    study: Study | str | Path,
    points: int,
    out: str | Path | None = None,
    *,
    storage: str | None = None,
    sampler: Sampler = "tpe",
    seed: int | None = None,
    workers: int | None = None,
) -> "pd.DataFrame":
    """Look for the Pareto front of a study by evaluating some of its points.

    Args:
        study: A study with objectives, or its file.
        points: Different points to evaluate, all processes and earlier calls together.
        out: Folder of the store; without one, results are kept in memory alone.
        storage: Any storage URL that Optuna takes; in ``out`` or in memory if left out.
        sampler: ``tpe``, ``nsga2`` or ``random``.
        seed: Of the sampler; processes that search together leave it out.
        workers: Processes of this call; all cores if left out, 0 evaluates in this process.

    Returns:
        A row per point that this store holds, see :func:`carsim.explore.frame.frame_of`;
        :func:`carsim.pareto` takes the front of it.

    Raises:
        InputError: A study, a store or a storage that cannot be used.
    """
    from carsim.explore.frame import frame_of

    study = study if isinstance(study, Study) else load_study(study)
    with Store(":memory:") if out is None else open_folder(Path(out)) as store:
        hunt(
            store,
            study,
            points,
            out=out,
            storage=storage,
            sampler=sampler,
            seed=seed,
            workers=workers,
        )
        return frame_of(store)


def hunt(
    store: Store,
    study: Study,
    points: int,
    *,
    out: str | Path | None = None,
    storage: str | None = None,
    sampler: Sampler = "tpe",
    seed: int | None = None,
    workers: int | None = None,
    tell: Tell = lambda _: None,
) -> Progress:
    """Search until so many points are known, or nothing unknown is left.

    Args:
        store: Where results go; other processes may write to it, too.
        study: The study.
        points: As in :func:`search`.
        out: Folder of the store.
        storage: As in :func:`search`.
        sampler: As there.
        seed: As there.
        workers: As there.
        tell: Told how far it is, at the start and after every point.

    Returns:
        How far it got.

    Raises:
        InputError: As in :func:`search`.
        KeyboardInterrupt: Ctrl-C was pressed; what was under way has been stored.
    """
    if storage is None:
        storage = IN_MEMORY if out is None else f"sqlite:///{Path(out).resolve() / TRIALS_FILE}"
    store.claim(study_meta(study, "search"))
    if out is not None:
        keep_copy(study, Path(out))
    trials = open_trials(study, storage, sampler, seed)
    with ExitStack() as stack:
        stack.enter_context(refusing(storage))
        searcher = Searcher(study, trials, seed)
        # What others have found, and what was stored here, is not evaluated again. A search that
        # was killed between storing a result and telling it has left one that no trial knows of.
        for ordinal, values, row in store.rows():
            point = make_point(study, ordinal, values)
            if point.id not in searcher.known:
                searcher.adopt(point, row)
        store.add(searcher.known.values())
        start, evaluated = monotonic(), 0

        def progress() -> Progress:
            counts = Counter(row["status"] for _, row in searcher.known.values())
            return Progress(points, len(searcher.known), evaluated, monotonic() - start, counts)

        tell(progress())
        interrupted = stack.enter_context(interruptible())
        crew = stack.enter_context(_Crew(context_of(study), workers))
        exhausted = False
        while True:
            while not (exhausted or interrupted()) and crew.has_room:
                if len(searcher.known) + crew.busy >= points:
                    break
                proposal = searcher.propose()
                if proposal is None:
                    exhausted = True
                else:
                    crew.send(proposal)
            if not crew.busy:
                break
            for proposal, row in crew.results():
                store.add([(proposal.point, row)])
                searcher.tell(proposal, row)
                evaluated += 1
                tell(progress())
            searcher.hear()
        if interrupted():
            raise KeyboardInterrupt
        if exhausted and not searcher.known:
            raise no_points(study)
        return progress()


class _Crew:
    """Processes that evaluate proposals, or this one.

    Args:
        context: What points need.
        workers: Processes; all cores if None, this process if 0.
    """

    def __init__(self, context: Context, workers: int | None) -> None:
        self._context = context
        self._workers = available_cores() if workers is None else workers
        self._under_way: dict[Future[Answer], Proposal] = {}
        self._waiting: list[Proposal] = []
        self._pool: ProcessPoolExecutor | None = None
        self._evaluate: Callable[[Point], Row] | None = None

    def __enter__(self) -> "_Crew":
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    @property
    def busy(self) -> int:
        """Proposals under way."""
        return len(self._under_way) + len(self._waiting)

    @property
    def has_room(self) -> bool:
        """Another proposal could be begun at once."""
        return self.busy < max(1, self._workers)

    def send(self, proposal: Proposal) -> None:
        """Begin with a proposal."""
        if not self._workers:
            self._waiting.append(proposal)
            return
        if self._pool is None:
            self._pool = start_pool(self._context, self._workers)
        try:
            future = self._pool.submit(evaluate_some, None, [proposal.point], 0.0)
        except BrokenProcessPool:
            future = Future()
            future.set_exception(BrokenProcessPool())
        self._under_way[future] = proposal

    def results(self) -> list[tuple[Proposal, Row]]:
        """Wait for something to be finished."""
        if self._waiting:
            self._evaluate = self._evaluate or Evaluator(self._context).evaluate
            proposal = self._waiting.pop()
            return [(proposal, self._evaluate(proposal.point))]
        found = []
        done, _ = wait(self._under_way, return_when=FIRST_COMPLETED)
        for future in done:
            proposal = self._under_way.pop(future)
            try:
                ((_, row),), _ = future.result()
            except BrokenProcessPool:
                # One of those under way did it; each is tried alone.
                self._pool = None
                row = evaluate_alone(self._context, proposal.point)
            found.append((proposal, row))
        return found

"""Run a search: propose, evaluate in processes, store, tell; resumable and shared by processes."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from carsim.explore.searcher import IN_MEMORY, Sampler, Searcher, open_trials, refusing
from carsim.explore.store import Store, open_folder
from carsim.explore.study import Study, load_study
from carsim.explore.sweep import Progress, Tell, interruptible, keep_copy, work_off
from carsim.explore.workers import start_crew

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
        seed: Seed of the sampler; processes that search together leave it out.
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
        store: Store for the results; other processes may write to it, too.
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
    store.claim(study, "search")
    if out is not None:
        keep_copy(study, Path(out))
    trials = open_trials(study, storage, sampler, seed)
    with refusing(storage):
        searcher = Searcher(study, trials, seed, points)
        searcher.resume(store)
        with interruptible() as stop:
            return work_off(store, searcher, partial(start_crew, study, workers), stop, tell)

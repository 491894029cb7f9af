"""Run a search: propose, evaluate in processes, store; it goes on where it was interrupted."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from carsim.explore.searcher import Searcher
from carsim.explore.store import Store, open_folder
from carsim.explore.study import Study, load_study
from carsim.explore.sweep import Progress, Tell, interruptible, work_off
from carsim.explore.workers import start_crew

if TYPE_CHECKING:
    import pandas as pd


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
        workers: Processes; all cores if left out, 0 evaluates in this process.

    Returns:
        A row per point that this store holds, see :func:`carsim.explore.frame.frame_of`;
        :func:`carsim.pareto` takes the front of it.

    Raises:
        InputError: A study or a store that cannot be used.
    """
    from carsim.explore.frame import frame_of

    study = study if isinstance(study, Study) else load_study(study)
    with Store() if out is None else open_folder(out) as store:
        hunt(store, study, points, seed=seed, workers=workers)
        return frame_of(store)


def hunt(
    store: Store,
    study: Study,
    points: int,
    *,
    seed: int | None = None,
    workers: int | None = None,
    tell: Tell = lambda _: None,
) -> Progress:
    """Search until so many points are known, or nothing unknown is left.

    Args:
        store: Store for the results.
        study: The study.
        points: As in :func:`search`.
        seed: As there.
        workers: As there.
        tell: Told how far it is, at the start and after every point.

    Returns:
        How far it got.

    Raises:
        InputError: As in :func:`search`.
        KeyboardInterrupt: Ctrl-C was pressed; what was under way has been stored.
    """
    with interruptible() as stop:
        searcher = Searcher(study, seed, points)
        store.claim(study, "search")
        searcher.resume(store)
        return work_off(store, searcher, partial(start_crew, study, workers), stop, tell)

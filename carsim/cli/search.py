"""``carsim search``: look for the Pareto front of a study without evaluating all of it."""

from pathlib import Path
from typing import Any

import click

from carsim.base.environment import library
from carsim.base.errors import InputError
from carsim.cli.options import JSON, WORKLOAD, work_of
from carsim.cli.sweep import FAILED, OUT, STUDY, WORKERS, document, summary, sweep_progress


@click.command()
@STUDY
@WORKLOAD
@OUT
@click.option(
    "--points",
    type=click.IntRange(min=1),
    metavar="N",
    required=True,
    help="Different points to evaluate, earlier calls and other processes included.",
)
@click.option(
    "--storage",
    metavar="URL",
    help="Where Optuna keeps trials, say mysql://...; processes that share it search together. "
    "SQLite in DIR if left out.",
)
@click.option(
    "--sampler",
    type=click.Choice(["tpe", "nsga2", "random"]),
    default="tpe",
    show_default=True,
    help="Who proposes points.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    metavar="N",
    help="Of the sampler; the same with --workers 0 in a new DIR searches alike.",
)
@WORKERS
@JSON
def search(
    study: str,
    workload: str | None,
    out: str,
    points: int,
    as_json: bool,
    **how: Any,
) -> int | None:
    """Look for the points of STUDY that no other one beats in all of its objectives.

    The study's axes span the space, its objectives say what is wanted; what does not fit its board
    or breaks a constraint is no answer. Interrupt it as you like: the same command goes on where
    it was. DIR holds what a sweep's would; 'carsim report DIR --front' shows the front again, and
    'optuna-dashboard sqlite:///DIR/optuna.sqlite' the search itself.
    """
    library("optuna", "search")

    from carsim.cli.console import say, show_json
    from carsim.cli.front import print_front, records
    from carsim.explore.frame import export, frame_of
    from carsim.explore.pareto import pareto
    from carsim.explore.search import hunt
    from carsim.explore.store import open_folder
    from carsim.explore.study import load_study

    loaded = load_study(study, work_of(workload))
    folder = Path(out)
    with open_folder(folder) as store:
        with sweep_progress(loaded.name) as tell:
            done = hunt(store, loaded, points, out=folder, tell=tell, **how)
        files, frame = export(store, folder), frame_of(store)
    objectives = loaded.objectives
    try:
        front = pareto(frame, objectives, loaded.file.constraints)
    except InputError:
        front = None  # nothing of what was found counts
    if as_json:
        found = document(loaded.name, done.counts, done, out, files)
        found |= {"objectives": objectives, "front": [] if front is None else records(front)}
        show_json(found)
    else:
        more = "" if done.finished >= points else "; there are no more"
        say(*summary(loaded.name, done.counts, done, more))
        if front is None:
            say("None of them fits its board and meets the constraints; search on.")
        else:
            print_front(loaded.name, frame, front, [axis.name for axis in loaded.axes], objectives)
        say(f"Written to {out}: {', '.join(files)}")
    return FAILED if done.counts["failed"] else None

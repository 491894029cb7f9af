"""``carsim search``: look for the Pareto front of a study without evaluating all of it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from carsim.cli.sweep import FAILED, OUT, STUDY, WORKERS, counted, sweep_progress
from carsim.errors import InputError

if TYPE_CHECKING:
    from carsim.explore.sweep import Progress


@click.command()
@STUDY
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
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, and nothing else.")
def search(
    study: str,
    out: str,
    points: int,
    storage: str | None,
    sampler: Literal["tpe", "nsga2", "random"],
    seed: int | None,
    workers: int | None,
    as_json: bool,
) -> int | None:
    """Look for the points of STUDY that no other one beats in all of its objectives.

    The study's axes span the space, its objectives say what is wanted; what does not fit its board
    or breaks a constraint is no answer. Interrupt it as you like: the same command goes on where
    it was. DIR holds what a sweep's would; 'carsim pareto DIR' shows the front again.
    """
    from carsim.cli.console import output_console, show
    from carsim.cli.pareto import front_parts
    from carsim.explore.frame import export, frame_of
    from carsim.explore.pareto import pareto
    from carsim.explore.search import hunt
    from carsim.explore.study import load_study
    from carsim.explore.sweep import open_folder

    loaded = load_study(study)
    folder = Path(out)
    with open_folder(folder) as store:
        with sweep_progress(loaded.name) as tell:
            done = hunt(
                store,
                loaded,
                points,
                out=folder,
                storage=storage,
                sampler=sampler,
                seed=seed,
                workers=workers,
                tell=tell,
            )
        files, frame = export(store, folder), frame_of(store)
    axes = [axis.name for axis in loaded.axes]
    objectives = loaded.objectives
    try:
        front = pareto(frame, objectives, loaded.file.constraints)
    except InputError:
        front = None  # nothing of what was found counts
    if as_json:
        document = {
            "study": loaded.name,
            "points": done.finished,
            **done.counts,
            "evaluated": done.evaluated,
            "seconds": round(done.seconds, 3),
            "objectives": objectives,
            "front": [] if front is None else json.loads(front.to_json(orient="records")),
            "folder": out,
            "files": files,
        }
        click.echo(json.dumps(document, indent=2))
    else:
        show(output_console(), [_summary(loaded.name, points, done)])
        if front is None:
            click.echo("None of them fits its board and meets the constraints; search on.")
        else:
            parts = front_parts(loaded.name, frame, front, axes, list(objectives))
            show(output_console(), parts)
        click.echo(f"Written to {out}: {', '.join(files)}")
    return FAILED if done.counts["failed"] else None


def _summary(name: str, points: int, done: "Progress") -> str:
    short = "" if done.finished >= points else "; there are no more"
    now = f"{done.evaluated:,} of them now, in {done.seconds:,.1f} s"
    return f"{name}: {done.finished:,} points; {counted(done.counts)}{short}\n{now}"

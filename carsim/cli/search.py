"""``carsim search``: look for the Pareto front of a study without evaluating all of it."""

from typing import Any

import click

from carsim.base.environment import library
from carsim.cli.options import JSON, MODEL, WORKLOAD, work_of
from carsim.cli.sweep import WORKERS, show_results, sweep_progress


@click.command()
@click.argument("study", type=click.Path(), required=False)
@WORKLOAD
@click.option(
    "--target",
    metavar="CONDITION",
    help="Instead of STUDY: what a machine must reach, say 'frames_per_s >= 2'.",
)
@click.option(
    "--minimise",
    metavar="METRIC",
    default="cost_usd",
    show_default=True,
    help="With --target: of which metric the least is wanted.",
)
@click.option(
    "--boards",
    metavar="NAMES",
    default="all",
    show_default=True,
    help="With --target: presets of boards, kinds (fpga, asic), or all; separated by commas.",
)
@MODEL
@click.option(
    "--out",
    metavar="DIR",
    help="Folder of the store and its exports; with --target: file for the design.",
)
@click.option(
    "--points",
    type=click.IntRange(min=1),
    metavar="N",
    help="Different points to evaluate, earlier calls included.",
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
    study: str | None, target: str | None, out: str | None, points: int | None, **how: Any
) -> int | None:
    """Look for the points of STUDY that no other one beats, or for a machine that meets a target.

    With --target, boards and chips are sized for --workload of --model; the one of least --minimise
    is shown with its runner-up and what cheaper ones lack.

    A study's axes span the space, its objectives say what is wanted; what does not fit its board or
    breaks a constraint is no answer. Interrupt it as you like: the same command goes on where
    it was. DIR holds what a sweep's would; 'carsim report DIR --front' shows the front again.
    """
    asked = how.pop("minimise"), how.pop("boards"), how.pop("model")
    work, as_json = work_of(how.pop("workload")), how.pop("as_json")
    if target is not None and study is None:
        from carsim.cli.target import show_target

        return show_target(work, target, *asked, out, as_json)
    if target is not None or study is None or out is None or points is None:
        raise click.UsageError("needs STUDY, --out and --points, or --target CONDITION alone")
    library("optuna", "search")

    from carsim.explore.store import open_folder
    from carsim.explore.study import load_study
    from carsim.explore.sweep import fill

    loaded = load_study(study, work)
    with open_folder(out) as store:
        with sweep_progress(loaded.name) as tell:
            done = fill(store, loaded, points=points, tell=tell, **how)
        more = "" if done.finished >= points else "; there are no more"
        return show_results(store, loaded, done, out, as_json, has_front=True, more=more)

"""``carsim search``: look for the Pareto front of a study without evaluating all of it."""

from pathlib import Path
from typing import Any

import click

from carsim.base.environment import library
from carsim.base.errors import InputError
from carsim.base.files import write_whole
from carsim.cli.console import in_order, print_results, progress, say
from carsim.cli.options import JSON, MODEL, WORKLOAD, work_of
from carsim.cli.sweep import WORKERS, show_results, sweep_progress
from carsim.workload.workload import Workload

UNREACHED = 3
"""Exit status where no machine reaches the target."""


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
    help="With --target: of which metric the least is wanted.",
)
@click.option(
    "--boards",
    metavar="NAMES",
    default="all",
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
    asked = {name: how.pop(name) for name in ("minimise", "boards", "model")}
    work, as_json = work_of(how.pop("workload")), how.pop("as_json")
    if target is not None and study is None:
        return _show_target(work, target, out, as_json, **asked)
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
        return show_results(store, loaded, done, out, as_json, has_front=True)


def _show_target(
    work: Workload | None, target: str, out: str | None, as_json: bool, **given: Any
) -> int | None:
    """Search, and print one screen; write the design of the answer where that is asked for."""
    from carsim.design.document import design_yaml
    from carsim.explore.expression import Expression
    from carsim.explore.target import SAY, Wanted, search_target
    from carsim.report.target import target_sections

    if out is not None and Path(out).exists():
        raise InputError(out, "is there already", "name another file or remove it")
    given["boards"] = tuple(name.strip() for name in given["boards"].split(","))
    known = {name: value for name, value in given.items() if value is not None}
    wanted = Wanted(work, Expression(target, "`target`", SAY), **known)
    with progress("sizing machines"):
        tried = search_target(wanted)
    is_met = bool(tried and tried[0].reaches)
    machines = [
        {"machine": each.machine, "reaches": each.reaches}
        | {"limits": dict(each.limits), "metrics": dict(each.figures)}
        for each in tried
    ]
    document = {"target": target, "minimise": wanted.minimise, "machines": machines}
    print_results(as_json, document, in_order(target_sections(wanted, tried)))
    if out is not None and is_met:
        write_whole(Path(out), design_yaml(tried[0].design))
        say(*([] if as_json else [f"Written to {out}"]))
    return None if is_met else UNREACHED

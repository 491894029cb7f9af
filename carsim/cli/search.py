"""``carsim search``: look for the Pareto front of a study without evaluating all of it."""

from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from carsim.base.environment import library
from carsim.base.errors import InputError
from carsim.base.files import write_whole
from carsim.cli.console import in_order, print_results, progress, say
from carsim.cli.options import JSON, MODEL, WORKLOAD, overriding, work_of
from carsim.cli.sweep import WORKERS, show_results, sweep_progress
from carsim.workload.workload import Workload

if TYPE_CHECKING:
    from carsim.explore.solve import Solution

UNREACHED = 3
"""Exit status where no machine reaches the target."""


@click.command()
@click.argument("study", type=click.Path(), required=False)
@WORKLOAD
@click.option(
    "--target",
    "targets",
    metavar="CONDITION",
    multiple=True,
    help="Instead of STUDY: what a machine must reach, say 'frames_per_s >= 2'; again for more "
    "conditions, which must all hold.",
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
    help="With --target: presets of boards, YAML files of your own, kinds (fpga, asic), or all; "
    "separated by commas.",
)
@click.option(
    "--bits",
    metavar="N",
    help="With --target: bits of a weight that are allowed, of 4, 8, 16 and 'file'; separated by "
    "commas. 'file' keeps the precision of a model's own file, and is the default for one; else 4.",
)
@click.option(
    "--axis",
    "axes",
    metavar="FIELD=VALUES",
    multiple=True,
    help="With --target: values of a field of the space, say machine.cores=2,4; may be repeated.",
)
@click.option(
    "--solve",
    metavar="FIELD",
    help="With --target, STUDY being a design: the value of this field that reaches the target, "
    "say policy.tau; --axis gives the values to begin with.",
)
@overriding("With --solve: change the design, say machine.cores=8")
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
    study: str | None,
    targets: tuple[str, ...],
    solve: str | None,
    out: str | None,
    points: int | None,
    **options: Any,
) -> int | None:
    """Look for the points of STUDY that no other one beats, or for a machine that meets a target.

    With --target, boards and chips are sized for --workload of --model. The machine of least
    --minimise is shown with what is proven of all others, its runner-up and what cheaper machines
    lack.

    With --solve, STUDY is a design. The value of one field that reaches the target is shown with
    its neighbours.

    A study's axes span the space, its objectives say what is wanted; what does not fit its board or
    breaks a constraint is no answer. Interrupt it as you like: the same command goes on where
    it was. DIR holds what a sweep's would; 'carsim report DIR --front' shows the front again.
    """
    work = work_of(options["workload"])
    as_json = options["as_json"]
    if solve is not None:
        if study is None or not targets:
            raise click.UsageError("--solve needs a design in place of STUDY, and --target")
        question = Question(
            study,
            solve,
            targets=targets,
            axes=options["axes"],
            overrides=options["overrides"],
        )
        return _show_solution(question, work, out=out, as_json=as_json)
    if options["overrides"]:
        raise click.UsageError("--set goes with --solve; with --target, say --axis")
    if targets and study is None:
        return _show_target(work, targets, out, options)
    if targets or study is None or out is None or points is None:
        raise click.UsageError("needs STUDY, --out and --points, or --target CONDITION alone")
    library("optuna", "search")

    from carsim.explore.answerable import check_answerable
    from carsim.explore.store import open_folder
    from carsim.explore.study import load_study
    from carsim.explore.sweep import fill

    loaded = load_study(study, work)
    check_answerable(loaded)  # before there is a folder
    with open_folder(out) as store:
        with sweep_progress(loaded.name) as tell:
            done = fill(
                store,
                loaded,
                points=points,
                tell=tell,
                workers=options["workers"],
                seed=options["seed"],
            )
        return show_results(store, loaded, done, out, as_json, has_front=True)


class Question(NamedTuple):
    """The question of ``--solve``: a field, targets and changes of a design.

    Attributes:
        design: Name or file of the design.
        field: The field.
        targets: Conditions that must all hold.
        axes: Values to begin with, as typed.
        overrides: Changes of the design.
    """

    design: str
    field: str
    targets: tuple[str, ...]
    axes: tuple[str, ...]
    overrides: tuple[str, ...]


def _show_solution(
    question: Question, work: Workload | None, *, out: str | None, as_json: bool
) -> int | None:
    """Solve for one field, and print one screen; write the design if that is asked for."""
    from carsim.design.document import design_yaml
    from carsim.explore.solve import parse_values, solve
    from carsim.explore.target import all_of
    from carsim.report.solution import solution_sections
    from carsim.runs.assumed import assumed_of
    from carsim.runs.opening import open_design

    _check_new(out)
    target = all_of(question.targets)
    values: list[Any] = []
    for text in question.axes:
        values += parse_values(text, question.field)
    design = open_design(question.design, question.overrides, work)
    with progress(f"solving for {question.field}"):
        solution = solve(design, question.field, target, workload=work, values=tuple(values))
    design_and_work = f"{design.name}, {'the usual work' if work is None else work.text}"
    assumed = assumed_of(design, varied={solution.field: solution.field})
    sections = solution_sections(solution, design_and_work, assumed)
    print_results(as_json, _solution_document(solution, assumed), in_order(sections))
    if solution.answer is None or solution.answer.design is None:
        return UNREACHED
    if out is not None:
        write_whole(Path(out), design_yaml(solution.answer.design))
        if not as_json:
            say(f"Written to {out}")
    return None


def _solution_document(solution: "Solution", assumed: str) -> dict[str, Any]:
    """A solution as plain data.

    Args:
        solution: The solution.
        assumed: What is assumed of the design.
    """
    names = sorted(solution.target.names)
    values = []
    for level in solution.levels:
        figures = level.figures or {}
        value = {
            "value": level.value,
            "meets": level.meets,
            "problem": level.problem,
            "metrics": {name: figures.get(name) for name in names},
        }
        values.append(value)
    return {
        "field": solution.field,
        "assumed": assumed,
        "target": solution.target.text,
        "present": solution.present,
        "answer": None if solution.answer is None else solution.answer.value,
        "equal": None if solution.equal is None else [end.value for end in solution.equal],
        "reached": [[stretch.first.value, stretch.last.value] for stretch in solution.stretches],
        "is_steady": solution.is_steady,
        "is_complete": solution.is_complete,
        "values": values,
    }


def _show_target(
    work: Workload | None, targets: tuple[str, ...], out: str | None, options: Mapping[str, Any]
) -> int | None:
    """Search, and print one screen; write the design of the answer where that is asked for.

    Args:
        work: What is decoded.
        targets: Conditions that the machine has to meet.
        out: File for the design; None for none.
        options: Options ``minimise``, ``model``, ``boards``, ``bits``, ``axes`` and ``as_json``.
    """
    from carsim.design.document import design_yaml
    from carsim.explore.space import parse_space_axis
    from carsim.explore.target import Wanted, all_of, search_target
    from carsim.report.target import assumed_of_machine, target_sections

    _check_new(out)
    wanted = Wanted(
        work,
        all_of(targets),
        minimise=options["minimise"],
        model=options["model"] or (work and work.model) or Wanted.model,
        boards=tuple(name.strip() for name in options["boards"].split(",")),
        bits=_bits(options["bits"]),
        axes=dict(map(parse_space_axis, options["axes"])),
    )
    with progress("sizing machines") as tell:
        answer = search_target(wanted, tell)
    machines = [
        {
            "machine": machine.machine,
            "reaches": machine.reaches,
            "fields": dict(machine.values),
            "limits": dict(machine.limits),
            "metrics": dict(machine.figures),
        }
        for machine in answer.machines
    ]
    first = next(iter(answer.machines), None)
    document = {
        "target": wanted.target.text,
        "assumed": "" if first is None else assumed_of_machine(first),
        "minimise": wanted.minimise,
        "proof": {
            "closed": answer.is_closed,
            "simulated": answer.simulated,
            "space": answer.size,
            "least": answer.least if isfinite(answer.least) else None,
        },
        "machines": machines,
    }
    as_json = options["as_json"]
    print_results(as_json, document, in_order(target_sections(wanted, answer)))
    if answer.best is None:
        return UNREACHED
    if out is not None:
        write_whole(Path(out), design_yaml(answer.best.design))
        if not as_json:
            say(f"Written to {out}")
    return None


def _check_new(out: str | None) -> None:
    """Refuse a file that is there already, before any work."""
    if out is not None and Path(out).exists():
        raise InputError(out, "is there already", "name another file or remove it")


def _bits(text: str | None) -> tuple[int | None, ...] | None:
    """Bits of a weight as they are typed; None stands for those of the model's own file."""
    if text is None:
        return None
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() or word == "file" for word in words):
        cure = "give whole numbers such as 4,8, or 'file'"
        raise InputError("--bits", f"got {text!r}", cure)
    return tuple(None if word == "file" else int(word) for word in words)

"""``carsim report``: results as an HTML page, as a Pareto front, or as a figure for a paper."""

import json
import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from rich.text import Text

from carsim.base.errors import InputError
from carsim.base.files import make_folder, write_whole
from carsim.base.text import count
from carsim.cli.console import progress, say, show_json
from carsim.cli.options import JSON, command_of, plugin_files, width_option

if TYPE_CHECKING:
    from carsim.explore.study import Study
    from carsim.report.stored_study import StoredStudy

MODES = ("front", "plot", "check", "verify", "rescue")
"""Options of which one decides what is done."""

COMMAND_WIDTH = 77
"""Columns of a command that is printed; at most two more are the sign that a line goes on."""


class FrontQuestion(NamedTuple):
    """The question to a front: objectives, constraints and a point.

    Attributes:
        objectives: Metric -> ``min`` or ``max``; None for those of the study.
        constraints: Further conditions that points have to meet.
        point: Number of the point whose command is printed; None for the knee.
        within: Share by which points may be better than the one that stands for them; None for
            that of the sweep.
        robust: Say how robust each point of the front is.
    """

    objectives: Mapping[str, str] | None = None
    constraints: Sequence[str] = ()
    point: int | None = None
    within: float | None = None
    robust: bool = False


@click.command()
@click.argument("folders", metavar="DIR...", nargs=-1, required=True)
@click.option(
    "--out",
    metavar="PATH",
    help="Page to write instead of DIR/report.html. With --front: a folder for pareto.csv. With "
    "--plot: the figure, .pdf, .svg or .png; its numbers are written beside it as .csv.",
)
@click.option(
    "--plot",
    metavar="WHAT",
    help="Draw METRIC[:AXIS[:BY]], front, tau, breakdown, energy, roofline, utilisation or "
    "timeline.",
)
@width_option("--plot", default=3.5)
@click.option(
    "--style",
    "look",
    type=click.Choice(["usual", "paper"]),
    default="usual",
    show_default=True,
    help="With --plot: paper has type of 7 to 8 points, 300 dpi and two panels in a column, and "
    "writes a caption with provenance as .txt.",
)
@click.option(
    "--overwrite", is_flag=True, help="Replace the page of --out; figures always replace."
)
@click.option("--check", is_flag=True, help="Say which files of DIR are damaged; status 1 if any.")
@click.option(
    "--verify",
    is_flag=True,
    help="Prove the front of DIR anew: compute all bounds and all points of the front again.",
)
@click.option(
    "--study",
    metavar="FILE",
    help="With --verify or --robust: the file of the study, if its design or traces lie beside it.",
)
@click.option("--rescue", metavar="NEW", help="Copy what is sound of a damaged DIR to folder NEW.")
@click.option("--front", is_flag=True, help="Show the Pareto front of a sweep or a search.")
@click.option(
    "--objective",
    "objectives",
    metavar="NAME[:min|max]",
    multiple=True,
    help="Of a front: a metric, say latency_s; may be repeated. The study's if left out.",
)
@click.option(
    "--constraint",
    "constraints",
    metavar="CONDITION",
    multiple=True,
    help="Of a front: what points have to meet besides the study's constraints, say 'dsp <= 2000'.",
)
@click.option(
    "--point",
    type=click.IntRange(min=0),
    metavar="N",
    help="Of a front: the point whose command is printed; the knee if left out.",
)
@click.option(
    "--within",
    type=click.FloatRange(0, 1, max_open=True),
    metavar="SHARE",
    help="Of a front: print one row for points that are better than it by at most this share in "
    "every objective, such as 0.01; what the sweep allowed if left out.",
)
@click.option(
    "--robust",
    is_flag=True,
    help="Of a front or a page: add the share of draws of the constants of energy, bandwidth and "
    "price in which a point is on the front.",
)
@JSON
def report(folders: tuple[str, ...], out: str | None, as_json: bool, **options: Any) -> int | None:
    """Make one HTML page of what a run, a sweep or a search left in DIR.

    The page needs no other file and no network. It has the question, the answer, tables that a
    click sorts, and charts that answer the pointer.

    With --plot, one figure of one or several DIR is drawn instead. DIR=LABEL names it in the
    figure. METRIC is a metric, or several with commas between them; AXIS and BY are axes of a
    sweep, fields of the design, policy or label. Of several points at one place the best is shown.

    With --front, the points are shown that no other point beats in everything. The knee is the
    point on the front that is nearest to the best of every objective, each scaled from the best to
    the worst of the front. Points that do not fit or were refused do not count; of points that are
    alike in every metric the first is shown. Nothing is written without --out.

    With --robust, the uncertain constants of energy, bandwidth and price are drawn 1,000 times. A
    draw serves all points, so that common errors cancel. A column says in which share of the draws
    a point is on the front. Points near the front are simulated again for this.

    With --check, each file is compared with its checksum or with its digest in SHA256SUMS. With
    --rescue, what is sound goes to NEW, marked as rescued; RESCUED.txt says what is lost.

    With --verify, the certificate of a front that carsim sweep --front-only made is checked: it
    holds only if all bounds and all points that bounds do not rule out are the same when they are
    computed again.
    """
    if sum(bool(options[mode]) for mode in MODES) > 1:
        raise click.UsageError("--front, --plot, --check, --verify and --rescue exclude each other")
    from carsim.explore.pareto import parse_objectives

    question = FrontQuestion(
        objectives=parse_objectives(options["objectives"]) or None,
        constraints=options["constraints"],
        point=options["point"],
        within=options["within"],
        robust=options["robust"],
    )
    if options["plot"] is not None:
        _draw(folders, out, options, question)
        return None
    if len(folders) > 1:
        raise click.UsageError("several DIR go with --plot")
    if as_json and not options["front"]:
        raise click.UsageError("--json goes with --front")
    if options["study"] is not None and not (options["verify"] or options["robust"]):
        raise click.UsageError("--study goes with --verify or --robust")
    if options["robust"] and (options["verify"] or options["check"] or options["rescue"]):
        raise click.UsageError("--robust goes with --front, or with a page")
    if options["verify"]:
        _verify(folders[0], options["study"])
        return None
    if options["check"] or options["rescue"]:
        return _check(Path(folders[0]), options["rescue"])
    if options["front"]:
        study_file = options["study"]
        _show_front(folders[0], question, out, as_json=as_json, study_file=study_file)
        return None
    if question._replace(robust=False) != FrontQuestion():
        raise click.UsageError("--objective, --constraint, --point and --within go with --front")
    from carsim.report.report import write_page

    with progress("reading") as tell:
        robust = None
        if question.robust:
            robust = _loaded(folders[0], options["study"])
        page = write_page(
            folders[0], out, overwrite=options["overwrite"], robust=robust, progress=tell
        )
    say(f"Written to {page}")
    return None


def _loaded(folder: str, study_file: str | None) -> "Study":
    """The study of a folder, as loaded from its file or from the copy in the folder."""
    from carsim.explore.store import study_of_folder

    return study_of_folder(Path(folder), None if study_file is None else Path(study_file))


def _verify(folder: str, study: str | None) -> None:
    """Prove a front anew, and say what was proven."""
    from carsim.explore.certificate import verify
    from carsim.report.stored_study import read_study

    with progress("proving"):
        proven = verify(Path(folder), None if study is None else Path(study))
    n_rows = len(read_study(Path(folder)).representatives)
    remark = rows_of_front(n_rows, proven.front, proven.within)
    front = f"The front of {count(proven.front, 'point')}{remark}"
    designs = count(proven.designs, "design")
    say(f"{front} is proven for {designs}: bounds of all were computed again.")
    dominated = f"{proven.dominated:,} are dominated"
    if proven.within:
        dominated += f", or better by at most {100 * proven.within:g} %"
    broken = f"{proven.broken:,} cannot fit or meet the constraints"
    evaluated = count(proven.front + proven.evaluated, "point")
    say(f"{dominated}, {broken}. {evaluated} evaluated again: all results are equal.")


def rows_of_front(n_rows: int, n_points: int, within: float) -> str:
    """A remark on a front whose table has fewer rows than points; empty if it has as many.

    Args:
        n_rows: Rows of the table.
        n_points: Points of the front.
        within: Share by which points may be worse that one row stands for.

    >>> rows_of_front(12, 14, 0.0)
    ' (in 12 rows of its table: points that are alike in every objective share one)'
    >>> rows_of_front(3, 3, 0.0)
    ''
    """
    if n_rows >= n_points:
        return ""
    why = "points that are alike in every objective share one"
    if within:
        why = "one row stands for points that are nearly as good"
    return f" (in {count(n_rows, 'row')} of its table: {why})"


def _check(folder: Path, new: str | None) -> int:
    """Say what is damaged, and what is lost of a folder that is rescued; the exit status."""
    from carsim.report.rescue import UNKNOWN, inspect, rescue

    if new is not None:
        losses = rescue(folder, Path(new))
        lines = [f"{file}: {loss}" for file, loss in losses.items()]
        say(*lines, f"The rest is in {new}.")
        return 0
    damage_of = inspect(folder)
    lines = [f"{file}: {damage or 'right'}" for file, damage in damage_of.items()]
    damaged = [file for file, damage in damage_of.items() if damage not in ("", UNKNOWN)]
    say(*lines)
    if not damaged:
        return 0
    say(f"Damaged: {', '.join(damaged)}. Add --rescue NEW to copy the rest to a new folder.")
    return 1


def _draw(
    folders: Sequence[str], out: str | None, options: Mapping[str, Any], question: FrontQuestion
) -> None:
    """Draw one figure.

    Args:
        folders: Folders of results, each perhaps with a label.
        out: File of the figure.
        options: Options ``plot``, ``width`` and ``look``.
        question: Objectives and constraints of a front.
    """
    from carsim.report.plots import write_plot

    if out is None:
        raise click.UsageError("--plot needs --out FILE.pdf, .svg or .png")
    with progress("drawing"):
        files = write_plot(
            folders,
            options["plot"],
            out,
            options["width"],
            objectives=question.objectives,
            constraints=question.constraints,
            look=options["look"],
        )
    figure = files[0]
    numbers = files[1]
    caption = f", its caption to {files[2]}" if len(files) > 2 else ""
    say(f"Written to {figure}{caption}, and its numbers to {numbers}")


def _show_front(
    folder: str,
    question: FrontQuestion,
    out: str | None,
    *,
    as_json: bool,
    study_file: str | None,
) -> None:
    """Print the front of what a folder stores, and write it where that is asked for.

    Args:
        folder: Folder of a sweep or a search.
        question: Objectives, constraints and point.
        out: Folder for the front as CSV; None for none.
        as_json: Print JSON.
        study_file: File of the study, for robust fronts; None for the copy in the folder.
    """
    from carsim.explore.code import code_sha256
    from carsim.explore.pareto import pareto
    from carsim.metrics.columns import csv_text
    from carsim.report.stored_study import read_study

    study = read_study(Path(folder)).seen(question.objectives, question.constraints)
    if question.within is not None:
        study = replace(study, within=question.within)
    if question.robust:
        study = replace(study, robust=_loaded(folder, study_file))
    if study.front.empty:
        pareto(study.frame, study.objectives, study.constraints)  # says why
    number = question.point
    if number is None:
        number = int(study.knee["point"].iloc[0])
    command = _run_command(study, number)
    files = []
    if out is not None:
        make_folder(Path(out))
        write_whole(Path(out) / "pareto.csv", csv_text(study.front))
        files.append("pareto.csv")
    same_code = study.facts["code"] == code_sha256()
    if as_json:
        document = {
            "study": study.name,
            "assumed": study.assumed,
            "carsim_version": study.facts["version"],
            "same_code": same_code,
        }
        document |= completeness(study)
        document |= as_document(study)
        document["constraints"] = study.constraints
        document["points"] = len(study.frame)
        document["files"] = files
        document["command"] = command
        show_json(document)
        return
    print_front(study)
    for remark in _front_remarks(study, same_code=same_code):
        say(remark)
    if not command:
        say(f"Point {number} has fields for which no option of carsim run stands.")
    else:
        is_on_front = number in set(study.front["point"])
        place = "" if is_on_front else ", which is not on the front,"
        say(f"Point {number}{place} as a run, in the folder of the study:")
        click.echo(command)
    if files:
        say(f"Written to {out}: {', '.join(files)}")


def _front_remarks(study: "StoredStudy", *, same_code: bool) -> Iterator[str]:
    """Remarks on a front: missing points, failed points, other code.

    Args:
        study: The study.
        same_code: The points were evaluated by this code.
    """
    from carsim.explore.code import plugin_gap_of

    if study.is_part:
        results = f"{len(study.frame):,} of {study.facts['points']:,} points have a result"
        yield f"{results}: {_exactness(study)}."
    failed = study.counts["failed"]
    if failed:
        yield f"{count(failed, 'point')} failed: the same sweep tries again."
    if same_code and study.facts["version"] == version("carsim"):
        return
    gap = plugin_gap_of(study.facts)
    if gap is not None and not same_code:
        yield f"The study {gap.problem}; {gap.cure}.".replace("`plugins`", "--plugin")
    else:
        evaluated_by = f"other code, carsim {study.facts['version']}"
        yield f"The points were evaluated by {evaluated_by}; this is {version('carsim')}."


def _exactness(study: "StoredStudy") -> str:
    """The exactness of the front of a study of which not all points have a result."""
    if not study.is_proven:
        return "the front is exact once the sweep has ended"
    share = study.facts.get("within")
    if not share:
        return "for all others it is proven that they are not on the front"
    others = "all others that fit"
    if study.constraints != tuple(study.facts["constraints"]):
        others += f" and keep each limit with {100 * share:g} % to spare"
    worse = f"a point of this front is at most {100 * share:g} % worse in each objective"
    return f"for {others}, it is proven that {worse}"


def _run_command(study: "StoredStudy", number: int) -> str:
    """The command that runs a point, in the folder of its study, in lines that a shell joins.

    It is empty if there is no option for a field.

    Raises:
        InputError: No such point.
    """
    from carsim.base.yaml_file import mapping_of
    from carsim.explore.axis import PSEUDO_PATHS, parse_axis, value_of_cell
    from carsim.explore.study import StudyFile

    rows = study.frame[study.frame["point"] == number]
    if rows.empty:
        raise InputError("--point", f"point {number} has no result", "take one of points.csv")
    file = StudyFile.model_validate(mapping_of(study.facts["study"], study.name))
    changes = {"design": file.design, "trace": file.traces, "workload": file.workload} | file.set
    for name, body in file.axes.items():
        axis = parse_axis(name, body, name)
        cell = rows[name].iloc[0]
        changes |= axis.changes(value_of_cell(axis, cell))
    design = changes.pop("design")
    traces = changes.pop("trace")
    work = changes.pop("workload")
    replays = changes.pop("replay", True)
    has_option = not changes.keys() & set(PSEUDO_PATHS) and isinstance(work, str | None)
    if not has_option:
        return ""
    options = []
    for path, value in changes.items():
        text = value if isinstance(value, str) else json.dumps(value)
        options.append(["--set", f"{path}={text}"])
    if isinstance(traces, str):
        traces = [traces]
    options += [["--trace", trace] for trace in traces]
    if work:
        options.append(["--workload", work])
    if not replays:
        options.append(["--no-replay"])
    if file.resample is not None:
        options.append(["--resample", str(file.resample)])
    if file.fidelity != "fluid":
        options.append(["--fidelity", file.fidelity])
    if file.allow_misfit:
        options.append(["--allow-misfit"])
    plugins = plugin_files() or tuple(study.facts.get("plugins", {}))
    options += [["--plugin", plugin] for plugin in plugins]
    return _in_lines([["carsim", "run", design], *options])


def _in_lines(parts: Sequence[Sequence[str]]) -> str:
    """A command in lines that a shell joins; an option stands in one line with its value."""
    unbreakable = [shlex.join(part).replace(" ", "\0") for part in parts]
    lines = textwrap.wrap(
        " ".join(unbreakable), COMMAND_WIDTH, break_long_words=False, break_on_hyphens=False
    )
    return " \\\n".join(lines).replace("\0", " ")


def as_document(study: "StoredStudy") -> dict[str, Any]:
    """The front of a study for JSON."""
    return {
        "objectives": study.objectives,
        "within": study.facts.get("within"),
        "representatives": [int(point) for point in study.representatives["point"]],
        "front": json.loads(study.front.to_json(orient="records")),
    }


def completeness(study: "StoredStudy") -> dict[str, Any]:
    """Facts for JSON that say if the results of a study are all that there will be.

    Returns:
        ``complete``, each point has a result or a proof that it is not on the front; ``total``,
        points of the study, or points that a search was asked for; ``damaged``, lines of the store
        that are damaged.
    """
    facts = study.facts
    return {
        "complete": study.is_complete,
        "total": facts["points"],
        "damaged": list(study.damaged),
    }


def study_manifest(study: "Study") -> dict[str, Any]:
    """Everything that the results of the command that runs depend on."""
    from carsim.explore.code import manifest

    ctx = click.get_current_context()
    return manifest(
        command_of(ctx, ctx.params),
        study.base,
        study_sha256=study.fingerprint,
        seed=study.file.sampling.seed,
        traces={name: trace.sha256 for name, trace in study.traces.items()},
    )


def print_front(study: "StoredStudy") -> None:
    """Print the front of a study, its knee marked."""
    from carsim.explore.frame import origin_note
    from carsim.report.front_table import front_notes, front_table

    front = study.front
    if front.empty:
        say("None of them fits its board and meets the constraints.")
        return
    verb = "is" if len(front) == 1 else "are"
    fitting = count(len(study.fitting), "evaluated point" if study.is_part else "point")
    title = f"{study.name}: {len(front):,} of {fitting} that fit {verb} on the front{study.so_far}"
    say(Text(title, style="bold"))
    if study.assumed:
        say(study.assumed)
    say(front_table(study))
    for note in [origin_note(study.frame), *front_notes(study)]:
        if note:
            say(note)

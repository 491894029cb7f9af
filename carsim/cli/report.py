"""``carsim report``: results as an HTML page, as a Pareto front, or as a figure for a paper."""

import json
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

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

Names = Sequence[str]
Wanted = Mapping[str, str] | None
"""Objectives of a front; None for those of the study."""


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
    help="With --verify: the file of the study, if its design or traces lie beside it.",
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
@JSON
def report(folders: tuple[str, ...], out: str | None, as_json: bool, **asked: Any) -> int | None:
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

    With --check, each file is compared with its checksum or with its digest in SHA256SUMS. With
    --rescue, what is sound goes to NEW, marked as rescued; RESCUED.txt says what is lost.

    With --verify, the certificate of a front that carsim sweep --front-only made is checked: it
    holds only if all bounds and all points that bounds do not rule out are the same when they are
    computed again.
    """
    if sum(bool(asked[mode]) for mode in MODES) > 1:
        raise click.UsageError("--front, --plot, --check, --verify and --rescue exclude each other")
    from carsim.explore.pareto import parse_objectives

    of_front = parse_objectives(asked["objectives"]) or None, asked["constraints"]
    if asked["plot"] is not None:
        _draw(folders, asked["plot"], out, asked["width"], asked["look"], *of_front)
        return None
    if len(folders) > 1:
        raise click.UsageError("several DIR go with --plot")
    if as_json and not asked["front"]:
        raise click.UsageError("--json goes with --front")
    if asked["study"] is not None and not asked["verify"]:
        raise click.UsageError("--study goes with --verify")
    if asked["verify"]:
        _verify(folders[0], asked["study"])
        return None
    if asked["check"] or asked["rescue"]:
        return _check(Path(folders[0]), asked["rescue"])
    if asked["front"]:
        asked_of_point = asked["point"], asked["within"]
        _show_front(folders[0], *of_front, out, as_json, *asked_of_point)
        return None
    if any(of_front) or asked["point"] is not None or asked["within"] is not None:
        raise click.UsageError("--objective, --constraint, --point and --within go with --front")
    from carsim.report.report import write_page

    with progress("reading") as tell:
        page = write_page(folders[0], out, overwrite=asked["overwrite"], progress=tell)
    say(f"Written to {page}")
    return None


def _verify(folder: str, study: str | None) -> None:
    """Prove a front anew, and say what was proven."""
    from carsim.explore.certificate import verify
    from carsim.report.stored_study import read_study

    with progress("proving"):
        proven = verify(Path(folder), None if study is None else Path(study))
    again = proven.front + proven.evaluated
    share = f", or better by at most {100 * proven.within:g} %" if proven.within else ""
    n_rows = len(read_study(Path(folder)).representatives)
    alike = rows_of_front(n_rows, proven.front, proven.within)
    say(
        f"The front of {count(proven.front, 'point')}{alike} is proven for "
        f"{count(proven.designs, 'design')}: bounds of all were computed again.",
        f"{proven.dominated:,} are dominated{share}, {proven.broken:,} cannot fit or meet the "
        f"constraints. {count(again, 'point')} evaluated again: all results are equal.",
    )


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
        lost = rescue(folder, Path(new))
        say(*(f"{name}: {what}" for name, what in lost.items()), f"The rest is in {new}.")
        return 0
    found = inspect(folder)
    damaged = [name for name, what in found.items() if what not in ("", UNKNOWN)]
    say(*(f"{name}: {what or 'right'}" for name, what in found.items()))
    if damaged:
        say(f"Damaged: {', '.join(damaged)}. Add --rescue NEW to copy the rest to a new folder.")
    return int(bool(damaged))


def _draw(
    folders: Names,
    what: str,
    out: str | None,
    width: float,
    look: Literal["usual", "paper"],
    objectives: Wanted,
    constraints: Names,
) -> None:
    """Draw one figure."""
    from carsim.report.plots import write_plot

    if out is None:
        raise click.UsageError("--plot needs --out FILE.pdf, .svg or .png")
    with progress("drawing"):
        figure, numbers, *caption = write_plot(
            folders, what, out, width, objectives=objectives, constraints=constraints, look=look
        )
    also = f", its caption to {caption[0]}" if caption else ""
    say(f"Written to {figure}{also}, and its numbers to {numbers}")


def _show_front(
    folder: str,
    objectives: Wanted,
    constraints: Names,
    out: str | None,
    as_json: bool,
    point: int | None,
    within: float | None,
) -> None:
    """Print the front of what a folder stores, and write it where that is asked for."""
    from carsim.explore.code import code_sha256, plugin_gap_of
    from carsim.explore.pareto import pareto
    from carsim.metrics.columns import csv_text
    from carsim.report.stored_study import read_study

    study = read_study(Path(folder)).seen(objectives, constraints)
    if within is not None:
        study = replace(study, within=within)
    if study.front.empty:
        pareto(study.frame, study.objectives, study.constraints)  # says why
    number = int(study.knee["point"].iloc[0]) if point is None else point
    command = _run_command(study, number)
    files = [] if out is None else ["pareto.csv"]
    if out is not None:
        make_folder(Path(out))
        write_whole(Path(out) / "pareto.csv", csv_text(study.front))
    made, same_code = study.facts["version"], study.facts["code"] == code_sha256()
    if as_json:
        document = {"study": study.name, "assumed": study.assumed}
        document |= {"carsim_version": made, "same_code": same_code}
        document |= completeness(study)
        found = {"constraints": study.constraints, "points": len(study.frame), "files": files}
        show_json(document | as_document(study) | found | {"command": command})
        return
    print_front(study)
    if study.is_part:
        have = f"{len(study.frame):,} of {study.facts['points']:,} points have a result"
        proven = "the front is exact once the sweep has ended"
        if study.is_proven:
            proven = "for all others it is proven that they are not on the front"
        if share := study.facts.get("within"):
            others = "all others that fit"
            if study.constraints != tuple(study.facts["constraints"]):
                others += f" and keep each limit with {100 * share:g} % to spare"
            worse = f"a point of this front is at most {100 * share:g} % worse in each objective"
            proven = f"for {others}, it is proven that {worse}"
        say(f"{have}: {proven}.")
    if n_failed := study.counts["failed"]:
        say(f"{count(n_failed, 'point')} failed: the same sweep tries again.")
    gap = plugin_gap_of(study.facts)
    if gap is not None and not same_code:
        say(f"The study {gap.problem}; {gap.cure}.".replace("`plugins`", "--plugin"))
    elif made != (own := version("carsim")) or not same_code:
        say(f"The points were evaluated by other code, carsim {made}; this is {own}.")
    if not command:
        say(f"Point {number} has fields for which no option of carsim run stands.")
    else:
        where = "" if number in set(study.front["point"]) else ", which is not on the front,"
        say(f"Point {number}{where} as a run, in the folder of the study:")
        click.echo(command)
    if files:
        say(f"Written to {out}: {', '.join(files)}")


def _run_command(study: "StoredStudy", number: int) -> str:
    """The command that runs a point, in the folder of its study, in lines that a shell joins.

    It is empty if there is no option for a field.

    Raises:
        InputError: No such point.
    """
    from carsim.base.yaml_file import mapping_of
    from carsim.explore.axis import PSEUDO_PATHS, parse_axis
    from carsim.explore.study import StudyFile

    rows = study.frame[study.frame["point"] == number]
    if rows.empty:
        raise InputError("--point", f"point {number} has no result", "take one of points.csv")
    file = StudyFile.model_validate(mapping_of(study.facts["study"], study.name))
    changes = {"design": file.design, "trace": file.traces, "workload": file.workload} | file.set
    for name, body in file.axes.items():
        axis, cell = parse_axis(name, body, name), rows[name].iloc[0]
        changes |= axis.changes(next(v for v in axis.values if cell in (v, json.dumps(v))))
    parts = [["carsim", "run", changes.pop("design")]]
    traces, work = changes.pop("trace"), changes.pop("workload")
    replays = changes.pop("replay", True)
    if changes.keys() & {*PSEUDO_PATHS} or not isinstance(work, str | None):
        return ""
    for path, value in changes.items():
        written = value if isinstance(value, str) else json.dumps(value)
        parts.append(["--set", f"{path}={written}"])
    parts += [["--trace", each] for each in ([traces] if isinstance(traces, str) else traces)]
    parts += [["--workload", work]] if work else []
    parts += [] if replays else [["--no-replay"]]
    parts += [] if file.resample is None else [["--resample", str(file.resample)]]
    parts += [] if file.fidelity == "fluid" else [["--fidelity", file.fidelity]]
    parts += [["--allow-misfit"]] if file.allow_misfit else []
    files = plugin_files() or tuple(study.facts.get("plugins", {}))
    parts += [["--plugin", file] for file in files]
    known = " ".join(shlex.join(part).replace(" ", "\0") for part in parts)
    lines = textwrap.wrap(known, 77, break_long_words=False, break_on_hyphens=False)
    return " \\\n".join(lines).replace("\0", " ")


def as_document(study: "StoredStudy") -> dict[str, Any]:
    """The front of a study for JSON."""
    records = json.loads(study.front.to_json(orient="records"))
    within = study.facts.get("within")
    stands = [int(point) for point in study.representatives["point"]]
    document = {"objectives": study.objectives, "within": within}
    return document | {"representatives": stands, "front": records}


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
    facts: dict[str, Any] = {"study_sha256": study.fingerprint, "seed": study.file.sampling.seed}
    facts["traces"] = {name: trace.sha256 for name, trace in study.traces.items()}
    return manifest(command_of(ctx, ctx.params), study.base, **facts)


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
    notes = filter(None, [origin_note(study.frame), *front_notes(study)])
    say(Text(title, style="bold"), *filter(None, [study.assumed]), front_table(study), *notes)

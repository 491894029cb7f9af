"""``carsim sweep``: evaluate every point of a study, durably and on all cores."""

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any

import click

from carsim.base.environment import library
from carsim.base.errors import InputError
from carsim.base.text import count
from carsim.cli.console import progress_bar, say, show_json
from carsim.cli.options import JSON, WORKLOAD, plugin_options, work_of

if TYPE_CHECKING:
    from carsim.explore.store import Store
    from carsim.explore.study import Study
    from carsim.explore.sweep import Progress, Tell
    from carsim.report.stored_study import StoredStudy

FAILED = 1
"""Exit status of a sweep or a search some of whose points could not be evaluated."""

WORKERS = click.option(
    "--workers",
    type=click.IntRange(min=0),
    metavar="N",
    help="Processes; all cores if left out, 0 evaluates in this process.",
)


@click.command()
@click.argument("study", type=click.Path())
@WORKLOAD
@click.option("--out", metavar="DIR", required=True, help="Folder of the store and its exports.")
@WORKERS
@click.option(
    "--scheduler", metavar="URL", help="Dask scheduler such as tcp://host:8786; its workers work."
)
@click.option(
    "--front-only",
    is_flag=True,
    help="Of a grid, leave out points that are proven to be dominated or not to fit.",
)
@click.option(
    "--within",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.0,
    metavar="SHARE",
    help="With --front-only: leave out also points that are better than an evaluated one by at most"
    " this share in every objective, such as 0.01.",
)
@click.option(
    "--shard",
    metavar="K/N",
    help="Evaluate the K-th of N parts of the study, such as 3/16; carsim merge joins them.",
)
@click.option(
    "--reuse",
    metavar="FOLDER",
    multiple=True,
    help="Take over results of equal points from the folder of another sweep; may be repeated.",
)
@click.option(
    "--accept-code",
    is_flag=True,
    help="Go on with results of another version of carsim, if the front and 200 drawn points that "
    "are evaluated again have equal results.",
)
@JSON
def sweep(study: str, workload: str | None, out: str, as_json: bool, **options: Any) -> int | None:
    """Evaluate all points of STUDY, a YAML file, and store each as it is finished.

    With --front-only, a grid's front is found without evaluating all of it: a point is left out if
    a result beats its lower bound in every objective, or if it cannot fit its board.

    Interrupt it as you like: the same command goes on where it was, and tries again what has
    failed. Points that do not fit their board are stored with the missing part, points that are
    refused with what is wrong. In the end, DIR holds points.csv and, where pyarrow is installed,
    points.parquet. Exit status 1 if points failed.
    """
    if options["scheduler"] is not None and options["workers"] is not None:
        raise InputError("--workers", "a Dask cluster has its own", "leave it or --scheduler out")
    if options["scheduler"] is not None:
        library("distributed", "--scheduler")

    from carsim.explore.answerable import check_answerable
    from carsim.explore.store import open_folder
    from carsim.explore.study import load_study
    from carsim.explore.sweep import fill

    loaded = load_study(study, work_of(workload))
    check_answerable(loaded)  # before there is a folder
    with open_folder(out) as store:
        with sweep_progress(loaded.name, front_only=options["front_only"]) as tell:
            done = fill(
                store,
                loaded,
                tell=tell,
                workers=options["workers"],
                scheduler=options["scheduler"],
                front_only=options["front_only"],
                within=options["within"],
                shard=options["shard"],
                reuse=options["reuse"],
                accept_code=options["accept_code"],
            )
        status = show_results(store, loaded, done, out, as_json, has_front=options["front_only"])
        if store.counts().keys() == {"invalid"}:
            reason = next(row["reason"] for _, _, row in store.rows())
            raise InputError(loaded.name, f"all points are refused: {reason}", "mend the study")
    return status


def show_results(
    store: "Store", study: "Study", done: "Progress", out: str, as_json: bool, *, has_front: bool
) -> int | None:
    """Export a sweep or a search, and print its results; the exit status.

    Args:
        store: The store of its results.
        study: The study.
        done: What this command has evaluated.
        out: Folder of the store and its exports.
        as_json: Print JSON.
        has_front: Print the front, too.
    """
    from carsim.cli.report import as_document, completeness, print_front, study_manifest
    from carsim.explore.frame import export
    from carsim.report.stored_study import StoredStudy

    stored = StoredStudy.of(store)
    counts = store.counts()
    has_workers = click.get_current_context().params["workers"] != 0
    processor_s = process_time()
    if has_workers:
        processor_s += done.processor_s  # that of other processes
    files = export(stored.frame, out, study_manifest(study), store)
    notes = list(_notes(stored, study, done))
    status = FAILED if counts["failed"] else None
    if as_json:
        document: dict[str, Any] = {"study": study.name, "assumed": stored.assumed}
        document["points"] = counts.total()
        document |= counts
        document |= _effort(done, processor_s)
        document["folder"] = out
        document["files"] = files
        document |= completeness(stored)
        document["shard"] = stored.facts["shard"]
        document["notes"] = notes
        if has_front:
            document |= as_document(stored)
        show_json(document)
        return status
    points = f"{count(counts.total(), 'point')}; {stored.outcome or 'none stored'}"
    say(f"{study.name}{_shard(stored)}: {points}", stored.assumed)
    for line in _refusals(stored, notes):
        say(line)
    if done.dominated or done.misfits:
        say(f"{_bounds(done)}: {counts.total():,} evaluated or refused, {_proven(stored, done)}")
    if notes:
        say(*notes)
    say(*_work_now(done, processor_s))
    if has_front:
        print_front(stored)
    say(f"Written to {out}: {', '.join(files)}")
    for line in _next_commands(stored, study, out, has_front=has_front):
        say(line)
    return status


def _effort(done: "Progress", processor_s: float) -> dict[str, Any]:
    """Points that this command has evaluated or taken over, and their time, for JSON."""
    return {
        "evaluated": done.evaluated,
        "reused": done.reused,
        "seconds": round(done.seconds, 3),
        "points_per_minute": round(done.points_per_minute, 1),
        "processor_s": round(processor_s, 1),
    }


def _shard(stored: "StoredStudy") -> str:
    """The part of the points that a store has, behind a comma; empty if it has all."""
    from carsim.explore.shards import ALL_POINTS

    shard = stored.facts["shard"]
    return "" if shard == ALL_POINTS else f", {shard}"


def _refusals(stored: "StoredStudy", notes: Sequence[str]) -> "Iterator[str]":
    """The most frequent reasons of refused and of failed points, unless a note has them.

    Args:
        stored: The study as its store has it.
        notes: Notes that are printed, too; they say of which values the reason is.
    """
    for status, outcome in {"invalid": "Refused", "failed": "Failed"}.items():
        with_status = stored.frame["status"] == status
        reasons = Counter(stored.frame.loc[with_status, "reason"])
        for reason, points in reasons.most_common(1):
            if not any(note.endswith(reason) for note in notes):
                yield f"{outcome} most often ({count(points, 'point')}): {reason}"


def _bounds(done: "Progress") -> str:
    """Number of points with bounds, and the time that the bounds took."""
    bounds_s = done.whole_s - done.seconds
    return f"{done.total:,} bounded in {bounds_s:,.0f} s"


def _proven(stored: "StoredStudy", done: "Progress") -> str:
    """Numbers of points that bounds rule out in a sweep with ``--front-only``."""
    lack_counts: Counter[str] = Counter()
    for lacks in done.misfits.elements():
        lack_counts.update(lacks)
    dominated = f"{done.dominated:,} proven dominated"
    share = click.get_current_context().params["within"]
    if share:
        dominated += f" or at most {100 * share:g} % better"
    misfits = f"{done.misfits.total():,} cannot fit"
    if stored.constraints:
        misfits += " or meet constraints"
    for lack, points in lack_counts.most_common():
        misfits += f"; {points:,} lack {lack}"
    return f"{dominated}, {misfits}"


def _next_commands(
    stored: "StoredStudy", study: "Study", out: str, *, has_front: bool
) -> "Iterator[str]":
    """Commands that show the front and check its proof, where there are such."""
    from carsim.explore.store import CERTIFICATE

    folder = shlex.quote(out)
    points = stored.front if has_front else stored.fitting
    if not points.empty:
        command = f"carsim report {folder} --front --out {folder}{plugin_options()}"
        yield f"The front as a table and as pareto.csv: {command}"
    if stored.is_proven and (Path(out) / CERTIFICATE).exists():
        command = f"carsim report {folder} --verify{_beside(study)}{plugin_options()}"
        yield f"The proof is in {CERTIFICATE}; to check it: {command}"


def _beside(study: "Study") -> str:
    """Option that names the file of a study whose design or traces lie beside it, else empty."""
    path = Path(click.get_current_context().params["study"])
    files = (*study.design_paths, *study.traces)
    is_needed = any((path.parent / name).is_file() for name in files)
    return f" --study {shlex.quote(str(path))}" if is_needed else ""


def _work_now(done: "Progress", processor_s: float) -> "Iterator[str]":
    """Lines on the points that this command has evaluated or taken over."""
    if done.reused:
        yield f"{done.reused:,} of them now taken over from stored results of equal points"
    if done.evaluated:
        rate = f"{done.points_per_minute:,.0f} points per minute"
        now = f"{done.evaluated:,} of them now, at {rate}, in {done.seconds:,.0f} s"
        yield f"{now}; processor time: {processor_s:,.0f} s"


def _notes(stored: "StoredStudy", study: "Study", done: "Progress") -> "Iterator[str]":
    """Notes on axes without effect, values that are never valid, missing points and rows."""
    from carsim.explore.axis_notes import axis_notes, sample_note
    from carsim.explore.work_notes import work_notes

    kind = stored.facts["kind"]
    if kind == "search":
        if done.finished < done.total:
            points = f"The study has {done.finished:,} different points that pass its filters"
            yield f"{points}; {done.total:,} were asked for."
    elif note := sample_note(study):
        yield note
    # With --front-only, values that are never valid are told before bounds are computed.
    yield from axis_notes(stored.frame, stored.axes, with_invalid=kind != "front")
    yield from work_notes(study)


@contextmanager
def sweep_progress(name: str, *, front_only: bool = False) -> Iterator["Tell"]:
    """A bar on standard error, if that is a terminal; of a front, a half of it is for bounds."""
    with progress_bar(name, is_steady=not front_only) as tell:

        def tell_points(now: "Progress") -> None:
            if now.look is not None:
                click.echo(f"{name}: {now.look.text}", err=True)
                return
            if now.bounded is not None:
                tell(now.bounded[0], 2 * now.bounded[1], "bounds")
                return
            done = now.counts.total()
            # Bounds may rule out further points of a front.
            most = now.total - now.dominated - now.misfits.total()
            rate = f", {now.points_per_minute:,.0f}/min" if now.evaluated else ""
            if front_only:
                text = f"evaluated {done:,} of at most {most:,}{rate}"
                tell(most + done, most + most, text)  # bounds are the first half
            else:
                tell(done, most, f"evaluated {done:,} of {most:,}{rate}")

        yield tell_points

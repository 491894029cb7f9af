"""``carsim sweep``: evaluate every point of a study, durably and on all cores."""

import shlex
from collections import Counter
from collections.abc import Iterator
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
def sweep(study: str, workload: str | None, out: str, as_json: bool, **how: Any) -> int | None:
    """Evaluate all points of STUDY, a YAML file, and store each as it is finished.

    With --front-only, a grid's front is found without evaluating all of it: a point is left out if
    a result beats its lower bound in every objective, or if it cannot fit its board.

    Interrupt it as you like: the same command goes on where it was, and tries again what has
    failed. Points that do not fit their board are stored with the missing part, points that are
    refused with what is wrong. In the end, DIR holds points.csv and, where pyarrow is installed,
    points.parquet. Exit status 1 if points failed.
    """
    if how["scheduler"] is not None and how["workers"] is not None:
        raise InputError("--workers", "a Dask cluster has its own", "leave it or --scheduler out")
    if how["scheduler"] is not None:
        library("distributed", "--scheduler")

    from carsim.explore.answerable import check_answerable
    from carsim.explore.store import open_folder
    from carsim.explore.study import load_study
    from carsim.explore.sweep import fill

    loaded = load_study(study, work_of(workload))
    check_answerable(loaded)  # before there is a folder
    with open_folder(out) as store:
        with sweep_progress(loaded.name, front_only=how["front_only"]) as tell:
            done = fill(store, loaded, tell=tell, **how)
        status = show_results(store, loaded, done, out, as_json, has_front=how["front_only"])
        if store.counts().keys() == {"invalid"}:
            reason = next(row["reason"] for _, _, row in store.rows())
            raise InputError(loaded.name, f"all points are refused: {reason}", "mend the study")
    return status


def show_results(
    store: "Store", study: "Study", done: "Progress", out: str, as_json: bool, *, has_front: bool
) -> int | None:
    """Export a sweep or a search, and print its results; the exit status."""
    from carsim.cli.report import as_document, completeness, print_front, study_manifest
    from carsim.explore.frame import export
    from carsim.explore.shards import ALL_POINTS
    from carsim.explore.store import CERTIFICATE
    from carsim.report.stored_study import StoredStudy

    found, counts = StoredStudy.of(store), store.counts()
    is_apart = click.get_current_context().params["workers"] != 0
    processor_s = process_time() + (done.processor_s if is_apart else 0.0)
    files = export(found.frame, out, study_manifest(study))
    notes = list(_notes(found, study, done))
    status = FAILED if counts["failed"] else None
    if as_json:
        document: dict[str, Any] = {"study": study.name, "assumed": found.assumed}
        document |= {"points": counts.total(), **counts}
        document |= {"evaluated": done.evaluated, "reused": done.reused}
        document |= {"seconds": round(done.seconds, 3)}
        document["points_per_minute"] = round(done.points_per_minute, 1)
        document |= {"processor_s": round(processor_s, 1), "folder": out, "files": files}
        document |= completeness(found) | {"shard": found.facts["shard"], "notes": notes}
        show_json(document | (as_document(found) if has_front else {}))
        return status
    part = "" if found.facts["shard"] == ALL_POINTS else f", {found.facts['shard']}"
    points = count(counts.total(), "point")
    say(f"{study.name}{part}: {points}; {found.outcome or 'none stored'}", found.assumed)
    for row_status, what in {"invalid": "Refused", "failed": "Failed"}.items():
        reasons = Counter(found.frame.loc[found.frame["status"] == row_status, "reason"])
        for reason, n in reasons.most_common(1):
            if any(note.endswith(reason) for note in notes):
                continue  # a note says it, and of which values
            say(f"{what} most often ({count(n, 'point')}): {reason}")
    if done.dominated or done.misfits:
        lacks = Counter(part for parts in done.misfits.elements() for part in parts)
        lacking = "".join(f"; {n:,} lack {part}" for part, n in lacks.most_common())
        share = click.get_current_context().params["within"]
        what = "dominated" + f" or at most {100 * share:g} % better" * bool(share)
        cannot = "cannot fit" + " or meet constraints" * bool(found.constraints)
        proven = f"{done.dominated:,} proven {what}, {done.misfits.total():,} {cannot}"
        had = f"{counts.total():,} evaluated or refused"
        took = f"in {done.whole_s - done.seconds:,.0f} s"
        say(f"{done.total:,} bounded {took}: {had}, {proven}{lacking}")
    if notes:
        say(*notes)
    say(*_work_now(done, processor_s))
    if has_front:
        print_front(found)
    say(f"Written to {out}: {', '.join(files)}")
    if not (found.front if has_front else found.fitting).empty:
        folder = shlex.quote(out)
        command = f"carsim report {folder} --front --out {folder}{plugin_options()}"
        say(f"The front as a table and as pareto.csv: {command}")
    if found.is_proven and (Path(out) / CERTIFICATE).exists():
        command = f"carsim report {shlex.quote(out)} --verify{_beside(study)}{plugin_options()}"
        say(f"The proof is in {CERTIFICATE}; to check it: {command}")
    return status


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


def _notes(found: "StoredStudy", study: "Study", done: "Progress") -> "Iterator[str]":
    """Notes on axes without effect, values that are never valid, missing points and rows."""
    from carsim.explore.axis_notes import axis_notes, sample_note
    from carsim.explore.work_notes import work_notes

    if found.facts["kind"] == "search":
        if done.finished < done.total:
            only = f"The study has {done.finished:,} different points that pass its filters"
            yield f"{only}; {done.total:,} were asked for."
    elif note := sample_note(study):
        yield note
    # With --front-only, values that are never valid are told before bounds are computed.
    yield from axis_notes(found.frame, found.axes, with_invalid=found.facts["kind"] != "front")
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
            done, most = now.counts.total(), now.total - now.dominated - now.misfits.total()
            rate = f", {now.points_per_minute:,.0f}/min" if now.evaluated else ""
            first, at_most = (most, "at most ") if front_only else (0, "")
            tell(first + done, first + most, f"evaluated {done:,} of {at_most}{most:,}{rate}")

        yield tell_points

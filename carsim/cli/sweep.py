"""``carsim sweep``: evaluate every point of a study, durably and on all cores."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from carsim.base.environment import library
from carsim.base.errors import InputError
from carsim.base.text import count
from carsim.cli.options import JSON, STUDIES, WORKLOAD, work_of

if TYPE_CHECKING:
    from carsim.explore.sweep import Progress, Tell

FAILED = 1
"""Exit status of a sweep or a search some of whose points could not be evaluated."""

STUDY = click.argument("study", shell_complete=STUDIES)
OUT = click.option(
    "--out", metavar="DIR", required=True, help="Folder of the store and its exports."
)
WORKERS = click.option(
    "--workers",
    type=click.IntRange(min=0),
    metavar="N",
    help="Processes; all cores if left out, 0 evaluates in this process.",
)


@click.command()
@STUDY
@WORKLOAD
@OUT
@WORKERS
@click.option(
    "--scheduler", metavar="URL", help="Dask scheduler such as tcp://host:8786; its workers work."
)
@click.option("--retry-failed", is_flag=True, help="Evaluate points again that have failed.")
@click.option(
    "--front-only",
    is_flag=True,
    help="Of a grid, leave out points that are proven to be dominated or not to fit.",
)
@click.option("--export", "only_export", is_flag=True, help="Evaluate nothing, only export.")
@JSON
def sweep(
    study: str,
    workload: str | None,
    out: str,
    workers: int | None,
    scheduler: str | None,
    retry_failed: bool,
    front_only: bool,
    only_export: bool,
    as_json: bool,
) -> int | None:
    """Evaluate all points of STUDY, a YAML file, and store each as it is finished.

    With --front-only, a grid's front is found without evaluating all of it: a point is left out if
    a result beats its lower bound in every objective, or if it cannot fit its board.

    Interrupt it as you like: the same command goes on where it was. Points that do not fit their
    board are stored with the missing part, points that are refused with what is wrong. In the end,
    DIR holds points.csv and, where pyarrow is installed, points.parquet. Exit status 1 if points
    failed.
    """
    if scheduler is not None and workers is not None:
        raise InputError("--workers", "a Dask cluster has its own", "leave it or --scheduler out")
    if scheduler is not None:
        library("distributed", "--scheduler")

    from carsim.cli.console import say, show_json
    from carsim.cli.front import as_document, show_found
    from carsim.explore.frame import export, frame_of
    from carsim.explore.store import open_folder, open_store
    from carsim.explore.study import load_study
    from carsim.explore.sweep import fill

    loaded = load_study(study, work_of(workload))
    folder = Path(out)
    with open_store(folder) if only_export else open_folder(folder) as store:
        done = None
        if not only_export:
            with sweep_progress(loaded.name) as tell:
                how: dict[str, Any] = {"workers": workers, "retry_failed": retry_failed}
                how |= {"scheduler": scheduler, "front_only": front_only}
                done = fill(store, loaded, tell=tell, **how)
        counts, frame = store.counts(), frame_of(store)
    files = export(frame, folder)
    if as_json:
        found = as_document(loaded, frame) if front_only else {}
        show_json(document(loaded.name, counts, done, out, files) | found)
    else:
        say(*summary(loaded.name, counts, done))
        if front_only:
            show_found(loaded, frame)
        say(f"Written to {out}: {', '.join(files)}")
    if counts.keys() == {"invalid"}:
        reason = frame["reason"].iloc[0]
        raise InputError(loaded.name, f"all points are refused: {reason}", "mend the study")
    return FAILED if counts.get("failed") else None


MEANINGS = {
    "ok": "evaluated",
    "misfit": "do not fit their board",
    "invalid": "are refused",
    "failed": "failed",
}


def counted(counts: Mapping[str, int]) -> str:
    """Counts of points by status, statuses that none has left out.

    >>> counted({"ok": 1200, "failed": 0, "misfit": 3})
    '1,200 evaluated, 3 do not fit their board'
    """
    known = ((counts.get(status, 0), what) for status, what in MEANINGS.items())
    return ", ".join(f"{n:,} {what}" for n, what in known if n) or "none stored"


def summary(
    name: str, counts: Mapping[str, int], done: "Progress | None", more: str = ""
) -> tuple[str, ...]:
    """Result of a sweep or a search, in a line or two."""
    text = f"{name}: {count(sum(counts.values()), 'point')}; {counted(counts)}{more}"
    lines = [text, *([proven] if done is not None and (proven := certified(done)) else [])]
    if done is None or not done.evaluated:
        return tuple(lines)
    rate = f"{done.points_per_minute:,.0f} points per minute"
    return *lines, f"{done.evaluated:,} of them now, in {done.seconds:,.1f} s ({rate})"


def certified(done: "Progress") -> str:
    """Points that are bounded and need no evaluation; empty where all are evaluated."""
    if not done.dominated + done.misfits:
        return ""
    proven = f"{done.dominated:,} proven dominated, {done.misfits:,} cannot fit"
    return f"{done.total:,} bounded: {done.counts.total():,} evaluated, {proven}"


def document(
    name: str, counts: Mapping[str, int], done: "Progress | None", out: str, files: Sequence[str]
) -> dict[str, Any]:
    """The same as JSON."""
    found: dict[str, Any] = {"study": name, "points": sum(counts.values()), **counts}
    if done is not None:
        found |= {
            "evaluated": done.evaluated,
            "seconds": round(done.seconds, 3),
            "points_per_minute": round(done.points_per_minute, 1),
        }
    return {**found, "folder": out, "files": list(files)}


@contextmanager
def sweep_progress(name: str) -> Iterator["Tell"]:
    """A bar with rate and time left on standard error; a line a minute where nobody looks."""
    from carsim.cli.console import progress_bar

    with progress_bar(name) as tell:

        def tell_points(now: "Progress") -> None:
            rate = f"{now.points_per_minute:,.0f}/min" if now.evaluated else ""
            tell(now.finished, now.total, rate)

        yield tell_points

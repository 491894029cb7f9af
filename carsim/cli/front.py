"""``carsim report --front``: the Pareto front of what a sweep or a search has stored."""

import json
import textwrap
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from carsim.base.errors import InputError
from carsim.cli.plain_table import GAP

if TYPE_CHECKING:
    import pandas as pd

    from carsim.explore.study import Study

BROKEN = 12
"""Characters of a line to which names of columns are broken where room is short."""

MOST_ROWS = 40
"""Longer fronts are shown evenly thinned out; JSON and CSV hold all of them."""


def show_front(
    folder: str,
    objectives: Sequence[str],
    constraints: Sequence[str],
    out: str | None,
    as_json: bool,
) -> None:
    """Print the front of what a folder stores, and write it where that is asked for."""
    from carsim.cli.console import say, show_json
    from carsim.explore.code import code_sha256
    from carsim.explore.frame import frame_of
    from carsim.explore.pareto import pareto, parse_objectives
    from carsim.explore.store import open_store

    with open_store(folder) as store:
        meta, frame = store.facts, frame_of(store)
    wanted = parse_objectives(objectives) if objectives else meta["objectives"]
    if not wanted:
        cure = "add --objective NAME, say latency_s, once for each"
        raise InputError(folder, "the study names no objectives", cure)
    conditions = [*meta["constraints"], *constraints]
    front = pareto(frame, wanted, conditions)
    files = [] if out is None else _written(Path(out), front)
    same_code = meta.get("code") == code_sha256()
    if as_json:
        document = {
            "study": meta["name"],
            "carsim_version": meta["version"],
            "same_code": same_code,
            "objectives": wanted,
            "constraints": conditions,
            "points": len(frame),
            "front": records(front),
            "files": files,
        }
        show_json(document)
        return
    print_front(meta["name"], frame, front, meta["axes"], wanted)
    _warn(meta["version"], same_code)
    if files:
        say(f"Written to {out}: {', '.join(files)}")


def _written(folder: Path, front: "pd.DataFrame") -> list[str]:
    """Write the front as CSV; the name of the file."""
    from carsim.base.files import make_folder, write_whole
    from carsim.metrics.columns import csv_text

    make_folder(folder)
    table = csv_text(front)
    write_whole(folder / "pareto.csv", lambda path: path.write_text(table, "utf-8"))
    return ["pareto.csv"]


def _warn(version: str, same_code: bool) -> None:
    """Say which other code has evaluated the points, if other code has."""
    from importlib.metadata import version as version_of

    from carsim.cli.console import say

    if version != (own := version_of("carsim")):
        say(f"The points were evaluated by carsim {version}; this is {own}.")
    elif not same_code:
        say(f"The points were evaluated by other code of carsim {own}.")


def found_front(study: "Study", frame: "pd.DataFrame") -> "pd.DataFrame | None":
    """The front of what was evaluated; None if nothing of it counts."""
    from carsim.explore.pareto import pareto

    try:
        return pareto(frame, study.objectives, study.file.constraints)
    except InputError:
        return None


def show_found(study: "Study", frame: "pd.DataFrame") -> None:
    """Print the front of what was evaluated."""
    from carsim.cli.console import say

    front = found_front(study, frame)
    if front is None:
        say("None of them fits its board and meets the constraints.")
    else:
        axes = [axis.name for axis in study.axes]
        print_front(study.name, frame, front, axes, study.objectives)


def as_document(study: "Study", frame: "pd.DataFrame") -> dict[str, Any]:
    """The same for JSON."""
    front = found_front(study, frame)
    return {"objectives": study.objectives, "front": [] if front is None else records(front)}


def records(frame: "pd.DataFrame") -> Any:
    """The rows of a frame, as JSON has them."""
    return json.loads(frame.to_json(orient="records"))


def print_front(
    name: str,
    frame: "pd.DataFrame",
    front: "pd.DataFrame",
    axes: Sequence[str],
    objectives: Collection[str],
) -> None:
    """Print a front, its knee marked.

    Args:
        name: Name of the study.
        frame: All points.
        front: Those on the front.
        axes: Columns of the axes.
        objectives: Columns of the objectives.
    """
    from rich.text import Text

    from carsim.base.text import Table, count
    from carsim.cli.console import output_console, show
    from carsim.explore.frame import origin_note

    console, shown = output_console(), front
    if console.is_terminal and len(front) > MOST_ROWS:
        places = {round(i * (len(front) - 1) / (MOST_ROWS - 2)) for i in range(MOST_ROWS - 1)}
        shown = front[front["knee"] | front.index.isin(places)]
    columns = [*axes, *objectives]
    short = [axis.rpartition(".")[2] for axis in axes]
    headings = [*short, *objectives]
    if len({*headings}) < len(columns):  # two axes have one name
        headings = columns
    knees = ["knee" if is_knee else "" for is_knee in shown["knee"]]
    cells = [[_cell(cell) for cell in shown[column]] for column in columns]
    widths = (max(map(len, texts)) for texts in map(list.__add__, ([h] for h in headings), cells))
    if sum(width + GAP for width in widths) > console.width - len(" knee "):
        headings = [_broken(heading) for heading in headings]
    table = Table(
        ("", *headings),
        tuple(zip(knees, *cells, strict=True)),
        strong=frozenset(place for place, knee in enumerate(knees) if knee),
    )
    ok = int((frame["status"] == "ok").sum())
    verb = "is" if len(front) == 1 else "are"
    title = f"{name}: {len(front):,} of {count(ok, 'point')} that fit {verb} on the front"
    notes = [origin_note(frame)] if origin_note(frame) else []
    if len(shown) < len(front):
        notes.append(f"{len(shown)} of {len(front):,} are shown; --json and --out have all of them")
    show(console, [Text(title, style="bold"), table, *notes])


def _broken(heading: str) -> str:
    """A long name of a column in several words.

    >>> _broken("energy_per_video_j")
    'energy_per_ video_j'
    """
    lines = textwrap.wrap(heading.replace("_", "_ "), BROKEN)
    return " ".join(line.replace("_ ", "_") for line in lines)


def _cell(value: object) -> str:
    from carsim.base.text import number

    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return number(value)

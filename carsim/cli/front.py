"""``carsim report --front``: the Pareto front of what a sweep or a search has stored."""

import json
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from carsim.cli.console import GAP
from carsim.cli.options import command_of

if TYPE_CHECKING:
    import pandas as pd

    from carsim.explore.study import Study
    from carsim.report.stored_study import StoredStudy

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
    from importlib.metadata import version

    from carsim.cli.console import say, show_json
    from carsim.explore.code import code_sha256
    from carsim.explore.pareto import pareto, parse_objectives
    from carsim.report.stored_study import read_study

    study = read_study(Path(folder))
    wanted = parse_objectives(objectives) if objectives else study.objectives
    conditions = (*study.constraints, *constraints)
    study = replace(study, objectives=wanted, constraints=conditions)
    if study.front.empty:
        pareto(study.frame, wanted, conditions)  # says why
    files = [] if out is None else _written(Path(out), study.front)
    made, own = study.facts["version"], version("carsim")
    same_code = study.facts["code"] == code_sha256()
    if as_json:
        document = {"study": study.name, "carsim_version": made, "same_code": same_code}
        found = {"constraints": conditions, "points": len(study.frame), "files": files}
        show_json(document | as_document(study) | found)
        return
    print_front(study)
    if made != own:
        say(f"The points were evaluated by carsim {made}; this is {own}.")
    elif not same_code:
        say(f"The points were evaluated by other code of carsim {own}.")
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


def as_document(study: "StoredStudy") -> dict[str, Any]:
    """The front of a study for JSON."""
    records = json.loads(study.front.to_json(orient="records"))
    return {"objectives": study.objectives, "front": records}


def study_manifest(study: "Study") -> dict[str, Any]:
    """Everything that the results of the command that runs depend on."""
    from carsim.explore.code import manifest

    ctx = click.get_current_context()
    facts: dict[str, Any] = {"study_sha256": study.fingerprint, "seed": study.file.sampling.seed}
    facts["traces"] = {name: trace.sha256 for name, trace in study.traces.items()}
    return manifest(command_of(ctx, ctx.params), study.base, **facts)


def print_front(study: "StoredStudy") -> None:
    """Print the front of a study, its knee marked."""
    from rich.text import Text

    from carsim.base.text import Table, count
    from carsim.cli.console import output_console, say, show
    from carsim.explore.frame import origin_note

    console, front = output_console(), study.front
    if front.empty:
        say("None of them fits its board and meets the constraints.")
        return
    shown = front
    if console.is_terminal and len(front) > MOST_ROWS:
        places = {round(i * (len(front) - 1) / (MOST_ROWS - 2)) for i in range(MOST_ROWS - 1)}
        shown = front[front["knee"] | front.index.isin(places)]
    columns = [*study.axes, *study.objectives]
    headings = [*(axis.rpartition(".")[2] for axis in study.axes), *study.objectives]
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
    verb = "is" if len(front) == 1 else "are"
    fitting = count(len(study.fitting), "point")
    title = f"{study.name}: {len(front):,} of {fitting} that fit {verb} on the front"
    notes = list(filter(None, [origin_note(study.frame)]))
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

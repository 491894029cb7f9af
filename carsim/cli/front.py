"""``carsim report --front``: the Pareto front of what a sweep or a search has stored."""

import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from carsim.base.files import make_folder, write_whole
from carsim.base.text import count
from carsim.cli.console import output_console, say, show, show_json
from carsim.cli.options import command_of

if TYPE_CHECKING:
    import pandas as pd

    from carsim.explore.study import Study
    from carsim.report.stored_study import StoredStudy


def show_front(
    folder: str,
    objectives: Sequence[str],
    constraints: Sequence[str],
    out: str | None,
    as_json: bool,
) -> None:
    """Print the front of what a folder stores, and write it where that is asked for."""
    from carsim.explore.code import code_sha256
    from carsim.explore.pareto import pareto, parse_objectives
    from carsim.report.stored_study import read_study

    wanted = parse_objectives(objectives) if objectives else None
    study = read_study(Path(folder)).seen(wanted, constraints)
    if study.front.empty:
        pareto(study.frame, study.objectives, study.constraints)  # says why
    files = [] if out is None else ["pareto.csv"]
    if out is not None:
        _write(Path(out), study.front)
    made, own = study.facts["version"], version("carsim")
    same_code = study.facts["code"] == code_sha256()
    if as_json:
        document = {"study": study.name, "carsim_version": made, "same_code": same_code}
        found = {"constraints": study.constraints, "points": len(study.frame), "files": files}
        show_json(document | as_document(study) | found)
        return
    print_front(study)
    if study.is_part:
        say(
            f"{len(study.frame):,} of {study.facts['points']:,} points have a result. Until the "
            "sweep has ended, points of the front may be missing."
        )
    if made != own:
        say(f"The points were evaluated by carsim {made}; this is {own}.")
    elif not same_code:
        say(f"The points were evaluated by other code of carsim {own}.")
    if files:
        say(f"Written to {out}: {', '.join(files)}")


def _write(folder: Path, front: "pd.DataFrame") -> None:
    """Write the front as CSV."""
    from carsim.metrics.columns import csv_text

    make_folder(folder)
    table = csv_text(front)
    write_whole(folder / "pareto.csv", lambda path: path.write_text(table, "utf-8"))


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
    from carsim.explore.frame import origin_note
    from carsim.report.front_table import front_notes, front_table

    front = study.front
    if front.empty:
        say("None of them fits its board and meets the constraints.")
        return
    verb = "is" if len(front) == 1 else "are"
    fitting = count(len(study.fitting), "point")
    title = f"{study.name}: {len(front):,} of {fitting} that fit {verb} on the front"
    notes = filter(None, [origin_note(study.frame), *front_notes(study)])
    show(output_console(), [Text(title, style="bold"), front_table(study), *notes])

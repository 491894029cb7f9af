"""``carsim pareto``: the Pareto front of what a sweep or a search has stored."""

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from carsim.cli.sweep import JSON

if TYPE_CHECKING:
    import pandas as pd

MOST_ROWS = 40
"""Longer fronts are shown evenly thinned out; the CSV holds all of them."""

WIDTH = 80
"""Characters that a table takes at most, unless the terminal is wider."""

GAP = 3
"""Characters between columns."""


@click.command()
@click.argument("folder", metavar="DIR")
@click.option(
    "--objective",
    "objectives",
    metavar="NAME[:min|max]",
    multiple=True,
    help="A metric, say latency_s; may be repeated. The study's if left out.",
)
@click.option(
    "--constraint",
    "constraints",
    metavar="CONDITION",
    multiple=True,
    help="What points have to meet beside the study's constraints, say 'dsp <= 2000'.",
)
@JSON
def pareto(
    folder: str, objectives: tuple[str, ...], constraints: tuple[str, ...], as_json: bool
) -> None:
    """Show which points of DIR no other point beats in everything.

    The knee is the point on the front that is nearest to the best of every objective, each scaled
    from the best to the worst of the front. Also writes DIR/pareto.csv and, for two objectives and
    more, DIR/pareto.png. Points that do not fit or were refused do not count.
    """
    from importlib.metadata import version

    from carsim.errors import InputError
    from carsim.explore.code import code_sha256
    from carsim.explore.frame import frame_of
    from carsim.explore.pareto import feasible, parse_objectives
    from carsim.explore.pareto import pareto as front_of
    from carsim.explore.store import open_store
    from carsim.files import write_whole

    with open_store(folder) as store:
        meta, frame = store.meta(), frame_of(store)
    wanted = parse_objectives(objectives) if objectives else json.loads(meta["objectives"])
    if not wanted:
        cure = "add --objective NAME, say latency_s, once for each"
        raise InputError(folder, "the study names no objectives", cure)
    conditions = [*json.loads(meta["constraints"]), *constraints]
    front = front_of(frame, wanted, conditions)
    files = ["pareto.csv"]
    write_whole(Path(folder) / "pareto.csv", lambda path: front.to_csv(path, index=False))
    if len(wanted) > 1:
        from carsim.report.figures.draw import draw
        from carsim.report.figures.pareto import pareto_plot

        figure = draw(pareto_plot(meta["name"], feasible(frame, conditions), front, wanted))
        write_whole(Path(folder) / "pareto.png", lambda path: figure.savefig(path, format="png"))
        files.append("pareto.png")
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
        click.echo(json.dumps(document, indent=2))
        return
    print_front(meta["name"], frame, front, json.loads(meta["axes"]), wanted)
    if meta["version"] != (own := version("carsim")):
        click.echo(f"The points were evaluated by carsim {meta['version']}; this is {own}.")
    elif not same_code:
        click.echo(f"The points were evaluated by other code of carsim {own}.")
    click.echo(f"Written to {folder}: {', '.join(files)}")


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
    """Print a front, its knee marked, with as many columns of axes as there is room for.

    Args:
        name: Name of the study.
        frame: All points.
        front: Those on the front.
        axes: Columns of the axes.
        objectives: Columns of the objectives.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from carsim.cli.console import output_console, show
    from carsim.explore.frame import origin_note

    console = output_console()
    room = max(WIDTH, console.width) if console.is_terminal else WIDTH
    shown = front
    if len(front) > MOST_ROWS:
        places = {round(i * (len(front) - 1) / (MOST_ROWS - 2)) for i in range(MOST_ROWS - 1)}
        shown = front[front["knee"] | front.index.isin(places)]
    cells = {column: [_cell(cell) for cell in shown[column]] for column in (*axes, *objectives)}
    titles = {column: column for column in cells}
    # Axes go without their sections, where that leaves all columns different.
    short = {axis: axis.rpartition(".")[2] for axis in axes}
    if len({*short.values(), *objectives}) == len(cells):
        titles |= short
    width = {
        column: GAP + max(map(len, (titles[column], *texts))) for column, texts in cells.items()
    }
    room -= len("knee  ") + sum(width[column] for column in objectives)
    left_out: list[str] = []
    for axis in sorted(axes, key=lambda axis: len(set(cells[axis])) == 1):  # what varies first
        if width[axis] <= room:
            room -= width[axis]
        else:
            left_out.append(axis)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), width=None)
    columns = [column for column in cells if column not in left_out]
    for title in ("", *(titles[column] for column in columns)):
        table.add_column(title, justify="right", no_wrap=True)
    for place, is_knee in enumerate(shown["knee"]):
        row = (cells[column][place] for column in columns)
        table.add_row("knee" if is_knee else "", *row, style="bold" if is_knee else None)
    ok = int((frame["status"] == "ok").sum())
    title = f"{name}: {len(front):,} of {ok:,} points that fit are on the front"
    show(console, [Text(title, style="bold"), table])
    if len(shown) < len(front):
        click.echo(f"{len(shown)} of {len(front):,} are shown; pareto.csv holds all of them.")
    if note := origin_note(frame):
        click.echo(note)
    if left_out:
        click.echo(f"Also in pareto.csv: {', '.join(left_out)}.")


def _cell(value: object) -> str:
    from carsim.text import number

    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return number(value)

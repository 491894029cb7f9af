"""``carsim pareto``: the Pareto front of what a sweep or a search has stored."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType


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
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, and nothing else.")
def pareto(
    folder: str, objectives: tuple[str, ...], constraints: tuple[str, ...], as_json: bool
) -> None:
    """Show which points of DIR no other point beats in everything.

    The knee is the point on the front that is nearest to the best of every objective, each scaled
    from the best to the worst of the front. Also writes DIR/pareto.csv and, for two objectives and
    more, DIR/pareto.png. Points that do not fit or were refused do not count.
    """
    from importlib.metadata import version

    from carsim.cli.console import output_console, show
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
        raise InputError(
            folder,
            "the study names no objectives",
            "add --objective NAME, say latency_s, once for each",
        )
    conditions = [*json.loads(meta["constraints"]), *constraints]
    front = front_of(frame, wanted, conditions)
    files = ["pareto.csv"]
    write_whole(Path(folder) / "pareto.csv", lambda path: front.to_csv(path, index=False))
    if len(wanted) > 1:
        from carsim.report.figures.pareto import draw_pareto, pareto_numbers

        numbers = pareto_numbers(meta["name"], feasible(frame, conditions), front, wanted)
        figure = draw_pareto(numbers)
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
            "front": json.loads(front.to_json(orient="records")),
            "files": files,
        }
        click.echo(json.dumps(document, indent=2))
        return
    axes = json.loads(meta["axes"])
    show(output_console(), list(front_parts(meta["name"], frame, front, axes, list(wanted))))
    if meta["version"] != (own := version("carsim")):
        click.echo(f"The points were evaluated by carsim {meta['version']}; this is {own}.")
    elif not same_code:
        click.echo(f"The points were evaluated by other code of carsim {own}.")
    click.echo(f"Written to {folder}: {', '.join(files)}")


MOST_ROWS = 40
"""Longer fronts are shown evenly thinned out; the CSV holds all of them."""


def front_parts(
    name: str,
    frame: "pd.DataFrame",
    front: "pd.DataFrame",
    axes: Sequence[str],
    objectives: Sequence[str],
) -> "Iterator[RenderableType]":
    """The table of a front, its knee marked.

    Args:
        name: Of the study.
        frame: All points.
        front: Those on the front.
        axes: Columns of the axes.
        objectives: Columns of the objectives.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    ok = int((frame["status"] == "ok").sum())
    yield Text(f"{name}: {len(front):,} of {ok:,} points that fit are on the front", style="bold")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for column in ("", *_short(axes, objectives), *objectives):
        table.add_column(column, justify="right", no_wrap=True)
    shown = front
    if len(front) > MOST_ROWS:
        places = {round(i * (len(front) - 1) / (MOST_ROWS - 2)) for i in range(MOST_ROWS - 1)}
        shown = front[front["knee"] | front.index.isin(places)]
    for row in shown.to_dict("records"):
        cells = [_cell(row[column]) for column in (*axes, *objectives)]
        table.add_row("knee" if row["knee"] else "", *cells, style="bold" if row["knee"] else None)
    yield table
    if len(shown) < len(front):
        yield f"{len(shown)} of {len(front):,} are shown; pareto.csv holds all of them."


def _short(axes: Sequence[str], objectives: Sequence[str]) -> list[str]:
    """Names of axes without their sections, where that leaves all columns different."""
    short = [axis.rpartition(".")[2] for axis in axes]
    return short if len({*short, *objectives}) == len(short) + len(objectives) else list(axes)


def _cell(value: object) -> str:
    from carsim.text import number

    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return number(value)

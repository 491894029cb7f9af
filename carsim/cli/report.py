"""``carsim report``: a folder of results as one HTML page, or as a Pareto front."""

from pathlib import Path

import click

from carsim.base.errors import InputError
from carsim.cli.options import FORMAT, JSON


@click.command()
@click.argument("folder", metavar="DIR")
@click.option(
    "--out",
    metavar="PATH",
    help="Page to write instead of DIR/report.html. With --front: a folder, where pareto.csv "
    "and, for two objectives and more, a figure are written.",
)
@click.option(
    "--figures",
    type=FORMAT,
    help="Also write the figures as files of this format beside the page. With --front: format of "
    "its figure [default: png].",
)
@click.option(
    "--width",
    type=click.FloatRange(2, 20),
    metavar="INCHES",
    help="Width of these figures, for a paper: 3.5 is a column; without titles then.",
)
@click.option("--overwrite", is_flag=True, help="Replace a file that carsim did not make.")
@click.option("--front", is_flag=True, help="Show the Pareto front of a sweep or a search.")
@click.option(
    "--objective",
    "objectives",
    metavar="NAME[:min|max]",
    multiple=True,
    help="With --front: a metric, say latency_s; may be repeated. The study's if left out.",
)
@click.option(
    "--constraint",
    "constraints",
    metavar="CONDITION",
    multiple=True,
    help="With --front: what points have to meet beside the study's constraints, say "
    "'dsp <= 2000'.",
)
@JSON
def report(
    folder: str,
    out: str | None,
    figures: str | None,
    width: float | None,
    overwrite: bool,
    front: bool,
    objectives: tuple[str, ...],
    constraints: tuple[str, ...],
    as_json: bool,
) -> None:
    """Make one HTML page of what a run, a sweep or a search left in DIR.

    The page needs no other file and no network.

    It has the question, the answer, tables that a click sorts, and charts that answer the pointer.

    With --front, no page is made: the points are shown that no other point beats in everything.
    The knee is the point on the front that is nearest to the best of every objective, each scaled
    from the best to the worst of the front. Points that do not fit or were refused do not count; of
    points that are alike in every metric, as one core is under all mappings, the first is shown.
    Nothing is written without --out.
    """
    if front:
        if width is not None or overwrite:
            raise click.UsageError("--width and --overwrite do not go with --front")
        from carsim.cli.front import show_front

        show_front(folder, objectives, constraints, out, figures, as_json)
        return
    if objectives or constraints or as_json:
        raise click.UsageError("--objective, --constraint and --json go with --front")
    if width is not None and figures is None:
        raise InputError("`width`", "is of figures, and none are written", "add --figures svg")
    _write(folder, out, figures, width, overwrite)


def _write(
    folder: str, out: str | None, figures: str | None, width: float | None, overwrite: bool
) -> None:
    """Write the page, and figures where these are asked for."""
    from carsim.cli import complain
    from carsim.cli.console import progress, say
    from carsim.report.html import need_plotly
    from carsim.report.report import write_figures, write_page

    written = []
    with progress("reading") as tell:
        try:
            need_plotly()
        except InputError as error:
            if figures is None or out is not None:
                raise
            complain(f"note: figures alone are written; {error}")
        else:
            written.append(write_page(folder, out, overwrite=overwrite, progress=tell))
        if figures is not None:
            into = folder if out is None else Path(out).parent
            written += write_figures(folder, into, figures, width)
    first, *others = written
    names = ", ".join(path.name for path in others)
    say(f"Written to {first}" + (f", and beside it {names}" if others else ""))

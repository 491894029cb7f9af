"""``carsim report``: a folder of results as one HTML page."""

from pathlib import Path

import click

from carsim.base.errors import InputError
from carsim.cli.options import FORMAT


@click.command()
@click.argument("folder", metavar="DIR")
@click.option("--out", metavar="FILE", help="Write there instead of DIR/report.html.")
@click.option(
    "--figures",
    type=FORMAT,
    help="Also write the figures as files of this format beside the page.",
)
@click.option(
    "--width",
    type=click.FloatRange(2, 20),
    metavar="INCHES",
    help="Width of these figures, for a paper: 3.5 is a column; without titles then.",
)
@click.option("--overwrite", is_flag=True, help="Replace a file that carsim did not make.")
def report(
    folder: str, out: str | None, figures: str | None, width: float | None, overwrite: bool
) -> None:
    """Make one HTML page of what a run, a sweep or a search left in DIR.

    The page needs no other file and no network.

    It has the question, the answer, tables that a click sorts, and charts that answer the pointer.
    """
    if width is not None and figures is None:
        raise InputError("--width", "is of figures, and none are written", "add --figures svg")

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

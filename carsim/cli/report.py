"""``carsim report``: a folder of results as one HTML page."""

import click


@click.command()
@click.argument("folder", metavar="DIR")
@click.option("--out", metavar="FILE", help="Write there instead of DIR/report.html.")
@click.option("--overwrite", is_flag=True, help="Replace a file that carsim did not make.")
def report(folder: str, out: str | None, overwrite: bool) -> None:
    """Make one HTML page of what a run, a sweep or a search left in DIR.

    The page needs no other file and no network.

    It has the question, the answer, tables that a click sorts, and charts that answer the pointer.
    """
    from carsim.cli.console import progress
    from carsim.report.report import write_page

    with progress("reading") as tell:
        page = write_page(folder, out, overwrite=overwrite, progress=tell)
    click.echo(f"Written to {page}")

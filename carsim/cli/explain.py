"""``carsim explain``: each line of a stored run's first screen with its formula and numbers."""

import click

from carsim.cli.console import say_screen, show_json
from carsim.cli.options import JSON


@click.command()
@click.argument("folder", type=click.Path(), metavar="DIR")
@JSON
def explain(folder: str, as_json: bool) -> None:
    """Print each line of the first screen of the run in DIR with its formula and numbers.

    DIR is a folder that carsim run --out wrote. Each figure is worked out once more from other
    figures of the run.
    """
    from carsim.report.explain import document, explanation
    from carsim.report.stored import read_run

    run = read_run(folder)
    if as_json:
        show_json(document(run))
    else:
        say_screen(*explanation(run))

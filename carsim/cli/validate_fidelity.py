"""``carsim validate fidelity``: the fluid model against the tile model."""

import json
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.table import Table

    from carsim.validate.fidelity import FidelityReport

OUT_OF_BOUNDS = 1
"""Exit status of a figure that leaves its stated bound."""


@click.command(short_help="Fluid against tile fidelity, over drawn designs.")
@click.option(
    "--per-regime",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="Design points of each regime.",
)
@click.option("--seed", type=click.IntRange(min=0), default=20250521, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def fidelity(per_regime: int, seed: int, as_json: bool) -> int | None:
    """Hold fluid fidelity against tile fidelity over drawn designs of every regime.

    Exits with status 1 if the median or the worst difference leaves its bound.
    """
    from carsim.cli.console import output_console, progress, show
    from carsim.validate.fidelity import compare_fidelities

    with progress("drawing designs") as tell:
        report = compare_fidelities(seed, per_regime, tell)
    if as_json:
        click.echo(json.dumps(report.document(), indent=2))
    else:
        show(output_console(), [_table(report), _verdict(report)])
    return None if report.passes else OUT_OF_BOUNDS


def _table(report: "FidelityReport") -> "Table":
    from rich import box
    from rich.table import Table

    from carsim.text import number
    from carsim.validate.fidelity import REGIMES

    table = Table("limited by", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("designs", "median", "worst"):
        table.add_column(heading, justify="right")
    for regime in REGIMES:
        points = [point for point in report.points if point.regime == regime]
        median, worst = report.differences(regime)
        table.add_row(regime, number(len(points)), f"{median:.3%}", f"{worst:.3%}")
    return table


def _verdict(report: "FidelityReport") -> str:
    from carsim.text import percent
    from carsim.validate.fidelity import MEDIAN_BOUND, WORST_BOUND

    median, worst = report.differences()
    return (
        f"Fluid against tile over {len(report.points)} designs: median {median:.3%} (bound "
        f"{percent(MEDIAN_BOUND)}), worst {worst:.3%} (bound {percent(WORST_BOUND)})."
    )

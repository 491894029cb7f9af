"""``carsim array``: what one matrix product takes on one array, and what limits it."""

import math
from dataclasses import asdict, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, get_args

import click

from carsim.base.section import MOST
from carsim.hardware.machine import Dataflow, WeightLoad
from carsim.validate.peers import PEERS

if TYPE_CHECKING:
    from rich.table import Table

    from carsim.machine.product import Supply

COUNT = click.IntRange(1, MOST)


def _rate(_: click.Context, __: click.Parameter, value: float | None) -> Fraction | None:
    """A rate as a rational number of small terms."""
    if value is None:
        return None
    if not math.isfinite(value) or not 1e-6 <= value <= MOST:
        raise click.BadParameter(f"got {value:g}; give bytes per cycle, more than 0")
    return Fraction(value).limit_denominator(1_000_000)


@click.command()
@click.option("--rows", type=COUNT, default=16, show_default=True, help="Rows of the array.")
@click.option("--cols", type=COUNT, default=16, show_default=True, help="Columns of the array.")
@click.option(
    "--dataflow",
    type=click.Choice(get_args(Dataflow)),
    help="Dot products, or what stays in a systolic array [default: dot_product].",
)
@click.option(
    "--weight-load",
    type=click.Choice(get_args(WeightLoad)),
    help="What a change of tiles costs [default: none].",
)
@click.option("--pipeline-cycles", default=16, show_default=True, type=click.IntRange(0, MOST),
              help="Fill and drain of a product on dot products.")  # fmt: skip
@click.option("--m", type=COUNT, default=1, show_default=True, help="Rows of activations.")
@click.option("--k", type=COUNT, default=4096, show_default=True, help="Length of the reduction.")
@click.option("--n", type=COUNT, default=4096, show_default=True, help="Columns of weights.")
@click.option("--element-bytes", default=1, show_default=True, type=COUNT,
              help="Bytes of a weight, an activation and a result.")  # fmt: skip
@click.option(
    "--bytes-per-cycle", type=float, callback=_rate, help="Of the memory [default: no limit]."
)
@click.option(
    "--port-bytes-per-cycle", type=COUNT, help="Of the on-chip buffer's port [default: no limit]."
)
@click.option(
    "--buffer-kib",
    type=COUNT,
    help="A double buffer, half of which is filled before the start [default: one tile].",
)
@click.option(
    "--fill-bytes-per-cycle", type=COUNT, help="At which it is filled [default: as the memory is]."
)
@click.option(
    "--peer",
    type=click.Choice(list(PEERS)),
    help="Charge what this simulator charges; weight stationary unless --dataflow says otherwise. "
    "Other options override its rule.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def array(
    rows: int,
    cols: int,
    dataflow: str | None,
    weight_load: str | None,
    pipeline_cycles: int,
    m: int,
    k: int,
    n: int,
    element_bytes: int,
    bytes_per_cycle: Fraction | None,
    port_bytes_per_cycle: int | None,
    buffer_kib: int | None,
    fill_bytes_per_cycle: int | None,
    peer: str | None,
    as_json: bool,
) -> None:
    """Show what an M x K times K x N product takes on one array, double-buffered from memory.

    Left out, sizes are those of a token's output projection in LLaMA-2-7B, on a core of zcu102.
    """
    from carsim.base.units import KIB
    from carsim.design import Array
    from carsim.machine.product import Supply, product
    from carsim.workload.ops import Gemm

    rule = PEERS[peer] if peer else None
    given: dict[str, Any] = {
        "bytes_per_cycle": bytes_per_cycle,
        "port_bytes_per_cycle": port_bytes_per_cycle,
        "buffer_bytes": buffer_kib * KIB if buffer_kib else None,
        "fill_bytes_per_cycle": fill_bytes_per_cycle,
    }
    supply = replace(
        rule.supply if rule else Supply(),
        **{name: value for name, value in given.items() if value is not None},
    )
    machine = Array.model_validate(
        {
            "rows": rows,
            "cols": cols,
            "dataflow": dataflow or ("weight_stationary" if rule else "dot_product"),
            "weight_load": weight_load or (rule.weight_load if rule else "none"),
            "pipeline_cycles": pipeline_cycles,
        }
    )
    gemm = Gemm(m, k, n)
    result = product(machine, gemm, supply, element_bytes)
    warning = rule.warning(m) if rule else None
    if warning:
        click.echo(f"carsim: {warning}", err=True)
    report: dict[str, Any] = {
        **({"peer": f"{rule.title}: {rule.charges}"} if rule else {}),
        "rows": rows,
        "cols": cols,
        "dataflow": machine.dataflow,
        "weight_load": machine.weight_load,
        "m": m,
        "k": k,
        "n": n,
        "element_bytes": element_bytes,
        **_numbers(supply),
        **asdict(result),
        "macs_done_over_possible": gemm.macs / (result.total_cycles * machine.macs_per_cycle),
    }
    if as_json:
        from carsim.cli.console import show_json

        show_json(report | {"warning": warning})
        return

    from carsim.cli.console import output_console, show

    show(output_console(), [_table(report)])


def _numbers(supply: "Supply") -> dict[str, float | int | None]:
    """The supply, with rates as numbers that JSON has."""
    return {
        name: float(value) if isinstance(value, Fraction) else value
        for name, value in asdict(supply).items()
    }


def _table(report: dict[str, Any]) -> "Table":
    """The report as lines of name and value."""
    from rich.table import Table

    from carsim.base.text import number, percent

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in report.items():
        if name == "macs_done_over_possible":
            text = percent(value)
        elif value is None:
            text = "no limit" if name.endswith("per_cycle") else "one tile"
        else:
            text = value if isinstance(value, str) else number(value)
        grid.add_row(name.replace("_", " "), text)
    return grid

"""``carsim config array``: what one matrix product takes on one array, and what limits it."""

import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, get_args

import click

from carsim.base.section import MOST
from carsim.cli.options import JSON
from carsim.hardware.machine import Dataflow, WeightLoad
from carsim.validate.peers import PEERS, Peer

if TYPE_CHECKING:
    from rich.table import Table

    from carsim.hardware.machine import Array
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
@JSON
def array(peer: str | None, as_json: bool, **given: Any) -> None:
    """Show what an M x K times K x N product takes on one array, double-buffered from memory.

    Left out, sizes are those of a token's output projection in LLaMA-2-7B, on a core of zcu102.
    """
    from carsim.cli.console import output_console, show, show_json
    from carsim.machine.product import product
    from carsim.workload.ops import Gemm

    rule = PEERS[peer] if peer else None
    machine, supply = _machine(rule, given), _supply(rule, given)
    gemm = Gemm(given["m"], given["k"], given["n"])
    result = product(machine, gemm, supply, given["element_bytes"])
    warning = rule.warning(gemm.m) if rule else None
    if warning:
        click.echo(f"carsim: {warning}", err=True)
    report: dict[str, Any] = {
        **({"peer": f"{rule.title}: {rule.charges}"} if rule else {}),
        "rows": machine.rows,
        "cols": machine.cols,
        "dataflow": machine.dataflow,
        "weight_load": machine.weight_load,
        **{name: given[name] for name in ("m", "k", "n", "element_bytes")},
        **_numbers(supply),
        **asdict(result),
        "macs_done_over_possible": gemm.macs / (result.total_cycles * machine.macs_per_cycle),
    }
    if as_json:
        show_json(report | {"warning": warning})
    else:
        show(output_console(), [_table(report)])


def _machine(rule: "Peer | None", given: Mapping[str, Any]) -> "Array":
    """The array as a peer has it, where the options do not say otherwise."""
    from carsim.hardware.machine import Array

    fields = {name: given[name] for name in ("rows", "cols", "pipeline_cycles")}
    dataflow = given["dataflow"] or ("weight_stationary" if rule else "dot_product")
    load = given["weight_load"] or (rule.weight_load if rule else "none")
    return Array.model_validate({**fields, "dataflow": dataflow, "weight_load": load})


def _supply(rule: "Peer | None", given: Mapping[str, Any]) -> "Supply":
    """Its operands as a peer supplies them, where the options do not say otherwise."""
    from carsim.base.units import KIB
    from carsim.machine.product import Supply

    names = ("bytes_per_cycle", "port_bytes_per_cycle", "fill_bytes_per_cycle")
    own = {name: given[name] for name in names if given[name] is not None}
    if given["buffer_kib"]:
        own["buffer_bytes"] = given["buffer_kib"] * KIB
    return replace(rule.supply if rule else Supply(), **own)


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

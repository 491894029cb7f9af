"""``python -m carsim.hardware.rtl``: Verilog of single units, and tables of what they take."""

import sys
from pathlib import Path

import click

from carsim.base.environment import library
from carsim.base.errors import CarsimError

if __name__ == "__main__":  # else the imports below say it in many lines
    try:
        library("amaranth", "carsim.hardware.rtl")
    except CarsimError as error:
        sys.exit(str(error))

from carsim.hardware.rtl.queues import Load, by_depth
from carsim.hardware.rtl.synthesise import verilog
from carsim.hardware.rtl.table import Unit, make
from carsim.hardware.schedule import SCHEDULES, Registers

EXPORTED = {
    **{f"{kind}_32x4": Unit(kind, 32, 4, 1, Registers().instructions_per_sequence)
       for kind in SCHEDULES},
    "comparator": Unit("comparator"),
    "score_16_lanes": Unit("score", heads=32, lanes=16),
    "score_16_lanes_one_head": Unit("score", heads=1, lanes=16),
    "heap_63": Unit("heap", entries=63),
}  # fmt: skip
"""Modules that are written as Verilog."""


@click.group(help=__doc__)
def main() -> None:
    """The commands."""


@main.command("verilog")
@click.argument("folder", type=click.Path(path_type=Path))
def write_verilog(folder: Path) -> None:
    """Write a module a file into FOLDER."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, unit in EXPORTED.items():
        (folder / f"{name}.v").write_text(verilog(unit.build(), name), encoding="utf-8")


@main.command("table")
@click.argument("csv_file", type=click.Path(path_type=Path))
@click.option("--liberty", type=click.Path(path_type=Path, exists=True), help="Library of cells.")
def write_table(csv_file: Path, liberty: Path | None) -> None:
    """Synthesise every unit that CSV_FILE lacks; delete the file to begin anew."""
    for row in make(csv_file, liberty):
        click.echo(", ".join(f"{name} {value}" for name, value in row.items() if value))


@main.command("queues")
@click.option("--layers", default=100, show_default=True, help="Layers that are drawn.")
@click.option("--seed", default=0, show_default=True, help="Of decisions and times.")
@click.option("--spread", default=0.5, show_default=True, help="Of the times of instructions.")
def write_queues(layers: int, seed: int, spread: float) -> None:
    """Print the time of a layer by depth of queue, over that with queues without end."""
    click.echo("entries, sequence by sequence, interleaved")
    for depth, (in_order, interleaved) in by_depth(Load(spread=spread), layers, seed):
        click.echo(f"{depth}, {in_order:.3f}, {interleaved:.3f}")


if __name__ == "__main__":
    try:
        main()
    except CarsimError as error:
        print(f"carsim.hardware.rtl: {error}", file=sys.stderr)
        sys.exit(error.exit_status)

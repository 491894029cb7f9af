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
from carsim.hardware.rtl.table import RtlUnit, make
from carsim.hardware.schedule import SCHEDULES, Registers

EXPORTED = {
    **{f"{kind}_32x4": RtlUnit(kind, 32, 4, 1, Registers().instructions_per_sequence)
       for kind in SCHEDULES},
    "comparator": RtlUnit("comparator"),
    "score_16_lanes": RtlUnit("score", heads=32, lanes=16),
    "score_16_lanes_one_head": RtlUnit("score", heads=1, lanes=16),
    "sorter_16": RtlUnit("sorter", entries=16),
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
@click.argument("liberty", type=click.Path(path_type=Path, exists=True), required=False)
def write_table(csv_file: Path, liberty: Path | None) -> None:
    """Synthesise every unit that CSV_FILE lacks; delete the file to begin anew.

    LIBERTY is a library of cells, by which gates are counted.
    """
    for row in make(csv_file, liberty):
        click.echo(", ".join(f"{name} {value}" for name, value in row.items() if value))


@main.command("queues")
@click.argument("spread", default=Load.spread)
def write_queues(spread: float) -> None:
    """Print the time of a layer by depth of queue, over that with queues without end.

    Times of instructions differ by SPREAD, 0.5 if it is left out, to both sides of their mean.
    """
    click.echo("entries, sequence by sequence, interleaved")
    for depth, (in_order, interleaved) in by_depth(Load(spread=spread), layers=100, seed=0):
        click.echo(f"{depth}, {in_order:.3f}, {interleaved:.3f}")


if __name__ == "__main__":
    try:
        main()
    except CarsimError as error:
        print(f"carsim.hardware.rtl: {error}", file=sys.stderr)
        sys.exit(error.exit_status)

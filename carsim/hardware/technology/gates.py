"""What schedulers and comparators take, from synthesis instead of an estimate.

``data/gates.csv`` holds LUTs, flip-flops and gates of the units of :mod:`carsim.hardware.rtl`,
synthesised with Yosys 0.70 for UltraScale+ and with the cells of OSU's 180 nm library (Debian's
qflow-tech-osu018), and the clock of those with paths between registers, as nextpnr 0.11 places and
routes them for an ECP5 of speed grade 6. It is remade by ``python -m carsim.hardware.rtl table
carsim/hardware/technology/data/gates.csv osu018_stdcells.lib``, after it is deleted, with the extra
``rtl``.

Model: linear between the rows of a schedule, over the sequences that the Index Register holds and
over the cores, and on beyond the last two; a schedule that the table lacks is taken for the
default one if it is central, else for the baseline. Error against rows that are held out: see
:data:`HELD_OUT_ERROR`.

Simplifications: 64 instructions a sequence (256 of them are two address bits more); counters that
wait for 8, 1 and 4 cycles, whatever ``machine.drs`` says, but without a scan no Mapping Registers.
"""

import csv
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.hardware.schedule import BASELINE, DEFAULT, SCHEDULES

if TYPE_CHECKING:
    from carsim.hardware.schedule import Registers

FLIP_FLOP_GATES = 96 / 24
"""Gate equivalents of a flip-flop: area of DFFPOSX1 over NAND2X1 in OSU's 180 nm library."""

HELD_OUT_ERROR = 0.14
"""Largest relative error of LUTs on the rows of the table that are held out; a test checks it."""


QUEUE_LUT, QUEUE_GATES = 1.3, 512
"""Of an instruction of 128 bits in a core's queue: LUTs as memory (the block of docs/rtl, 4 cores:
1,249 with queues of 64, 937 with queues of 4), and gates as latches of 4 a bit."""

Array = NDArray[np.float64]


class Gates(NamedTuple):
    """What a unit takes.

    Attributes:
        lut: LUTs of an UltraScale+ FPGA.
        gate_equivalents: NAND gates of two inputs, flip-flops included.
    """

    lut: float
    gate_equivalents: float


def dispatcher(schedule: str, registers: "Registers", cores: int) -> Gates:
    """Index Register, scan, Mapping Registers and instruction checks of a schedule, for all cores.

    Args:
        schedule: Its name.
        registers: Sequences that are held, and whether there is a scan.
        cores: Cores that are served.
    """
    sequences = registers.index_register_bits
    scan = int(registers.scan_cycles_per_sequence > 0)
    for kind in (schedule, (DEFAULT if SCHEDULES[schedule].central else BASELINE).kind):
        for scanned in (scan, 1):
            grid = _grids().get((kind, scanned))
            if grid is not None:
                lut, gates = grid.at(sequences, cores)
                queued = cores * (registers.core_queue_instructions or 0)
                return Gates(lut + QUEUE_LUT * queued, gates + QUEUE_GATES * queued)
    raise AssertionError("the table has the default schedule and the baseline")


def comparator() -> Gates:
    """The decision on one core's scores."""
    return Gates(*_grids()["comparator", 0].at(0, 0))


class Grid(NamedTuple):
    """Rows of a unit.

    Attributes:
        sequences: Ascending.
        cores: Ascending.
        values: [sequences, cores, figures].
    """

    sequences: Sequence[int]
    cores: Sequence[int]
    values: Array

    def at(self, sequences: int, cores: int) -> list[float]:
        """Linear between the rows around a point; none is less than 0.

        >>> grid = Grid([2, 8], [1, 4], np.array([[[1.0], [4.0]], [[7.0], [10.0]]]))
        >>> [grid.at(*point) for point in ((2, 1), (5, 1), (8, 2), (14, 4))]
        [[1.0], [4.0], [8.0], [16.0]]
        """
        by_core = _line(self.sequences, self.values, sequences)
        found: list[float] = np.maximum(0.0, _line(self.cores, by_core, cores)).tolist()
        return found


def _line(places: Sequence[int], values: Array, place: int) -> Array:
    """Between the two places around one, or on beyond the last two."""
    if len(places) == 1:
        only: Array = values[0]
        return only
    right = int(np.clip(np.searchsorted(places, place), 1, len(places) - 1))
    share = (place - places[right - 1]) / (places[right] - places[right - 1])
    line: Array = values[right - 1] + share * (values[right] - values[right - 1])
    return line


@cache
def rows() -> tuple[dict[str, str], ...]:
    """The table."""
    table = (
        files("carsim.hardware.technology").joinpath("data/gates.csv").read_text(encoding="utf-8")
    )
    return tuple(csv.DictReader(table.splitlines()))


@cache
def _grids() -> dict[tuple[str, int], Grid]:
    """By unit, with a scan or without."""
    found: dict[tuple[str, int], dict[tuple[int, int], list[float]]] = {}
    for row in rows():
        if row["used_for"] == "grid" and row["gate_equivalents"]:
            place = int(row["sequences"]), int(row["cores"])
            of_unit = found.setdefault((row["unit"], int(row["scan_cycles"])), {})
            of_unit[place] = [float(row["lut"]), float(row["gate_equivalents"])]
    grids = {}
    for unit, at in found.items():
        sequences, cores = (sorted({*places}) for places in zip(*at, strict=True))
        values = np.array([[at[s, c] for c in cores] for s in sequences])
        grids[unit] = Grid(sequences, cores, values)
    return grids

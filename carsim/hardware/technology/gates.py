"""What the dispatcher of a schedule takes, from synthesis instead of an estimate.

``data/gates.csv`` holds LUTs, flip-flops and gates of the units of :mod:`carsim.hardware.rtl`,
synthesised with Yosys 0.70 for UltraScale+ and with the cells of OSU's 180 nm library (Debian's
qflow-tech-osu018), and their clock, as nextpnr 0.11 places and routes them for an ECP5 of speed
grade 6. It is remade by ``python -m studies.scheduler_gates.gates table osu018_stdcells.lib``,
after it is deleted, with the extra ``rtl``.

Model: linear between the rows of a schedule, over sequences and cores, and on beyond the last two;
a schedule that the table lacks is taken for the default one if it is central, else for the
baseline. Error against rows that are held out: see :data:`HELD_OUT_ERROR`.

Simplifications: one dispatcher with one comparator of scores serves all cores, whatever the
schedule and ``machine.drs`` say; queues of no stated depth and registers of the block (700 LUTs for
four cores) belong to the control of a core, which is calibrated.
"""

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.hardware.schedule import BASELINE, DEFAULT, SCHEDULES
from carsim.hardware.technology.base import AnyDesign
from carsim.hardware.technology.constant import rows_of

FLIP_FLOP_GATES = 96 / 24
"""Gate equivalents of a flip-flop: area of DFFPOSX1 over NAND2X1 in OSU's 180 nm library."""

Array = NDArray[np.float64]


class Gates(NamedTuple):
    """LUTs and gates of a unit.

    Attributes:
        lut: LUTs of an UltraScale+ FPGA.
        gate_equivalents: NAND gates of two inputs, flip-flops included.
    """

    lut: float
    gate_equivalents: float


HELD_OUT_ERROR = Gates(lut=0.024, gate_equivalents=0.18)
"""Largest relative errors on the rows of the table that are held out; a test checks it."""


QUEUED = Gates(lut=1.3, gate_equivalents=512)
"""Of an instruction of 128 bits in a core's queue: LUTs as memory (the block of docs/rtl, 4 cores:
1,249 with queues of 64, 937 with queues of 4), and gates as latches of 4 a bit."""


def dispatcher_of(design: AnyDesign) -> Gates:
    """LUTs and gates of the dispatcher of a design."""
    drs = design.machine.drs
    return dispatcher(
        design.policy.schedule,
        drs.index_register_bits,
        cores=design.machine.cores,
        queued=drs.core_queue_instructions,
    )


@lru_cache
def dispatcher(schedule: str, sequences: int, cores: int, queued: int | None = None) -> Gates:
    """Comparison of scores, Index and Mapping Registers, and instruction checks for all cores.

    Args:
        schedule: Its name.
        sequences: Sequences that are held.
        cores: Cores that are served.
        queued: Instructions that a core's queue holds, where its depth is stated.
    """
    grids = _grids()
    if schedule not in grids:
        schedule = (DEFAULT if SCHEDULES[schedule].central else BASELINE).kind
    grid = grids[schedule]
    by_cores = _line(grid.sequences, grid.values, sequences)
    logic = np.maximum(0.0, _line(grid.cores, by_cores, cores))
    queues = cores * (queued or 0) * np.array(QUEUED)
    lut, gate_equivalents = (logic + queues).tolist()
    return Gates(lut=lut, gate_equivalents=gate_equivalents)


def _line(knots: Sequence[int], values: Array, x: int) -> Array:
    """Values at ``x``, linear between the two knots around it, or on beyond the last two.

    Args:
        knots: Ascending; at least two.
        values: [knots, ...].
        x: Where values are asked for.

    Returns:
        [...]: without the axis of the knots.
    """
    right = int(np.clip(np.searchsorted(knots, x), 1, len(knots) - 1))
    share = (x - knots[right - 1]) / (knots[right] - knots[right - 1])
    return values[right - 1] + share * (values[right] - values[right - 1])


class Grid(NamedTuple):
    """Rows of a schedule.

    Attributes:
        sequences: Ascending.
        cores: Ascending.
        values: [sequences, cores, fields of :class:`Gates`].
    """

    sequences: Sequence[int]
    cores: Sequence[int]
    values: Array


@cache
def _grids() -> dict[str, Grid]:
    """Rows of the table that are interpolated, by schedule."""
    rows = [row for row in rows_of("gates") if row["used_for"] == "grid" and int(row["cores"])]
    schedules = {row["unit"] for row in rows if row["gate_equivalents"]}
    grids = {}
    for unit in schedules:
        of_unit = [row for row in rows if row["unit"] == unit]
        sequences = sorted({int(row["sequences"]) for row in of_unit})
        cores = sorted({int(row["cores"]) for row in of_unit})
        values = [[float(row[name]) for name in Gates._fields] for row in of_unit]
        shape = (len(sequences), len(cores), len(Gates._fields))
        grids[unit] = Grid(sequences, cores, values=np.reshape(values, shape))
    return grids

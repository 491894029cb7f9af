"""Joules of a piece of work, by component, each with the interval in which it is believed to lie.

Model: what is done costs energy per operation - multiply-accumulates by arithmetic, element
operations, bytes of on-chip buffers, bits of each external memory by its family - and what is there
costs power for as long as the work takes, busy or not: what the technology draws idle (clocks,
leakage), the standby and refresh of the memories in use, the device's static power, and the host
(processing system, shell, regulators). Without the second kind idle cores would be free and every
search would pick absurd machines.

Bytes of on-chip buffers are those of all cores together: weights that are broadcast to C cores are
written to C buffers and read from C buffers, as resources count C of them.

Two boundaries: ``device`` leaves the host out; ``board`` has everything. A data-centre card draws
most of its power idle (a U280 37 of 45 W), so the joules above idle are a figure of their own.

Intervals are those of the constants, taken as if all erred in the same direction: a sum of lows and
a sum of highs. Two designs share most of their constants, so their ratio is known far better than
either: :mod:`carsim.cost.interval`. Everything is linear in the activity.

Simplifications: energy per operation does not depend on data; clocked logic is never gated;
voltage and temperature are nominal; reads and writes of a memory cost alike.

Checked: ten published figures of power of FPGA designs lie in their intervals, 40 % above to 11 %
below the value (``carsim validate boards --every``).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import fsum
from typing import NamedTuple

from carsim.base.errors import InputError
from carsim.design import Design
from carsim.hardware.technology.base import Resources
from carsim.hardware.technology.constant import Constant, by_kind
from carsim.workload.activity import Activity

PICO, MEGA = 1e-12, 1e6

STANDS_FOR = {"int4x8": "int8"}
"""Arithmetic whose constant is taken where there is none of its own: an upper estimate, as nobody
was found who measured a product of 4 by 8 bits on an FPGA."""

DEVICE_GBIT = 8
"""Density of the devices that standby constants are of, 1 GiB each; others draw as much each."""


class EnergyPart(NamedTuple):
    """Joules of one component.

    Attributes:
        component: What draws it.
        value_j: Joules.
        low_j: Lower end of the interval.
        high_j: Upper end of the interval.
        idle: Drawn by being there, whether anything is done or not.
        device: Inside the ``device`` boundary.
        constant: Name of the constant that the interval is from: parts of the same name, also of
            another design, err together.
    """

    component: str
    value_j: float
    low_j: float
    high_j: float
    idle: bool
    device: bool = True
    constant: str = ""


class Joules(NamedTuple):
    """A sum of parts with its interval."""

    value_j: float
    low_j: float
    high_j: float


@dataclass(frozen=True, slots=True)
class EnergyReport:
    """Joules by component; sums of them are rounded once, so that any Python finds the same."""

    parts: tuple[EnergyPart, ...]

    @property
    def device(self) -> Joules:
        """All but the host."""
        return _total(part for part in self.parts if part.device)

    @property
    def board(self) -> Joules:
        """Everything."""
        return _total(self.parts)

    @property
    def above_idle(self) -> Joules:
        """Joules of the work beyond those that the configured board draws doing nothing."""
        return _total(part for part in self.parts if not part.idle)

    def scaled(self, factor: float, times: tuple[float, float] | None = None) -> "EnergyReport":
        """Joules of a part of the work, or of several times as much.

        Args:
            factor: Say ``1 / videos`` for the joules of a video.
            times: Least and most time over the expected one, by which the ends of what is drawn by
                being there err, too.
        """
        fast, slow = times or (1.0, 1.0)

        def scaled(part: EnergyPart) -> EnergyPart:
            value, low, high = (joules * factor for joules in part[1:4])
            if part.idle:
                low, high = low * fast, high * slow
            return part._replace(value_j=value, low_j=low, high_j=high)

        return EnergyReport(tuple(map(scaled, self.parts)))


def energy(design: Design, activity: Activity, resources: Resources) -> EnergyReport:
    """Joules that a piece of work costs.

    Args:
        design: Board, machine and constants.
        activity: What was done, and in how many fabric cycles.
        resources: What the design takes of the board.

    Raises:
        InputError: The design's constants lack its arithmetic or the family of a memory.
    """
    constants, board = design.energy, design.board
    seconds = activity.cycles / (board.fabric_clock_mhz * MEGA)
    arithmetic: str = design.machine.array.arithmetic
    if arithmetic not in constants.mac_pj:
        arithmetic = STANDS_FOR.get(arithmetic, arithmetic)
    macs = _named("mac_pj", constants.mac_pj, arithmetic)
    parts = [
        _part("multiply-accumulates", *macs, activity.macs * PICO),
        _part("vector operations", "vector_op", constants.vector_op_pj, activity.vector_ops * PICO),
        _part("on-chip buffers", "sram", constants.sram_pj_per_byte, activity.sram_bytes * PICO),
    ]
    families = {name: memory.standard.partition("-")[0] for name, memory in board.memories.items()}
    for name, family in sorted(families.items()):
        bits = 8 * activity.dram_bytes.get(name, 0)
        dram = _named("dram_pj_per_bit", constants.dram_pj_per_bit, family)
        parts.append(_part(f"memory {name}", *dram, bits * PICO))
        if (own := board.technology.interface_pj_per_bit(board.memories[name])) is not None:
            side = f"interface_pj_per_bit.{family}"
            parts.append(_part(f"interface {name}", side, own, bits * PICO))
    for name in design.machine.memories_in_use:
        memory = board.memories[name]
        devices = memory.capacity_gib * DEVICE_GBIT / (memory.density_gbit or DEVICE_GBIT)
        background = constants.dram_background_w_per_gib
        standby = _named("dram_background_w_per_gib", background, families[name])
        parts.append(_part(f"standby {name}", *standby, devices * seconds, idle=True))
    for component, constant, interval, watts in board.technology.idle_power(design, resources):
        parts.append(_part(component, constant, interval, watts * seconds, idle=True))
    # Dies and boards of one type differ from each other, those of two types do so independently.
    static = f"static_relative of {board.name}", constants.static_relative
    parts += [
        _part("device static", *static, board.static_w * seconds, idle=True),
        _part("host", *static, board.host_w * seconds, idle=True)._replace(device=False),
    ]
    return EnergyReport(tuple(parts))


def _part(
    component: str, name: str, constant: Constant, amount: float, *, idle: bool = False
) -> EnergyPart:
    value, low, high = (c * amount for c in (constant.value, constant.low, constant.high))
    return EnergyPart(component, value, low, high, idle, constant=name)


def _total(parts: Iterable[EnergyPart]) -> Joules:
    chosen = tuple(parts)
    return Joules(*(fsum(getattr(part, end) for part in chosen) for end in Joules._fields))


def _named(field: str, table: Mapping[str, Constant], key: str) -> tuple[str, Constant]:
    """The entry of a table of constants, and what to call it; an entry ``any`` serves all.

    What a design's table lacks is looked up in that of the technologies.
    """
    known = table if "any" in table else {**by_kind(field), **table}
    for name in (key, "any"):
        if name in known:
            return f"{field}.{name}", known[name]
    cure = f"add it; known are {', '.join(table)}"
    raise InputError(f"$.energy.{field}", f"has no entry {key!r}", cure)

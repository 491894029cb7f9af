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

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import fsum
from typing import NamedTuple

from carsim.base.constant import Constant
from carsim.base.errors import InputError
from carsim.design import Design
from carsim.hardware.memory import MemoryFamily
from carsim.hardware.technology.base import Resources
from carsim.workload.activity import Activity

PICO = 1e-12
MEGA = 1e6

STANDS_FOR = {"int4x8": "int8"}
"""Arithmetic whose constant is taken where there is none of its own: an upper estimate, as nobody
was found who measured a product of 4 by 8 bits on an FPGA."""

DEVICE_GBIT = 8
"""Density of the devices that standby constants are of, 1 GiB each; others draw as much each."""


class ComponentJoules(NamedTuple):
    """Joules of one component.

    Attributes:
        component: What draws it.
        value_j: Joules.
        low_j: Lower end of the interval.
        high_j: Upper end of the interval.
        idle: Drawn by being there, whether anything is done or not.
        device: Inside the ``device`` boundary.
        constant: Name of the constant that the interval is from: components of the same name,
            also of another design, err together.
    """

    component: str
    value_j: float
    low_j: float
    high_j: float
    idle: bool
    device: bool = True
    constant: str = ""


class Joules(NamedTuple):
    """Joules of several components with their interval."""

    value_j: float
    low_j: float
    high_j: float


@dataclass(frozen=True, slots=True)
class EnergyReport:
    """Joules by component; sums of them are rounded once, so that any Python finds the same."""

    components: tuple[ComponentJoules, ...]

    @property
    def device(self) -> Joules:
        """All but the host."""
        return _total(joules for joules in self.components if joules.device)

    @property
    def board(self) -> Joules:
        """All components, the host included."""
        return _total(self.components)

    @property
    def above_idle(self) -> Joules:
        """Joules of the work beyond those that the configured board draws doing nothing."""
        return _total(joules for joules in self.components if not joules.idle)

    def scaled(self, factor: float, times: tuple[float, float] | None = None) -> "EnergyReport":
        """Joules of a share of the work, or of several times as much.

        Args:
            factor: Say ``1 / videos`` for the joules of a video.
            times: Least and most time over the expected one, by which the ends of what is drawn by
                being there err, too.
        """
        times = times or (1.0, 1.0)
        return EnergyReport(tuple(_scaled(joules, factor, times) for joules in self.components))


class NamedConstant(NamedTuple):
    """A constant of energy and its name.

    Attributes:
        name: Name under which components err together, such as ``dram_pj_per_bit.DDR4``.
        constant: The constant.
    """

    name: str
    constant: Constant


def energy(design: Design, activity: Activity, resources: Resources) -> EnergyReport:
    """Joules that a piece of work costs.

    Args:
        design: Board, machine and constants.
        activity: What was done, and in how many fabric cycles.
        resources: What the design takes of the board.

    Raises:
        InputError: The design's constants lack its arithmetic or the family of a memory.
    """
    seconds = activity.cycles / (design.board.fabric_clock_mhz * MEGA)
    components = (
        *_joules_of_operations(design, activity),
        *_joules_of_transfers(design, activity),
        *_joules_of_standby(design, seconds),
        *_joules_of_idling(design, resources, seconds),
    )
    return EnergyReport(components)


def _joules_of_operations(design: Design, activity: Activity) -> Iterator[ComponentJoules]:
    """Joules of products, element operations and bytes of on-chip buffers."""
    constants = design.energy
    arithmetic: str = design.machine.array.arithmetic
    if arithmetic not in constants.mac_pj:
        arithmetic = STANDS_FOR.get(arithmetic, arithmetic)
    mac = _named("mac_pj", constants.mac_pj, arithmetic)
    vector_op = NamedConstant("vector_op", constants.vector_op_pj)
    sram = NamedConstant("sram", constants.sram_pj_per_byte)
    yield _joules_of("multiply-accumulates", mac, activity.macs * PICO)
    yield _joules_of("vector operations", vector_op, activity.vector_ops * PICO)
    yield _joules_of("on-chip buffers", sram, activity.sram_bytes * PICO)


def _joules_of_transfers(design: Design, activity: Activity) -> Iterator[ComponentJoules]:
    """Joules of the bits of each external memory, and of the chip's side of its interface."""
    technology = design.board.technology
    for name, memory in sorted(design.board.memories.items()):
        bits = 8 * activity.dram_bytes.get(name, 0)
        dram = _of_family("dram_pj_per_bit", design.energy.dram_pj_per_bit, memory.family)
        yield _joules_of(f"memory {name}", dram, bits * PICO)
        interface_pj = technology.interface_pj_per_bit(memory)
        if interface_pj is not None:
            interface = NamedConstant(f"interface_pj_per_bit.{memory.family.name}", interface_pj)
            yield _joules_of(f"interface {name}", interface, bits * PICO)


def _joules_of_standby(design: Design, seconds: float) -> Iterator[ComponentJoules]:
    """Joules of standby and refresh of the memories in use."""
    background = design.energy.dram_background_w_per_gib
    for name in design.machine.memories_in_use:
        memory = design.board.memories[name]
        devices = memory.capacity_gib * DEVICE_GBIT / (memory.density_gbit or DEVICE_GBIT)
        standby = _of_family("dram_background_w_per_gib", background, memory.family)
        yield _joules_of(f"standby {name}", standby, devices * seconds, idle=True)


def _joules_of_idling(
    design: Design, resources: Resources, seconds: float
) -> Iterator[ComponentJoules]:
    """Joules that the technology, the device and its host draw by being there."""
    board = design.board
    for power in board.technology.idle_power(design, resources):
        of_one = NamedConstant(power.name, power.constant)
        yield _joules_of(power.component, of_one, power.amount * seconds, idle=True)
    # Dies and boards of one type differ from each other, those of two types do so independently.
    static = NamedConstant(f"static_relative of {board.name}", design.energy.static_relative)
    yield _joules_of("device static", static, board.static_w * seconds, idle=True)
    host = _joules_of("host", static, board.host_w * seconds, idle=True)
    yield host._replace(device=False)


def _joules_of(
    component: str, of_one: NamedConstant, amount: float, *, idle: bool = False
) -> ComponentJoules:
    """Joules of a component: an amount times the constant of one."""
    return ComponentJoules(
        component=component,
        value_j=of_one.constant.value * amount,
        low_j=of_one.constant.low * amount,
        high_j=of_one.constant.high * amount,
        idle=idle,
        constant=of_one.name,
    )


def _scaled(joules: ComponentJoules, factor: float, times: tuple[float, float]) -> ComponentJoules:
    """Joules of several times the work; those that are drawn idle err with the time, too."""
    fast, slow = times if joules.idle else (1.0, 1.0)
    return joules._replace(
        value_j=joules.value_j * factor,
        low_j=joules.low_j * factor * fast,
        high_j=joules.high_j * factor * slow,
    )


def _total(components: Iterable[ComponentJoules]) -> Joules:
    """The sum of components, each end rounded once."""
    summed = tuple(components)
    return Joules(
        value_j=fsum(joules.value_j for joules in summed),
        low_j=fsum(joules.low_j for joules in summed),
        high_j=fsum(joules.high_j for joules in summed),
    )


def _named(field: str, table: Mapping[str, Constant], key: str) -> NamedConstant:
    """The entry of a table of constants; an entry ``any`` serves all.

    Raises:
        InputError: The table has neither.
    """
    for name in (key, "any"):
        if name in table:
            return NamedConstant(f"{field}.{name}", table[name])
    cure = f"add it; known are {', '.join(table)}" if table else "add it"
    raise InputError(f"$.energy.{field}", f"has no entry {key!r}", cure)


def _of_family(field: str, table: Mapping[str, Constant], family: MemoryFamily) -> NamedConstant:
    """The constant of a memory: that of the design, or that of its family.

    Raises:
        InputError: Neither the design's table nor the family has it.
    """
    of_family: Constant | None = getattr(family, field)
    if family.name in table or "any" in table or of_family is None:
        return _named(field, table, family.name)
    return NamedConstant(f"{field}.{family.name}", of_family)

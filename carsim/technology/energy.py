"""Joules of a piece of work, by component, each with the interval in which it is believed to lie.

Model: what is done costs energy per operation - multiply-accumulates by arithmetic, element
operations, bytes of on-chip buffers, bits of each external memory by its family - and what is there
costs power for as long as the work takes, busy or not: the clock of every DSP slice, RAM block and
LUT in use, the refresh and standby of the memories in use, the device's static power, and the host
(processing system, shell, regulators). Without the second kind idle cores would be free and every
search would pick absurd machines.

Two boundaries: ``device`` leaves the host out; ``board`` has everything. A data-centre card draws
most of its power idle (a U280 37 of 45 W), so the joules above idle are a figure of their own.

Intervals are those of the constants, taken as if all erred in the same direction: a sum of lows and
a sum of highs. Everything is linear in the activity, so reports of parts of a run may be summed.

Simplifications: energy per operation does not depend on data; clocked logic is never gated;
voltage and temperature are nominal; reads and writes of a memory cost alike.

Checked by a test against published power: within the interval for Li et al. on KV260 (6.57 W),
LlamaF on ZCU102 (4.56 W), DFX and FlightLLM on U280 (45 W each), nominal within 20 %.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from carsim.design import Constant, Design
from carsim.errors import InputError
from carsim.technology.capacity import memories_in_use
from carsim.technology.resources import Resources
from carsim.units import GIB
from carsim.workload.activity import Activity

PICO, MEGA = 1e-12, 1e6


@dataclass(frozen=True, slots=True)
class EnergyPart:
    """Joules of one component.

    Attributes:
        component: What draws it.
        value_j: Joules.
        low_j: Lower end of the interval.
        high_j: Upper end of the interval.
        idle: Drawn by being there, whether anything is done or not.
        device: Inside the ``device`` boundary.
    """

    component: str
    value_j: float
    low_j: float
    high_j: float
    idle: bool
    device: bool = True


@dataclass(frozen=True, slots=True)
class Joules:
    """A sum of parts with its interval."""

    value_j: float
    low_j: float
    high_j: float


@dataclass(frozen=True, slots=True)
class EnergyReport:
    """Joules by component; sums are exactly those of the parts, added in their order."""

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
        """What the work costs beyond what the configured board draws doing nothing."""
        return _total(part for part in self.parts if not part.idle)

    def __add__(self, other: "EnergyReport") -> "EnergyReport":
        """Joules of both pieces of work, which must be of the same design."""
        return EnergyReport(
            tuple(
                EnergyPart(
                    mine.component,
                    mine.value_j + theirs.value_j,
                    mine.low_j + theirs.low_j,
                    mine.high_j + theirs.high_j,
                    mine.idle,
                    mine.device,
                )
                for mine, theirs in zip(self.parts, other.parts, strict=True)
            )
        )


def energy(design: Design, activity: Activity, resources: Resources) -> EnergyReport:
    """Joules that a piece of work costs.

    Args:
        design: Board, machine and constants.
        activity: What was done, and in how many fabric cycles.
        resources: What the design takes of the device.

    Raises:
        InputError: The design's constants lack its arithmetic or the family of a memory.
    """
    constants, board = design.energy, design.board
    mac_pj = _constant(constants.mac_pj, design.machine.array.arithmetic, "mac_pj")
    parts = [
        _part("multiply-accumulates", mac_pj, activity.macs * PICO),
        _part("vector operations", constants.vector_op_pj, activity.vector_ops * PICO),
        _part("on-chip buffers", constants.sram_pj_per_byte, activity.sram_bytes * PICO),
    ]
    for name, memory in sorted(board.memories.items()):
        family = memory.standard.partition("-")[0]
        pj_per_bit = _constant(constants.dram_pj_per_bit, family, "dram_pj_per_bit")
        nbytes = activity.dram_bytes.get(name, 0)
        parts.append(_part(f"memory {name}", pj_per_bit, 8 * nbytes * PICO))
    seconds = activity.cycles / (board.fabric_clock_mhz * MEGA)
    gib = sum(board.memories[name].capacity_bytes for name in memories_in_use(design)) / GIB
    # A microwatt per megahertz is a picojoule per cycle.
    clocked = activity.cycles * PICO
    parts += [
        _idle("memory standby", constants.dram_background_w_per_gib, gib * seconds),
        _idle("clocked DSP", constants.clock_uw_per_mhz_dsp, resources.dsp * clocked),
        _idle("clocked BRAM", constants.clock_uw_per_mhz_bram, resources.bram36 * clocked),
        _idle("clocked URAM", constants.clock_uw_per_mhz_uram, resources.uram * clocked),
        _idle("clocked LUT", constants.clock_uw_per_mhz_klut, resources.lut / 1e3 * clocked),
        _idle("device static", constants.static_relative, board.static_w * seconds),
        _idle("host", constants.static_relative, board.host_w * seconds, device=False),
    ]
    return EnergyReport(tuple(parts))


def _part(component: str, constant: Constant, amount: float) -> EnergyPart:
    value, low, high = (c * amount for c in (constant.value, constant.low, constant.high))
    return EnergyPart(component, value, low, high, idle=False)


def _idle(component: str, constant: Constant, amount: float, *, device: bool = True) -> EnergyPart:
    value, low, high = (c * amount for c in (constant.value, constant.low, constant.high))
    return EnergyPart(component, value, low, high, idle=True, device=device)


def _total(parts: Iterable[EnergyPart]) -> Joules:
    chosen = tuple(parts)
    return Joules(
        sum(part.value_j for part in chosen),
        sum(part.low_j for part in chosen),
        sum(part.high_j for part in chosen),
    )


def _constant(table: Mapping[str, Constant], key: str, field: str) -> Constant:
    if key not in table:
        raise InputError(
            f"$.energy.{field}", f"has no entry {key!r}", f"add it; known are {', '.join(table)}"
        )
    return table[key]

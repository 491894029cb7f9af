"""ASICs of 28, 16 and 7 nm: square millimetres, leakage, clock and dollars.

Model of area, in four parts, each with an interval (:meth:`Asic.intervals`):

* *Logic* is cells over the share of the floor that they cover. Multipliers and adders of 45 nm are
  those of Horowitz and Dally (synthesised areas behind the energies of ISSCC 2014; integer ones
  scale with the product, or the width, of their bits), registers those of Aladdin (Shao et al.,
  ISCA 2014, 40 nm, 1 ns); both shrink with the square of the node. A multiply-accumulator holds
  both operands and its sum. The scheduler is gates of a synthesis
  (:mod:`carsim.hardware.technology.gates`), a register being four of them.
* *SRAM* is kibibytes times a constant from the floor plan of a chip.
* *Control* is a share of these: instructions, DMA, ports, the exchange between cores, wiring.
* *Interfaces* of the memories: :mod:`carsim.hardware.technology.interface`. Dollars follow from all
  of it: :mod:`carsim.hardware.technology.price`.

Model of the other nodes (:data:`NODES`): areas are those of 28 nm, shrunk as one foundry says of
its logic and as its bit cells did. Clock and leakage per mm2 grow where more fits on it.

Checked by a test against QuartDepth (arXiv 2503.16709: 28 nm; 29.2 mm2 in FP32, 23.9 in W4A8, 24.4
in W4A4) for the order of magnitude only, since its arrays and buffers are not known here. The
shipped asic_28nm, which is sized for its memory, takes 5.7 mm2 (77 % less than published), with
W4A8 products 5.8 (76 % less), and with as many in FP32 14.7 (50 % less), interfaces left out here.

Of 16 and 7 nm, two chips whose arrays and memories are known: TPU v2 (two arrays of 128 x 128 in
bfloat16, 32 MiB, at most 625 mm2) comes out at 153 mm2, TPU v4i (four, 144 MiB, at most 400 mm2) at
188 mm2 without interfaces. Both lie below, as links and scalar cores are no part of the model. Of
the v4i's parts, 128 MiB of memory take 109 mm2 (published: 28 % of the die, 112), its arrays 19 mm2
(11 %, 44): published multipliers sum four products in FP32.

Simplifications: one voltage and one threshold; no host; buffers cost by capacity, not by the
width of their words; dot products cost as much per multiplier as a systolic array, whose
every element has an accumulator. Clock: what a chip reaches is not calculated; beyond the fastest
published one of its node there is a warning.
"""

from collections.abc import Iterable, Mapping
from math import fsum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from pydantic import Field, model_validator

from carsim.base.section import GrownSection, PositiveFloat
from carsim.base.units import KIB
from carsim.hardware.technology.base import (
    AnyBoard,
    AnyDesign,
    IdlePower,
    Resource,
    Resources,
    Technology,
)
from carsim.hardware.technology.constant import Constant
from carsim.hardware.technology.fpga import INSTRUCTION_BYTES
from carsim.hardware.technology.gates import FLIP_FLOP_GATES, comparator, dispatcher
from carsim.hardware.technology.interface import (
    interface_mm2,
    interface_of,
    memory_choices,
    stack_mm2,
)
from carsim.hardware.technology.price import ENDS, Price, chip_prices

if TYPE_CHECKING:
    from carsim.hardware.memory.section import Memory

SHRINK_45 = (28 / 45) ** 2
SHRINK_40 = (28 / 40) ** 2

REGISTER_UM2 = 5.98 * SHRINK_40
"""Of a bit; Aladdin's registers at 40 nm (Shao et al., ISCA 2014)."""

GATE_UM2 = REGISTER_UM2 / FLIP_FLOP_GATES
"""Of a gate equivalent: a register is so many of them."""

SPECIAL_FUNCTION_UM2 = 10_600 * SHRINK_40
"""A pipelined single-precision function unit; Aladdin's trigonometric one at 40 nm."""

FLOOR_COVERED = 0.7
"""Share of the floor that cells cover; engineering estimate, usual targets are 0.6 to 0.8."""


class Operator(NamedTuple):
    """A multiply-accumulator.

    Attributes:
        multiply_um2: Multiplier at 45 nm.
        add_um2: Adder at 45 nm.
        register_bits: Both operands and the sum.
    """

    multiply_um2: float
    add_um2: float
    register_bits: int

    @property
    def um2(self) -> float:
        """Floor that it takes at 28 nm.

        >>> {name: round(operator.um2) for name, operator in OPERATORS.items()}
        {'int4': 230, 'int4x8': 312, 'int8': 433, 'int16': 932, 'fp16': 1927}
        """
        cells = (self.multiply_um2 + self.add_um2) * SHRINK_45 + self.register_bits * REGISTER_UM2
        return cells / FLOOR_COVERED


OPERATORS = {
    "int4": Operator(282 * (4 * 4) / 64, 137 * 24 / 32, 4 + 4 + 24),
    "int4x8": Operator(282 * (4 * 8) / 64, 137 * 28 / 32, 4 + 8 + 28),
    "int8": Operator(282, 137, 8 + 8 + 32),
    "int16": Operator(3495 * (16 * 16) / 1024, 137 * 48 / 32, 16 + 16 + 48),
    "fp16": Operator(1640, 1360, 16 + 16 + 32),
}
"""By arithmetic of the array. At 45 nm: an 8-bit multiplier 282 um2, a 32-bit one 3495, a 32-bit
adder 137, FP16 1640 and 1360, FP32 7700 and 4184 (synthesis, after Horowitz, ISSCC 2014, as Dally
quotes it). Sums of 11008 products have 14 bits more than a product."""

VECTOR_LANE = Operator(7700, 4184, 4 * 32)
"""Single precision and four registers, beside the function unit; engineering estimate."""

DEQUANTISER = Operator(1640, 0, 2 * 16)
"""One FP16 scaling per column of integer arrays, or per multiplier of FP16 arrays; engineering
estimate, as :mod:`carsim.hardware.technology.fpga` counts them."""

LOGIC = Constant(
    value=1.0,
    low=0.37,
    high=2.8,
    source="share of the area above; low is an 8-bit multiplier and adder without registers on a "
    "full floor; high is TPU v1 (arXiv 1704.04760), 24 % of at most 331 mm2 for 65,536 of 8 bits",
)

SRAM_MM2_PER_KIB = Constant(
    value=3.9e-3,
    low=1.7e-3,
    high=7.8e-3,
    source="TPU v1 (arXiv 1704.04760), 29 % of at most 331 mm2 for 24 MiB; low is TSMC's cell of "
    "0.127 um2 (VLSI 2009) at 60 % of the macro; high is an engineering estimate for small banks",
)

CONTROL_SHARE = Constant(
    value=0.3,
    low=0.03,
    high=0.69,
    source="engineering estimate; low is TPU v1's control, 2 % beside 59 % of buffer, multipliers "
    "and accumulators; high is all of the die but those",
)


class Node(NamedTuple):
    """A node beside 28 nm.

    Attributes:
        logic: Area of logic over that of 28 nm.
        sram: The same of SRAM.
        fastest_mhz: Clock of the fastest published accelerator.
        leakage_w_per_mm2: Leakage of all of the area in use.
        clock_uw_per_mhz_mm2: Power of the clock, likewise.
    """

    logic: Constant
    sram: Constant
    fastest_mhz: float
    leakage_w_per_mm2: Constant
    clock_uw_per_mhz_mm2: Constant


def _itself() -> Constant:
    return Constant(value=1.0, low=1.0, high=1.0, source="the node that areas are given for")


_NODES = {
    "28nm": Node(
        _itself(),
        _itself(),
        1000.0,  # QuartDepth (arXiv 2503.16709), synthesised; TPU v1, built, has 700 MHz
        Constant(
            value=0.012,
            low=0.003,
            high=0.04,
            source="Aladdin's multiplier at 40 nm (Shao et al., ISCA 2014), 78 uW on 6,350 um2; "
            "low and high are engineering estimates, high half of what TPU v1 draws idle, 28 W on "
            "331 mm2",
        ),
        Constant(
            value=30.0,
            low=5.0,
            high=120.0,
            source="engineering estimate; high is all of what TPU v1 (arXiv 1704.04760) draws "
            "idle, 28 W on at most 331 mm2 at 700 MHz",
        ),
    ),
    "16nm": Node(
        Constant(
            value=0.5,
            low=0.42,
            high=0.65,
            source="TSMC: 16FF+ has twice the density of 28HPM (not checked); low and high are "
            "engineering estimates",
        ),
        Constant(
            value=0.551,
            low=0.5,
            high=0.8,
            source="bit cells of 0.07 um2 (Chen et al., JSSC 2015, as WikiChip has it) against "
            "0.127; low and high are engineering estimates, as periphery shrinks less",
        ),
        2000.0,  # Simba (Shao et al., MICRO 2019), built, at its highest voltage (not checked)
        Constant(
            value=0.012,
            low=0.003,
            high=0.085,
            source="engineering estimate, as 28 nm, since FinFETs leak less and more fit; high is "
            "all that TPU v2 draws idle, 53 W on at most 625 mm2 (Jouppi et al., Ten lessons, ISCA "
            "2021, not checked)",
        ),
        Constant(
            value=30.0,
            low=5.0,
            high=121.0,
            source="engineering estimate: 28 nm times twice the density and half the energy; high "
            "is all that TPU v2 draws idle at 700 MHz (not checked)",
        ),
    ),
    "7nm": Node(
        Constant(
            value=0.152,
            low=0.12,
            high=0.25,
            source="TSMC: N7 has 3.3 times the logic density of 16FF+ (not checked); low and high "
            "are engineering estimates",
        ),
        Constant(
            value=0.213,
            low=0.19,
            high=0.4,
            source="bit cells of 0.027 um2 (Chang et al., ISSCC 2017, as WikiChip has it) against "
            "0.127; low and high are engineering estimates",
        ),
        1600.0,  # IBM's chip of ISSCC 2021, paper 9.1 (Agrawal et al., not checked)
        Constant(
            value=0.02,
            low=0.005,
            high=0.14,
            source="engineering estimate, 6.6 times the density at a quarter of the leakage; high "
            "is all that TPU v4i draws idle, 55 W on at most 400 mm2 (Jouppi et al., Ten lessons, "
            "ISCA 2021, not checked)",
        ),
        Constant(
            value=50.0,
            low=8.0,
            high=131.0,
            source="engineering estimate: 28 nm times 6.6 times the density and a quarter of the "
            "energy; high is all that TPU v4i draws idle at 1050 MHz (not checked)",
        ),
    ),
}
NODES: Mapping[str, Node] = MappingProxyType(_NODES)
"""Name in YAML -> node."""


class Asic(Technology, GrownSection):
    """A chip; ``area_mm2`` is what there is of it."""

    later: ClassVar[frozenset[str]] = frozenset({"node"})

    kind: Literal["asic"] = "asic"
    node: Literal["28nm", "16nm", "7nm"] = Field("28nm", description="process of the constants")
    area_mm2: PositiveFloat = Field(
        ge=0.001, description="area of the chip, interfaces to memories included"
    )
    leakage_w_per_mm2: Constant = NODES["28nm"].leakage_w_per_mm2
    clock_uw_per_mhz_mm2: Constant = NODES["28nm"].clock_uw_per_mhz_mm2

    @model_validator(mode="before")
    @classmethod
    def _draw_what_the_node_draws(cls, raw: Any) -> Any:
        """Leakage and clock of the node, where the section says none."""
        if not isinstance(raw, Mapping) or not isinstance(raw.get("node"), str):
            return raw
        node = NODES.get(raw["node"])
        if node is None:
            return raw
        names = ("leakage_w_per_mm2", "clock_uw_per_mhz_mm2")
        return {**{name: getattr(node, name) for name in names}, **raw}

    resource_kinds: ClassVar[Mapping[str, Resource]] = {
        "area_mm2": Resource(
            "area", "mm2", "shrink machine.array, machine.vector, the buffers or board.memories"
        ),
    }

    @property
    def energy_preset(self) -> str:
        """The constants of the node."""
        return f"asic_{self.node}"

    @property
    def text(self) -> str:
        """Process and area."""
        return f"{self.node.removesuffix('nm')} nm, {self.area_mm2:g} mm2"

    def check_board(self, board: AnyBoard) -> None:
        """The area is a field of its own: nothing is asked of the board."""

    def available(self, board: AnyBoard) -> Mapping[str, float]:
        """The area."""
        return {"area_mm2": self.area_mm2}

    def resources(self, design: AnyDesign) -> Resources:
        """Area by component, at the values of the constants."""
        return _resources(design, self.node, "value")

    def intervals(self, design: AnyDesign) -> Mapping[str, tuple[float, float]]:
        """Area if all constants err in one direction."""
        low, high = (_resources(design, self.node, end).totals["area_mm2"] for end in ENDS[1:])
        return {"area_mm2": (low, high)}

    def prices(self, design: AnyDesign) -> Iterable[Price]:
        """Of a die of the area in use, its package and memories."""
        memories = design.board.memories
        die_mm2 = {end: _resources(design, self.node, end).totals["area_mm2"] for end in ENDS}
        bought = [
            Price(
                f"memory {name}",
                *(each.gib(memory) * getattr(each.usd_per_gib, end) for end in ENDS),
            )
            for name, memory in memories.items()
            for each in (interface_of(memory),)
        ]
        return chip_prices(die_mm2, self.node, stack_mm2(memories.values()), bought)

    def choices(self, board: AnyBoard) -> Iterable[tuple[str, Mapping[str, object]]]:
        """Fewer and more channels, and an area of almost a reticle (858 mm2)."""
        yield from memory_choices(board.memories, {"board.technology.area_mm2": 800.0})

    def interface_pj_per_bit(self, memory: "Memory") -> Constant:
        """Of PHY and controller, beside the memory's own."""
        return interface_of(memory).pj_per_bit

    def warnings(self, design: AnyDesign, used: Resources) -> Iterable[str]:
        """An area that fits only if the constants err downwards, and a clock beyond published."""
        clock_mhz, (_, high) = design.board.fabric_clock_mhz, self.intervals(design)["area_mm2"]
        if used.totals["area_mm2"] <= self.area_mm2 < high:
            yield (
                f"area: up to {high:.1f} mm2 if all constants err upwards, "
                f"{self.area_mm2:.1f} available"
            )
        fastest_mhz = NODES[self.node].fastest_mhz
        if clock_mhz > fastest_mhz:
            yield (
                f"clock: {clock_mhz:g} MHz is more than the {fastest_mhz:g} MHz of the fastest "
                f"published accelerator of {self.node.removesuffix('nm')} nm"
            )

    def idle_power(self, design: AnyDesign, used: Resources) -> Iterable[IdlePower]:
        """Leakage and clock of all of the area in use, never gated."""
        area, mhz = used.totals["area_mm2"], design.board.fabric_clock_mhz
        yield IdlePower("leakage", "leakage_w_per_mm2", self.leakage_w_per_mm2, area)
        clock = self.clock_uw_per_mhz_mm2
        yield IdlePower("clock", "clock_uw_per_mhz_mm2", clock, area * mhz * 1e-6)


def _resources(design: AnyDesign, node: str, end: str) -> Resources:
    """Area by component at one end of the intervals."""
    machine, cores = design.machine, design.machine.cores
    array, arithmetic = machine.array, machine.array.arithmetic
    scalings = array.macs_per_cycle if arithmetic == "fp16" else array.cols
    instructions = machine.drs.index_register_bits * machine.drs.instructions_per_sequence
    scheduler = dispatcher(design.policy.schedule, machine.drs, cores)
    logic_um2 = {
        "arrays": cores * array.macs_per_cycle * OPERATORS[arithmetic].um2,
        "vector units": cores
        * machine.vector.lanes
        * (VECTOR_LANE.um2 + SPECIAL_FUNCTION_UM2 / FLOOR_COVERED),
        "dequantisers": cores * scalings * DEQUANTISER.um2
        if design.model.weights.group is not None
        else 0.0,
        "dispatch": scheduler.gate_equivalents * GATE_UM2 / FLOOR_COVERED,
        "decisions": cores * comparator().gate_equivalents * GATE_UM2 / FLOOR_COVERED,
    }
    sram_bytes = {
        "weight buffers": cores * machine.weight_buffer_bytes,
        "KV buffers": cores * machine.kv_buffer_bytes,
        "activation buffers": cores * machine.activation_buffer_bytes,
        "instructions": instructions * INSTRUCTION_BYTES,
    }
    logic, per_kib, share = (
        getattr(constant, end) for constant in (LOGIC, SRAM_MM2_PER_KIB, CONTROL_SHARE)
    )
    logic *= getattr(NODES[node].logic, end)
    per_kib *= getattr(NODES[node].sram, end)
    parts = {name: um2 * 1e-6 * logic for name, um2 in logic_um2.items()}
    parts |= {name: nbytes / KIB * per_kib for name, nbytes in sram_bytes.items()}
    parts["control"] = share * fsum(parts.values())
    of_7nm = NODES[node].logic.value / NODES["7nm"].logic.value
    for name, memory in design.board.memories.items():
        parts[f"interface {name}"] = interface_mm2(memory, of_7nm, end)
    return Resources({name: {"area_mm2": mm2} for name, mm2 in sorted(parts.items())})

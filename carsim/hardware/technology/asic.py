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

from carsim.base.constant import Constant
from carsim.base.section import GrownSection
from carsim.base.sizes import PositiveFloat
from carsim.base.units import KIB
from carsim.hardware.technology.base import (
    AnyBoard,
    AnyDesign,
    IdlePower,
    PublishedKind,
    Resource,
    Resources,
    Technology,
)
from carsim.hardware.technology.constant import CONSTANTS, by_kind
from carsim.hardware.technology.fpga import INSTRUCTION_BYTES
from carsim.hardware.technology.gates import FLIP_FLOP_GATES, dispatcher_of
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

LOGIC = CONSTANTS["logic"]
"""Factor on the area of logic above, with its interval."""

SRAM_MM2_PER_KIB = CONSTANTS["sram_mm2_per_kib"]
"""Area of SRAM."""

CONTROL_SHARE = CONSTANTS["control_share"]
"""Area of control over the area of all else."""


class Node(NamedTuple):
    """A node; areas are relative to 28 nm.

    Attributes:
        logic: Area of logic.
        sram: Area of SRAM.
        leakage_w_per_mm2: Leakage of all of the area in use.
        clock_uw_per_mhz_mm2: Power of the clock in all of the area in use.
    """

    logic: Constant
    sram: Constant
    leakage_w_per_mm2: Constant
    clock_uw_per_mhz_mm2: Constant


FASTEST_MHZ = {
    "28nm": 1000.0,  # QuartDepth (arXiv 2503.16709), synthesised; TPU v1, built, has 700 MHz
    "16nm": 2000.0,  # Simba (Shao et al., MICRO 2019), built, at its highest voltage (not checked)
    "7nm": 1600.0,  # IBM's chip of ISSCC 2021, paper 9.1 (Agrawal et al., not checked)
}
"""Clock of the fastest published accelerator of a node."""


def _node(name: str) -> Node:
    """Constants of a node by its name, such as ``28nm``."""
    return Node(
        logic=by_kind("logic")[name],
        sram=by_kind("sram")[name],
        leakage_w_per_mm2=by_kind("leakage_w_per_mm2")[name],
        clock_uw_per_mhz_mm2=by_kind("clock_uw_per_mhz_mm2")[name],
    )


NODES: Mapping[str, Node] = MappingProxyType({name: _node(name) for name in FASTEST_MHZ})
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
        )
    }

    growing: ClassVar[frozenset[str]] = frozenset({"area_mm2"})

    def published_kind(self, control: str | None) -> PublishedKind:
        """GPUs and NPUs where a GPU's or an NPU's runtime starts the kernels.

        No published system is another accelerator chip.
        """
        if control in ("gpu_stream", "gpu_graph"):
            return PublishedKind("gpu")
        if control == "npu_runtime":
            return PublishedKind("npu", without_forwards="an NPU")
        return PublishedKind(self.kind, unpublished="an ASIC accelerator")

    @property
    def energy_preset(self) -> str:
        """The constants of the node."""
        return f"asic_{self.node}"

    @property
    def text(self) -> str:
        """Process and area."""
        return f"{self.node.removesuffix('nm')} nm, {self.area_mm2:g} mm2"

    def available(self, board: AnyBoard) -> Mapping[str, float]:
        """The area."""
        return {"area_mm2": self.area_mm2}

    def resources(self, design: AnyDesign) -> Resources:
        """Area by component, at the values of the constants."""
        return _resources(design, self.node, "value")

    def intervals(self, design: AnyDesign) -> Mapping[str, tuple[float, float]]:
        """Area if all constants err in one direction."""
        low = _resources(design, self.node, "low")
        high = _resources(design, self.node, "high")
        return {"area_mm2": (low.totals["area_mm2"], high.totals["area_mm2"])}

    def prices(self, design: AnyDesign) -> Iterable[Price]:
        """Of a die of the area in use, its package and memories."""
        memories = design.board.memories
        die_mm2 = [_resources(design, self.node, end).totals["area_mm2"] for end in ENDS]
        bought = []
        for name, memory in memories.items():
            interface = interface_of(memory)
            gib = interface.gib(memory)
            usd_per_gib = interface.usd_per_gib
            bought.append(
                Price(
                    part=f"memory {name}",
                    value=gib * usd_per_gib.value,
                    low=gib * usd_per_gib.low,
                    high=gib * usd_per_gib.high,
                )
            )
        return chip_prices(die_mm2, self.node, stack_mm2(memories.values()), bought)

    def choices(self, board: AnyBoard) -> Iterable[tuple[str, Mapping[str, object]]]:
        """Fewer and more channels, and an area of almost a reticle (858 mm2)."""
        yield from memory_choices(board.memories, {"board.technology.area_mm2": 800.0})

    def interface_pj_per_bit(self, memory: "Memory") -> Constant:
        """Of PHY and controller, beside the memory's own."""
        return interface_of(memory).pj_per_bit

    def warnings(self, design: AnyDesign, used: Resources) -> Iterable[str]:
        """Lines on the clock, and on an area that fits only if the constants err downwards."""
        yield from super().warnings(design, used)
        _, high = self.intervals(design)["area_mm2"]
        if used.totals["area_mm2"] <= self.area_mm2 < high:
            yield (
                f"area: up to {high:.1f} mm2 if all constants err upwards, "
                f"{self.area_mm2:.1f} available"
            )

    def published_clock_mhz(self, design: AnyDesign, used: Resources) -> float:
        """Clock of the fastest published accelerator of this node, in MHz."""
        return FASTEST_MHZ[self.node]

    def idle_power(self, design: AnyDesign, used: Resources) -> Iterable[IdlePower]:
        """Leakage and clock of all of the area in use, never gated."""
        area_mm2 = used.totals["area_mm2"]
        clock_mhz = design.board.fabric_clock_mhz
        yield IdlePower(
            component="leakage",
            name="leakage_w_per_mm2",
            constant=self.leakage_w_per_mm2,
            amount=area_mm2,
        )
        yield IdlePower(
            component="clock",
            name="clock_uw_per_mhz_mm2",
            constant=self.clock_uw_per_mhz_mm2,
            amount=area_mm2 * clock_mhz * 1e-6,
        )


def _resources(design: AnyDesign, node: str, end: str) -> Resources:
    """Area by component at one end of the intervals.

    Args:
        design: The design.
        node: Its process.
        end: ``value``, ``low`` or ``high`` of the constants.
    """
    logic_factor: float = getattr(LOGIC, end) * getattr(NODES[node].logic, end)
    mm2_per_kib: float = getattr(SRAM_MM2_PER_KIB, end) * getattr(NODES[node].sram, end)
    mm2_of: dict[str, float] = {}
    for component, um2_at_28nm in _logic_um2(design).items():
        mm2_of[component] = um2_at_28nm * 1e-6 * logic_factor
    for component, nbytes in _sram_bytes(design).items():
        mm2_of[component] = nbytes / KIB * mm2_per_kib
    mm2_of["control"] = getattr(CONTROL_SHARE, end) * fsum(mm2_of.values())
    logic_over_7nm = NODES[node].logic.value / NODES["7nm"].logic.value
    for name, memory in design.board.memories.items():
        mm2_of[f"interface {name}"] = interface_mm2(memory, logic_over_7nm, end)
    return Resources({component: {"area_mm2": mm2} for component, mm2 in sorted(mm2_of.items())})


def _logic_um2(design: AnyDesign) -> dict[str, float]:
    """Floor of logic by component at 28 nm."""
    machine = design.machine
    array = machine.array
    scalings_per_core = array.macs_per_cycle if array.arithmetic == "fp16" else array.cols
    multiplied = design.model.multiplied(with_head=machine.include_head)
    if all(precision.group is None for precision in multiplied):
        scalings_per_core = 0
    lane_um2 = VECTOR_LANE.um2 + SPECIAL_FUNCTION_UM2 / FLOOR_COVERED
    return {
        "arrays": machine.cores * array.macs_per_cycle * OPERATORS[array.arithmetic].um2,
        "vector units": machine.cores * machine.vector.lanes * lane_um2,
        "dequantisers": machine.cores * scalings_per_core * DEQUANTISER.um2,
        "dispatch": dispatcher_of(design).gate_equivalents * GATE_UM2 / FLOOR_COVERED,
    }


def _sram_bytes(design: AnyDesign) -> dict[str, int]:
    """Bytes of on-chip memory by component, of all cores together."""
    machine = design.machine
    instructions = machine.drs.index_register_bits * machine.drs.instructions_per_sequence
    return {
        "weight buffers": machine.cores * machine.weight_buffer_bytes,
        "KV buffers": machine.cores * machine.kv_buffer_bytes,
        "activation buffers": machine.cores * machine.activation_buffer_bytes,
        "instructions": instructions * INSTRUCTION_BYTES,
    }

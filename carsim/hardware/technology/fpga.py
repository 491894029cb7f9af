"""UltraScale+ FPGAs: DSP slices, block RAM, UltraRAM and LUTs; the clock that they make plausible.

Model of logic: counts times constants, plus control in proportion. Most constants come from a
component that a publication lists on its own. Four were chosen so that totals come out: the fixed
part of control and its share on all of them, the floating-point multiply-accumulator on DFX, and
its dequantiser on Li et al.

Calibration (checked by a test against ``tests/data/published_fpga.csv``): LUTs of the eight designs
calibrated on come out with a mean error of 11 % and a worst of 23 %. Two designs held out come out
far too small: 74 % too few for LlamaF (compiled from C++ by HLS), 49 % for the apex unified engine
(a general-purpose processor around its array). So read the LUTs as those of a hand-written engine.
DSP slices of the six designs of that file that name them: mean error 10 %, worst 42 % (too many,
for Li et al., who add in LUTs what is added in DSP slices here). Torch2RISCV took 4.8 and 5.4 times
the slices that carsim predicts, and 3.5 and 3.6 times the LUTs (``PUBLISHED_RATIOS``). The
dispatcher is not calibrated but synthesised
(:mod:`carsim.hardware.technology.gates`).

Model of RAM: a buffer is read in words of its port's width, one per cycle, while it is filled
through the other port. Blocks stand side by side until the word is wide enough and behind each
other until it is deep enough; the cheapest shape is taken. So blocks do not follow the bits of an
element: fewer bits make the words of as many bytes narrower and more, and a word beyond 512 or 1024
begins a row of blocks that stays all but empty. The KV buffers of zcu102 (128 KiB for 256 elements
a cycle) take 60 block RAMs in 8 bits, 104 in 7, 62 in 4 and 90 in 3.7: 497, 565, 964 and 1,033
words. A designer would shrink such a buffer to whole rows (machine.kv_buffer_kib). Each buffer goes
whole to the kind of RAM of which it takes the smaller share of what is left. The buffers of a core
feed its array: where the next tile enters behind the current one (``weight_load: none``) with
``rows * cols`` weights a cycle, else with ``cols``; the activation buffer delivers ``rows``. Every
port to memory has room for two of its longest bursts. RAM is geometry, not calibrated: publications
do not list the width and depth of each buffer.

Clock: published designs within the limits that FINN's platform table (Xilinx/finn,
``util/platforms.py``) gives for timing closure reach up to 300 MHz (Li et al., arXiv 2502.10659, 67
% of a KV260's LUTs); an engine at half of these limits 333 MHz (apex unified engine, 36 % of a
KU5P's LUTs); beyond them 225 MHz (FlightLLM, arXiv 2401.03868, 82.5 % of a U280's UltraRAM). A
faster clock earns a warning, not a misfit: place and route decides.

Precisions by role: the array is built for the widest weights that pass it, and takes narrower ones
at the same rate. Slices do not pack more products while narrower weights pass.

Simplifications: DSP slices run at the fabric clock (AMD's DPU doubles it); no sparsity logic; soft
memory controllers and the shell are taken off the board's figures instead of being counted; parity
bits are used as data; buffers do not share blocks; cascading and placement cost nothing.
"""

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from carsim.base.constant import Constant
from carsim.base.errors import InputError
from carsim.base.section import FieldError
from carsim.hardware.technology.base import (
    NO_FPGA,
    AnyBoard,
    AnyDesign,
    IdlePower,
    PublishedKind,
    Resource,
    Resources,
    Technology,
)
from carsim.hardware.technology.gates import dispatcher_of
from carsim.hardware.technology.ram import Buffer, place
from carsim.workload.precision import Precision

if TYPE_CHECKING:
    from carsim.hardware.machine import Array

PRODUCTS_PER_DSP = {(4, 4): 4, (4, 8): 2, (8, 8): 2, (4, 16): 1, (8, 16): 1, (16, 16): 1}
"""Products that share one DSP48E2 slice, by the bits of their operands, the narrower one first.

4 x 4: arXiv 2203.11028, exact once the carries are mended in LUTs; its "overpacking" of six errs
and is left out. 8 x 8: WP486, two that share an operand. 4 x 8: as 8 x 8; an open W4A8 design for
the KV260 (hwkim-dev/pccx) has two as well. Anything by 16 bits: one, in the 27 x 18 multiplier with
its 48-bit accumulator (UG579). Two 4 x 16 would fit its width with 3 bits to spare, which is 8
sums; no design that does it was found.
"""

FP16_DSP = 3
"""DFX (arXiv 2209.10797): one slice to multiply, two to add."""

VECTOR_LANE_DSP = 7
"""DFX (arXiv 2209.10797): 39.15 % of 9024 slices, less 3 for each of 1024 FP16 MACs, 64 lanes."""

VECTOR_LANE_LUT = 1100
"""FlightLLM (arXiv 2401.03868): special function unit of 30k LUT and 201 DSP, that is 28 lanes of
:data:`VECTOR_LANE_DSP`."""

MAC_LUT = {"int4": 12.0, "int4x8": 11.5, "int8": 11.5, "int16": 22.0, "fp16": 60.0}
"""LUTs per multiply-accumulate and cycle beside its DSP slices.

int8: slope from B512 to B4096 of AMD's DPU, 20,177 to 40,865 LUT over 256 to 2048 MACs (PG338 v1.2,
table 9). int4x8: taken as int8, whose packing it shares. int16: vector unit of Hummingbird (arXiv
2507.03308), 2859 LUT for 128 INT24 MACs. fp16: calibrated on DFX's total. int4: engineering
estimate, as int8 with the carries of four packed products mended in LUTs (arXiv 2203.11028).
"""

DEQUANTISER_FP16_LUT = 260.0
"""Per MAC that takes quantised weights as FP16: calibrated on Li et al. (arXiv 2502.10659), whose
128 FP16 MACs with W4 weights take 78k LUT in all."""

DEQUANTISER_COLUMN_DSP = 1
"""Integer arithmetic scales each group's sum instead, once per column (engineering estimate;
LlamaF, arXiv 2409.11424, spends 16 slices beyond its 512 MACs on two columns)."""

DEQUANTISER_COLUMN_LUT = 100.0
"""LUTs of that scaling, per column; engineering estimate."""

PORT_BIT_LUT = 18.0
"""FlightLLM: interconnect of 150k LUT for 32 ports of 256 bits. (Hummingbird: 15, its memory
management unit takes 7670 LUT for 4 ports of 128 bits.)"""

RAM_BLOCK_LUT = 26.0
"""FlightLLM: buffers of 42k LUT for 816 block RAMs and 792 UltraRAMs."""

EXCHANGE_BIT_LUT = 3.0
"""Multiplexer and register per bit and core of the core-to-core network; engineering estimate."""

COMPARATOR_BIT_LUT = 2.0
"""Of a policy that chooses keys: a bit of the carry chain, one LUT (UG574), and one that passes the
word on; engineering estimate."""

CORE_CONTROL_LUT = 8000.0
"""Instruction fetch, address generation and sequencing of one core; calibrated."""

CONTROL_SHARE = 0.2
"""Control and routing logic as a share of all else; calibrated. (Published shares
include the fixed part: FlightLLM's controller 39 %, Hummingbird beyond its three units 42 %.)"""

CLOSURE_LIMITS = {"lut": 0.7, "dsp": 0.8, "bram36": 0.8, "uram": 0.8}
"""Largest share of each resource with which timing closes (FINN's platform table)."""

PLAUSIBLE_CLOCKS_MHZ = ((0.52, 333.0), (1.0, 300.0), (math.inf, 225.0))
"""Clock up to a given fraction of the closure limits; sources in the module's docstring."""

PUBLISHED_RATIOS = {
    "dsp": (0.71, 5.42),
    "bram36": (0.91, 2.04),
    "uram": (0.58, 6.1),
    "lut": (0.86, 3.7),
}
"""Least and largest ratio of published to predicted amounts over the designs of
``carsim validate boards --every``: eight name slices and LUTs, six block RAM, four UltraRAM.
LUTs and slices of four of them were calibrated on. The two builds of Torch2RISCV took 5.4 and 4.8
times the slices, as they hold a RISC-V core and work beside the array that is not modelled; the
others took at most 1.43 times. Of n designs and one more, drawn alike, the one more lies between
the least and the largest with a chance of (n - 1) / (n + 1): 78, 71 or 60 %. Each left out in turn
lies between the others in 6 of 8 cases of slices and of LUTs, in 4 of 6 of block RAM, and in 2 of 4
of UltraRAM. In bits, both RAMs together are 0.71 to 2.8 times what is predicted, as sizes of
buffers are not published, and designs choose other blocks: Hummingbird holds K and V of 4,096
tokens in UltraRAM, DFX nearly all in block RAM."""

COUNTS = ("dsp", "bram36", "uram", "lut")
"""Fields of the board that count its logic; timing closes or fails by their occupancy."""

CHOICE = "choice of keys"
"""Component: what a policy of attention adds, if it does."""

INSTRUCTION_BYTES = 16
"""One precompiled instruction; engineering estimate (addresses, lengths and an opcode)."""


class Fpga(Technology):
    """An UltraScale+ FPGA; ``lut``, ``dsp``, ``bram36`` and ``uram`` of the board say its size."""

    kind: Literal["fpga"] = "fpga"

    growing: ClassVar[frozenset[str]] = frozenset({"dsp"})
    published_ratios: ClassVar[Mapping[str, tuple[float, float]]] = PUBLISHED_RATIOS
    resource_kinds: ClassVar[Mapping[str, Resource]] = {
        "dsp": Resource("DSP slices", "DSP", "shrink machine.array, machine.vector or its cores"),
        "bram36": Resource("block RAM", "BRAM36", "shrink the buffers or machine.array"),
        "uram": Resource("UltraRAM", "URAM", "shrink the buffers or machine.array"),
        "lut": Resource("LUTs", "LUT", "shrink machine.array, machine.vector or its cores"),
    }

    def published_kind(self, control: str | None) -> PublishedKind:
        """Published FPGA systems."""
        return PublishedKind("fpga", without_forwards="an FPGA")

    def check_board(self, board: AnyBoard) -> None:
        """Refuse a board without one of the four counts; the cure names all that it lacks."""
        needed = [*COUNTS, "device"]
        first, *others = [name for name in needed if getattr(board, name) is None] or [""]
        if first not in COUNTS:
            return
        cures = ["add it"]
        if others:
            verb = "is" if len(others) == 1 else "are"
            cures.append(f"{', '.join(others)} {verb} missing, too")
        raise FieldError(first, "is missing", "; ".join([*cures, NO_FPGA]))

    def available(self, board: AnyBoard) -> Mapping[str, float]:
        """The board's counts."""
        return {name: getattr(board, name) or 0 for name in COUNTS}

    def resources(self, design: AnyDesign) -> Resources:
        """DSP slices and LUTs by calibration, RAM blocks by geometry."""
        machine = design.machine
        model = design.model
        memories = design.board.memories
        ports_in_use = [memories[name].ports for name in machine.memories_in_use]
        available = self.available(design.board)
        buffers = _buffers(design)
        blocks_of_buffers = place(
            buffers, bram36=int(available["bram36"]), uram=int(available["uram"])
        )
        # Precisions of the weights that pass the array.
        multiplied = model.multiplied(with_head=machine.include_head)
        widest_bits = max(precision.bits for precision in (model.kv, *multiplied))
        logic = Logic(
            array=machine.array,
            operand_bits=math.ceil(widest_bits),
            lanes=machine.vector.lanes,
            cores=machine.cores,
            port_bits=sum(ports.count * ports.bits for ports in ports_in_use),
            ram_blocks=sum(bram36 + uram for bram36, uram in blocks_of_buffers),
            dequantised=any(precision.group is not None for precision in multiplied),
            exchange_bits=8 * machine.exchange_bytes_per_cycle if machine.cores > 1 else 0,
            dispatch_lut=dispatcher_of(design).lut,
            comparator_bits=design.policy.attention.unit().comparator_bits,
        )
        amounts_of = logic_by_component(logic)
        for buffer, (bram36, uram) in zip(buffers, blocks_of_buffers, strict=True):
            amounts_of.setdefault(buffer.name, {}).update(bram36=bram36, uram=uram)
        return Resources(dict(sorted(amounts_of.items())))

    def idle_power(self, design: AnyDesign, used: Resources) -> Iterable[IdlePower]:
        """The clock of every DSP slice, RAM block and LUT in use, busy or not."""
        clock_mhz = design.board.fabric_clock_mhz
        # Label, resource, end of the constant's name, and amount that the constant stands for.
        for label, resource, suffix, counted_in in (
            ("DSP", "dsp", "dsp", 1),
            ("BRAM", "bram36", "bram", 1),
            ("URAM", "uram", "uram", 1),
            ("LUT", "lut", "klut", 1000),
        ):
            field = f"clock_uw_per_mhz_{suffix}"
            uw_per_mhz: Constant | None = getattr(design.energy, field)
            if uw_per_mhz is None:
                raise InputError(f"$.energy.{field}", "is missing", "add it")
            watts_per_uw_per_mhz = used.totals.get(resource, 0) / counted_in * clock_mhz * 1e-6
            yield IdlePower(
                component=f"clocked {label}",
                name=field,
                constant=uw_per_mhz,
                amount=watts_per_uw_per_mhz,
            )

    def published_clock_mhz(self, design: AnyDesign, used: Resources) -> float:
        """Fastest clock, in MHz, that designs of such an occupancy have been published with."""
        counts = self.counts(design.board, used)
        pressure = max(
            counts[name].used / counts[name].available / limit
            for name, limit in CLOSURE_LIMITS.items()
            if counts[name].available
        )
        return next(clock for limit, clock in PLAUSIBLE_CLOCKS_MHZ if pressure <= limit)


# ------------------------------------------------------------------------- DSP slices and LUTs


class Logic(NamedTuple):
    """Everything in a design that takes logic: the inputs of the calibration.

    Attributes:
        array: Array of one core.
        lanes: Vector lanes of one core.
        cores: Number of cores.
        port_bits: Data bits of all ports to memory.
        ram_blocks: Block RAMs and UltraRAMs.
        dequantised: Weights carry scales of groups.
        exchange_bits: Data bits of one core's link to the others; 0 for none.
        dispatch_lut: LUTs of the dispatcher that serves all cores; 0 for none.
        operand_bits: Width of weights, K and V as stored.
        comparator_bits: Widths of all comparators of one core with which a policy chooses keys.
    """

    array: "Array"
    lanes: int
    cores: int
    port_bits: int
    ram_blocks: int
    dequantised: bool
    exchange_bits: int = 0
    dispatch_lut: float = 0.0
    operand_bits: int = 16
    comparator_bits: int = 0


def products_per_dsp(bits: int, other_bits: int) -> int:
    """Integer products that share a DSP slice; widths between those of the table are rounded up.

    >>> products_per_dsp(4, 4), products_per_dsp(8, 4), products_per_dsp(5, 8)
    (4, 2, 2)
    """
    narrow, wide = sorted([_tabled_bits(bits), _tabled_bits(other_bits)])
    return PRODUCTS_PER_DSP[narrow, wide]


def _tabled_bits(bits: int) -> int:
    """Width of :data:`PRODUCTS_PER_DSP` that holds an operand; its largest if none does."""
    if bits <= 4:
        return 4
    return 8 if bits <= 8 else 16


def operand_bits_of(arithmetic: str) -> tuple[int, int]:
    """Bits of both operands of an integer arithmetic.

    >>> operand_bits_of("int4x8"), operand_bits_of("int16")
    ((4, 8), (16, 16))
    """
    first, _, second = arithmetic.removeprefix("int").partition("x")
    return int(first), int(second or first)


def array_dsp(array: "Array", operand_bits: int = 16) -> int:
    """DSP48E2 slices of one array.

    Neighbouring columns share the activation, so that their products may share a slice; an odd
    column out gains nothing. Operands wider than the arithmetic are rounded to it.

    >>> from carsim.hardware.machine import Array
    >>> kinds = ("int4", "int4x8", "int8", "fp16")
    >>> [array_dsp(Array(rows=16, cols=15, arithmetic=kind)) for kind in kinds]
    [64, 128, 128, 720]
    """
    if array.arithmetic == "fp16":
        return FP16_DSP * array.macs_per_cycle
    weight_bits, activation_bits = operand_bits_of(array.arithmetic)
    products = products_per_dsp(min(weight_bits, operand_bits), activation_bits)
    slices_per_row = -(-array.cols // products)
    return array.rows * slices_per_row


def logic_by_component(logic: Logic) -> dict[str, dict[str, float]]:
    """DSP slices and LUTs of all cores and of what they share, by component; LUTs rounded up."""
    array = logic.array
    cores = logic.cores
    macs = cores * array.macs_per_cycle
    columns = cores * array.cols
    lanes = cores * logic.lanes
    dequantiser_dsp = 0
    dequantiser_lut = 0.0
    if logic.dequantised and array.arithmetic == "fp16":
        dequantiser_lut = macs * DEQUANTISER_FP16_LUT
    elif logic.dequantised:
        dequantiser_dsp = columns * DEQUANTISER_COLUMN_DSP
        dequantiser_lut = columns * DEQUANTISER_COLUMN_LUT
    dsp_of = {
        "arrays": cores * array_dsp(array, logic.operand_bits),
        "vector units": lanes * VECTOR_LANE_DSP,
        "dequantisers": dequantiser_dsp,
    }
    lut_of = {
        "arrays": macs * MAC_LUT[array.arithmetic],
        "vector units": lanes * VECTOR_LANE_LUT,
        "dequantisers": dequantiser_lut,
        "buffer addressing": logic.ram_blocks * RAM_BLOCK_LUT,
        "ports and DMA": logic.port_bits * PORT_BIT_LUT,
        "core exchange": cores * logic.exchange_bits * EXCHANGE_BIT_LUT,
        "dispatch": logic.dispatch_lut,
    }
    if logic.comparator_bits:
        lut_of[CHOICE] = cores * logic.comparator_bits * COMPARATOR_BIT_LUT
    shared_control_lut = CONTROL_SHARE * math.fsum(lut_of.values())
    lut_of["control"] = cores * CORE_CONTROL_LUT + shared_control_lut
    return {
        component: {"dsp": dsp_of.get(component, 0), "lut": math.ceil(lut)}
        for component, lut in lut_of.items()
    }


def _buffers(design: AnyDesign) -> list[Buffer]:
    """All on-chip buffers of a design, in the order in which they choose their kind of RAM."""
    machine = design.machine
    model = design.model
    cores = machine.cores
    drs = machine.drs

    def of_core(name: str, nbytes: int, elements: int, precision: Precision) -> Buffer:
        """A buffer of each core that delivers so many elements a cycle."""
        return Buffer(name, nbytes, width_bits=8 * precision.bytes_of(elements), copies=cores)

    # Wider roles read the port for more than one cycle: see Model.read_cycles.
    weights_per_cycle = _weights_per_cycle(machine.array)
    kv_elements_per_cycle = _weights_per_cycle(machine.attention_array)
    buffers = [
        of_core("weight buffers", machine.weight_buffer_bytes, weights_per_cycle, model.weights),
        of_core("KV buffers", machine.kv_buffer_bytes, kv_elements_per_cycle, model.kv),
        of_core(
            "activation buffers",
            machine.activation_buffer_bytes,
            machine.array.rows,
            model.activations,
        ),
    ]
    instructions = drs.index_register_bits * drs.instructions_per_sequence
    buffers.append(
        Buffer(
            "dispatch",
            nbytes=instructions * INSTRUCTION_BYTES,
            width_bits=8 * INSTRUCTION_BYTES,
            copies=1,
        )
    )
    unit = design.policy.attention.unit()
    if unit.buffer_bytes:
        buffers.append(
            Buffer(CHOICE, nbytes=unit.buffer_bytes, width_bits=unit.word_bits, copies=cores)
        )
    for name in machine.memories_in_use:
        ports = design.board.memories[name].ports
        buffers.append(
            Buffer(
                f"bursts of {name}",
                nbytes=2 * ports.burst_bytes,
                width_bits=ports.bits,
                copies=ports.count,
            )
        )
    return buffers


def _weights_per_cycle(array: "Array") -> int:
    """Weights (or elements of K and V) that the buffer of a core feeds to its array each cycle."""
    return array.macs_per_cycle if array.weight_load == "none" else array.cols

"""DSP slices and LUTs of a design's logic, calibrated on published designs.

Model: counts times constants, plus control in proportion. Most constants come from a component that
a publication lists on its own. Four were chosen so that totals come out: the fixed part of control
and its share on all of them, the floating-point multiply-accumulator on DFX, and its dequantiser on
Li et al.

Calibration (checked by a test against ``tests/data/published_fpga.csv``). LUTs of the eight designs
calibrated on - Hummingbird, Li et al. DATE 2025, FlightLLM, DFX and four sizes of AMD's DPU - come
out with a mean error of 11 % and a worst of 23 %. Two designs held out come out far too small: 74 %
too few for LlamaF (compiled from C++ by HLS, floating-point accumulation of every group), 49 % too
few for the apex unified engine (a general-purpose processor around its array). So read the LUTs as
those of a hand-written engine; a design compiled by HLS may take four times as many. DSP slices of
the six designs that name them come out with a mean error of 10 % and a worst of 42 % (too many, for
Li et al., who add in LUTs what is added in DSP slices here).

Simplifications: DSP slices run at the fabric clock (AMD's DPU doubles it); no sparsity logic; soft
memory controllers and the shell are taken off the board's figures instead of being counted here.
"""

import math
from dataclasses import dataclass

from carsim.design import Array

VECTOR_LANE_DSP = 7
"""DFX (arXiv 2209.10797): 39.15 % of 9024 slices, less 3 for each of 1024 FP16 MACs, 64 lanes."""

VECTOR_LANE_LUT = 1100
"""FlightLLM (arXiv 2401.03868), hardware utilisation: special function unit of 30k LUT and 201 DSP,
that is 28 lanes of :data:`VECTOR_LANE_DSP`."""

MAC_LUT = {"int4": 12.0, "int8": 11.5, "int16": 22.0, "fp16": 60.0}
"""LUTs per multiply-accumulate and cycle beside its DSP slices.

int8: slope from B512 to B4096 of AMD's DPU, 20,177 to 40,865 LUT over 256 to 2048 MACs (PG338 v1.2,
table 9). int16: vector unit of Hummingbird (arXiv 2507.03308), 2859 LUT for 128 INT24 MACs. fp16:
calibrated on DFX's total. int4: engineering estimate, as int8 with the carries of four packed
products mended in LUTs (arXiv 2203.11028).
"""

DEQUANTISER_FP16_LUT = 260.0
"""Per MAC that takes quantised weights as FP16: calibrated on Li et al. (arXiv 2502.10659), whose
128 FP16 MACs with W4 weights take 78k LUT in all."""

DEQUANTISER_COLUMN_DSP = 1
"""Integer arithmetic scales each group's sum instead, once per column (engineering estimate;
LlamaF, arXiv 2409.11424, spends 16 slices beyond its 512 MACs on two columns)."""

DEQUANTISER_COLUMN_LUT = 100.0
"""Engineering estimate, as above."""

PORT_BIT_LUT = 18.0
"""FlightLLM: interconnect of 150k LUT for 32 ports of 256 bits. (Hummingbird: 15, its memory
management unit takes 7670 LUT for 4 ports of 128 bits.)"""

RAM_BLOCK_LUT = 26.0
"""FlightLLM: buffers of 42k LUT for 816 block RAMs and 792 UltraRAMs."""

EXCHANGE_BIT_LUT = 3.0
"""Multiplexer and register per bit and core of the core-to-core network; engineering estimate."""

DRS_LUT = 500.0
"""Compare and discard of one instruction at a time; engineering estimate."""

DRS_BIT_LUT = 10.0
"""Per bit of Index and Mapping Registers: latch, scan and read-out; engineering estimate."""

CORE_CONTROL_LUT = 8000.0
"""Instruction fetch, address generation and sequencing of one core; calibrated."""

CONTROL_SHARE = 0.2
"""Control and routing logic as a share of all else; calibrated. (Published shares
include the fixed part: FlightLLM's controller 39 %, Hummingbird beyond its three units 42 %.)"""


@dataclass(frozen=True, slots=True)
class Logic:
    """What there is of everything.

    Attributes:
        array: Array of one core.
        lanes: Vector lanes of one core.
        cores: Number of cores.
        port_bits: Data bits of all ports to memory.
        ram_blocks: Block RAMs and UltraRAMs.
        dequantised: Weights carry scales of groups.
        exchange_bits: Data bits of one core's link to the others; 0 for none.
        drs_register_bits: Bits of the Index Register and the Mapping Registers; 0 for no DRS.
    """

    array: Array
    lanes: int
    cores: int
    port_bits: int
    ram_blocks: int
    dequantised: bool
    exchange_bits: int = 0
    drs_register_bits: int = 0


def array_dsp(array: Array) -> int:
    """DSP48E2 slices of one array.

    int16 takes a slice per MAC (27 x 18 multiplier and 48-bit accumulator, UG579) and fp16 three,
    one to multiply and two to add (DFX, arXiv 2209.10797). Two int8 products share a slice if they
    share an operand (WP486), as neighbouring columns share the activation; four int4 products share
    one likewise (arXiv 2203.11028). An odd column out gains nothing.

    >>> [array_dsp(Array(rows=16, cols=15, arithmetic=a)) for a in ("int4", "int8", "fp16")]
    [64, 128, 720]
    """
    if array.arithmetic == "fp16":
        return 3 * array.macs_per_cycle
    products_per_slice = {"int4": 4, "int8": 2, "int16": 1}[array.arithmetic]
    return array.rows * -(-array.cols // products_per_slice)


def dsp_by_component(logic: Logic) -> dict[str, int]:
    """DSP slices of all cores, by component."""
    integer = logic.array.arithmetic != "fp16"
    columns = logic.cores * logic.array.cols
    return {
        "arrays": logic.cores * array_dsp(logic.array),
        "vector units": logic.cores * logic.lanes * VECTOR_LANE_DSP,
        "dequantisers": columns * DEQUANTISER_COLUMN_DSP if logic.dequantised and integer else 0,
    }


def lut_by_component(logic: Logic) -> dict[str, int]:
    """LUTs of all cores and of what they share, by component, each rounded up."""
    macs = logic.cores * logic.array.macs_per_cycle
    arithmetic = logic.array.arithmetic
    dequantisers = 0.0
    if logic.dequantised:
        dequantisers = (
            macs * DEQUANTISER_FP16_LUT
            if arithmetic == "fp16"
            else logic.cores * logic.array.cols * DEQUANTISER_COLUMN_LUT
        )
    drs = DRS_LUT + logic.drs_register_bits * DRS_BIT_LUT if logic.drs_register_bits else 0.0
    parts = {
        "arrays": macs * MAC_LUT[arithmetic],
        "vector units": logic.cores * logic.lanes * VECTOR_LANE_LUT,
        "dequantisers": dequantisers,
        "buffer addressing": logic.ram_blocks * RAM_BLOCK_LUT,
        "ports and DMA": logic.port_bits * PORT_BIT_LUT,
        "core exchange": logic.cores * logic.exchange_bits * EXCHANGE_BIT_LUT,
        "DRS": drs,
    }
    control = logic.cores * CORE_CONTROL_LUT + CONTROL_SHARE * sum(parts.values())
    return {name: math.ceil(count) for name, count in (*parts.items(), ("control", control))}

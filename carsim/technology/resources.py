"""FPGA resources of a design, by component, and the clock that their occupancy makes plausible.

Model: DSP slices and LUTs from :mod:`carsim.technology.logic`, block RAM and UltraRAM from
:mod:`carsim.technology.onchip_ram`. The buffers of a core must feed its array: an array whose next
tile
enters behind the current one (``weight_load: none``) reads ``rows * cols`` weights (or elements of
K and V) per cycle, one that is loaded row by row only ``cols``; the activation buffer delivers
``rows`` activations, which all columns share. Every port to memory has room for two of its longest
bursts.

Clock: published designs within the limits that FINN's platform table (Xilinx/finn,
``util/platforms.py``) gives for timing closure - 70 % of the LUTs, 80 % of all else - reach up to
300 MHz (Li et al., arXiv 2502.10659, 67 % of a KV260's LUTs); an engine at half of these limits 333
MHz (apex unified engine, 36 % of a KU5P's LUTs); beyond them 225 MHz (FlightLLM, arXiv 2401.03868,
82.5 % of a U280's UltraRAM). A faster clock earns a warning, not a misfit: place and route decides.

The calibration error of DSP and LUT is stated in :mod:`carsim.technology.logic`. RAM is geometry,
not
calibrated: publications do not list the width and depth of each buffer.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from carsim.design import Array, Board, Design, Drs, Precision
from carsim.technology.capacity import memories_in_use
from carsim.technology.logic import Logic, dsp_by_component, lut_by_component
from carsim.technology.onchip_ram import Buffer, place

CLOSURE_LIMITS = {"lut": 0.7, "dsp": 0.8, "bram36": 0.8, "uram": 0.8}
"""Largest share of each resource with which timing closes (FINN's platform table)."""

PLAUSIBLE_CLOCKS_MHZ = ((0.52, 333.0), (1.0, 300.0))
"""Clock up to a given fraction of the closure limits; sources in the module's docstring."""

CROWDED_CLOCK_MHZ = 225.0
"""Clock beyond the closure limits; source in the module's docstring."""

INSTRUCTION_BYTES = 16
"""One precompiled instruction; engineering estimate (addresses, lengths and an opcode)."""


@dataclass(frozen=True, slots=True)
class Usage:
    """DSP slices, block RAMs of 36 kbit, UltraRAMs and LUTs of one component."""

    dsp: int = 0
    bram36: int = 0
    uram: int = 0
    lut: int = 0


@dataclass(frozen=True, slots=True)
class Resources:
    """Totals, and the components that they are the sum of."""

    dsp: int
    bram36: int
    uram: int
    lut: int
    by_component: Mapping[str, Usage]


def resources(design: Design) -> Resources:
    """FPGA resources that a design takes; whether the board has them is checked elsewhere."""
    board, machine = design.board, design.machine
    buffers = _buffers(design)
    placed = place(buffers, board.bram36, board.uram)
    logic = Logic(
        array=machine.array,
        lanes=machine.vector.lanes,
        cores=machine.cores,
        port_bits=sum(
            board.memories[name].ports.count * board.memories[name].ports.bits
            for name in memories_in_use(design)
        ),
        ram_blocks=sum(bram36 + uram for bram36, uram in placed),
        dequantised=design.model.weights.group is not None,
        exchange_bits=8 * machine.exchange_bytes_per_cycle if machine.cores > 1 else 0,
        drs_register_bits=drs_register_bits(machine.drs, machine.cores),
    )
    dsp, lut = dsp_by_component(logic), lut_by_component(logic)
    ram = {buffer.name: counts for buffer, counts in zip(buffers, placed, strict=True)}
    parts = {
        name: Usage(dsp.get(name, 0), *ram.get(name, (0, 0)), lut.get(name, 0))
        for name in sorted({*dsp, *lut, *ram})
    }
    return Resources(
        dsp=sum(part.dsp for part in parts.values()),
        bram36=sum(part.bram36 for part in parts.values()),
        uram=sum(part.uram for part in parts.values()),
        lut=sum(part.lut for part in parts.values()),
        by_component=parts,
    )


def drs_register_bits(drs: Drs, cores: int) -> int:
    """Bits of the Index Register and of one Mapping Register per sequence (FastCar section 5).

    >>> drs_register_bits(Drs(), cores=4)
    96
    """
    return drs.index_register_bits * (1 + (cores - 1).bit_length())


def shares(used: Resources, board: Board) -> dict[str, float]:
    """Share of each resource of the board that is taken; resources that it lacks are left out."""
    pairs = {
        "dsp": (used.dsp, board.dsp),
        "bram36": (used.bram36, board.bram36),
        "uram": (used.uram, board.uram),
        "lut": (used.lut, board.lut),
    }
    return {name: need / have for name, (need, have) in pairs.items() if have}


def plausible_clock_mhz(used: Resources, board: Board) -> float:
    """Fastest clock, in MHz, that designs of such an occupancy have been published with."""
    pressure = max(share / CLOSURE_LIMITS[name] for name, share in shares(used, board).items())
    for limit, clock_mhz in PLAUSIBLE_CLOCKS_MHZ:
        if pressure <= limit:
            return clock_mhz
    return CROWDED_CLOCK_MHZ


def _buffers(design: Design) -> list[Buffer]:
    machine, model, memories = design.machine, design.model, design.board.memories
    cores, array, drs = machine.cores, machine.array, machine.drs
    buffers = [
        Buffer(
            "weight buffers", machine.weight_buffer_bytes, _feed_bits(array, model.weights), cores
        ),
        Buffer("KV buffers", machine.kv_buffer_bytes, _feed_bits(array, model.kv), cores),
        Buffer(
            "activation buffers",
            machine.activation_buffer_bytes,
            _bits(array.rows, model.activations),
            cores,
        ),
        Buffer(
            "DRS",
            drs.index_register_bits * drs.instructions_per_sequence * INSTRUCTION_BYTES,
            8 * INSTRUCTION_BYTES,
            1,
        ),
    ]
    for name in memories_in_use(design):
        ports = memories[name].ports
        buffers.append(Buffer(f"bursts of {name}", 2 * ports.burst_bytes, ports.bits, ports.count))
    return buffers


def _feed_bits(array: Array, precision: Precision) -> int:
    per_cycle = array.macs_per_cycle if array.weight_load == "none" else array.cols
    return _bits(per_cycle, precision)


def _bits(elements: int, precision: Precision) -> int:
    return 8 * precision.bytes_of(elements)

"""Versal adaptive SoCs: DSP58 slices, AI Engines, and the logic of the FPGAs before them.

Model: what :mod:`carsim.hardware.technology.fpga` says of LUTs, RAM and clock holds here too - RAM
blocks have the same shapes (AM007), and no published decoder on a Versal lists its logic by
component. Arrays stand in one of two places (``arrays_in``):

* ``dsp58``: a slice adds three 8-bit products (AM004: dot product), packs four 4-bit ones as a
  DSP48E2 does (arXiv 2203.11028), holds one of 16 bits, or multiplies and accumulates in floating
  point by itself (DSPFP32).
* ``ai_engines``: tiles of an array of VLIW processors with a clock of their own. Decoding reads
  every weight once, and a tile is fed by two streams of 32 bits a cycle (UG1603), so that a tile
  starts ``8 / bytes per weight`` products a cycle for one token, however many it could start with
  operands at hand (128 of 8 bits, AM009). The array's products per fabric cycle over that rate and
  the ratio of the clocks are the tiles that it takes.

Checked: nothing. No published decoder of a transformer on a VCK190, VCK5000 or V80 was found whose
design is known: neither speed, nor resources, nor power of this file are held against a board.

Simplifications: tiles of the first generation, also where ``ai_engines`` counts AIE-ML ones; their
local memory is no buffer of the design; prefill and batches could reuse weights in a tile and do
not here; the hard controllers, the NoC and its masters take no logic; programs of tiles load free.
"""

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from carsim.base.constant import Constant
from carsim.base.section import FieldError
from carsim.base.sizes import ClockMhz, NonNegativeInt
from carsim.hardware.technology.base import (
    AnyBoard,
    AnyDesign,
    IdlePower,
    PublishedKind,
    Resource,
    Resources,
)
from carsim.hardware.technology.constant import CONSTANTS
from carsim.hardware.technology.fpga import Fpga, operand_bits_of

if TYPE_CHECKING:
    from carsim.hardware.machine import Array

PRODUCTS_PER_DSP58 = {"int4": 4, "int4x8": 3, "int8": 3, "int16": 1, "fp16": 1}
"""By arithmetic; three 8-bit products are of neighbouring rows, four 4-bit ones of columns."""

STREAM_BYTES = 8
"""Bytes of weights that reach an AI Engine in one of its cycles: two streams of 32 bits."""


class Versal(Fpga):
    """A Versal device; the board counts LUTs, slices and RAM, the section AI Engines."""

    kind: Literal["versal"] = "versal"  # type: ignore[assignment]
    ai_engines: NonNegativeInt = Field(0, description="tiles of the device; 0 for none")
    ai_engine_mhz: ClockMhz = Field(1000.0, description="clock of the tiles")
    arrays_in: Literal["dsp58", "ai_engines"] = Field(
        "dsp58", description="where the multipliers of machine.array stand"
    )
    clock_uw_per_mhz_ai_engine: Constant = CONSTANTS["clock_uw_per_mhz_ai_engine"]

    published_ratios: ClassVar[Mapping[str, tuple[float, float]]] = {}  # none is published
    resource_kinds: ClassVar[Mapping[str, Resource]] = {
        **Fpga.resource_kinds,
        "dsp": Resource("DSP58 slices", "DSP", Fpga.resource_kinds["dsp"].cure),
        "ai_engines": Resource("AI Engines", "AIE", "shrink machine.array or its cores"),
    }

    def published_kind(self, control: str | None) -> PublishedKind:
        """Published FPGA systems, none of which is a Versal."""
        return PublishedKind("fpga", unpublished="a Versal", without_forwards="an FPGA")

    @property
    def energy_preset(self) -> str:
        """Versal devices are of 7 nm."""
        return "fpga_7nm"

    def check_board(self, board: AnyBoard) -> None:
        """The counts of an FPGA, and tiles where the arrays are to stand in them."""
        super().check_board(board)
        if self.arrays_in == "ai_engines" and not self.ai_engines:
            cure = "write dsp58, or how many technology.ai_engines there are"
            raise FieldError("technology.arrays_in", "'ai_engines' on a device that has none", cure)

    def choices(self, board: AnyBoard) -> Iterable[tuple[str, Mapping[str, object]]]:
        """Arrays in slices, or in AI Engines."""
        yield "", {}
        if self.ai_engines:
            yield "arrays in AI Engines", {"board.technology.arrays_in": "ai_engines"}

    def available(self, board: AnyBoard) -> Mapping[str, float]:
        """The board's counts and the tiles."""
        return {**super().available(board), "ai_engines": self.ai_engines}

    def resources(self, design: AnyDesign) -> Resources:
        """Amounts of an FPGA, with the arrays in DSP58 slices or in tiles."""
        of_fpga = super().resources(design).by_component
        amounts_of = {component: dict(amounts) for component, amounts in of_fpga.items()}
        array = design.machine.array
        cores = design.machine.cores
        if self.arrays_in == "ai_engines":
            tiles = ai_engines_of(array, design.board.fabric_clock_mhz, self.ai_engine_mhz)
            amounts_of["arrays"] = {"dsp": 0, "lut": 0, "ai_engines": cores * tiles}
        else:
            amounts_of["arrays"]["dsp"] = cores * array_dsp58(array)
            amounts_of["arrays"]["ai_engines"] = 0
        return Resources(amounts_of)

    def warnings(self, design: AnyDesign, used: Resources) -> Iterable[str]:
        """Lines on an FPGA, and on arithmetic that the tiles lack."""
        yield from super().warnings(design, used)
        if self.arrays_in == "ai_engines" and design.machine.array.arithmetic == "fp16":
            yield "arrays: AI Engines have no 16-bit floating point; FP32 at its rate is assumed"

    def idle_power(self, design: AnyDesign, used: Resources) -> Iterable[IdlePower]:
        """The clock of slices, RAM and LUTs in use, and of the tiles."""
        yield from super().idle_power(design, used)
        watts = used.totals["ai_engines"] * self.ai_engine_mhz * 1e-6
        clock = self.clock_uw_per_mhz_ai_engine
        yield IdlePower("clocked AI Engines", "clock_uw_per_mhz_ai_engine", clock, watts)


def array_dsp58(array: "Array") -> int:
    """DSP58 slices of one array.

    >>> from carsim.hardware.machine import Array
    >>> kinds = ("int4", "int8", "int16", "fp16")
    >>> [array_dsp58(Array(rows=16, cols=15, arithmetic=kind)) for kind in kinds]
    [64, 90, 240, 240]
    """
    products = PRODUCTS_PER_DSP58[array.arithmetic]
    if products == PRODUCTS_PER_DSP58["int8"]:
        return -(-array.rows // products) * array.cols
    return array.rows * -(-array.cols // products)


def ai_engines_of(array: "Array", fabric_mhz: float, ai_engine_mhz: float) -> int:
    """Tiles that start as many products of one token a second as the array does.

    >>> from carsim.hardware.machine import Array
    >>> ai_engines_of(Array(rows=128, cols=32, arithmetic="int8"), 250.0, 1250.0)
    103
    """
    # Tiles of the first generation multiply in 8, 16 and 32 bits, the latter also floating point.
    weight_bits = 32
    if array.arithmetic != "fp16":
        weight_bits = max(8, operand_bits_of(array.arithmetic)[0])
    products_per_cycle = 8 * STREAM_BYTES / weight_bits
    return math.ceil(array.macs_per_cycle * fabric_mhz / (products_per_cycle * ai_engine_mhz))

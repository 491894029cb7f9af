"""The board: logic, and the memories that :mod:`carsim.memory` describes."""

from pydantic import Field

from carsim.memory.section import Memory
from carsim.section import ClockMhz, NonNegativeFloat, NonNegativeInt, PositiveInt, Section


class Board(Section):
    """An FPGA board: what there is to build on."""

    name: str
    device: str
    fabric_clock_mhz: ClockMhz = Field(description="clock of the design's fabric")
    lut: PositiveInt
    dsp: PositiveInt
    bram36: PositiveInt = Field(description="block RAMs of 36 kbit")
    uram: NonNegativeInt = Field(description="UltraRAMs of 288 kbit")
    static_w: NonNegativeFloat = Field(description="device static power")
    host_w: NonNegativeFloat = Field(description="processing system, shell, fans, regulators")
    memories: dict[str, Memory] = Field(min_length=1)

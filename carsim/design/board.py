"""The board: logic, and the memories that :mod:`carsim.memory` describes."""

from typing import ClassVar

from pydantic import Field, SerializeAsAny, model_validator

from carsim.memory.section import Memory
from carsim.section import (
    ClockMhz,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    Section,
)
from carsim.technology import DefaultTechnology, TechnologySection


class Board(Section):
    """A board: what there is to build on."""

    UNTIMED: ClassVar[frozenset[str]] = frozenset(
        ["name", "device", "technology", "lut", "dsp", "bram36", "uram", "static_w", "host_w"]
    )
    """Fields on which no time depends; they decide what fits and what it costs."""

    name: str
    device: str
    fabric_clock_mhz: ClockMhz = Field(description="clock of the design's fabric")
    technology: SerializeAsAny[TechnologySection] = Field(
        DefaultTechnology(), description="what designs are built in"
    )
    lut: PositiveInt | None = Field(None, description="an FPGA needs it")
    dsp: PositiveInt | None = Field(None, description="an FPGA needs it")
    bram36: PositiveInt | None = Field(None, description="block RAMs of 36 kbit; an FPGA needs it")
    uram: NonNegativeInt | None = Field(None, description="UltraRAMs of 288 kbit; an FPGA needs it")
    static_w: NonNegativeFloat = Field(description="device static power")
    host_w: NonNegativeFloat = Field(description="processing system, shell, fans, regulators")
    memories: dict[str, Memory] = Field(min_length=1)

    @model_validator(mode="after")
    def _has_what_its_technology_needs(self) -> "Board":
        self.technology.check_board(self)
        return self

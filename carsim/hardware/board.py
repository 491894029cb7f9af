"""The board: logic, and the memories that :mod:`carsim.hardware.memory` describes."""

from typing import ClassVar

from pydantic import Field, model_validator

from carsim.base.section import FieldError, GrownSection
from carsim.base.sizes import ClockMhz, NonNegativeFloat, NonNegativeInt, PositiveInt
from carsim.hardware.machine import Placement
from carsim.hardware.memory.section import Memory
from carsim.hardware.technology import DefaultTechnology, TechnologySection
from carsim.hardware.technology.price import BoardPrice


class Board(GrownSection):
    """A board: what there is to build on."""

    later: ClassVar[frozenset[str]] = frozenset({"placement", "device", "price"})

    UNTIMED: ClassVar[frozenset[str]] = frozenset(
        {"name", "device", "technology", "price", "static_w", "host_w"}
        | {"lut", "dsp", "bram36", "uram"}
    )
    """Fields on which no time depends; they decide what fits and what it costs."""

    name: str = Field(description="what outputs call it")
    device: str | None = Field(
        None, description="part number of the device, or a few words; a chip may leave it out"
    )
    fabric_clock_mhz: ClockMhz = Field(description="clock of the design's fabric")
    technology: TechnologySection = Field(
        DefaultTechnology(), description="what designs are built in"
    )
    lut: PositiveInt | None = Field(None, description="an FPGA needs it")
    dsp: PositiveInt | None = Field(None, description="an FPGA needs it")
    bram36: PositiveInt | None = Field(None, description="block RAMs of 36 kbit; an FPGA needs it")
    uram: NonNegativeInt | None = Field(None, description="UltraRAMs of 288 kbit; an FPGA needs it")
    static_w: NonNegativeFloat = Field(description="power of the idle device; changes joules alone")
    host_w: NonNegativeFloat = Field(
        description="processing system, shell, fans, regulators; changes joules alone"
    )
    price: BoardPrice | None = Field(
        None, description="US dollars of a board in a shop that the table of them lacks"
    )
    placement: Placement | None = Field(
        None, description="the memory of each role that machine.placement leaves out"
    )
    memories: dict[str, Memory] = Field(
        min_length=1, description="external memories by name, such as ps_ddr"
    )

    @model_validator(mode="after")
    def _has_what_its_technology_needs(self) -> "Board":
        """Refuse a board that lacks fields of its technology, or a device."""
        self.technology.check_board(self)
        if not self.part:
            raise FieldError("device", "is missing", "add it: the part number, or a few words")
        return self

    @property
    def part(self) -> str:
        """The device in words."""
        return self.device or self.technology.text

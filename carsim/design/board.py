"""The board: logic, memories and the ports between fabric and memory."""

from typing import ClassVar

from pydantic import Field, SerializeAsAny, model_validator

from carsim.section import (
    ClockMhz,
    FieldError,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Section,
)
from carsim.technology import DefaultTechnology, TechnologySection
from carsim.units import GIB, MIB


class Ports(Section):
    """Ports between the fabric and one memory: often the real limit of its bandwidth."""

    count: PositiveInt = Field(description="ports that carry this memory's traffic")
    bits: PositiveInt = Field(description="data width of one port")
    clock_mhz: ClockMhz = Field(description="clock of the ports")
    max_burst_bytes: PositiveInt = Field(4096, description="longest burst; AXI4 stops at 4 KiB")
    outstanding: PositiveInt = Field(16, description="bursts in flight per port")
    burst_overhead_beats: NonNegativeInt = Field(
        1, description="beats lost per burst to address and turnaround"
    )

    @model_validator(mode="after")
    def _a_burst_has_a_beat(self) -> "Ports":
        if 8 * self.max_burst_bytes < self.bits:
            raise FieldError(
                "max_burst_bytes",
                f"{self.max_burst_bytes} bytes are less than one beat of {self.bits} bits",
                "enlarge it",
            )
        return self


class Memory(Section):
    """One external memory. Timings come from the table of its standard (``carsim dram --list``)."""

    standard: str = Field(description="name of the standard, such as DDR4-2133")
    channels: PositiveInt = 1
    channel_bits: PositiveInt = Field(64, description="data bits of one channel, without ECC")
    capacity_gib: PositiveFloat
    reserve_mib: NonNegativeFloat = Field(
        0.0, description="kept for the operating system, program and activations"
    )
    density_gbit: PositiveInt | None = Field(
        None, description="density of one device, which sets tRFC; the standard's default if absent"
    )
    interconnect_ns: NonNegativeFloat = Field(
        description="latency of controller and interconnect on top of the device's own"
    )
    ports: Ports

    @property
    def capacity_bytes(self) -> int:
        """Bytes of the module."""
        return round(self.capacity_gib * GIB)

    @property
    def usable_bytes(self) -> int:
        """Bytes left to the design once the reserve is taken off."""
        return self.capacity_bytes - round(self.reserve_mib * MIB)


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

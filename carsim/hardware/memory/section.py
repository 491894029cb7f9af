"""The ``memories`` of a board, as users write them: standard, channels, capacity and ports."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from carsim.base.errors import InputError
from carsim.base.registry import OneOf
from carsim.base.section import FieldError, GrownSection, Section
from carsim.base.sizes import ClockMhz, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from carsim.base.units import GIB, MIB
from carsim.hardware.memory.base import MemoryStandard
from carsim.hardware.memory.family import MemoryFamily
from carsim.hardware.memory.striping import Striping
from carsim.hardware.memory.table import STANDARDS, standard

AXI_BITS = tuple(8 << step for step in range(8))
"""Data widths of an AXI port (AMBA AXI, IHI 0022)."""

AXI_BEATS = {"axi3": 16, "axi4": 256}
"""Beats of the longest burst, by protocol."""

AXI_BOUNDARY_BYTES = 4096
"""No burst may cross a multiple of it, so none is longer."""

UNLIMITED = 1 << 20
"""Requests that a channel takes from ports: the addresses of bursts wait outside its queue."""

MOST_CLOCKS = 1000
"""Of any timing: a memory that waits longer is none that carsim's model of one was checked for."""

Efficiency = Annotated[float, Field(ge=0.01, le=1, allow_inf_nan=False)]
Clocks = Annotated[int, Field(gt=0, le=MOST_CLOCKS)]


class Ports(Section):
    """Ports between the fabric and one memory: often the real limit of its bandwidth.

    On the way to the memory, bursts may be cut (``memory_burst_bytes``): the fabric's side still
    loses its beats per whole burst, and several streams reach the memory in the shorter pieces. On
    a Zynq UltraScale+, HP1 and HP2 share a port of the controller (``ports_per_controller``).
    """

    count: PositiveInt = Field(description="ports that carry this memory's traffic")
    bits: PositiveInt = Field(description="data width of one port: 8, 16, ... 1024")
    clock_mhz: ClockMhz = Field(
        description="clock of the ports: with a soft DDR4 controller, an eighth of the data rate"
    )
    protocol: Literal["axi3", "axi4"] = Field(
        "axi4", description="AXI3 bursts have at most 16 beats, AXI4's 256; both at most 4 KiB"
    )
    max_burst_bytes: PositiveInt | None = Field(
        None, description="longest burst; the protocol's longest if absent"
    )
    memory_burst_bytes: PositiveInt | None = Field(
        None, description="pieces in which bursts reach the memory; whole bursts if absent"
    )
    outstanding: PositiveInt = Field(16, description="bursts in flight per port")
    burst_overhead_beats: NonNegativeInt = Field(
        1, description="beats lost per burst to address and turnaround"
    )
    controller_gbps: PositiveFloat | None = Field(
        None, description="what one port of the memory controller carries; no limit if absent"
    )
    ports_per_controller: PositiveInt = Field(
        1, description="ports that share the most loaded port of the memory controller"
    )

    @property
    def longest_burst_bytes(self) -> int:
        """Longest burst that the protocol allows at this width."""
        return min(AXI_BOUNDARY_BYTES, AXI_BEATS[self.protocol] * self.bits // 8)

    @property
    def burst_bytes(self) -> int:
        """Longest burst that these ports use."""
        return self.max_burst_bytes or self.longest_burst_bytes

    @property
    def piece_bytes(self) -> int:
        """Longest run of one stream that reaches the memory between those of others."""
        return min(self.burst_bytes, self.memory_burst_bytes or self.burst_bytes)

    @model_validator(mode="after")
    def _is_a_port(self) -> "Ports":
        """Refuse a width that AXI does not have, and bursts that are too short or too long."""
        if self.bits not in AXI_BITS:
            choice = ", ".join(map(str, AXI_BITS))
            raise FieldError("bits", f"{self.bits} is no width of AXI", f"choose one of {choice}")
        beat_bytes = self.bits // 8
        longest_bytes = self.longest_burst_bytes
        if not beat_bytes <= self.burst_bytes <= longest_bytes:
            problem = f"{self.burst_bytes} bytes are no {self.protocol} burst of {self.bits} bits"
            raise FieldError("max_burst_bytes", problem, f"give {beat_bytes} to {longest_bytes}")
        return self


class Timings(Section):
    """Timings of one part, or as a controller sets them, in place of those of the standard's row.

    Names and units are those of datasheets (:class:`~carsim.hardware.memory.base.MemoryStandard`);
    what is left out stays. A data rate without a clock brings its own.
    """

    data_rate_mtps: Annotated[int, Field(gt=0, le=50_000)] | None = None
    tck_ps: Annotated[int, Field(gt=0, le=100_000)] | None = None
    burst_length: Annotated[int, Field(gt=0, le=256)] | None = None
    bank_groups: Annotated[int, Field(gt=0, le=64)] | None = None
    banks_per_group: Annotated[int, Field(gt=0, le=64)] | None = None
    columns: Annotated[int, Field(gt=0, le=65_536)] | None = None
    cl_nck: Clocks | None = None
    cwl_nck: Clocks | None = None
    trcd_nck: Clocks | None = None
    trp_nck: Clocks | None = None
    tras_nck: Clocks | None = None
    tccd_s_nck: Clocks | None = None
    tccd_l_nck: Clocks | None = None
    trrd_s_nck: Clocks | None = None
    trrd_l_nck: Clocks | None = None
    tfaw_nck: Clocks | None = None
    twr_nck: Clocks | None = None
    twtr_s_nck: Clocks | None = None
    twtr_l_nck: Clocks | None = None
    trtp_nck: Clocks | None = None
    tdqsck_nck: Annotated[int, Field(ge=0, le=MOST_CLOCKS)] | None = None
    trefi_ns: Annotated[int, Field(gt=0, le=50_000)] | None = None
    trfc_ns: Annotated[int, Field(gt=0, le=25_000)] | None = Field(
        None, description="length of an all-bank refresh"
    )


class Memory(GrownSection):
    """One external memory, with timings of its standard."""

    later: ClassVar[frozenset[str]] = frozenset(
        {"timings", "other_gbps", "published_efficiency_low", "published_efficiency_high"}
    )

    standard: Annotated[str, OneOf(STANDARDS)] = Field(description="name, such as DDR4-2133")
    timings: Timings | None = Field(None, description="of this part, instead of the standard's")
    channels: Annotated[int, Field(gt=0, le=4096)] = Field(1, description="independent channels")
    channel_bits: PositiveInt = Field(
        default_factory=lambda known: standard(known["standard"]).channel_bits,
        description="data bits of one channel, without ECC; as usual for the standard if absent",
    )
    mapping: Literal["rcb", "bgi"] | None = Field(
        None, description="address mapping; the standard's usual if absent"
    )
    interleave_bytes: PositiveInt | None = Field(
        None,
        description="contiguous bytes on a channel before the next one; if absent, the pieces in "
        "which a burst of the ports reaches the memory",
    )
    capacity_gib: PositiveFloat = Field(description="all of it, what is reserved included")
    reserve_mib: NonNegativeFloat = Field(
        0.0, description="kept for the operating system, program and activations"
    )
    density_gbit: PositiveInt | None = Field(
        None, description="density of one device, which sets tRFC; the standard's default if absent"
    )
    interconnect_ns: NonNegativeFloat = Field(
        description="latency of controller and interconnect on top of the device's own; 56 to 150 "
        "in shipped boards"
    )
    efficiency_low: Efficiency | None = Field(
        None,
        description="least share of the peak that long reads were measured to sustain on this "
        "board; replaces the model's value: times are at the middle of the two ends, which bracket "
        "them; one end alone stands for both",
    )
    efficiency_high: Efficiency | None = Field(
        None, description="largest share of the peak that was measured on this board"
    )
    published_efficiency_low: Efficiency | None = Field(
        None,
        description="least share of the peak on other boards with such a memory, as published; "
        "times stay at the model's value, and have an interval around it",
    )
    published_efficiency_high: Efficiency | None = Field(
        None, description="largest share of the peak on other boards, as published"
    )
    other_gbps: NonNegativeFloat = Field(
        0.0,
        description="traffic of others, in GB/s: 0.5 to 1 of processors and host on a PS DDR; 0: "
        "none on a memory of the fabric, and measured efficiencies include it",
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

    @property
    def peak_gbps(self) -> float:
        """Rate of all channels, in GB/s."""
        return self.part.data_rate_mtps * self.channels * self.channel_bits / 8000

    @property
    def family(self) -> MemoryFamily:
        """Family of the standard.

        Raises:
            InputError: No such standard.
        """
        return standard(self.standard).family

    @property
    def striping(self) -> Striping:
        """The channels as its ports use them: what a port has in flight is all that holds it up."""
        ports = self.ports
        return Striping(
            channels=self.channels,
            interleave_bytes=self.interleave_bytes or ports.piece_bytes,
            requesters=ports.count,
            window_bytes=ports.outstanding * ports.burst_bytes,
            queue_requests=UNLIMITED,
        )

    @property
    def part(self) -> MemoryStandard:
        """The row of the standard, at this density and with these timings.

        Raises:
            InputError: No such row or density, or timings that contradict each other.
        """
        row = standard(self.standard, self.density_gbit)
        if self.timings is None:
            return row
        replaced_timings = self.timings.model_dump(exclude_none=True)
        return row.with_timings(replaced_timings) if replaced_timings else row

    @model_validator(mode="after")
    def _timings_agree(self) -> "Memory":
        """Refuse timings that no memory of the family can have."""
        if self.timings is not None:
            try:
                _ = self.part
            except InputError as error:
                is_beside = error.place == "density_gbit"
                field = error.place if is_beside else f"timings.{error.place}"
                raise FieldError(field, error.problem, error.cure) from None
        return self

    @property
    def measured_efficiency(self) -> tuple[float, float] | None:
        """Least and largest share of the peak that were measured on this board; None if none."""
        ends = [end for end in (self.efficiency_low, self.efficiency_high) if end is not None]
        return (ends[0], ends[-1]) if ends else None

    @property
    def has_bandwidth_interval(self) -> bool:
        """Bandwidths were measured, on this board or on others with such a memory."""
        return self.measured_efficiency is not None or self.published_efficiency_low is not None

    @model_validator(mode="after")
    def _an_interval_has_two_ends(self) -> "Memory":
        """Refuse intervals of the bandwidth without both ends, or with ends exchanged."""
        if self.measured_efficiency is not None:
            low, high = self.measured_efficiency
            if low > high:
                problem = f"{low} to {high} is no interval"
                cure = "give the lower end first, or one end alone for one measurement"
                raise FieldError("efficiency_low", problem, cure)
        least = self.published_efficiency_low
        most = self.published_efficiency_high
        one_end_is_missing = (least is None) != (most is None)
        if one_end_is_missing or (least or 0) > (most or 0):
            problem = f"{least} to {most} is no interval"
            cure = "give both ends, the lower one first"
            raise FieldError("published_efficiency_low", problem, cure)
        return self

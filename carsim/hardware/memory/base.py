"""Memory standards: timings of one speed bin of a family.

A *row* of ``standards.csv`` is one speed bin in the parameters of its datasheet and in their units:
``nck`` are clocks of the DRAM, rounded as the standard prescribes; ``source`` says where the row is
from. A parameter that a standard lacks carries the value that makes it vanish: one bank group with
equal S and L timings for DDR3 and LPDDR4, no tDQSCK where it is within a clock. The clock is that
of the commands, CK: data may follow a faster one (LPDDR5, GDDR6, HBM3).

:class:`~carsim.hardware.memory.family.MemoryFamily` has what the bins of a family have in common.

Simplifications: one rank; tRCD is the same for reads and writes (HBM2's is shorter for writes);
one precharge time (LPDDR4's per-bank value); all-bank refresh, where controllers of LPDDR5, GDDR6
and HBM may refresh bank by bank; writes are spaced as reads are (DDR5's are further apart).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

from carsim.base.errors import InputError
from carsim.hardware.memory.family import MemoryFamily

MAPPINGS = ("rcb", "bgi")
"""Address mappings. From high to low bits, ``rcb``: row, column, bank, bank group; ``bgi``: row,
bank, column, bank group (bank groups interleaved)."""

QUEUE_REQUESTS = 32
"""Entries of a controller's queue, in each direction."""

PROCESSOR_REQUEST_BYTES = 64

CLOCK_TOLERANCE = 0.005
"""Share by which data rate and clock may disagree: datasheets round both."""


@dataclass(frozen=True)
class MemoryStandard:
    """One speed bin of a family.

    Attributes:
        family: The family.
        name: Name of the row, such as ``DDR4-2400`` (devices of 4 or 8 bits) or ``DDR4-2400-x16``.
        data_rate_mtps: Transfers per second and pin, in millions; the peak bandwidth is taken from
            this nominal rate.
        tck_ps: Clock period.
        burst_length: Transfers of one burst.
        bank_groups: Bank groups; 1 where the standard has none.
        banks_per_group: Banks in each.
        channel_bits: Width of the data bus that one controller usually drives.
        device_bits: Width of one device, or of one (pseudo-)channel where a device has several.
        columns: Columns of a row, each of ``device_bits``.
        cl_nck: Read latency (CL; LPDDR4: RL).
        cwl_nck: Write latency (CWL; LPDDR4: WL).
        trcd_nck: Activate to column command.
        trp_nck: Precharge to activate.
        tras_nck: Activate to precharge.
        tccd_s_nck: Column to column command, other bank group.
        tccd_l_nck: Column to column command, one bank group.
        trrd_s_nck: Activate to activate, other bank group.
        trrd_l_nck: Activate to activate, one bank group.
        tfaw_nck: Window of at most four activates.
        twr_nck: Last write data to precharge.
        twtr_s_nck: Last write data to read command, other bank group.
        twtr_l_nck: Last write data to read command, one bank group.
        trtp_nck: Read to precharge.
        tdqsck_nck: Clock to data strobe, where it exceeds a clock.
        trefi_ns: Interval between all-bank refreshes.
        density_gbit: Density of a device (LPDDR4, HBM2: of a channel) in Gbit.
        trfc_ns_by_gbit: Length of an all-bank refresh, for each density there is.
        source: Where the row is from.
    """

    family: MemoryFamily
    name: str
    data_rate_mtps: int
    tck_ps: int
    burst_length: int
    bank_groups: int
    banks_per_group: int
    channel_bits: int
    device_bits: int
    columns: int
    cl_nck: int
    cwl_nck: int
    trcd_nck: int
    trp_nck: int
    tras_nck: int
    tccd_s_nck: int
    tccd_l_nck: int
    trrd_s_nck: int
    trrd_l_nck: int
    tfaw_nck: int
    twr_nck: int
    twtr_s_nck: int
    twtr_l_nck: int
    trtp_nck: int
    tdqsck_nck: int
    trefi_ns: int
    density_gbit: int
    trfc_ns_by_gbit: tuple[tuple[int, int], ...]
    source: str

    def __post_init__(self) -> None:
        """Refuse a family that is a mere name.

        Raises:
            InputError: The family is no :class:`MemoryFamily`.
        """
        if not isinstance(self.family, MemoryFamily):
            standard = f"DRAM standard {self.name}"
            cure = "give a MemoryFamily, such as STANDARDS['DDR4-2400'].family"
            raise InputError(standard, f"its family is {self.family!r}", cure)

    @cached_property
    def banks(self) -> int:
        """Banks of the channel."""
        return self.bank_groups * self.banks_per_group

    @cached_property
    def burst_nck(self) -> int:
        """Clocks that a burst holds the data bus."""
        return self.burst_length // self.family.transfers_per_clock

    @cached_property
    def row_bursts(self) -> int:
        """Bursts in one row of one bank, however many devices make up the channel."""
        return self.columns // self.burst_length

    @property
    def trfc_ns(self) -> int:
        """Length of an all-bank refresh at this density."""
        return dict(self.trfc_ns_by_gbit)[self.density_gbit]

    @property
    def trfc_nck(self) -> int:
        """Length of an all-bank refresh in clocks, rounded up."""
        return -(-self.trfc_ns * 1000 // self.tck_ps)

    @property
    def trefi_nck(self) -> int:
        """Interval between refreshes in clocks, rounded down: an interval may not be exceeded."""
        return self.trefi_ns * 1000 // self.tck_ps

    def ns(self, clocks: float) -> float:
        """Clocks of this DRAM as nanoseconds."""
        return clocks * self.tck_ps / 1000

    def peak_gbps(self, channel_bits: int) -> float:
        """Peak bandwidth of one channel, in 1e9 bytes per second."""
        return self.data_rate_mtps * channel_bits / 8 / 1000

    def width(self, channel_bits: int | None = None) -> int:
        """Bits of a channel, which is made of whole devices; the usual width if left out.

        Raises:
            InputError: If the width is not a multiple of a device's.
        """
        bits = self.channel_bits if channel_bits is None else channel_bits
        if bits < 1 or bits % self.device_bits:
            cure = f"give a multiple of {self.device_bits}"
            problem = f"a channel of {self.name} cannot have {bits} bits"
            raise InputError("channel_bits", problem, cure)
        return bits

    def with_density(self, density_gbit: int) -> Self:
        """This speed bin with devices of another density, which changes the length of a refresh.

        Raises:
            InputError: If the standard has no such density.
        """
        densities = [gbit for gbit, _ in self.trfc_ns_by_gbit]
        if density_gbit not in densities:
            cure = f"choose one of {', '.join(map(str, densities))}, or leave it out"
            problem = f"{self.name} has no devices of {density_gbit} Gbit"
            raise InputError("density_gbit", problem, cure)
        return replace(self, density_gbit=density_gbit)

    def with_timings(self, timings: Mapping[str, int]) -> Self:
        """This speed bin with some values replaced, as of one part or one controller's settings.

        Args:
            timings: Name of a field, or ``trfc_ns`` for the refresh at this density, -> value. A
                data rate without a clock brings its clock; clocks that are left out stay.

        Raises:
            InputError: What no memory of the family can have.
        """
        values: dict[str, Any] = dict(timings)
        if "trfc_ns" in values:
            values["trfc_ns_by_gbit"] = ((self.density_gbit, values.pop("trfc_ns")),)
        if "data_rate_mtps" in values and "tck_ps" not in values:
            values["tck_ps"] = self.family.transfers_per_clock * 10**6 // values["data_rate_mtps"]
        speed_bin = replace(self, **values)
        burst_nck = speed_bin.burst_nck
        for name, small, large, cure in (
            (
                "columns",
                speed_bin.burst_length,
                speed_bin.columns,
                "a burst is of one row: give as many",
            ),
            (
                "tccd_s_nck",
                burst_nck,
                speed_bin.tccd_s_nck,
                f"a burst takes {burst_nck} clocks: give as many",
            ),
            ("tccd_l_nck", speed_bin.tccd_s_nck, speed_bin.tccd_l_nck, "give at least tccd_s_nck"),
            ("trrd_l_nck", speed_bin.trrd_s_nck, speed_bin.trrd_l_nck, "give at least trrd_s_nck"),
            ("twtr_l_nck", speed_bin.twtr_s_nck, speed_bin.twtr_l_nck, "give at least twtr_s_nck"),
            ("tras_nck", speed_bin.trcd_nck, speed_bin.tras_nck, "give at least trcd_nck"),
            ("trefi_ns", 2 * speed_bin.trfc_ns, speed_bin.trefi_ns, "give at least twice trfc_ns"),
        ):
            if large < small:
                raise InputError(name, f"{large} is less than {small}", cure)
        transfers = speed_bin.data_rate_mtps * speed_bin.tck_ps / 1e6
        usual_transfers = speed_bin.family.transfers_per_clock
        if abs(transfers / usual_transfers - 1) > CLOCK_TOLERANCE:
            problem = (
                f"{speed_bin.data_rate_mtps} MT/s in clocks of {speed_bin.tck_ps} ps are "
                f"{transfers:.2f} transfers a clock"
            )
            cure = f"a clock of {speed_bin.family.name} has {usual_transfers}"
            raise InputError("tck_ps", problem, cure)
        return speed_bin

    def place(self, burst: int, mapping: str, burst_bytes: int) -> tuple[int, int]:
        """Bank and row of a burst, by its number in the address space of a channel.

        Banks are numbered so that ``bank % bank_groups`` is the bank group. With ``bgi`` the unit
        that is interleaved is 64 bytes (or a burst, where that is longer), so that a request of a
        processor stays in one row.
        """
        if mapping == "rcb":
            return burst % self.banks, burst // (self.banks * self.row_bursts)
        unit = max(1, PROCESSOR_REQUEST_BYTES // burst_bytes)
        row, bank = divmod(burst // (self.bank_groups * self.row_bursts), self.banks_per_group)
        return burst // unit % self.bank_groups + self.bank_groups * bank, row

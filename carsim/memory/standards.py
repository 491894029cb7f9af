"""Timings of the DRAM standards: the table ``dram_standards.csv`` and what follows from a row.

Every row is one speed bin of one standard, in the parameters of its datasheet and in their units:
``nck`` are clocks of the DRAM, rounded as the standard prescribes; ``source`` says where the row
is from. A parameter that a standard does not have carries the value that makes it vanish: one bank
group with equal S and L timings for DDR3 and LPDDR4, no tDQSCK where it is within a clock, and no
``command_nck`` where row and column commands have buses of their own (HBM2).

Simplifications: one rank; tRCD is the same for reads and writes (HBM2's is shorter for writes);
one precharge time (LPDDR4's per-bank value).
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from importlib import resources
from types import MappingProxyType

from carsim.errors import InputError


@dataclass(frozen=True)
class DramTimings:
    """One row of the table: organisation and timings of one speed bin.

    Attributes:
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
        command_nck: Clocks that an activate or a column command holds the one command bus; 0 where
            rows and columns have a command bus each.
        cl_nck: Read latency (CL; LPDDR4: RL).
        cwl_nck: Write latency (CWL; LPDDR4: WL).
        trcd_nck: Activate to column command.
        trp_nck: Precharge to activate.
        tras_nck: Activate to precharge.
        tccd_s_nck: Column to column command, other bank group.
        tccd_l_nck: The same, in one bank group.
        trrd_s_nck: Activate to activate, other bank group.
        trrd_l_nck: The same, in one bank group.
        tfaw_nck: Window of at most four activates.
        twr_nck: Last write data to precharge.
        twtr_s_nck: Last write data to read command, other bank group.
        twtr_l_nck: The same, in one bank group.
        trtp_nck: Read to precharge.
        tdqsck_nck: Clock to data strobe, where it exceeds a clock.
        trefi_ns: Interval between all-bank refreshes.
        density_gbit: Density of a device (LPDDR4, HBM2: of a channel) in Gbit.
        trfc_ns_by_gbit: Length of an all-bank refresh, for each density there is.
        source: Where the row is from.
    """

    name: str
    data_rate_mtps: int
    tck_ps: int
    burst_length: int
    bank_groups: int
    banks_per_group: int
    channel_bits: int
    device_bits: int
    columns: int
    command_nck: int
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

    @property
    def banks(self) -> int:
        """Banks of the channel."""
        return self.bank_groups * self.banks_per_group

    @property
    def burst_nck(self) -> int:
        """Clocks that a burst holds the data bus: two transfers per clock."""
        return self.burst_length // 2

    @property
    def row_bursts(self) -> int:
        """Bursts in one row of one bank, however many devices make up the channel."""
        return self.columns // self.burst_length

    @property
    def trfc_ns(self) -> int:
        """Length of an all-bank refresh at this density."""
        return dict(self.trfc_ns_by_gbit)[self.density_gbit]

    @property
    def trfc_nck(self) -> int:
        """The same in clocks, rounded up."""
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

    def with_density(self, density_gbit: int) -> "DramTimings":
        """The same bin with devices of another density, which changes the length of a refresh.

        Raises:
            InputError: If the standard has no such density.
        """
        known = [gbit for gbit, _ in self.trfc_ns_by_gbit]
        if density_gbit not in known:
            raise InputError(
                f"density of {self.name}",
                f"got {density_gbit} Gbit",
                f"choose one of {', '.join(map(str, known))}",
            )
        return replace(self, density_gbit=density_gbit)


def _parse(row: Mapping[str, str]) -> DramTimings:
    """One line of the table."""
    values: dict[str, object] = {
        field.name: int(row[field.name]) for field in fields(DramTimings) if field.type is int
    }
    pairs = (pair.split(":") for pair in row["trfc_ns_by_gbit"].split())
    values["trfc_ns_by_gbit"] = tuple((int(gbit), int(ns)) for gbit, ns in pairs)
    return DramTimings(name=row["name"], source=row["source"], **values)  # type: ignore[arg-type]


def _load() -> Mapping[str, DramTimings]:
    """The whole table, in its order."""
    text = (
        resources.files("carsim.memory").joinpath("dram_standards.csv").read_text(encoding="utf-8")
    )
    rows = map(_parse, csv.DictReader(text.splitlines()))
    return MappingProxyType({row.name: row for row in rows})


STANDARDS: Mapping[str, DramTimings] = _load()
"""Name -> row."""


def standard(name: str, density_gbit: int | None = None) -> DramTimings:
    """The row of that name, at its usual density or at another one.

    Raises:
        InputError: If there is no such row, or no such density.

    >>> standard("DDR4-2400").trfc_ns, standard("DDR4-2400", density_gbit=4).trfc_ns
    (350, 260)
    """
    if name not in STANDARDS:
        raise InputError(
            "DRAM standard", f"unknown name {name!r}", f"choose one of {', '.join(STANDARDS)}"
        )
    row = STANDARDS[name]
    return row if density_gbit is None else row.with_density(density_gbit)

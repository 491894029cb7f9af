"""The contract of a memory standard, over all families and rows, and what datasheets say."""

import csv
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from carsim.base.errors import InputError
from carsim.hardware.memory import STANDARDS, AccessPattern, MemoryStandard, standard
from carsim.hardware.memory.base import MAPPINGS
from carsim.hardware.memory.path import bandwidth_remarks
from carsim.hardware.memory.section import Memory, Ports
from carsim.hardware.memory.sustained import idle_latency_ns, sustained
from carsim.testing import CONTRACTS

each_row = pytest.mark.parametrize("row", list(STANDARDS.values()), ids=lambda row: row.name)


def burst_bytes(row: MemoryStandard) -> int:
    return row.burst_length * row.channel_bits // 8


@each_row
@pytest.mark.parametrize("check", CONTRACTS["DRAM standard"], ids=lambda check: check.__name__)
def test_every_row_keeps_the_contract(row: MemoryStandard, check: Any) -> None:
    check(row)


@each_row
def test_every_row_is_consistent_in_itself(row: MemoryStandard) -> None:
    assert row.data_rate_mtps * row.tck_ps == pytest.approx(
        1e6 * row.family.transfers_per_clock, rel=2e-3
    )
    assert row.columns % row.burst_length == row.channel_bits % row.device_bits == 0
    times = [ns for _, ns in row.trfc_ns_by_gbit]
    assert times == sorted(times)
    if row.bank_groups == 1:
        assert row.tccd_l_nck == row.tccd_s_nck
        assert row.trrd_l_nck == row.trrd_s_nck
        assert row.twtr_l_nck == row.twtr_s_nck


@each_row
@pytest.mark.parametrize("mapping", MAPPINGS)
def test_a_mapping_gives_every_burst_of_a_row_of_banks_its_own_place(row, mapping):
    size = burst_bytes(row)
    places = [row.place(burst, mapping, size) for burst in range(2 * row.banks * row.row_bursts)]
    for bank in range(row.banks):
        for number in (0, 1):
            assert places.count((bank, number)) == row.row_bursts
    # One request stays in one bank or goes to banks of different groups, in the same row.
    assert {number for _, number in places[: max(1, 64 // size)]} == {0}


@each_row
def test_activates_leave_random_bursts_what_their_window_allows(row: MemoryStandard) -> None:
    """One activate per burst: the bus is at most tBL / max(tFAW / 4, tRRD_S) busy, refresh apart.

    Commands must not lock into a slower rhythm: DDR4-2133's tFAW of 23 clocks once took 24. (LPDDR4
    needs 12 command slots for the commands of a random burst, and HBM2 has a row per request.)
    """
    size = burst_bytes(row)
    share = min(1.0, row.burst_nck / max(row.tfaw_nck / 4, row.trrd_s_nck))
    refreshed = 1 - (row.trfc_nck + row.trp_nck + row.trcd_nck) / row.trefi_nck
    for bursts in (1, 4, row.banks):
        found = sustained(row, AccessPattern(chunk_bytes=bursts * size, random=True, mapping="rcb"))
        assert found.efficiency <= 1.001 * share
        if row.family.name == "DDR4" and row.device_bits == 8:
            assert found.efficiency >= 0.985 * share * refreshed


@each_row
def test_a_denser_device_refreshes_longer_and_sustains_less(row: MemoryStandard) -> None:
    denser = [row.with_density(gbit) for gbit, _ in row.trfc_ns_by_gbit]
    found = [sustained(each, AccessPattern()).efficiency for each in denser]
    assert found == sorted(found, reverse=True)
    waits = [idle_latency_ns(each) for each in denser]
    assert waits == sorted(waits)


@pytest.mark.parametrize(
    ("name", "parameter", "ns"),
    [
        ("DDR4-2400", "trcd_nck", 14.16),
        ("DDR4-2400", "tfaw_nck", 21.0),
        ("DDR4-2400", "tras_nck", 32.0),
        ("DDR4-2400", "burst_nck", 3.33),
        ("DDR4-3200", "trcd_nck", 13.75),
        ("DDR4-3200-x16", "tfaw_nck", 30.0),
        ("DDR3-1600", "tfaw_nck", 30.0),
        ("DDR3-1066-x16", "tfaw_nck", 50.0),
        ("LPDDR4-3200", "trcd_nck", 18.0),
        ("LPDDR4-4267", "tfaw_nck", 30.0),
        ("LPDDR5-6400", "trcd_nck", 18.0),
        ("LPDDR5-6400", "burst_nck", 2.5),
        ("DDR5-4800", "tras_nck", 32.0),
        ("DDR5-4800", "burst_nck", 3.33),
        ("GDDR6-14000", "burst_nck", 1.14),
        ("HBM3-6400", "burst_nck", 1.25),
        ("HBM2-1800", "tfaw_nck", 16.0),
        ("HBM2-2000", "burst_nck", 2.0),
    ],
)
def test_a_row_says_what_its_datasheet_says(name: str, parameter: str, ns: float) -> None:
    """Whole clocks: up to one more than the time, or short of it by the 2.6 % of JEDEC's rule."""
    row = STANDARDS[name]
    assert 0.974 * ns <= row.ns(getattr(row, parameter)) < ns + row.ns(1)


with (Path(__file__).parents[2] / "data" / "jedec_minima.csv").open(encoding="utf-8") as _lines:
    MINIMA = list(csv.DictReader(_lines))
"""At least these ns and clocks; tRRD and tFAW by page and speed are rows of their own above."""


@each_row
def test_rows_keep_the_minima_of_their_standard(row: MemoryStandard) -> None:
    """LPDDR4X keeps those of LPDDR4, LPDDR5X those of LPDDR5."""
    for least in (each for each in MINIMA if row.family.name.startswith(each["family"])):
        clocks = getattr(row, least["parameter"])
        assert clocks >= int(least["clocks"]), least
        assert row.ns(clocks) >= 0.974 * float(least["ns"]), least


def memory(**changes: object) -> Memory:
    base = {"standard": "DDR4-2400", "capacity_gib": 4.0, "interconnect_ns": 50.0}
    ports = Ports(count=1, bits=128, clock_mhz=300.0)
    return Memory.model_validate({**base, "ports": ports, **changes})


def test_timings_of_a_part_replace_those_of_the_row_and_nothing_else() -> None:
    slow = memory(timings={"trcd_nck": 20, "trfc_ns": 400}).part
    usual = STANDARDS["DDR4-2400"]
    assert (slow.trcd_nck, slow.trfc_ns) == (20, 400)
    again = {"trcd_nck": usual.trcd_nck, "trfc_ns_by_gbit": usual.trfc_ns_by_gbit}
    assert dataclasses.replace(slow, **again) == usual
    assert (
        sustained(slow, AccessPattern()).efficiency < sustained(usual, AccessPattern()).efficiency
    )


def test_a_data_rate_brings_its_clock() -> None:
    part = memory(standard="LPDDR5-6400", channel_bits=16, timings={"data_rate_mtps": 6000}).part
    assert part.tck_ps == 1333  # eight transfers
    assert part.peak_gbps(16) == 12.0


def test_a_memory_without_timings_keeps_its_document() -> None:
    assert "timings" not in memory().model_dump()


def test_what_the_table_lacks_is_refused_with_what_there_is() -> None:
    with pytest.raises(
        InputError, match=r"no DRAM standard 'DDR9'; did you mean 'DDR.*carsim config list"
    ):
        standard("DDR9")
    cure = "choose one of 2, 4, 8, 16, or leave it out"
    with pytest.raises(InputError, match=f"density_gbit: DDR4-2133 has no devices of 3 .*{cure}"):
        standard("DDR4-2133", density_gbit=3)
    with pytest.raises(ValueError, match="Value error, density_gbit: DDR4-2133 has no devices"):
        memory(standard="DDR4-2133", density_gbit=3, timings={"tck_ps": 938})


def test_a_channel_that_is_wider_than_its_standard_is_told() -> None:
    def remarks(**changes: Any) -> list[str]:
        return bandwidth_remarks({"ddr": memory(**changes)}, 250.0)

    told = "a channel of 64 bits is 4 times as wide as one of LPDDR4-4267; set channel_bits: 16"
    (line,) = remarks(standard="LPDDR4-4267", channel_bits=64)
    assert told in line
    assert remarks(standard="LPDDR4-4267", channel_bits=16) == []
    assert remarks(standard="DDR4-2400", channel_bits=16) == []  # fewer devices than a module


def test_a_family_is_more_than_a_name() -> None:
    row: Any = STANDARDS["DDR4-2400"]
    with pytest.raises(InputError, match="DRAM standard DDR9-2400: its family is 'DDR9'; give a"):
        dataclasses.replace(row, name="DDR9-2400", family="DDR9")


def test_speed_bins_with_families_of_one_name_have_one_family() -> None:
    row = STANDARDS["DDR4-2400"]
    other = dataclasses.replace(row.family, request_bytes=128)
    with pytest.raises(InputError, match=r"its family DDR4 is another one than that of DDR4-1600"):
        STANDARDS.register(dataclasses.replace(row, name="DDR4-9999", family=other))
    assert "DDR4-9999" not in STANDARDS
    assert STANDARDS.families["DDR4"] == row.family

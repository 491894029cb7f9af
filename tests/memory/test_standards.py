"""The table of DRAM standards: rows say what their datasheets say, in nanoseconds and in clocks."""

import dataclasses

import pytest

from carsim.errors import InputError
from carsim.memory.standards import STANDARDS, DramTimings, standard

ROWS = list(STANDARDS.values())


@pytest.mark.parametrize(
    ("name", "sentence", "ns"),
    [
        ("DDR4-2400", "a row is open 14.16 ns after its activate", 14.16),
        ("DDR4-2400", "four activates take 21 ns", 21.0),
        ("DDR4-2400", "a row cycle takes 32 + 14.16 ns", 46.16),
        ("DDR4-2400", "a burst of 8 takes 3.33 ns", 3.33),
        ("DDR4-3200", "a row is open 13.75 ns after its activate", 13.75),
        ("DDR4-3200-x16", "four activates take 30 ns", 30.0),
        ("DDR3-1600", "four activates take 30 ns", 30.0),
        ("DDR3-1066-x16", "four activates take 50 ns", 50.0),
        ("LPDDR4-3200", "a row is open 18 ns after its activate", 18.0),
        ("LPDDR4-4267", "four activates take 30 ns", 30.0),
        ("HBM2-1800", "four activates take 16 ns", 16.0),
        ("HBM2-2000", "a burst of 4 takes 2 ns", 2.0),
    ],
)
def test_a_row_says(name: str, sentence: str, ns: float) -> None:
    row = STANDARDS[name]
    subject = sentence.split(" take")[0]
    clocks = {
        "a row is open 14.16 ns after its activate": row.trcd_nck,
        "a row is open 13.75 ns after its activate": row.trcd_nck,
        "a row is open 18 ns after its activate": row.trcd_nck,
        "four activates": row.tfaw_nck,
        "a row cycle": row.tras_nck + row.trp_nck,
        "a burst of 8": row.burst_nck,
        "a burst of 4": row.burst_nck,
    }[subject]
    # Whole clocks: up to one more than the datasheet's time, or short of it by its rounding rule.
    assert 0.974 * ns <= row.ns(clocks) < ns + row.ns(1)


def in_time(row: DramTimings, clocks: int, ns: float, at_least: int = 0) -> bool:
    """Whether clocks are max(at_least, ns), with the 2.6 % that JESD79-4 forgives in rounding."""
    return clocks >= at_least and row.ns(clocks) >= 0.974 * ns


@pytest.mark.parametrize(
    "row", [r for r in ROWS if r.name.startswith("DDR4")], ids=lambda r: r.name
)
def test_ddr4_keeps_the_minima_of_jesd79_4(row: DramTimings) -> None:
    """Those of every speed bin; tRRD and tFAW depend on the page size, that is on the device."""
    page_kb = 2 if row.device_bits == 16 else 1
    assert in_time(row, row.tras_nck, 32.0)
    assert in_time(row, row.twr_nck, 15.0)
    assert in_time(row, row.twtr_s_nck, 2.5, at_least=2)
    assert in_time(row, row.twtr_l_nck, 7.5, at_least=4)
    assert in_time(row, row.trtp_nck, 7.5, at_least=4)
    assert in_time(row, row.tccd_l_nck, 5.0, at_least=4)
    assert row.tccd_s_nck == 4
    slow = row.data_rate_mtps <= 1600
    assert in_time(row, row.trrd_s_nck, {1: 2.5, 2: 5.3}[page_kb], at_least=4)
    assert in_time(row, row.trrd_l_nck, {1: 4.9, 2: 6.4}[page_kb], at_least=4)
    assert in_time(
        row, row.tfaw_nck, {1: 25.0 if slow else 21.0, 2: 35.0 if slow else 30.0}[page_kb]
    )
    assert row.banks == {1: 16, 2: 8}[page_kb]


@pytest.mark.parametrize(
    "row", [r for r in ROWS if r.name.startswith("LPDDR4")], ids=lambda r: r.name
)
def test_lpddr4_keeps_the_minima_of_jesd209_4(row: DramTimings) -> None:
    fastest = row.data_rate_mtps == 4267
    assert in_time(row, row.trcd_nck, 18.0, at_least=4)
    assert in_time(row, row.trp_nck, 18.0, at_least=4)
    assert in_time(row, row.tras_nck, 42.0, at_least=3)
    assert in_time(row, row.twr_nck, 18.0, at_least=6)
    assert in_time(row, row.twtr_l_nck, 10.0, at_least=8)
    assert in_time(row, row.trtp_nck, 7.5, at_least=8)
    assert in_time(row, row.trrd_l_nck, 7.5 if fastest else 10.0, at_least=4)
    assert in_time(row, row.tfaw_nck, 30.0 if fastest else 40.0)


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.name)
def test_every_row_is_consistent_in_itself(row: DramTimings) -> None:
    assert row.source
    assert row.data_rate_mtps * row.tck_ps == pytest.approx(2e6, rel=2e-3)  # two transfers a clock
    assert row.tccd_s_nck >= row.burst_nck
    assert row.tccd_l_nck >= row.tccd_s_nck
    assert row.trrd_l_nck >= row.trrd_s_nck
    assert row.twtr_l_nck >= row.twtr_s_nck
    assert row.columns % row.burst_length == 0
    assert row.channel_bits % row.device_bits == 0
    assert row.density_gbit in dict(row.trfc_ns_by_gbit)
    times = [ns for _, ns in row.trfc_ns_by_gbit]
    assert times == sorted(times)
    assert 0.02 < row.trfc_nck / row.trefi_nck < 0.11  # the share of time that refreshes take
    if row.bank_groups == 1:
        assert row.tccd_l_nck == row.tccd_s_nck
        assert row.trrd_l_nck == row.trrd_s_nck
        assert row.twtr_l_nck == row.twtr_s_nck


def test_peak_bandwidth_is_the_nominal_one() -> None:
    assert STANDARDS["DDR4-2400"].peak_gbps(64) == pytest.approx(19.2)
    assert STANDARDS["DDR4-2400"].peak_gbps(16) == pytest.approx(4.8)
    assert STANDARDS["HBM2-1800"].peak_gbps(64) == pytest.approx(14.4)
    assert STANDARDS["LPDDR4-3200"].peak_gbps(16) == pytest.approx(6.4)


def test_density_changes_the_refresh_and_nothing_else() -> None:
    usual, small = standard("DDR4-2400"), standard("DDR4-2400", density_gbit=4)
    assert (usual.trfc_ns, small.trfc_ns) == (350, 260)
    assert dataclasses.replace(small, density_gbit=8) == usual


def test_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(InputError, match=r"unknown name 'DDR9'.*DDR4-2133.*HBM2-2000"):
        standard("DDR9")


def test_unknown_density_lists_what_there_is() -> None:
    with pytest.raises(InputError, match=r"DDR4-2133: got 3 Gbit; choose one of 2, 4, 8, 16"):
        standard("DDR4-2133", density_gbit=3)


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        STANDARDS["DDR4-2400"] = STANDARDS["DDR4-2133"]  # type: ignore[index]

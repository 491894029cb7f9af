"""What a DRAM sustains, how long it makes one wait, and what ``carsim dram`` says of it."""

import json

import pytest
from click.testing import CliRunner

from carsim.cli import carsim
from carsim.errors import InputError
from carsim.memory.sustained import (
    ROWS,
    Access,
    idle_latency_ns,
    loaded_latency_ns,
    saturated_latency_ns,
    standard,
    sustained,
)

DDR4 = standard("DDR4-2400")


def test_a_sequential_stream_loses_what_refreshes_take() -> None:
    """1 - (tRFC + tRTP + tRP + tRCD) / tREFI, within the rows opened on the way (0.1 %)."""
    found = sustained(DDR4, Access())
    around_ns = 350 + DDR4.ns(DDR4.trtp_nck + DDR4.trp_nck + DDR4.trcd_nck)
    assert found.peak_gbps == pytest.approx(19.2)
    assert found.efficiency == pytest.approx(1 - around_ns / 7800, abs=1e-3)
    assert found.sustained_gbps == pytest.approx(found.efficiency * found.peak_gbps)


def test_random_bursts_get_four_activates_per_window() -> None:
    """E = R 4 tBL / tFAW, R being the share that refreshes leave: 0.95 * 16 / 26 for DDR4-2400."""
    shares = sustained(DDR4, Access()).efficiency * 4 * DDR4.burst_nck / DDR4.tfaw_nck
    found = sustained(DDR4, Access("random", chunk_bytes=64))
    assert found.efficiency == pytest.approx(shares, rel=0.01)


def test_a_smaller_device_refreshes_faster() -> None:
    """tRFC of 260 instead of 350 ns gives 90 / 7800 of the time back."""
    gain = (
        sustained(standard("DDR4-2400", 4), Access()).efficiency
        - sustained(DDR4, Access()).efficiency
    )
    assert gain == pytest.approx(90 / 7800, abs=1e-3)


def test_channels_and_width_scale_the_bandwidth() -> None:
    one = sustained(DDR4, Access())
    four = sustained(DDR4, Access(), channels=4)
    narrow = sustained(DDR4, Access(), channel_bits=16)
    assert four.sustained_gbps == pytest.approx(4 * one.sustained_gbps)
    assert four.efficiency == one.efficiency
    assert narrow.peak_gbps == pytest.approx(one.peak_gbps / 4)
    assert narrow.efficiency == pytest.approx(one.efficiency, rel=0.01)


def test_bytes_fetched_in_vain_do_not_count() -> None:
    whole = sustained(DDR4, Access("random", chunk_bytes=64)).efficiency
    half = sustained(DDR4, Access("random", chunk_bytes=32)).efficiency
    assert half == pytest.approx(whole / 2)


@pytest.mark.parametrize(
    ("name", "access", "limit"),
    [
        ("DDR4-2133", Access(), "data bus"),
        ("DDR4-2133", Access("random", chunk_bytes=4096), "data bus"),
        ("DDR4-2133", Access("random", chunk_bytes=64), "activation window (tFAW)"),
        ("DDR4-2133", Access("random", chunk_bytes=64, outstanding=2), "outstanding requests"),
        ("DDR4-2133", Access(outstanding=1), "outstanding requests"),
        ("DDR4-2400", Access(chunk_bytes=1024, read_fraction=0.5), "turnaround"),
        ("HBM2-2000", Access(), "data bus"),
        ("LPDDR4-4267", Access("random", chunk_bytes=1024), "row cycle"),
        ("DDR4-2666-x16", Access("random", chunk_bytes=1024), "bank group (tCCD_L)"),
    ],
)
def test_the_limit_has_a_name(name: str, access: Access, limit: str) -> None:
    assert sustained(standard(name), access).limit == limit


def test_idle_latency_adds_a_clock_the_row_and_the_burst() -> None:
    hit, closed, conflict, either = (idle_latency_ns(DDR4, row, refresh=False) for row in ROWS)
    assert hit == pytest.approx(DDR4.ns(1 + 17 + 4))
    assert closed - hit == pytest.approx(DDR4.ns(17))
    assert conflict - closed == pytest.approx(DDR4.ns(17))
    assert either == pytest.approx((closed + conflict) / 2)


def test_idle_latency_waits_for_refreshes_on_average() -> None:
    """Blocked for x = 350 + 14.16 ns in each 7800: x^2 / 15600 = 8.5 ns."""
    wait = idle_latency_ns(DDR4) - idle_latency_ns(DDR4, refresh=False)
    assert wait == pytest.approx(364.16**2 / 15600, rel=1e-3)


def test_latency_of_lpddr4_includes_the_delay_of_the_strobe() -> None:
    lpddr4 = standard("LPDDR4-3200")
    assert idle_latency_ns(lpddr4, "hit", refresh=False) == pytest.approx((1 + 28 + 6 + 8) * 0.625)


def test_load_raises_the_latency_and_randomness_more_so() -> None:
    loads = [0.0, 0.3, 0.6, 0.9]
    even = [loaded_latency_ns(DDR4, load) for load in loads]
    random = [loaded_latency_ns(DDR4, load, "poisson") for load in loads]
    assert even == sorted(even)
    assert random[0] == even[0]
    assert all(more > less for more, less in zip(random[1:], even[1:], strict=True))


def test_saturated_latency_is_littles_law() -> None:
    access = Access("random", chunk_bytes=64, outstanding=16)
    rate_gbps = sustained(DDR4, access).sustained_gbps
    assert saturated_latency_ns(DDR4, access) == pytest.approx(16 * 64 / rate_gbps - DDR4.ns(1))


def test_a_lone_read_in_flight_takes_its_idle_latency_but_for_the_refreshes() -> None:
    """Refreshes hit every request there, not a random one: less of the wait, none without them."""
    access = Access("random", chunk_bytes=64, outstanding=1)
    bare = idle_latency_ns(DDR4, "conflict", refresh=False)
    assert bare < saturated_latency_ns(DDR4, access) < idle_latency_ns(DDR4, "conflict")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sustained(DDR4, Access(), channels=0), "DRAM channels: got 0; give at least one"),
        (lambda: sustained(DDR4, Access(), channel_bits=12), "got 12 bits; give a multiple of 8"),
        (lambda: idle_latency_ns(DDR4, "open"), "DRAM row: got 'open'; choose one of hit, closed"),
        (lambda: loaded_latency_ns(DDR4, 0.97), "DRAM load: got 0.97; give at least 0 and less"),
        (lambda: loaded_latency_ns(DDR4, 0.5, "bursty"), "DRAM arrivals: got 'bursty'; choose one"),
        (
            lambda: saturated_latency_ns(DDR4, Access(read_fraction=0.0)),
            "read_fraction: got 0.0; give a share with reads in it",
        ),
    ],
)
def test_what_cannot_be_answered_is_refused(call, message: str) -> None:
    with pytest.raises(InputError) as refusal:
        call()
    assert message in str(refusal.value)


def invoke(*arguments: str) -> str:
    result = CliRunner().invoke(carsim, ["dram", *arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def test_the_command_answers_in_json() -> None:
    options = (
        "--standard DDR4-2133 --channels 2 --pattern random --chunk-bytes 64 --streams 1 "
        "--read-fraction 1 --outstanding 8 --json"
    )
    report = json.loads(invoke(*options.split()))
    expected = sustained(
        standard("DDR4-2133"), Access("random", chunk_bytes=64, outstanding=8), channels=2
    )
    assert report["peak_gbps"] == expected.peak_gbps
    assert report["sustained_gbps"] == expected.sustained_gbps
    assert report["efficiency"] == expected.efficiency
    assert report["limit"] == expected.limit
    assert list(report["idle_latency_ns"]) == list(ROWS)
    assert report["mapping"] == "row, column, bank, bank group"


def test_the_command_takes_width_density_and_load() -> None:
    options = "--standard DDR4-2400 --channel-bits 16 --density 4 --load 0.5 --json"
    report = json.loads(invoke(*options.split()))
    timings = standard("DDR4-2400", 4)
    assert report["peak_gbps"] == pytest.approx(4.8)
    assert report["density_gbit"] == 4
    assert report["loaded_latency_ns"]["uniform"] == loaded_latency_ns(timings, 0.5)


def test_writes_have_no_latency_to_show() -> None:
    options = "--standard DDR4-2400 --read-fraction 0 --json"
    assert json.loads(invoke(*options.split()))["saturated_latency_ns"] is None


def test_the_command_prints_a_table() -> None:
    output = invoke("--standard", "HBM2-1800")
    for word in ("sustained_gbps", "13.32", "data bus", "HBM2-1800"):
        assert word in output


def test_the_list_shows_every_standard_with_its_source() -> None:
    output = invoke("--list")
    rows = json.loads(invoke("--list", "--json"))
    assert all(output.count(row["name"]) >= 2 for row in rows)
    assert "JESD79-4B" in output
    assert rows[0]["trfc_ns_by_gbit"]["4"] == 260


def test_the_standard_has_to_be_named() -> None:
    assert "--standard is missing" in invoke()


def test_an_unknown_standard_is_one_clear_line() -> None:
    with pytest.raises(InputError, match=r"unknown name 'SDRAM'; choose one of"):
        invoke("--standard", "SDRAM")

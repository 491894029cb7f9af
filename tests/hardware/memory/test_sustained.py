"""What a DRAM sustains, and how long it makes one wait."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carsim.base.errors import InputError
from carsim.hardware.memory import STANDARDS, AccessPattern, standard
from carsim.hardware.memory.striping import Striping, busy_share
from carsim.hardware.memory.sustained import (
    ROWS,
    idle_latency_ns,
    loaded_latency_ns,
    saturated_latency_ns,
    scheduled,
    sustained,
)

DDR4 = standard("DDR4-2400")
SCATTERED = AccessPattern(chunk_bytes=64, random=True)


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(sorted(STANDARDS)),
    access=st.builds(
        AccessPattern,
        streams=st.integers(1, 40),
        chunk_bytes=st.integers(1, 1 << 17),
        random=st.booleans(),
        read_fraction=st.floats(0.0, 1.0),
        outstanding=st.none() | st.integers(1, 100),
        aligned=st.booleans(),
        mapping=st.sampled_from([None, "rcb", "bgi"]),
    ),
)
def test_any_access_gets_something_and_never_more_than_refreshes_leave(name, access):
    timings = STANDARDS[name]
    found = sustained(timings, access)
    assert 0.0 < found.efficiency <= 1.0 - timings.trfc_nck / timings.trefi_nck
    assert found.sustained_gbps <= found.peak_gbps


@pytest.mark.parametrize("name", ["DDR3-1600", "DDR4-2133", "DDR4-3200-x16", "HBM2-1800"])
@pytest.mark.parametrize("chunk_bytes", [64, 1024, 65536])
def test_more_requests_in_flight_are_hardly_ever_slower(name: str, chunk_bytes: int) -> None:
    """To the last percent they can be (Graham's anomalies): 3 % of room, in the references too."""
    found = [
        sustained(
            STANDARDS[name], AccessPattern(chunk_bytes=chunk_bytes, random=True, outstanding=window)
        ).efficiency
        for window in (1, 2, 4, 8, 16, 32)
    ]
    assert all(more >= 0.97 * less for less, more in itertools.combinations(found, 2)), found


def test_a_sequential_stream_loses_what_refreshes_take() -> None:
    """1 - (tRFC + tRTP + tRP + tRCD) / tREFI, within the rows opened on the way (0.1 %)."""
    found = sustained(DDR4, AccessPattern())
    around_ns = 350 + DDR4.ns(DDR4.trtp_nck + DDR4.trp_nck + DDR4.trcd_nck)
    assert found.peak_gbps == pytest.approx(19.2)
    assert found.efficiency == pytest.approx(1 - around_ns / 7800, abs=1e-3)
    assert found.sustained_gbps == pytest.approx(found.efficiency * found.peak_gbps)


@pytest.mark.parametrize(
    ("striping", "access", "share"),
    [
        # A requester fills one queue of 48 of the 64 requests of a stripe before it goes on: the
        # next channel starts 16 requests later, so that 4 of 32 are at work.
        (Striping(32), AccessPattern(), 4 / 32),
        # Stripes that fit the queue keep all channels busy, and so does a requester for each.
        (Striping(32, 1024), AccessPattern(), 1),
        (Striping(32, 4096, 32), AccessPattern(), 1),
        # Half of a chunk is in flight for each of 32 requesters: 32 servers, 32 random customers.
        # DRAMsim3 (HBM2 in legacy mode): 0.540 of the peak, 0.882 of one channel alone.
        (Striping(32, 4096, 32), AccessPattern(random=True), 0.54 / 0.882),
        (Striping(1, 64), SCATTERED, 1),
        # Of four stripes in flight, a quarter, a half, three quarters and all are left: 160 bytes.
        (Striping(4, 64, window_bytes=192), AccessPattern(), 1),
    ],
)
def test_channels_idle_where_runs_are_long_or_lie_anywhere(striping, access, share):
    assert busy_share(access, striping, 64, 32) == pytest.approx(share, rel=0.12)


def test_channels_and_width_scale_the_bandwidth() -> None:
    assert busy_share(AccessPattern(), Striping(2, 64, 2), 64, 8) == 1  # a stripe each, in turn
    one = sustained(DDR4, AccessPattern())
    four = sustained(DDR4, AccessPattern(), Striping(4, requesters=4))
    narrow = sustained(DDR4, AccessPattern(), channel_bits=16)
    assert four.sustained_gbps == pytest.approx(4 * one.sustained_gbps)
    assert four.efficiency == one.efficiency
    assert narrow.peak_gbps == pytest.approx(one.peak_gbps / 4)
    assert narrow.efficiency == pytest.approx(one.efficiency, rel=0.01)


def test_bytes_fetched_in_vain_do_not_count() -> None:
    short = AccessPattern(chunk_bytes=32, random=True)
    half = sustained(DDR4, short).efficiency
    assert half == pytest.approx(sustained(DDR4, SCATTERED).efficiency / 2)
    latency_ns = saturated_latency_ns(DDR4, SCATTERED)  # the same bursts
    assert saturated_latency_ns(DDR4, short) == pytest.approx(latency_ns)


def test_idle_latency_adds_a_clock_the_row_and_the_burst() -> None:
    hit, closed, conflict, either = (idle_latency_ns(DDR4, row, refresh=False) for row in ROWS)
    assert hit == pytest.approx(DDR4.ns(1 + 17 + 4))
    assert closed - hit == pytest.approx(DDR4.ns(17))
    assert conflict - closed == pytest.approx(DDR4.ns(17))
    assert either == pytest.approx((closed + conflict) / 2)
    lpddr4 = standard("LPDDR4-3200")  # the delay of the strobe counts
    assert idle_latency_ns(lpddr4, "hit", refresh=False) == pytest.approx((1 + 28 + 6 + 8) * 0.625)


def test_idle_latency_waits_for_refreshes_on_average() -> None:
    """Blocked for x = 350 + 14.16 ns in each 7800: x^2 / 15600 = 8.5 ns; then the row is closed."""
    closed, hit = (
        idle_latency_ns(DDR4, row) - idle_latency_ns(DDR4, row, refresh=False)
        for row in ("closed", "hit")
    )
    assert closed == pytest.approx(364.16**2 / 15600, rel=1e-3)
    assert hit - closed == pytest.approx(364.16 / 7800 * 14.16, rel=1e-3)


def test_what_piles_up_in_a_refresh_takes_longer_to_drain_the_more_comes_meanwhile() -> None:
    # A queue that grew at the load drains at the rest: it is 1 / (1 - load) as long as at load 0.
    alone = idle_latency_ns(DDR4, "hit", refresh=False)
    waits = [loaded_latency_ns(DDR4, load) - alone for load in (0.0, 0.5, 0.75)]
    assert waits[1:] == pytest.approx([2 * waits[0], 4 * waits[0]])


def test_a_width_that_devices_do_not_make_up_is_refused() -> None:
    with pytest.raises(InputError, match="cannot have 12 bits; give a multiple of 8"):
        sustained(DDR4, SCATTERED, channel_bits=12)


def test_a_part_of_other_timings_is_scheduled_for_itself() -> None:
    row, access = STANDARDS["DDR4-2400"], AccessPattern()
    part = row.with_timings({"trefi_ns": row.trefi_ns // 2})
    burst_bytes = part.burst_length * part.channel_bits // 8
    found = sustained(part, access).efficiency
    assert found == scheduled(part, access, burst_bytes) < sustained(row, access).efficiency

"""What costs a memory its bandwidth, cause by cause."""

from dataclasses import replace

import pytest

from carsim.hardware.memory import STANDARDS
from carsim.hardware.memory.losses import bandwidth_losses
from carsim.hardware.memory.sustained import scheduled
from carsim.hardware.memory.traffic import AccessPattern

DDR4 = STANDARDS["DDR4-2400"]
BURST_BYTES = DDR4.burst_length * DDR4.channel_bits // 8


def losses(access: AccessPattern) -> dict[str, float]:
    return {loss.cause: loss.share_of_peak for loss in bandwidth_losses(DDR4, access)}


def test_a_sequential_stream_loses_its_refreshes() -> None:
    found = losses(AccessPattern())
    # A refresh takes tRFC of each tREFI, in which a stream at the full rate would have moved bytes.
    assert found["refresh (tRFC)"] == pytest.approx(DDR4.trfc_ns / DDR4.trefi_ns, abs=0.002)
    assert next(iter(found)) == "refresh (tRFC)"


def test_small_random_chunks_lose_most_to_the_activation_window() -> None:
    """Four activates per tFAW, of one burst each."""
    access = AccessPattern(chunk_bytes=64, random=True)
    found = losses(access)
    bound = 4 * DDR4.burst_nck / DDR4.tfaw_nck
    assert scheduled(DDR4, access, BURST_BYTES) < bound
    assert max(found, key=found.get) == "activation window (tRRD, tFAW)"
    fewer_windows = replace(DDR4, tfaw_nck=0, trrd_s_nck=0, trrd_l_nck=0)
    gain = scheduled(fewer_windows, access, BURST_BYTES) - scheduled(DDR4, access, BURST_BYTES)
    assert found["activation window (tRRD, tFAW)"] == gain


def test_few_requests_in_flight_and_half_used_bursts_are_causes() -> None:
    few = losses(AccessPattern(chunk_bytes=256, random=True, outstanding=4))
    assert few["requests in flight"] > 0.2
    access = AccessPattern(chunk_bytes=32, random=True)
    assert access.useful_share(BURST_BYTES) == 0.5
    lost = losses(access)["bytes of bursts that nobody uses"]
    assert lost == pytest.approx(scheduled(DDR4, access, BURST_BYTES))


def test_costs_come_largest_first_and_turnarounds_only_where_something_is_written() -> None:
    half_read = AccessPattern(chunk_bytes=64, read_fraction=0.5, outstanding=8)
    mixed = bandwidth_losses(DDR4, half_read)
    shares = [loss.share_of_peak for loss in mixed]
    assert shares == sorted(shares, reverse=True)
    assert "turnaround (CWL, tWTR)" in {loss.cause for loss in mixed}
    assert "turnaround (CWL, tWTR)" not in losses(replace(half_read, read_fraction=1.0))

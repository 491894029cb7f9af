"""Costs of bandwidth: what each timing of a DRAM takes from its peak, for an access pattern.

Model: each cause is removed from the timings, and the channel is scheduled again
(:func:`carsim.hardware.memory.sustained.scheduled`). The rise of the efficiency is the cost of the
cause.

Simplification: causes overlap, as one wait hides another. So costs do not add up to what is lost,
and a cause that another one hides costs nothing.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from carsim.hardware.memory.base import QUEUE_REQUESTS, MemoryStandard
from carsim.hardware.memory.sustained import scheduled
from carsim.hardware.memory.traffic import AccessPattern

NEGLIGIBLE = 0.001
"""Share of the peak below which a cost is not listed."""


class BandwidthLoss(NamedTuple):
    """The cost of one cause.

    Attributes:
        cause: The cause, with the names of its timings.
        share_of_peak: Bandwidth that its removal would bring, over the peak bandwidth.
    """

    cause: str
    share_of_peak: float


def bandwidth_losses(
    standard: MemoryStandard, access: AccessPattern, channel_bits: int | None = None
) -> tuple[BandwidthLoss, ...]:
    """Costs of all causes in one channel, the largest first; some 10 ms per cause.

    Args:
        standard: Row of the table.
        access: The access pattern of the channel.
        channel_bits: Width of the channel; None: the standard's usual width.

    Raises:
        InputError: There is no channel of this width.

    >>> from carsim.hardware.memory import STANDARDS
    >>> streams = AccessPattern()
    >>> bandwidth_losses(STANDARDS["DDR4-2400"], streams)[0].cause
    'refresh (tRFC)'
    >>> gathered = AccessPattern(chunk_bytes=64, random=True)
    >>> bandwidth_losses(STANDARDS["DDR4-2400"], gathered)[0].cause
    'activation window (tRRD, tFAW)'
    """
    burst_bytes = standard.burst_length * standard.width(channel_bits) // 8
    efficiency = scheduled(standard, access, burst_bytes)
    losses = []
    for cause, other_standard, other_access in _without_each_cause(standard, access):
        gain = scheduled(other_standard, other_access, burst_bytes) - efficiency
        if gain > NEGLIGIBLE:
            losses.append(BandwidthLoss(cause, gain))
    useful_share = access.useful_share(burst_bytes)
    if useful_share < 1:
        fetched_in_vain = efficiency / useful_share - efficiency
        losses.append(BandwidthLoss("bytes of bursts that nobody uses", fetched_in_vain))
    return tuple(sorted(losses, key=lambda loss: -loss.share_of_peak))


def _without_each_cause(
    standard: MemoryStandard, access: AccessPattern
) -> Iterator[tuple[str, MemoryStandard, AccessPattern]]:
    """Causes, each with timings and access pattern without it."""
    no_refresh_time = tuple((density, 0) for density, _ in standard.trfc_ns_by_gbit)
    yield "refresh (tRFC)", replace(standard, trfc_ns_by_gbit=no_refresh_time), access
    free_activates = replace(standard, trrd_s_nck=0, trrd_l_nck=0, tfaw_nck=0)
    yield "activation window (tRRD, tFAW)", free_activates, access
    free_rows = replace(standard, trcd_nck=1, trp_nck=1, tras_nck=1)
    yield "row cycle (tRCD, tRP, tRAS)", free_rows, access
    one_group = replace(standard, tccd_l_nck=standard.tccd_s_nck)
    yield "bank group (tCCD_L)", one_group, access
    if 0 < access.read_fraction < 1:
        # A read may follow the data of a write at once, as if the write had no latency either.
        no_wait = -standard.cwl_nck
        free_turns = replace(standard, twtr_s_nck=no_wait, twtr_l_nck=no_wait)
        yield "turnaround (CWL, tWTR)", free_turns, access
    more_requests = replace(access, outstanding=4 * (access.outstanding or QUEUE_REQUESTS))
    yield "requests in flight", standard, more_requests

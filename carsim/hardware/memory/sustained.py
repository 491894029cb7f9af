"""Bandwidth that a DRAM sustains, and its latency, from the timings of its standard alone.

Model of the bandwidth: the commands of one channel are scheduled one by one over one refresh
interval (:mod:`carsim.hardware.memory.channel`) for the bursts that the access pattern asks for
(:mod:`carsim.hardware.memory.traffic`). Efficiency is the time of the useful bursts over that of
the interval. Channels are alike. What each of them sees, and the share of time in which it has
work, follow from the stripes (:mod:`carsim.hardware.memory.striping`).

Model of the latency: the commands of a lone read, plus its share of waiting for refreshes. A
refresh keeps a channel for x = tRP + tRFC; a read that arrives in it, with probability x / tREFI,
waits half of it on average: x^2 / (2 tREFI). Under load, requests queue for the data bus, which
refreshes take away for the rest of the sustained share.

How far it goes: ``carsim validate dram`` prints it, against two cycle-accurate simulators that
differ between themselves by up to 37 %. Few streams of chunks that do not reach all banks have two
regimes, with rows shared by several chunks or opened for each: small changes of offset, queue or
timings tip them over, here and in the references (0.93 in one and 0.58 in the other).

Fitted to that reference: nothing numerical. What to model was chosen with it in view: its address
mapping, its queues of 32 requests, DRAMsim3's round robin over banks, Ramulator's watermarks for
writes, and the two clocks of ``ACCEPT_NCK`` and ``REFILL_NCK`` in
:mod:`carsim.hardware.memory.channel`.

Simplifications: those of the two modules; no errors are corrected, no temperature shortens tREFI.
"""

import functools
from dataclasses import dataclass, replace

from carsim.base.files import packaged_rows
from carsim.hardware.memory.base import QUEUE_REQUESTS, MemoryStandard
from carsim.hardware.memory.channel import ACCEPT_NCK, DATA_BUS, REFILL_NCK, Channel
from carsim.hardware.memory.striping import Striping, busy_share
from carsim.hardware.memory.table import STANDARDS
from carsim.hardware.memory.traffic import AccessPattern, bursts

SEQUENTIAL = "sequential.csv"
"""Table of what :func:`scheduled` finds for sequential reads of channels of the usual width, and of
those of shipped boards."""

ROWS = ("hit", "closed", "conflict", "random")
"""State that a lone read finds: its row open, a closed bank, another row open, or one of both."""

CHANNELS_IDLE = "idle channels"
"""Limit of a memory whose channels lose more to waiting for work than each loses while it works."""

BUS_BOUND_FROM = 0.95
"""Share of the time between refreshes in which a busy data bus counts as the limit."""


@dataclass(frozen=True)
class Sustained:
    """Bandwidth that a memory sustains.

    Attributes:
        peak_gbps: All channels at their nominal rate, in 1e9 bytes per second.
        sustained_gbps: What is left of it for useful bytes.
        efficiency: Their ratio, in (0, 1].
        limit: What costs most between refreshes: ``data bus`` (nothing else), ``activation window
            (tFAW)``, ``row cycle``, ``bank group (tCCD_L)``, ``turnaround``, ``outstanding
            requests`` or ``idle channels``.
    """

    peak_gbps: float
    sustained_gbps: float
    efficiency: float
    limit: str


ONE_CHANNEL = Striping()


def sustained(
    standard: MemoryStandard,
    access: AccessPattern,
    striping: Striping = ONE_CHANNEL,
    channel_bits: int | None = None,
) -> Sustained:
    """Bandwidth that channels sustain for an access pattern.

    Args:
        standard: Row of the table.
        access: The pattern over all channels.
        striping: The channels, and how addresses go round them.
        channel_bits: Width of each; the standard's usual one if left out.

    Raises:
        InputError: If there is no such channel.

    >>> from carsim.hardware.memory import STANDARDS
    >>> sustained(STANDARDS["DDR4-2400"], AccessPattern()).limit
    'data bus'
    >>> sustained(STANDARDS["DDR4-2400"], AccessPattern(chunk_bytes=64, random=True)).limit
    'activation window (tFAW)'
    """
    bits = standard.width(channel_bits)
    burst_bytes = standard.burst_length * bits // 8
    seen = striping.on_channel(access)
    efficiency, limit = _efficiency(standard, seen, burst_bytes)
    request_bytes = burst_bytes * seen.bursts_per_request(standard, burst_bytes)
    busy = busy_share(access, striping, request_bytes, access.requests)
    peak_gbps = striping.channels * standard.peak_gbps(bits)
    shown = CHANNELS_IDLE if busy < efficiency else limit
    return Sustained(peak_gbps, busy * efficiency * peak_gbps, busy * efficiency, shown)


@functools.cache
def _efficiency(
    standard: MemoryStandard, access: AccessPattern, burst_bytes: int
) -> tuple[float, str]:
    """As :func:`scheduled`, but found once; of sequential reads in :data:`SEQUENTIAL`, if there."""
    row = STANDARDS.get(standard.name)
    if access == AccessPattern(chunk_bytes=access.chunk_bytes) and row is not None:
        key = standard.name, str(standard.density_gbit), str(burst_bytes)
        if standard == replace(row, density_gbit=standard.density_gbit) and key in _sequential():
            return _sequential()[key]
    return scheduled(standard, access, burst_bytes)


@functools.cache
def _sequential() -> dict[tuple[str, ...], tuple[float, str]]:
    """Efficiency and limit by standard, density, and bytes of a burst."""
    rows = (tuple(row.values()) for row in packaged_rows("carsim.hardware.memory", SEQUENTIAL))
    return {tuple(key): (float(efficiency), limit) for *key, efficiency, limit in rows}


def scheduled(
    standard: MemoryStandard, access: AccessPattern, burst_bytes: int
) -> tuple[float, str]:
    """Useful share of the peak, and what takes the largest part of the rest: some 10 ms."""
    per_request = access.bursts_per_request(standard, burst_bytes)
    window, queue = access.requests * per_request, QUEUE_REQUESTS * per_request
    source = bursts(standard, access, burst_bytes)
    interval = Channel(standard, source, window, queue).run()
    busy_nck = interval.bursts * standard.burst_nck
    efficiency = busy_nck / standard.trefi_nck * access.useful_share(burst_bytes)
    idle_nck = sum(interval.idle_nck.values())
    if busy_nck >= BUS_BOUND_FROM * (busy_nck + idle_nck):
        return efficiency, DATA_BUS
    # Ties go to the name that comes first in the alphabet.
    return efficiency, min(interval.idle_nck, key=lambda name: (-interval.idle_nck[name], name))


def idle_latency_ns(
    standard: MemoryStandard, row: str = "closed", *, refresh: bool = True
) -> float:
    """Mean latency of a lone read, from its arrival at the controller to its last data.

    ``random`` is half way between closed and conflict: how many banks have been opened since the
    last refresh depends on how lone the read is. A hit that waits for a refresh finds its row
    closed.

    Args:
        standard: Row of the table.
        row: One of :data:`ROWS`.
        refresh: Whether to count the mean wait for refreshes; without it, the latency of most
            reads.

    >>> from carsim.hardware.memory import STANDARDS
    >>> row = STANDARDS["DDR4-2400"]
    >>> round(idle_latency_ns(row, "hit", refresh=False), 2)  # (1 + 17 + 4) clocks
    18.33
    """
    precharges = {"hit": 0, "closed": 0, "conflict": 1, "random": 0.5}[row]
    clocks: float = ACCEPT_NCK + standard.cl_nck + standard.tdqsck_nck + standard.burst_nck
    clocks += standard.trcd_nck * (row != "hit") + standard.trp_nck * precharges
    if not refresh:
        return standard.ns(clocks)
    blocked_ns = standard.ns(standard.trp_nck) + standard.trfc_ns
    wait_ns = blocked_ns**2 / (2 * standard.trefi_ns)
    if row == "hit":
        wait_ns += blocked_ns / standard.trefi_ns * standard.ns(standard.trcd_nck)
    return standard.ns(clocks) + wait_ns


def loaded_latency_ns(
    standard: MemoryStandard, load: float, striping: Striping = ONE_CHANNEL
) -> float:
    """Mean latency of sequential reads that arrive at a given rate.

    A queue before one server, the data bus, which serves a burst in tBL and is away for x = tREFI
    (1 - E) of each tREFI, E being the efficiency of a sequential stream. Uniform arrivals wait
    x^2 / (2 tREFI (1 - load)) on average. On several channels, the bursts of a stripe arrive faster
    than one channel serves them, and queue for each other: half of a stripe's service time, less
    half of the time in which it arrives.

    Args:
        standard: Row of the table.
        load: Offered over peak bandwidth; less than what is sustained.
        striping: The channels that one requester reads in turn.
    """
    bound = sustained(standard, AccessPattern()).efficiency
    away_ns = standard.trefi_ns * (1 - bound)
    wait_ns = away_ns**2 / (2 * standard.trefi_ns * (1 - load))
    burst_bytes = standard.burst_length * standard.channel_bits // 8
    bursts_ahead = max(0, striping.interleave_bytes // burst_bytes - 1) / 2
    if load * striping.channels > 1:
        serve_ns = standard.ns(standard.burst_nck)
        wait_ns += bursts_ahead * serve_ns * (1 - 1 / (load * striping.channels))
    return idle_latency_ns(standard, "hit", refresh=False) + wait_ns


def saturated_latency_ns(
    standard: MemoryStandard, access: AccessPattern, striping: Striping = ONE_CHANNEL
) -> float:
    """Mean latency of reads when the requester always keeps all of its requests in flight.

    Little's law: requests in flight on all channels over requests served per time, less the clock
    in which the requester answers. Some requests read.
    """
    burst_bytes = standard.burst_length * standard.channel_bits // 8
    in_flight = access.requests * access.bursts_per_request(standard, burst_bytes)
    useful_bytes = in_flight * striping.channels * burst_bytes * access.useful_share(burst_bytes)
    found = sustained(standard, access, striping)
    reads_gbps = found.sustained_gbps * access.read_fraction
    return useful_bytes / reads_gbps - standard.ns(REFILL_NCK)

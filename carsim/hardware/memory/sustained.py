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
from carsim.hardware.memory.channel import ACCEPT_NCK, REFILL_NCK, Channel
from carsim.hardware.memory.striping import Striping, busy_share
from carsim.hardware.memory.table import STANDARDS
from carsim.hardware.memory.traffic import AccessPattern, bursts

SEQUENTIAL = "sequential.csv"
"""Table of what :func:`scheduled` finds for sequential reads of channels of the usual width, and of
those of shipped boards."""

ROWS = ("hit", "closed", "conflict", "random")
"""State that a lone read finds: its row open, a closed bank, another row open, or one of both."""


@dataclass(frozen=True)
class Sustained:
    """Bandwidth that a memory sustains.

    Attributes:
        peak_gbps: All channels at their nominal rate, in 1e9 bytes per second.
        sustained_gbps: What is left of it for useful bytes.
        efficiency: Their ratio, in (0, 1].
    """

    peak_gbps: float
    sustained_gbps: float
    efficiency: float


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
    >>> round(sustained(STANDARDS["DDR4-2400"], AccessPattern()).sustained_gbps, 1)
    18.3
    """
    bits = standard.width(channel_bits)
    burst_bytes = standard.burst_length * bits // 8
    seen = striping.on_channel(access)
    request_bytes = burst_bytes * seen.bursts_per_request(standard, burst_bytes)
    efficiency = _efficiency(standard, seen, burst_bytes)
    efficiency *= busy_share(access, striping, request_bytes, access.requests)
    peak_gbps = striping.channels * standard.peak_gbps(bits)
    return Sustained(peak_gbps, efficiency * peak_gbps, efficiency)


@functools.cache
def _efficiency(standard: MemoryStandard, access: AccessPattern, burst_bytes: int) -> float:
    """Useful share of the peak of one channel, each calculated once.

    Sequential reads of a standard with unchanged timings are looked up in :data:`SEQUENTIAL`, if
    the table has them; anything else is scheduled (:func:`scheduled`).
    """
    row = STANDARDS.get(standard.name)
    is_sequential = access == AccessPattern(chunk_bytes=access.chunk_bytes)
    if is_sequential and row is not None:
        key = (standard.name, str(standard.density_gbit), str(burst_bytes))
        is_unchanged = standard == replace(row, density_gbit=standard.density_gbit)
        if is_unchanged and key in _sequential():
            return _sequential()[key]
    return scheduled(standard, access, burst_bytes)


@functools.cache
def _sequential() -> dict[tuple[str, ...], float]:
    """Efficiency by standard, density, and bytes of a burst."""
    efficiencies = {}
    for row in packaged_rows("carsim.hardware.memory", SEQUENTIAL):
        *key, efficiency = row.values()
        efficiencies[tuple(key)] = float(efficiency)
    return efficiencies


def scheduled(standard: MemoryStandard, access: AccessPattern, burst_bytes: int) -> float:
    """Useful share of the peak of one channel, by its simulated commands; it takes some 10 ms."""
    bursts_per_request = access.bursts_per_request(standard, burst_bytes)
    channel = Channel(
        standard,
        source=bursts(standard, access, burst_bytes),
        window=access.requests * bursts_per_request,
        queue=QUEUE_REQUESTS * bursts_per_request,
    )
    moved_bursts = channel.run()
    bursting_share = moved_bursts * standard.burst_nck / standard.trefi_nck
    return bursting_share * access.useful_share(burst_bytes)


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
    away_ns = standard.trefi_ns * (1 - sustained(standard, AccessPattern()).efficiency)
    wait_ns = away_ns**2 / (2 * standard.trefi_ns * (1 - load))
    burst_bytes = standard.burst_length * standard.channel_bits // 8
    bursts_ahead = max(0, striping.interleave_bytes // burst_bytes - 1) / 2
    if load * striping.channels > 1:
        serve_ns = standard.ns(standard.burst_nck)
        wait_ns += bursts_ahead * serve_ns * (1 - 1 / (load * striping.channels))
    return idle_latency_ns(standard, "hit", refresh=False) + wait_ns


def saturated_latency_ns(standard: MemoryStandard, access: AccessPattern) -> float:
    """Mean latency of reads when the requester always keeps all of its requests in flight.

    Little's law: requests in flight over requests served per time, less the clock in which the
    requester answers. Some requests read.
    """
    burst_bytes = standard.burst_length * standard.channel_bits // 8
    in_flight = access.requests * access.bursts_per_request(standard, burst_bytes)
    useful_bytes = in_flight * burst_bytes * access.useful_share(burst_bytes)
    reads_gbps = sustained(standard, access).sustained_gbps * access.read_fraction
    return useful_bytes / reads_gbps - standard.ns(REFILL_NCK)

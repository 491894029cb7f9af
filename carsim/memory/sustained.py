"""What a DRAM sustains and how long it makes one wait, from the timings of its standard alone.

Model of the bandwidth: the commands of one channel are scheduled one by one over one refresh
interval (:mod:`carsim.memory.channel`) for the bursts that the access pattern asks for
(:mod:`carsim.memory.traffic`, which states the address mapping). Efficiency is the time of the
useful bursts over that of the interval. Channels are alike and independent: each sees the whole
pattern, and bandwidth scales with their number.

Model of the latency: the commands of a lone read, plus its share of waiting for refreshes. A
refresh keeps a channel for x = tRP + tRFC; a read that arrives in it, with probability x / tREFI,
waits half of it on average: x^2 / (2 tREFI).

How far it goes: against two cycle-accurate simulators (DDR4-2400,
``tests/data/dram_reference.csv``), which differ by 2.3 points on average and by up to 35, bandwidth
lies between the two or within 2.5 % of the nearer in every row;
``tests/acceptance/test_dram_reference.py`` has the bounds for each kind of row. For random chunks
of 4 KiB it is above both (0.95; they have 0.93 and 0.87), as this controller never closes a row
that a waiting request wants. A pseudo-channel of an Alveo U280 was measured at 13.27 GB/s; it is
13.32 here.

Few streams of chunks that do not reach all banks have two regimes, with rows shared by several
chunks or opened for each: small changes of offset, queue or timings tip them over, here and in the
references (0.93 in one and 0.58 in the other). In this corner the model can be off by tens of
percent.

Fitted to that reference: nothing numerical. What to model was chosen with it in view: its address
mapping, its queues of 32 requests, Ramulator's watermarks for writes, streams at unrelated offsets
(from aligned ones, 16 streams of 64 B would get half), and the two clocks of ``ACCEPT_NCK`` and
``REFILL_NCK`` in :mod:`carsim.memory.channel`.

Simplifications: those of the two modules; no errors are corrected, no temperature shortens tREFI.
"""

import functools
from dataclasses import dataclass

from carsim.errors import InputError
from carsim.memory.channel import ACCEPT_NCK, DATA_BUS, REFILL_NCK, Channel
from carsim.memory.standards import STANDARDS, DramTimings, standard
from carsim.memory.traffic import PATTERNS, Access, bursts

__all__ = [
    "ARRIVALS",
    "PATTERNS",
    "ROWS",
    "STANDARDS",
    "Access",
    "DramTimings",
    "Sustained",
    "idle_latency_ns",
    "loaded_latency_ns",
    "saturated_latency_ns",
    "standard",
    "sustained",
]

ROWS = ("hit", "closed", "conflict", "random")
"""What a lone read finds: its row open, a closed bank, another row open, or one of the last two."""

ARRIVALS = ("uniform", "poisson")
"""How requests of a given rate arrive."""

BUS_BOUND_FROM = 0.95
"""Share of the time between refreshes in which a busy data bus counts as the limit."""


@dataclass(frozen=True)
class Sustained:
    """What a memory sustains.

    Attributes:
        peak_gbps: All channels at their nominal rate, in 1e9 bytes per second.
        sustained_gbps: What is left of it for useful bytes.
        efficiency: Their ratio, in (0, 1].
        limit: What costs most between refreshes: ``data bus`` (nothing else), ``activation window
            (tFAW)``, ``row cycle``, ``bank group (tCCD_L)``, ``turnaround`` or ``outstanding
            requests``.
    """

    peak_gbps: float
    sustained_gbps: float
    efficiency: float
    limit: str


def sustained(
    timings: DramTimings, access: Access, channels: int = 1, channel_bits: int | None = None
) -> Sustained:
    """Bandwidth that channels sustain for an access pattern.

    Args:
        timings: Row of the table.
        access: The pattern, as each channel sees it.
        channels: Number of channels.
        channel_bits: Width of each; the standard's usual one if left out.

    Raises:
        InputError: If there is no such channel.

    >>> row = standard("DDR4-2400")
    >>> sustained(row, Access()).limit
    'data bus'
    >>> sustained(row, Access("random", chunk_bytes=64)).limit
    'activation window (tFAW)'
    """
    bits = _width(timings, channel_bits)
    if channels < 1:
        raise InputError("DRAM channels", f"got {channels}", "give at least one")
    efficiency, limit = _efficiency(timings, access, timings.burst_length * bits // 8)
    peak_gbps = channels * timings.peak_gbps(bits)
    return Sustained(peak_gbps, efficiency * peak_gbps, efficiency, limit)


@functools.cache
def _efficiency(timings: DramTimings, access: Access, burst_bytes: int) -> tuple[float, str]:
    """Useful share of the peak, and what takes the largest part of the rest."""
    channel = Channel(
        timings, bursts(timings, access, burst_bytes), access.window_bursts(burst_bytes)
    )
    interval = channel.run()
    busy_nck = interval.bursts * timings.burst_nck
    efficiency = busy_nck / timings.trefi_nck * access.useful_share(burst_bytes)
    idle_nck = sum(interval.idle_nck.values())
    if busy_nck >= BUS_BOUND_FROM * (busy_nck + idle_nck):
        return efficiency, DATA_BUS
    # Ties go to the name that comes first in the alphabet.
    return efficiency, min(interval.idle_nck, key=lambda name: (-interval.idle_nck[name], name))


def idle_latency_ns(timings: DramTimings, row: str = "closed", *, refresh: bool = True) -> float:
    """Mean latency of a lone read, from its arrival at the controller to its last data.

    ``random`` is half way between closed and conflict: how many banks have been opened since the
    last refresh depends on how lone the read is.

    Args:
        timings: Row of the table.
        row: One of :data:`ROWS`.
        refresh: Whether to count the mean wait for refreshes; without it, the latency of most
        reads.

    Raises:
        InputError: If ``row`` is none of them.

    >>> row = standard("DDR4-2400")
    >>> round(idle_latency_ns(row, "hit", refresh=False), 2)  # (1 + 17 + 4) clocks
    18.33
    """
    if row not in ROWS:
        raise InputError("DRAM row", f"got {row!r}", f"choose one of {', '.join(ROWS)}")
    clocks: float = ACCEPT_NCK + timings.cl_nck + timings.tdqsck_nck + timings.burst_nck
    if row != "hit":
        clocks += timings.trcd_nck
    if row == "conflict":
        clocks += timings.trp_nck
    elif row == "random":
        clocks += timings.trp_nck / 2
    blocked_ns = timings.ns(timings.trp_nck) + timings.trfc_ns
    wait_ns = blocked_ns**2 / (2 * timings.trefi_ns) if refresh else 0.0
    return timings.ns(clocks) + wait_ns


def loaded_latency_ns(timings: DramTimings, load: float, arrivals: str = "uniform") -> float:
    """Mean latency of sequential reads that arrive at a given rate.

    Reads that come during a refresh queue up and drain at the rate that the load leaves over: their
    wait is x^2 / (2 tREFI (1 - load)), x being the time that the refresh keeps the data bus idle,
    tRTP + tRP + tRFC + tRCD. Random arrivals also wait for each other as in a queue of constant
    service (Pollaczek and Khinchine): load * tBL / (2 (1 - load)).

    Args:
        timings: Row of the table.
        load: Offered over peak bandwidth; less than what is sustained.
        arrivals: One of :data:`ARRIVALS`.

    Raises:
        InputError: If the load is not sustained, or ``arrivals`` is unknown.
    """
    if arrivals not in ARRIVALS:
        raise InputError(
            "DRAM arrivals", f"got {arrivals!r}", f"choose one of {', '.join(ARRIVALS)}"
        )
    bound = sustained(timings, Access()).efficiency
    if not 0.0 <= load < bound:
        raise InputError("DRAM load", f"got {load}", f"give at least 0 and less than {bound:.3f}")
    around_nck = timings.trtp_nck + timings.trp_nck + timings.trcd_nck
    idle_ns = timings.ns(around_nck) + timings.trfc_ns
    wait_ns = idle_ns**2 / (2 * timings.trefi_ns * (1 - load))
    if arrivals == "poisson":
        wait_ns += load * timings.ns(timings.burst_nck) / (2 * (1 - load))
    return idle_latency_ns(timings, "hit", refresh=False) + wait_ns


def saturated_latency_ns(
    timings: DramTimings, access: Access, channel_bits: int | None = None
) -> float:
    """Mean latency of reads when the requester always keeps all of its requests in flight.

    Little's law: requests in flight over requests served per time, less the clock in which the
    requester answers.

    Raises:
        InputError: If there are no reads, or no such channel.
    """
    if access.read_fraction == 0.0:
        raise InputError("DRAM access: read_fraction", "got 0.0", "give a share with reads in it")
    bits = _width(timings, channel_bits)
    burst_bytes = timings.burst_length * bits // 8
    useful_bytes = (
        access.window_bursts(burst_bytes) * burst_bytes * access.useful_share(burst_bytes)
    )
    reads_gbps = sustained(timings, access, 1, bits).sustained_gbps * access.read_fraction
    return useful_bytes / reads_gbps - timings.ns(REFILL_NCK)


def _width(timings: DramTimings, channel_bits: int | None) -> int:
    """Width of a channel, which is made of whole devices."""
    if channel_bits is None:
        return timings.channel_bits
    if channel_bits < 1 or channel_bits % timings.device_bits:
        raise InputError(
            f"width of a {timings.name} channel",
            f"got {channel_bits} bits",
            f"give a multiple of {timings.device_bits}",
        )
    return channel_bits

"""Conversions, in one place; behind the YAML edge all is bytes, cycles, seconds, joules."""

from fractions import Fraction

KIB = 1024
MIB = 1024**2
GIB = 1024**3
GB = 1_000_000_000


def bytes_per_cycle(gbps: float, clock_mhz: float) -> Fraction:
    """Bandwidth as an exact rational of bytes per fabric cycle.

    The two clock domains have no common divisor. The ratio is taken to a 4096th of a byte per cycle
    (a millionth of what a DDR4 channel carries), so that sums of many transfers stay exact in 64
    bits instead of being rounded per transfer.

    Args:
        gbps: Bandwidth in 1e9 bytes per second.
        clock_mhz: Fabric clock in MHz.

    >>> bytes_per_cycle(19.2, 300.0)
    Fraction(64, 1)
    """
    return Fraction(round(4096 * gbps * 1e3 / clock_mhz), 4096)


def ns_to_cycles(latency_ns: float, clock_mhz: float) -> int:
    """Latency in whole fabric cycles, rounded up.

    >>> ns_to_cycles(100.0, 250.0)
    25
    """
    return -(-round(latency_ns * 1_000) * round(clock_mhz * 1_000) // 1_000_000_000)

"""Conversions, in one place; behind the YAML edge all is bytes, cycles, seconds, joules."""

from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:  # units are loaded before any array is needed
    import numpy as np
    from numpy.typing import NDArray

Whole = TypeVar("Whole", int, "NDArray[np.int64]", "int | NDArray[np.integer]")
"""A whole number, an int64 array of any shape, or either; functions return what they are given."""

KIB = 1024
MIB = 1024**2
GIB = 1024**3
GB = 1_000_000_000

PARTS = 10_000
"""Largest denominator of a decimal that counts are multiplied by: it is off by 1e-8 at most, unless
it has more than four places and is no simple fraction."""


@lru_cache(1 << 12)
def rational(decimal: float | Fraction) -> Fraction:
    """A decimal of a design as the nearest fraction that keeps its products in 64 bits.

    A larger decimal never becomes a smaller fraction.

    >>> rational(4.15625), rational(3.3333333333333335)
    (Fraction(133, 32), Fraction(10, 3))
    """
    return Fraction(str(decimal)).limit_denominator(PARTS)


def scaled(count: Whole, ratio: Fraction) -> Whole:
    """ceil(count * ratio) of a whole number or an int64 array, exactly.

    Nothing on the way is larger than the result and PARTS times the numerator.

    >>> scaled(2**60, Fraction(3, 2)) == 3 * 2**59
    True
    """
    numerator, denominator = ratio.as_integer_ratio()
    whole = count // denominator
    rest = count - whole * denominator
    return whole * numerator - (-rest * numerator // denominator)


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

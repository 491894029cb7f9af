"""Intervals of ratios, which tell the better of two designs even if neither is known well.

Model: a draw gives every constant one value, which serves both designs, so that shared errors
cancel: a design that does half of everything costs half, whatever the constants are. The median of
a constant is its value: half of the draws are uniform between low and value, the other half between
value and high. Constants are independent of each other.

Draws depend on the seed and the name of the constant alone, so that A against B, and B against C,
are compared under the same draws.
"""

import zlib
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Draws = NDArray[np.float64]
"""A quantity under every draw of the constants."""

INTERVAL = (0.05, 0.95)
"""Quantiles at the ends of an interval."""


class Term(NamedTuple):
    """A summand with its interval; terms of the same name err together, wherever they occur."""

    name: str
    low: float
    value: float
    high: float


class Ratio(NamedTuple):
    """A over B, less being better.

    Attributes:
        value: Ratio of the values.
        low: 5 % of the draws lie below.
        high: 5 % of the draws lie above.
        a_wins: Share of the draws in which A is less than B; a tie counts half.
    """

    value: float
    low: float
    high: float
    a_wins: float


def ratio_of(value: float, a: Draws, b: Draws) -> Ratio:
    """Ratio of two quantities whose draws are known.

    Args:
        value: Ratio of their values.
        a: Draws of A.
        b: Draws of B, of the same constants, positive.
    """
    low, high = np.quantile(a / b, INTERVAL)
    # A tie counts half.
    a_wins = np.mean(a < b) + np.mean(a == b) / 2
    return Ratio(value, low=float(low), high=float(high), a_wins=float(a_wins))


def drawn(term: Term, draws: int = 10_000, seed: int = 0) -> Draws:
    """Draws of one term, float64[draws]."""
    shares = _shares(term.name, draws, seed)
    return np.interp(shares, (0.0, 0.5, 1.0), (term.low, term.value, term.high))


def slowdowns(
    memory: str,
    bandwidth_factors: tuple[float, float],
    time_factors: tuple[float, float],
    draws: int = 10_000,
) -> Draws:
    """Draws of a time over its value, as the bandwidth of a memory varies, float64[draws].

    Between the three bandwidths that were simulated, time is linear in 1 / bandwidth.

    Args:
        memory: Name of the memory; times of designs with a memory of this name err together.
        bandwidth_factors: Lowest and highest bandwidth over the expected one.
        time_factors: Time at the highest and at the lowest bandwidth over the expected time.
        draws: Number of draws.
    """
    lowest, highest = bandwidth_factors
    fastest, slowest = time_factors
    factor = drawn(Term(f"bandwidth of {memory}", lowest, 1.0, highest), draws)
    return np.interp(1 / factor, (1 / highest, 1.0, 1 / lowest), (fastest, 1.0, slowest))


@lru_cache(maxsize=256)
def _shares(name: str, draws: int, seed: int) -> Draws:
    """Uniform draws between 0 and 1 that belong to a name, float64[draws], not to be changed."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    shares = rng.random(draws)
    shares.flags.writeable = False
    return shares

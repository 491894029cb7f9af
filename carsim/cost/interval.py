"""Intervals of ratios: which of two designs is better, though neither is known well.

Model: every constant is drawn once per draw and serves both designs, so that what they share
cancels: a design that does half of everything costs half, whatever the constants. A draw of a
constant is uniform between low and value in one half of the cases, and between value and high in
the other: the value is the median. Constants are independent of each other.

Draws depend on the seed and the name of the constant alone, so that A against B, and B against C,
are compared under the same draws.
"""

import zlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Draws = NDArray[np.float64]
"""A quantity under every draw of the constants."""

INTERVAL = (0.05, 0.95)
"""Quantiles that an interval reaches from and to."""


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
    return Ratio(value, float(low), float(high), float(np.mean(a < b) + np.mean(a == b) / 2))


def drawn(term: Term, draws: int = 10_000, seed: int = 0) -> Draws:
    """Draws of one term, float64[draws]."""
    rng = np.random.default_rng([seed, zlib.crc32(term.name.encode())])
    return np.interp(rng.random(draws), (0.0, 0.5, 1.0), (term.low, term.value, term.high))

"""Intervals of ratios, which tell the better of two designs even if neither is known well.

Model: a draw gives every constant one value, which serves both designs, so that shared errors
cancel: a design that does half of everything costs half, whatever the constants are. The median of
a constant is its value: half of the draws are uniform between low and value, the other half between
value and high. Constants are independent of each other.

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
    rng = np.random.default_rng([seed, zlib.crc32(term.name.encode())])
    return np.interp(rng.random(draws), (0.0, 0.5, 1.0), (term.low, term.value, term.high))

"""Correlated yes-or-no decisions as normals that exceed thresholds (a Gaussian copula).

A decision is True where a standard normal exceeds the threshold that gives it its probability. Two
decisions correlate because their normals do. Their phi coefficient is smaller than the correlation
of the normals, and depends on both probabilities; the functions here lead from one to the other.
"""

from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

_HALVINGS = 60  # halves an interval of 1 down to below the spacing of doubles


@cache
def _gauss_legendre() -> tuple[Floats, Floats]:
    """Nodes within -1 and 1 and their weights; found when first asked for, not at import."""
    nodes, weights = np.polynomial.legendre.leggauss(48)
    return nodes, weights


def thresholds(probability: ArrayLike) -> Floats:
    """Thresholds that a standard normal exceeds with these probabilities.

    Infinite for 0, minus infinity for 1.

    >>> thresholds([0.1, 0.0]).round(3).tolist()
    [1.282, inf]
    """
    from statistics import NormalDist  # loads fractions and decimals: only where it is asked for

    wanted = np.asarray(probability, float)
    inside = np.clip(wanted, 1e-300, 1 - 1e-16)
    found: Floats = -np.vectorize(NormalDist().inv_cdf, otypes=[float])(inside)
    return np.where(wanted <= 0, np.inf, np.where(wanted >= 1, -np.inf, found))


def phi_of(correlation: float, p: ArrayLike, q: ArrayLike) -> Floats:
    """Phi of two decisions, element by element.

    The excess of P(both) over p q is an integral over the correlation of the normals: Plackett,
    Biometrika 41 (1954), here in the angle whose sine is the correlation.

    Args:
        correlation: Of the normals, 0 to 1.
        p: Probabilities of the first decisions, within 0 and 1.
        q: Those of the second.

    >>> phi_of(0.5, 0.5, 0.5).round(9).tolist()  # 2 asin(0.5) / pi
    0.333333333
    """
    p, q = np.asarray(p, float), np.asarray(q, float)
    h, k = thresholds(p)[..., None], thresholds(q)[..., None]
    top = np.arcsin(correlation)
    nodes, weights = _gauss_legendre()
    sine = np.sin(top * (nodes + 1) / 2)
    density = np.exp(-(h**2 + k**2 - 2 * h * k * sine) / (2 * (1 - sine**2))) / (2 * np.pi)
    excess = (density * weights).sum(-1) * top / 2
    found: Floats = excess / np.sqrt(p * (1 - p) * q * (1 - q))
    return found


def correlation_of(phi: float, p: ArrayLike, q: ArrayLike) -> float:
    """The correlation of normals, 0 to 1, whose decisions have this phi in the mean.

    Args:
        phi: Mean over all pairs of decisions.
        p: Probabilities of the first decision of each pair, within 0 and 1.
        q: Those of the second.

    Returns:
        0 for a negative phi, and 1 for one that is larger than these probabilities allow.

    >>> round(correlation_of(1 / 3, [0.5], [0.5]), 9)
    0.5
    """
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if phi_of(middle, p, q).mean() < phi else (low, middle)
    return 0.0 if phi <= 0 else (low + high) / 2


def agreement_of(correlation: float, p: float) -> float:
    """Share of decisions in which two rows agree that both replay with probability p.

    >>> round(agreement_of(0.5, 0.5), 9)  # (1 + phi) / 2
    0.666666667
    """
    if not 0 < p < 1:
        return 1.0
    phi = 1.0 if correlation == 1 else float(phi_of(correlation, p, p))
    return 1 - 2 * p * (1 - p) * (1 - phi)


def correlation_of_agreement(agreement: float, p: float) -> float:
    """The correlation of normals, 0 to 1, whose decisions agree so often.

    Args:
        agreement: Share of decisions that agree; what is out of reach gives 0 or 1.
        p: Probability of a replay.

    >>> round(correlation_of_agreement(2 / 3, 0.5), 9)
    0.5
    """
    phi = 1 - (1 - agreement) / (2 * p * (1 - p)) if 0 < p < 1 else 1.0
    return 1.0 if phi >= 1 else correlation_of(phi, p, p)

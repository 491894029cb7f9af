"""Replay decisions that are drawn: correlated normals that exceed thresholds (a Gaussian copula).

Row b replays in layer l at place i of frame t where a standard normal z[t, i, l, b] exceeds the
threshold that gives layer l its ratio. Rows of a guidance pair correlate by ``within_pair``, rows
of different pairs by ``across_clips``. Decisions correlate less than their normals do.

Layers have the ratios p[l] = sigmoid(offset + dip * x**2) for x from -1 (first layer) to 1 (last):
FastCar (arXiv 2505.14709, figure 5) publishes that middle layers replay least. The offset is
solved, so that the mean of p over layers is the ratio that is asked for.

Simplifications: places, frames and layers decide independently, as no latency depends on the order
of decisions. All pairs have the same ratio, and no layer is exempt.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from carsim.decisions.attention.base import Bools
from carsim.decisions.trace.decisions import DecisionShape

Floats = NDArray[np.float64]

_HALVINGS = 60  # halve an interval of 1 down to below the spacing of doubles


@dataclass(frozen=True)
class Assumptions:
    """Numbers of the model that FastCar does not publish.

    Attributes:
        dip: Logits by which the middle layer lies below the first and last; 0: equal ratios.
        within_pair: Correlation of the normals of the two rows of a guidance pair.
        across_clips: Correlation of rows of different pairs, at most ``within_pair``.
    """

    dip: float = 0.0
    within_pair: float = 0.0
    across_clips: float = 0.0


MEASURED = Assumptions(dip=4.381, within_pair=0.987, across_clips=0.509)
"""Correlations of ``traces/vilau_8f.npz``, and the dip that gives its spread of layers."""


def draw(ratio: float, assumed: Assumptions, frames: int, shape: DecisionShape, seed: int) -> Bools:
    """Decisions of whole guidance pairs, bool[S, L, B]; rows 2 i and 2 i + 1 are a pair.

    Each pair draws from a generator of its own, frame after frame: more pairs, or more frames,
    leave all other decisions as they are.

    Args:
        ratio: Share of the steps after the first frame that replay, in expectation over seeds.
        assumed: Layer profile and correlations.
        frames: T.
        shape: Shape of the decisions.
        seed: Seed of all draws.
    """
    steps, layers, rows = shape
    tokens = steps // frames
    threshold = _thresholds(layer_ratios(ratio, assumed.dip, layers))[:, None]
    within_pair = assumed.within_pair
    pair_to_all = assumed.across_clips / within_pair if within_pair else 0.0
    replay = np.zeros((frames, tokens, layers, rows), bool)
    # Normals of frame after frame: one that all rows share; per pair one of its own, and its rows'.
    normals_of_all = _normals(seed, 0, tokens, layers, 1)
    normals_of_pairs = [
        _normals(seed, 1 + pair, tokens, layers, 3) for pair in range(-(-rows // 2))
    ]
    for frame in replay:
        shared = next(normals_of_all)
        for pair, normals_of_pair in enumerate(normals_of_pairs):
            normals = next(normals_of_pair)
            of_pair = _sharing(shared, normals[..., :1], pair_to_all)
            of_rows = _sharing(of_pair, normals[..., 1:], within_pair)
            frame[..., 2 * pair : 2 * pair + 2] = of_rows > threshold
    replay[0] = False
    return replay.reshape(-1, layers, rows)


def layer_ratios(ratio: float, dip: float, layers: int) -> Floats:
    """Ratios of layers, float[L]: a parabola of logits whose mean over layers is the ratio."""
    if not 0 < ratio < 1:
        return np.full(layers, float(ratio))
    bow = dip * np.linspace(-1, 1, layers) ** 2
    high = math.log(ratio) - math.log1p(-ratio)
    low = high - dip
    for _ in range(_HALVINGS):
        offset = (low + high) / 2
        ratios: Floats = np.exp(-np.logaddexp(0, -(offset + bow)))
        if ratios.mean() < ratio:
            low = offset
        else:
            high = offset
    return ratios


def agreement_of(correlation: float, p: float) -> float:
    """Share of decisions in which two rows agree that both replay with probability p.

    The excess of P(both) over p^2 is an integral over the correlation of the normals (Plackett,
    Biometrika 41, 1954), here in the angle whose sine is the correlation.

    >>> round(agreement_of(0.5, 0.5), 9)
    0.666666667
    """
    if not 0 < p < 1:
        return 1.0
    nodes, weights = _gauss_legendre()
    top = math.asin(correlation)
    sine = np.sin(top * (nodes + 1) / 2)
    density = np.exp(-(NormalDist().inv_cdf(p) ** 2) / (1 + sine)) / (2 * math.pi)
    excess = float(density @ weights) * top / 2
    return 1 - 2 * (p * (1 - p) - excess)


def correlation_of(agreement: float, p: float) -> float:
    """The correlation of normals, 0 to 1, whose decisions agree so often.

    Args:
        agreement: Share of decisions that agree; a share out of reach gives 0 or 1.
        p: Probability of a replay.

    >>> round(correlation_of(2 / 3, 0.5), 9)
    0.5
    """
    low = 0.0
    high = 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if agreement_of(middle, p) < agreement:
            low = middle
        else:
            high = middle
    return (low + high) / 2


@cache
def _gauss_legendre() -> tuple[Floats, Floats]:
    """Nodes within -1 and 1 and their weights; found when first asked for, not at import."""
    return np.polynomial.legendre.leggauss(48)


def _thresholds(ratios: Floats) -> Floats:
    """Thresholds that a standard normal exceeds with these probabilities."""
    ends = {0.0: math.inf, 1.0: -math.inf}
    return np.array([ends.get(p) or -NormalDist().inv_cdf(p) for p in ratios.tolist()])


def _normals(seed: int, stream: int, places: int, layers: int, count: int) -> Iterator[Floats]:
    """Independent standard normals [N, L, count] of frame after frame.

    One draw, and one layer of each, are left over: an earlier model correlated frames and layers by
    them, and equal seeds still give its decisions.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(stream,)))
    rng.standard_normal((places, 1 + layers, count))
    while True:
        yield rng.standard_normal((places, 1 + layers, count))[:, 1:]


def _sharing(shared: Floats, own: Floats, correlation: float) -> Floats:
    """Standard normals that correlate through what they share."""
    return math.sqrt(correlation) * shared + math.sqrt(1 - correlation) * own

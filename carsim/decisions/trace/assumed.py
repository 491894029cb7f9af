"""What a synthetic trace assumes, and how to measure it on a captured one."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from carsim.base.errors import InputError
from carsim.decisions.trace.copula import Floats, correlation_of
from carsim.decisions.trace.file import Trace

_MOST_DIP = 20.0
_DIGITS = 3  # of measured numbers: sampling moves the third already


def check_range(name: str, value: float, least: float, most: float) -> None:
    """Refuse a number outside of a range.

    Raises:
        InputError: It is.
    """
    if isinstance(value, bool) or not least <= value <= most:
        expected = f"{least:g} or more" if most == math.inf else f"{least:g} to {most:g}"
        raise InputError(name, f"expected {expected}, got {value!r}")


@dataclass(frozen=True)
class Assumptions:
    """What the model needs and FastCar does not publish. Correlations are those of the normals.

    Attributes:
        dip: How far the middle layer lies below the first and last, in logits; 0: equal shares.
        within_pair: Correlation of the two rows of a guidance pair.
        across_clips: Correlation of rows of different pairs, at most ``within_pair``.
        across_layers: Correlation of two layers.
        persistence: Correlation with the same place one frame before.
        lasting: The same with a frame far away, at most ``persistence``.

    Raises:
        InputError: A number that is out of range.
    """

    dip: float
    within_pair: float
    across_clips: float
    across_layers: float
    persistence: float
    lasting: float

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            check_range(name, value, 0, _MOST_DIP if name == "dip" else 1)
        check_range("across_clips", self.across_clips, 0, self.within_pair)
        check_range("lasting", self.lasting, 0, self.persistence)

    @property
    def fading(self) -> float:
        """Share of the rest that is left one frame later."""
        rest = 1 - self.lasting
        return (self.persistence - self.lasting) / rest if rest else 0.0


TWIN = Assumptions(
    dip=4.381,
    within_pair=0.987,
    across_clips=0.509,
    across_layers=0.107,
    persistence=0.934,
    lasting=0.698,
)
"""``measure(load_trace("traces/vilau_8f.npz"))``; a test says when that trace has moved on."""


def measure(trace: Trace) -> Assumptions:
    """The assumptions under which the model shows what a trace shows.

    Correlations are phi coefficients over eligible steps, each within one row and one layer, so
    that rows and layers may have ratios of their own; their mean is turned into the correlation of
    normals that gives the same mean. Layers that cannot replay are left out. The dip is the one
    that gives the layers' ratios their standard deviation, whatever their order. What a trace is
    too small to show (one clip, one layer, two frames) is 0.

    Raises:
        InputError: The trace has no guidance pairs, or no layer that both computes and replays.
    """
    if not trace.meta.guidance_pairs:
        raise InputError(trace.name, "has no guidance pairs", "take a trace with guidance pairs")
    shape = (trace.n_frames, trace.tokens_per_frame, trace.n_layers, trace.n_rows)
    eligible = trace.replay.reshape(shape)[1:]
    by_layer = eligible.mean(axis=(0, 1, 3)) if len(eligible) else np.zeros(trace.n_layers)
    deciding = (by_layer > 0) & (by_layer < 1)
    if not deciding.any():
        problem = "no layer both computes and replays, so that nothing can be measured"
        raise InputError(trace.name, problem, "take a trace with replays")
    p, x = by_layer[deciding], _standardised(eligible[:, :, deciding])
    pairs = trace.meta.guidance_pairs
    clips = combinations([row for row, _ in pairs], 2)
    layers = list(combinations(range(len(p)), 2))
    phi_pair, phi_clip = (
        _mean([_phi(x[..., a], x[..., b]) for a, b in rows]) for rows in (pairs, clips)
    )
    phi_layer = _mean([_phi(x[:, :, a], x[:, :, b]) for a, b in layers])
    firsts, seconds = p[[a for a, _ in layers]], p[[b for _, b in layers]]
    kept = [correlation_of(_phi(x[lag:], x[:-lag]), p, p) for lag in range(1, len(x))]
    persistence, lasting = _fitted(kept)
    pair = correlation_of(phi_pair, p, p)
    found = {
        "dip": _dip(p),
        "within_pair": pair,
        "across_clips": min(pair, correlation_of(phi_clip, p, p)),
        "across_layers": correlation_of(phi_layer, firsts, seconds) if layers else 0.0,
        "persistence": persistence,
        "lasting": lasting,
    }
    return Assumptions(**{name: round(value, _DIGITS) for name, value in found.items()})


def profile(ratio: float, dip: float, layers: int) -> Floats:
    """Ratios of layers, float[L]: a parabola of logits whose mean over layers is the ratio."""
    if not 0 < ratio < 1:
        return np.full(layers, float(ratio))
    shape = dip * np.linspace(-1, 1, layers) ** 2
    high = math.log(ratio) - math.log1p(-ratio)
    low = high - dip
    for _ in range(60):
        offset = (low + high) / 2
        found: Floats = np.exp(-np.logaddexp(0, -(offset + shape)))
        low, high = (offset, high) if found.mean() < ratio else (low, offset)
    return found


def _standardised(decisions: NDArray[np.bool_]) -> Floats:
    """Decisions [T, N, L, B] less their mean over their standard deviation, each of a layer's row.

    NaN where a row never changes its mind.
    """
    x = decisions.astype(np.float64) - decisions.mean(axis=(0, 1))
    spread = decisions.std(axis=(0, 1))
    unchanged = np.full(x.shape, np.nan)
    standardised: Floats = np.divide(x, spread, out=unchanged, where=spread > 0)
    return standardised


def _phi(a: Floats, b: Floats) -> float:
    """Mean phi of two arrays of standardised decisions, [T, N, ...], over all that follows T, N."""
    return _mean(np.mean(a * b, axis=(0, 1)))


def _mean(values: ArrayLike) -> float:
    """Mean of the values that are numbers; 0 if none is."""
    values = np.asarray(values, float)
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else 0.0


def _dip(by_layer: Floats) -> float:
    """The dip of the profile of equal mean and standard deviation; 0 of fewer than three layers."""
    low, high = 0.0, _MOST_DIP if len(by_layer) > 2 else 0.0
    for _ in range(60):
        dip = (low + high) / 2
        spread = profile(float(by_layer.mean()), dip, len(by_layer)).std()
        low, high = (dip, high) if spread < by_layer.std() else (low, dip)
    return (low + high) / 2


def _fitted(kept: Sequence[float]) -> tuple[float, float]:
    """Persistence and lasting correlation, by least squares over frames 1, 2, ... apart.

    Distances weigh as many frames as show them.
    """
    if len(kept) < 2:
        return (kept[0] if kept else 0.0), 0.0
    found, weight = np.array(kept), np.arange(len(kept), 0, -1)
    best = (math.inf, 0.0, 0.0)
    for fading in np.linspace(0, 0.99, 100):
        faded = fading ** np.arange(1, len(kept) + 1)
        rest = 1 - faded
        lasting = np.clip((weight * rest * (found - faded)).sum() / (weight * rest**2).sum(), 0, 1)
        error = float((weight * (found - lasting - (1 - lasting) * faded) ** 2).sum())
        best = min(best, (error, float(lasting + (1 - lasting) * fading), float(lasting)))
    return best[1:]

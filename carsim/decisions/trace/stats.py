"""Statistics of a trace: replay ratios, quantiles of scores, correlation of decisions.

Two definitions of the replay ratio are in use, and both are given by name: over *all* steps, and
over *eligible* steps (the first frame, which never replays, left out). Correlation is taken over
eligible steps and the layers that can replay: rows agree for nothing where neither of them may.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from carsim.decisions.trace.decisions import replay_ratio
from carsim.decisions.trace.file import Trace

QUANTILES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)


@dataclass(frozen=True, eq=False)
class ReplayRatio:
    """Replayed share of the decisions, in two definitions.

    Attributes:
        over_all: Over all steps.
        over_eligible: Over the steps after the first frame.
    """

    over_all: float
    over_eligible: float


@dataclass(frozen=True)
class ReadStats:
    """Keys that attention read and held, where its policy records them.

    Attributes:
        density: Keys read over the context, mean over steps, layers, heads and rows.
        mean_runs: Contiguous runs, mean over steps, layers, heads and rows.
        most_held: Most tokens that the cache holds after a frame.
    """

    density: float
    mean_runs: float
    most_held: int


@dataclass(frozen=True, eq=False)
class TraceStats:
    """Statistics of a trace. L layers, T frames, B rows; ratios are fractions.

    Attributes:
        ratio: Of the whole trace.
        by_layer: One per layer.
        by_row: One per row.
        by_frame: float[T], replayed share of each frame (the first is 0); where places are given,
            of the first, second and later steps of all places.
        tas_quantiles: float[Q] at :data:`QUANTILES` over all evaluated scores; empty if there
            are none.
        pair_phi: float[pairs], phi coefficient between the two rows of each guidance pair,
            over steps and layers that can replay; NaN where a row never changes its mind.
        clip_phi: Mean phi coefficient between conditional rows of different pairs (between
            all rows if there are no pairs); NaN if there is only one.
        within_layer_pair_phi: Mean over layers and pairs of the phi coefficient taken within
            one layer: what is left of ``pair_phi`` when layers' own ratios are taken out.
        within_layer_clip_phi: Mean over layers and pairs of rows of ``clip_phi`` of the phi
            coefficient taken within one layer.
        reads: Keys that attention read; None where they follow from the context.
    """

    ratio: ReplayRatio
    by_layer: tuple[ReplayRatio, ...]
    by_row: tuple[ReplayRatio, ...]
    by_frame: NDArray[np.float64]
    tas_quantiles: NDArray[np.float64]
    pair_phi: NDArray[np.float64]
    clip_phi: float
    within_layer_pair_phi: float
    within_layer_clip_phi: float
    reads: ReadStats | None


def phi(a: NDArray[np.bool_], b: NDArray[np.bool_]) -> float:
    """Phi coefficient: Pearson's correlation of two boolean arrays of equal shape.

    Returns:
        A number from -1 to 1; NaN if either array is constant or empty.

    >>> a = np.array([True, True, False, False])
    >>> phi(a, a), phi(a, ~a), phi(a, a[[0, 2, 1, 3]])
    (1.0, -1.0, 0.0)
    """
    if not a.size:
        return math.nan
    share_a = float(a.mean())
    share_b = float(b.mean())
    product_of_variances = share_a * (1 - share_a) * share_b * (1 - share_b)
    if product_of_variances <= 0:
        return math.nan
    covariance = (a & b).mean() - share_a * share_b
    return float(covariance / np.sqrt(product_of_variances))


def trace_stats(trace: Trace) -> TraceStats:
    """All statistics of a trace."""
    replay = trace.replay
    turns = trace.order.turns
    eligible = replay[turns > 0]
    n_turns = int(turns.max(initial=0)) + 1
    by_frame = [replay[turns == turn].mean() for turn in range(n_turns)]
    can_replay = [tau is not None and tau < math.inf for tau in trace.meta.tau_per_layer]
    deciding = eligible[:, can_replay]
    scores = np.empty(0)
    if not trace.meta.assumed:
        scores = trace.tas[np.isfinite(trace.tas)].astype(np.float64)
    pairs = trace.meta.guidance_pairs
    clips = [pair[0] for pair in pairs] if pairs else list(range(trace.n_rows))
    across = list(combinations(clips, 2))

    def ratio(part: NDArray[np.bool_]) -> ReplayRatio:
        """Ratios of some layers or rows, bool[S, ...]."""
        over_all, _ = replay_ratio(part, 0)
        over_eligible, _ = replay_ratio(part[turns > 0], 0)
        return ReplayRatio(over_all, over_eligible)

    return TraceStats(
        ratio=ratio(replay),
        by_layer=tuple(ratio(replay[:, i : i + 1]) for i in range(trace.n_layers)),
        by_row=tuple(ratio(replay[..., i : i + 1]) for i in range(trace.n_rows)),
        by_frame=np.array(by_frame),
        tas_quantiles=np.quantile(scores, QUANTILES) if scores.size else np.empty(0),
        pair_phi=np.array([phi(deciding[..., a], deciding[..., b]) for a, b in pairs]),
        clip_phi=_mean([phi(deciding[..., a], deciding[..., b]) for a, b in across]),
        within_layer_pair_phi=_within_layers(deciding, pairs),
        within_layer_clip_phi=_within_layers(deciding, across),
        reads=_reads(trace),
    )


def _reads(trace: Trace) -> ReadStats | None:
    """Keys that attention read and held; None where the trace does not record them."""
    reads = trace.reads
    if reads is None or trace.kv_held is None:
        return None
    density = (reads.tokens / trace.context()[:, None, None]).mean()
    return ReadStats(
        density=float(density),
        mean_runs=float(reads.runs.mean()),
        most_held=int(trace.kv_held.max()),
    )


def _within_layers(deciding: NDArray[np.bool_], pairs: Sequence[tuple[int, int]]) -> float:
    """Mean over layers and pairs of rows of the phi coefficient within one layer.

    Args:
        deciding: bool[S, L, B].
        pairs: Numbers of two rows each.
    """
    coefficients = []
    for of_layer in deciding.swapaxes(0, 1):  # [S, B]
        for first, second in pairs:
            coefficients.append(phi(of_layer[:, first], of_layer[:, second]))
    return _mean(coefficients)


def _mean(values: list[float]) -> float:
    """Mean of the values that are numbers; NaN if none is."""
    numbers = [value for value in values if not np.isnan(value)]
    return float(np.mean(numbers)) if numbers else float("nan")

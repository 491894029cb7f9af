"""The counted mixture, a rival of the proxy model: copying, motion, bigrams, mixed by context.

Model: six predictors, each with a chance for every code at a place of a frame after the first:

* copy: the code at the same place one frame before;
* motion: the code one frame before at the displacement (up to 3 places each way) under which most
of
  the 12 places before this one, in this frame and nearby, would have been predicted;
* three tables of counts: the code given the one to the left, the one above, the one a frame before;
* the plain frequency.

Their weights depend on how many of those 12 places were kept, and how many the best displacement
explains; they are fitted by expectation and maximisation on training walks. Simplification: nothing
older than one frame is looked at. No network, no gradient: about 1 M counts.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int64]

GRID = 16
REACH = 3
_AROUND = tuple(
    (-dy, dx) for dy in (0, 1, 2) for dx in range(-2, 3) if dy > 0 or dx < 0
)  # causal neighbours, [dy, dx]
_KEPT, _MOVED = 5, 5  # buckets of kept and of explained neighbours
_SMOOTH = 0.05
_ROUNDS = 30


@dataclass(frozen=True, eq=False)
class Counted:
    """A fitted mixture.

    Attributes:
        tables: Chances float64[K, K] of a code given the left, the upper, and the earlier code.
        unigram: float64[K].
        weights: float64[buckets, 6].
    """

    tables: tuple[NDArray[np.float64], ...]
    unigram: NDArray[np.float64]
    weights: NDArray[np.float64]

    def nats(self, codes: Codes) -> NDArray[np.float64]:
        """Loss of each place after frame 0, nats, [T - 1, 256].

        Args:
            codes: int[T, 256].
        """
        chances, bucket = experts(codes, self.tables, self.unigram)
        return -np.log((chances * self.weights[bucket]).sum(-1)).reshape(len(codes) - 1, -1)


def fit(clips: list[Codes], n_codes: int) -> Counted:
    """Count, then fit the weights.

    Args:
        clips: int[T, 256] each; half of them are counted, the others weigh.
        n_codes: K.
    """
    counted, weighed = clips[::2], clips[1::2]
    unigram = np.bincount(np.concatenate([clip.ravel() for clip in counted]), minlength=n_codes)
    chance = (unigram + 1.0) / (unigram + 1.0).sum()
    tables = []
    for shift in ((0, -1), (-1, 0), None):
        pairs = np.zeros((n_codes, n_codes))
        for clip in counted:
            grid = clip.reshape(-1, GRID, GRID)
            now = grid[1:]
            given = grid[:-1] if shift is None else _shifted(grid, *shift)[1:]
            known = given >= 0
            np.add.at(pairs, (given[known], now[known]), 1)
        smooth = pairs + _SMOOTH * n_codes * chance
        tables.append(smooth / smooth.sum(axis=1, keepdims=True))
    found = [experts(clip, tuple(tables), chance) for clip in weighed]
    chances = np.concatenate([each for each, _ in found])
    bucket = np.concatenate([each for _, each in found])
    weights = np.full((_KEPT * _MOVED, chances.shape[1]), 1 / chances.shape[1])
    for _ in range(_ROUNDS):
        share = chances * weights[bucket]
        share /= share.sum(axis=1, keepdims=True)
        for number in range(len(weights)):
            weights[number] = (share[bucket == number].sum(axis=0) + 1) / (
                (bucket == number).sum() + share.shape[1]
            )
    return Counted(tuple(tables), chance, weights)


def experts(
    codes: Codes, tables: tuple[NDArray[np.float64], ...], unigram: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Chances that each predictor gave the true codes, [places, 6], and the bucket of weights.

    Args:
        codes: int[T, 256].
        tables: As of :class:`Counted`.
        unigram: Likewise.
    """
    grid = codes.reshape(-1, GRID, GRID)
    now, before = grid[1:], grid[:-1]
    moves = sorted(product(range(-REACH, REACH + 1), repeat=2), key=any)  # standing still first
    moved = np.stack([_shifted(before, dy, dx) for dy, dx in moves])  # [M, T - 1, 16, 16]
    hits = (moved == now).astype(np.int16)
    around = sum(_shifted(hits, dy, dx, fill=0) for dy, dx in _AROUND)  # [M, ...] causal hits
    best = around.argmax(axis=0)  # the first of equals: standing still, if it is as good
    motion = np.take_along_axis(moved, best[None], axis=0)[0]
    most = float(len(_AROUND)) + 1e-9
    kept = (around[0] / most * _KEPT).astype(int)
    explained = (np.take_along_axis(around, best[None], axis=0)[0] / most * _MOVED).astype(int)
    left, above = _shifted(grid, 0, -1)[1:], _shifted(grid, -1, 0)[1:]
    chances = [
        (now == before).astype(float),
        (now == motion).astype(float),
        *(
            np.where(given >= 0, table[np.maximum(given, 0), now], unigram[now])
            for table, given in zip(tables, (left, above, before), strict=True)
        ),
        unigram[now],
    ]
    flat = np.stack([each.ravel() for each in chances], axis=-1)
    return flat, (kept * _MOVED + explained).ravel()


def _shifted(grid: NDArray[np.integer], dy: int, dx: int, fill: int = -1) -> NDArray[np.int64]:
    """What stands dy below and dx to the right of each place, ``fill`` beyond the border."""
    size, reach = grid.shape[-1], REACH + 1
    padded = np.pad(grid, [(0, 0)] * (grid.ndim - 2) + [(reach, reach)] * 2, constant_values=fill)
    rows = slice(reach + dy, reach + dy + size)
    return padded[..., rows, reach + dx : reach + dx + size]

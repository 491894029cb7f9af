"""DraftAttention's bound on the error of its mask, on maps of one frame's queries and keys.

The notes state the bound as n (delta + t) sqrt(1 - r), for a map S of n queries and n keys:

* S' is the *draft*: the softmax of the products of pooled queries and pooled keys, spread evenly
  over the entries of each block;
* *delta* is the largest difference of an entry of S and of S';
* *r* is the share of the blocks that are kept, those with the largest entries of S', and *t* the
  largest entry of S' in the other blocks.

It follows in three lines. An entry of S in a block that is left out is at most delta + t. There are
(1 - r) n^2 such entries. The Frobenius norm of what is left out is therefore at most the bound.

Whether the bound *tells* anything is another question: with every block left out, the error is the
norm of S. A bound above that norm excludes no mask at all.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from carsim.decoder.content.tokens import GRID
from carsim.decoder.structures import Array
from studies.whole import Seen

PATCH = 4
"""Places of a side of a block: 4 x 4, as a frame has 16 x 16 places. The paper has 8 x 16 of far
larger frames."""

KEEP = 0.25
FRAMES = (1, 4, 7)
"""Frames whose maps are taken."""

DRAWN_MAPS = 60


def patch_order() -> NDArray[np.int64]:
    """Places of a frame so that those of a block follow each other, int64[N]."""
    places = np.arange(GRID * GRID).reshape(GRID // PATCH, PATCH, GRID // PATCH, PATCH)
    return places.swapaxes(1, 2).ravel()


def softmax(scores: Array) -> Array:
    """Softmax over the last axis."""
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    normed: Array = weights / weights.sum(axis=-1, keepdims=True)
    return normed


def pooled(vectors: Array) -> Array:
    """Means of the vectors of each block, [n / 16, hd], from vectors in the order of blocks."""
    means: Array = vectors.reshape(-1, PATCH * PATCH, vectors.shape[-1]).mean(axis=1)
    return means


@dataclass(frozen=True)
class MaskError:
    """The error of a mask and what bounds it, for one map.

    Attributes:
        error: Frobenius norm of the entries that the mask leaves out.
        bound: n (delta + t) sqrt(1 - r).
        norm: Frobenius norm of the whole map.
        by_chance: The error with as many blocks, drawn at random.
        draft_error: Frobenius norm of the map less the draft.
        draft_bound: n delta.
    """

    error: float
    bound: float
    norm: float
    by_chance: float
    draft_error: float
    draft_bound: float


def mask_error(q: Array, k: Array, rng: np.random.Generator) -> MaskError:
    """Error and bound of the mask of one head.

    Args:
        q: Queries in the order of blocks, [n, hd].
        k: Keys in the order of blocks, [n, hd].
        rng: Draws the blocks of the baseline.
    """
    size = PATCH * PATCH
    n = len(q)
    scale = q.shape[-1] ** -0.5
    full = softmax(q @ k.T * scale)
    low = softmax(pooled(q) @ pooled(k).T * scale) / size  # [n / size, n / size]
    draft = low.repeat(size, axis=0).repeat(size, axis=1)
    delta = float(np.abs(full - draft).max())
    order = np.argsort(-low, axis=None, kind="stable")
    n_kept = round(KEEP * low.size)
    left_out = order[n_kept:]
    chance = rng.permutation(low.size)[n_kept:]
    threshold = float(low.ravel()[left_out].max())
    bound = n * (delta + threshold) * np.sqrt(1 - n_kept / low.size)
    return MaskError(
        error=_norm_in(full, left_out),
        bound=float(bound),
        norm=float(np.linalg.norm(full)),
        by_chance=_norm_in(full, chance),
        draft_error=float(np.linalg.norm(full - draft)),
        draft_bound=n * delta,
    )


def _norm_in(full: Array, blocks: NDArray[np.int64]) -> float:
    """Frobenius norm of the entries of some blocks, given by their number in row order."""
    size = PATCH * PATCH
    n_blocks = len(full) // size
    squares = (full**2).reshape(n_blocks, size, n_blocks, size).sum(axis=(1, 3))
    return float(np.sqrt(squares.ravel()[blocks].sum()))


def summary(maps: list[MaskError]) -> dict[str, float]:
    """Columns of a table.

    ``map_violated``: share of maps beyond either bound; ``map_slack``: median of bound over error;
    ``map_useless``: share of maps whose bound exceeds the norm of the map itself; ``map_error`` and
    ``map_by_chance``: mean error over that norm.
    """
    beyond = [
        each.error > each.bound * (1 + 1e-6) or each.draft_error > each.draft_bound * (1 + 1e-6)
        for each in maps
    ]
    return {
        "map_violated": float(np.mean(beyond)),
        "map_slack": float(np.median([each.bound / each.error for each in maps])),
        "map_useless": float(np.mean([each.bound > each.norm for each in maps])),
        "map_error": float(np.mean([each.error / each.norm for each in maps])),
        "map_by_chance": float(np.mean([each.by_chance / each.norm for each in maps])),
    }


@dataclass(eq=False)
class DraftMaps:
    """Maps of one row: queries of a frame on the keys of the frame before, all layers and heads.

    Attributes:
        maps: What was found of each.
        rng: Draws the blocks of the baseline.
    """

    maps: list[MaskError] = field(default_factory=list)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def look(self, seen: Seen) -> None:
        """Take the maps of a layer of a frame."""
        if seen.frame not in FRAMES:
            return
        order = patch_order()
        queries = seen.q_rotated[order].swapaxes(0, 1)  # [H, N, hd]
        keys = seen.keys[: len(order)][order].swapaxes(0, 1)  # [KV, N, hd]
        served = len(queries) // len(keys)
        for head, q in enumerate(queries):
            self.maps.append(mask_error(q, keys[head // served], self.rng))

    def figures(self) -> dict[str, float]:
        """Columns of the table."""
        return summary(self.maps)


def drawn_maps(smooth: bool, seed: int = 0) -> list[MaskError]:
    """Maps of drawn queries and keys of one head of 32 elements.

    Args:
        smooth: The vectors of a block are alike, as the method hopes; else all are independent.
        seed: Of the draw.
    """
    rng = np.random.default_rng(seed)
    size = PATCH * PATCH
    shape = (GRID * GRID, 32)
    maps = []
    for _ in range(DRAWN_MAPS):
        vectors = []
        for _ in ("q", "k"):
            drawn = rng.normal(size=shape)
            if smooth:
                blocks = rng.normal(size=(shape[0] // size, shape[1]))
                drawn = 2 * blocks.repeat(size, axis=0) + 0.3 * drawn
            vectors.append(drawn)
        maps.append(mask_error(vectors[0], vectors[1], rng))
    return maps

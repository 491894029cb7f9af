"""How alike queries and keys are from frame to frame, and at places that show the same code.

Vectors are those before the rotary embedding, which would add an angle that grows with the distance
of two places. Similarity is the cosine, meaned over layers, heads and places of frames 1 on.

Two baselines stand beside it. For *slow*: the mean over all other places of the earlier frame. For
*meaning*: pairs of places of one frame that are as far apart, but show different codes.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from carsim.decoder.layers import rotate
from carsim.decoder.structures import Array, Config, rotary_table
from studies.whole import Seen

LAGS = (1, 4)
"""Frames between the two whose vectors are compared."""


def unit(vectors: Array) -> Array:
    """Vectors of length one, [.., hd]; a vector of zeros stays one."""
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    scaled: Array = vectors / np.maximum(length, 1e-30)
    return scaled


def same_and_other(now: Array, then: Array) -> tuple[float, float]:
    """Mean cosine with the same place, and with all other places.

    Args:
        now: Vectors of length one, [N, H, hd].
        then: Those of an earlier frame.

    >>> same_and_other(np.eye(4)[:, None], np.eye(4)[:, None])
    (1.0, 0.0)
    """
    n_places, n_heads, _ = now.shape
    same = float((now * then).sum())
    every_pair = float((now.sum(axis=0) * then.sum(axis=0)).sum())
    others = (every_pair - same) / (n_places * (n_places - 1) * n_heads)
    return same / (n_places * n_heads), others


def same_code_and_other(cosines: Array, codes: NDArray[np.int64]) -> tuple[float, float]:
    """Mean cosine of pairs that show one code, and of pairs as far apart that show two.

    Each distance in raster order counts as often as pairs of one code have it. NaN where no
    distance has pairs of both kinds.

    Args:
        cosines: Of all pairs of places of a frame, [N, N].
        codes: Shown at the places, int64[N].

    >>> same_code_and_other(np.array([[1.0, 0.2, 0.8], [0.2, 1.0, 0.4], [0.8, 0.4, 1.0]]),
    ...                     np.array([5, 5, 7]))
    (0.2, 0.4)
    """
    first, second = np.triu_indices(len(codes), k=1)
    distance = second - first
    is_same = codes[first] == codes[second]
    values = cosines[first, second]
    means = []
    counts = []
    for chosen in (is_same, ~is_same):
        count = np.bincount(distance[chosen], minlength=len(codes))
        total = np.bincount(distance[chosen], weights=values[chosen], minlength=len(codes))
        counts.append(count)
        means.append(total / np.maximum(count, 1))
    has_both = (counts[0] > 0) & (counts[1] > 0)
    if not has_both.any():
        return float("nan"), float("nan")
    weights = counts[0][has_both]
    same, other = (float(np.average(mean[has_both], weights=weights)) for mean in means)
    return same, other


@dataclass(eq=False)
class Evolving:
    """Similarity of the queries and keys of one row, gathered layer by layer.

    Attributes:
        config: Shapes.
        prompt: P, tokens of the row's prompt.
        earlier: By ``q`` or ``k``, layer and frame: vectors of length one, [N, H, hd].
        found: By column of the table: a value for each layer and frame.
        cosines: By ``q`` or ``k`` and frame: sum over layers of the mean cosines of heads, [N, N].
        codes: By frame: the codes that are fed, int64[N].
    """

    config: Config
    prompt: int
    earlier: dict[tuple[str, int, int], Array] = field(default_factory=dict)
    found: dict[str, list[float]] = field(default_factory=dict)
    cosines: dict[tuple[str, int], Array] = field(default_factory=dict)
    codes: dict[int, NDArray[np.int64]] = field(default_factory=dict)

    def look(self, seen: Seen) -> None:
        """Take the queries and keys of a layer of a frame."""
        self.codes[seen.frame] = seen.fed
        for name, vectors in (("q", seen.q), ("k", self._plain_keys(seen))):
            now = unit(vectors)
            self.earlier[name, seen.layer, seen.frame] = now
            for lag in LAGS:
                then = self.earlier.get((name, seen.layer, seen.frame - lag))
                if then is not None:
                    same, other = same_and_other(now, then)
                    self.found.setdefault(f"{name}_same_{lag}", []).append(same)
                    self.found.setdefault(f"{name}_other_{lag}", []).append(other)
            by_head = now.swapaxes(0, 1)  # [H, N, hd]
            of_layer = (by_head @ by_head.swapaxes(1, 2)).mean(axis=0)
            before = self.cosines.get((name, seen.frame), np.zeros_like(of_layer))
            self.cosines[name, seen.frame] = before + of_layer

    def figures(self) -> dict[str, float]:
        """Columns of the table: means over layers and frames."""
        columns = {name: float(np.mean(values)) for name, values in self.found.items()}
        n_layers = self.config.geometry.n_layers
        for name in ("q", "k"):
            pairs = [
                same_code_and_other(self.cosines[name, frame] / n_layers, codes)
                for frame, codes in self.codes.items()
            ]
            same, other = np.nanmean(pairs, axis=0)
            columns[f"{name}_same_code"] = float(same)
            columns[f"{name}_other_code"] = float(other)
        return columns

    def _plain_keys(self, seen: Seen) -> Array:
        """Keys of the frame before the rotary embedding, [N, KV, hd]."""
        config = self.config
        n_places = config.tokens_per_frame
        begin = self.prompt + seen.frame * n_places
        dtype = np.dtype(config.dtype)
        head_dim = config.geometry.head_dim
        cos, sin = rotary_table(begin + n_places, head_dim, config.rope_theta, dtype)
        of_frame = slice(begin, begin + n_places)
        return rotate(seen.keys[n_places:], cos[of_frame, None], -sin[of_frame, None])

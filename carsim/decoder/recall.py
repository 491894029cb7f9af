"""Recall of an attention policy: the share of dense attention's mass that lies on the keys read.

Model: in a decoding under the policy, each query head's softmax over all cached keys is taken
beside the attention that was really computed, and summed over the keys that were read. The queries
and keys are those that the decoding has by then, with the policy's own errors of earlier layers and
steps in them. Keys that were merged or dropped count as not read.
"""

import numpy as np
from numpy.typing import NDArray

from carsim.decoder.structures import Array, LayerRecord


def mass_kept(seen: LayerRecord) -> Array:
    """Mass on the keys that were read, of each row and query head, [B, H]; 1 if all were."""
    query = seen.query
    batch, kv_heads, end, head_dim = query.keys.shape
    q = query.q_rotated.reshape(batch, kv_heads, -1, head_dim)
    scores = (q * q.dtype.type(head_dim**-0.5)) @ query.keys.swapaxes(-1, -2)  # [B, KV, g, end]
    there = np.arange(end) >= query.padding[:, None]
    scores = np.where(there[:, None, None], scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    read = seen.read.swapaxes(0, 1)[:, :, None]  # [B, KV, 1, end]
    kept: Array = np.where(read, weights, 0).sum(axis=-1) / weights.sum(axis=-1)
    return kept.reshape(batch, -1)


class Recall:
    """A recorder that averages the mass kept of each layer over steps, rows and query heads.

    Args:
        n_layers: L.
    """

    def __init__(self, n_layers: int) -> None:
        self._sums = np.zeros(n_layers)
        self._counts = np.zeros(n_layers, np.int64)

    def __call__(self, seen: LayerRecord) -> None:
        """Count one layer of one step."""
        self._sums[seen.layer] += float(mass_kept(seen).mean())
        self._counts[seen.layer] += 1

    @property
    def by_layer(self) -> NDArray[np.float64]:
        """Mean of each layer, [L]; NaN of one that was never shown."""
        shown = np.where(self._counts, self._counts, 1)
        means: NDArray[np.float64] = np.where(self._counts, self._sums / shown, np.nan)
        return means

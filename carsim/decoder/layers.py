"""The pieces of a decoder layer, as pure functions on arrays (letters as in ``structures``).

Rows are few and matrices small, so that temporary arrays cost as much as the matrix products:
element operations work in place on arrays of their own.
"""

from typing import NamedTuple

import numpy as np

from carsim.decisions.attention import Query, Selection
from carsim.decisions.attention.base import Bools
from carsim.decoder.structures import Array


def rms_norm(x: Array, weight: Array, eps: float) -> Array:
    """Root-mean-square norm (arXiv 1910.07467) over the last axis."""
    root = np.einsum("...d,...d->...", x, x)[..., None]
    root /= x.shape[-1]
    root += eps
    normed: Array = x / np.sqrt(root, out=root)
    normed *= weight
    return normed


def rotate(x: Array, cos: Array, sin: Array) -> Array:
    """Rotary embedding in the rotate-half layout; ``cos`` and ``sin`` broadcast to ``x``.

    ``sin`` carries the sign with which the other half of the head comes in: minus in the first.
    """
    half = x.shape[-1] // 2
    halves_swapped = np.concatenate([x[..., half:], x[..., :half]], axis=-1)
    halves_swapped *= sin
    rotated: Array = x * cos
    rotated += halves_swapped
    return rotated


def gated(x: Array, w_gate_up: Array) -> Array:
    """Inside of a SwiGLU MLP (arXiv 2002.05202): silu(x @ gate) * (x @ up), [.., d] to [.., F]."""
    gate_up = x @ w_gate_up  # [.., 2 F]
    inner = w_gate_up.shape[-1] // 2
    gate = gate_up[..., :inner]
    up = gate_up[..., inner:]
    # Below -80 the SiLU is 0 to 32 digits; the bound keeps exp from overflowing.
    activated: Array = np.maximum(gate, -80)
    np.negative(activated, out=activated)
    np.exp(activated, out=activated)
    activated += 1
    np.divide(gate, activated, out=activated)
    activated *= up
    return activated


def attend_prompt(q: Array, k: Array, v: Array, valid: Bools, seen: Bools) -> Array:
    """Attention of a whole prompt at once.

    Args:
        q: Rotated queries, [B, KV, g, P, hd].
        k: Rotated keys, [B, KV, P, hd].
        v: Values, [B, KV, P, hd].
        valid: bool[B, P], False for padding.
        seen: bool[B, P, P], which key slot each query slot attends to.

    Returns:
        [B, KV, g, P, hd]; zero for padding queries.
    """
    valid = valid[:, None, None, :, None]
    scale = q.dtype.type(q.shape[-1] ** -0.5)
    scores = (q * scale) @ k[:, :, None].swapaxes(-1, -2)  # [B, KV, g, P, P]
    scores = np.where(seen[:, None, None], scores, -np.inf)
    top = np.where(valid, scores.max(axis=-1, keepdims=True), 0)
    weights = np.exp(scores - top)  # all 0 for padding queries
    return weights @ v[:, :, None] / np.where(valid, weights.sum(axis=-1, keepdims=True), 1)


def attend(q: Array, k: Array, v: Array, padded: Bools, chosen: Selection) -> Array:
    """Attention of one decode step, without copying the cache.

    Args:
        q: Rotated queries of the newest tokens, [B, H, hd].
        k: Cached rotated keys, the newest included, [B, KV, end, hd].
        v: Cached values, [B, KV, end, hd].
        padded: bool[B, n], which of the first slots are padding; later ones are not.
        chosen: The keys that are read.

    Returns:
        [B, H * hd].
    """
    batch, kv_heads, _, head_dim = k.shape
    start = chosen.start
    q = (q * q.dtype.type(head_dim**-0.5)).reshape(batch, kv_heads, -1, head_dim)
    scores = q @ k[:, :, start:].swapaxes(-1, -2)  # [B, KV, g, end - start]
    _mask_scores(scores, padded[:, start:], chosen)
    top = scores.max(axis=-1, keepdims=True)
    before_window = None
    if chosen.extra is not None:
        extra_scores, extra_values = _extra_scores(q, k, v, padded=padded, chosen=chosen)
        top = np.maximum(top, extra_scores.max(axis=-1, keepdims=True, initial=-np.inf))
        before_window = _weighted_sum(np.exp(extra_scores - top), extra_values)
    weights = np.exp(np.subtract(scores, top, out=scores), out=scores)
    total: Array = weights.sum(axis=-1, keepdims=True)  # while the weights are in cache
    out: Array = weights @ v[:, :, start:]  # [B, KV, g, hd]
    if before_window is not None:
        out += before_window.out
        total += before_window.total
    out /= total
    return out.reshape(batch, -1)


def softmax_weights(query: Query, chosen: Selection) -> Array:
    """Weights with which attention adds up values, [B, H, end]; 0 where a slot is not read.

    Args:
        query: The newest queries, and the cached keys.
        chosen: The keys that are read.
    """
    batch, kv_heads, end, head_dim = query.keys.shape
    queries = query.q_rotated.reshape(batch, kv_heads, -1, head_dim)
    scores = queries @ query.keys.swapaxes(-1, -2)  # [B, KV, g, end]
    scores = scores * queries.dtype.type(head_dim**-0.5)
    if chosen.bias is not None:
        scores[..., chosen.start :] += chosen.bias[:, :, None]
    is_read = chosen.read(query.padding, end, kv_heads).swapaxes(0, 1)[:, :, None]
    scores = np.where(is_read, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights.reshape(batch, -1, end)


def _mask_scores(scores: Array, padded: Bools, chosen: Selection) -> None:
    """Leave out the slots of the window that are not read, in place.

    Args:
        scores: [B, KV, g, end - start].
        padded: bool[B, n], which of the first slots of the window are padding.
        chosen: The keys that are read.
    """
    if chosen.bias is not None:
        scores += chosen.bias[:, :, None]
    for mask in (chosen.mask, chosen.stored):
        if mask is not None:
            np.copyto(scores, -np.inf, where=~mask[:, :, None])
    if padded.size:
        np.copyto(scores[..., : padded.shape[1]], -np.inf, where=padded[:, None, None])


class _WeightedSum(NamedTuple):
    """Sum of values by their weights, [B, KV, g, hd], and sum of the weights, [B, KV, g, 1]."""

    out: Array
    total: Array


def _weighted_sum(weights: Array, values: Array) -> _WeightedSum:
    return _WeightedSum(weights @ values, weights.sum(axis=-1, keepdims=True))


def _extra_scores(
    q: Array, k: Array, v: Array, *, padded: Bools, chosen: Selection
) -> tuple[Array, Array]:
    """Scores and values of the n slots before the window, which differ from row to row.

    Returns:
        Scores [B, KV, g, n], -inf where a slot is in the window or padding; values [B, KV, n, hd].
    """
    assert chosen.extra is not None
    rows = np.arange(len(k))[:, None]
    slots = np.clip(chosen.extra, 0, k.shape[2] - 1)
    keys = k.swapaxes(1, 2)[rows, slots].swapaxes(1, 2)
    values = v.swapaxes(1, 2)[rows, slots].swapaxes(1, 2)
    is_read = (chosen.extra < chosen.start) & (chosen.extra >= padded.sum(axis=1)[:, None])
    scores = np.where(is_read[:, None, None], q @ keys.swapaxes(-1, -2), -np.inf)
    return scores, values

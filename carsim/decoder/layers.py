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
    """Root-mean-square norm (arXiv 1910.07467) over the last axis.

    Args:
        x: [.., d].
        weight: Gain of each element, [d].
        eps: Added to the mean square.

    Returns:
        x / sqrt(mean(x * x) + eps) * weight, [.., d].
    """
    mean_square = np.einsum("...d,...d->...", x, x)[..., None]  # the sum, so far
    mean_square /= x.shape[-1]
    mean_square += eps
    root = np.sqrt(mean_square, out=mean_square)
    normed: Array = x / root
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
    """Inside of a SwiGLU MLP (arXiv 2002.05202): silu(x @ gate) * (x @ up).

    Args:
        x: [.., d].
        w_gate_up: Columns of the gate, then of the up projection, [d, 2 F].

    Returns:
        [.., F].
    """
    gate_up = x @ w_gate_up  # [.., 2 F]
    inner = w_gate_up.shape[-1] // 2
    gate = gate_up[..., :inner]
    up = gate_up[..., inner:]
    # silu(gate) = gate / (1 + exp(-gate)), in place in one array.
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
    is_valid_query = valid[:, None, None, :, None]  # [B, 1, 1, P, 1]
    scale = q.dtype.type(q.shape[-1] ** -0.5)
    keys = k[:, :, None].swapaxes(-1, -2)  # [B, KV, 1, hd, P]
    scores = (q * scale) @ keys  # [B, KV, g, P, P]
    scores = np.where(seen[:, None, None], scores, -np.inf)
    # Padding queries see no key: their largest score is -inf, and the sum of their weights 0.
    largest = np.where(is_valid_query, scores.max(axis=-1, keepdims=True), 0)
    weights = np.exp(scores - largest)
    total = np.where(is_valid_query, weights.sum(axis=-1, keepdims=True), 1)
    return weights @ v[:, :, None] / total


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
    scale = q.dtype.type(head_dim**-0.5)
    scaled_q = (q * scale).reshape(batch, kv_heads, -1, head_dim)  # [B, KV, g, hd]
    scores = scaled_q @ k[:, :, start:].swapaxes(-1, -2)  # [B, KV, g, end - start]
    _mask_scores(scores, padded[:, start:], chosen)
    largest = scores.max(axis=-1, keepdims=True)
    before_window = None
    if chosen.extra is not None:
        extra_scores, extra_values = _extra_scores(scaled_q, k, v, padded=padded, chosen=chosen)
        largest_extra = extra_scores.max(axis=-1, keepdims=True, initial=-np.inf)
        largest = np.maximum(largest, largest_extra)
        before_window = _weighted_sum(np.exp(extra_scores - largest), extra_values)
    np.subtract(scores, largest, out=scores)
    weights = np.exp(scores, out=scores)
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
    queries = query.q_rotated.reshape(batch, kv_heads, -1, head_dim)  # [B, KV, g, hd]
    scores = queries @ query.keys.swapaxes(-1, -2)  # [B, KV, g, end]
    scores = scores * queries.dtype.type(head_dim**-0.5)
    if chosen.bias is not None:
        scores[..., chosen.start :] += chosen.bias[:, :, None]
    is_read_by_head = chosen.read(query.padding, end, kv_heads)  # [KV, B, end]
    is_read = is_read_by_head.swapaxes(0, 1)[:, :, None]  # [B, KV, 1, end]
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
    """Sums over n slots, by weights [B, KV, g, n] of values [B, KV, n, hd]."""
    return _WeightedSum(out=weights @ values, total=weights.sum(axis=-1, keepdims=True))


def _extra_scores(
    q: Array, k: Array, v: Array, *, padded: Bools, chosen: Selection
) -> tuple[Array, Array]:
    """Scores and values of the n slots before the window, which differ from row to row.

    Args:
        q: Scaled queries, [B, KV, g, hd].
        k: Cached rotated keys, [B, KV, end, hd].
        v: Cached values, [B, KV, end, hd].
        padded: bool[B, n], which of the first slots are padding.
        chosen: The keys that are read.

    Returns:
        Scores [B, KV, g, n], -inf where a slot is in the window or padding; values [B, KV, n, hd].
    """
    assert chosen.extra is not None
    rows = np.arange(len(k))[:, None]
    slots = np.clip(chosen.extra, 0, k.shape[2] - 1)
    keys = k.swapaxes(1, 2)[rows, slots].swapaxes(1, 2)
    values = v.swapaxes(1, 2)[rows, slots].swapaxes(1, 2)
    first_token = padded.sum(axis=1)[:, None]  # padding is on the left
    is_read = (chosen.extra < chosen.start) & (chosen.extra >= first_token)
    scores = q @ keys.swapaxes(-1, -2)
    return np.where(is_read[:, None, None], scores, -np.inf), values

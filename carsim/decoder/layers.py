"""The pieces of a decoder layer, as pure functions on arrays (letters as in ``structures``).

Rows are few and matrices small, so that temporary arrays cost as much as the matrix products:
element operations work in place on arrays of their own.
"""

import numpy as np

from carsim.decisions.attention import Selection
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
    other = np.concatenate([x[..., half:], x[..., :half]], axis=-1)
    other *= sin
    rotated: Array = x * cos
    rotated += other
    return rotated


def gated(x: Array, w_gate_up: Array) -> Array:
    """Inside of a SwiGLU MLP (arXiv 2002.05202): silu(x @ gate) * (x @ up), [.., d] to [.., F]."""
    gate_up = x @ w_gate_up  # [.., 2 F]
    inner = w_gate_up.shape[-1] // 2
    gate, up = gate_up[..., :inner], gate_up[..., inner:]
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
    if chosen.bias is not None:
        scores += chosen.bias[:, :, None]
    for mask in (chosen.mask, chosen.stored):
        if mask is not None:
            np.copyto(scores, -np.inf, where=~mask[:, :, None])
    inside = padded[:, start:]  # [B, padding in window]
    if inside.size:
        np.copyto(scores[..., : inside.shape[1]], -np.inf, where=inside[:, None, None])
    top = scores.max(axis=-1, keepdims=True)
    apart: tuple[Array, Array] | None = None
    if chosen.extra is not None:  # [B, n] slots before the window: other ones in each row
        rows, slots = np.arange(batch)[:, None], np.clip(chosen.extra, 0, k.shape[2] - 1)
        k_extra, v_extra = (each.swapaxes(1, 2)[rows, slots].swapaxes(1, 2) for each in (k, v))
        outside = (chosen.extra < start) & (chosen.extra >= padded.sum(axis=1)[:, None])
        scores_extra = np.where(outside[:, None, None], q @ k_extra.swapaxes(-1, -2), -np.inf)
        top = np.maximum(top, scores_extra.max(axis=-1, keepdims=True, initial=-np.inf))
        weights = np.exp(scores_extra - top)  # [B, KV, g, n]
        apart = weights @ v_extra, weights.sum(axis=-1, keepdims=True)
    weights = np.exp(np.subtract(scores, top, out=scores), out=scores)
    total: Array = weights.sum(axis=-1, keepdims=True)  # while they are in cache
    out: Array = weights @ v[:, :, start:]  # [B, KV, g, hd]
    if apart is not None:
        out += apart[0]
        total += apart[1]
    out /= total
    return out.reshape(batch, -1)

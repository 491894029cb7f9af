"""The pieces of a decoder layer, as pure functions on arrays (letters as in ``structures``).

Rows are few and matrices small, so that calls and temporary arrays would cost as much as the matrix
products: element operations work in place on arrays of their own.
"""

import math

import numpy as np
from numpy.typing import NDArray

from carsim.decoder.structures import Array, State, TasForm
from carsim.trace import DenseAttention, StreamingAttention


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


def swiglu(x: Array, w_gate_up: Array, w_down: Array) -> Array:
    """MLP (arXiv 2002.05202): silu(x @ gate) * (x @ up) @ down, [.., d] to [.., d]."""
    gate_up = x @ w_gate_up  # [.., 2 F]
    gate, up = gate_up[..., : len(w_down)], gate_up[..., len(w_down) :]
    # Below -80 the SiLU is 0 to 32 digits; the bound keeps exp from overflowing.
    activated: Array = np.maximum(gate, -80)
    np.negative(activated, out=activated)
    np.exp(activated, out=activated)
    activated += 1
    np.divide(gate, activated, out=activated)
    activated *= up
    out: Array = activated @ w_down
    return out


def temporal_attention_score(q: Array, q_rotated: Array, k_aligned: Array, form: TasForm) -> Array:
    """TAS of FastCar (arXiv 2505.14709, section 4): mean over query heads of <q, k> / sqrt(hd).

    Args:
        q: Query before the rotary embedding, [B, H, hd].
        q_rotated: Query after it, [B, H, hd].
        k_aligned: Rotated key of the same place in the previous frame, [B, KV, hd]; head j serves
            query heads j * g to j * g + g - 1.
        form: ``released`` takes ``q`` as the authors' code does, ``paper`` takes ``q_rotated``.

    Returns:
        [B].
    """
    batch, kv_heads, head_dim = k_aligned.shape
    query = q if form == "released" else q_rotated
    grouped = query.reshape(batch, kv_heads, -1, head_dim)
    total = np.einsum("bkgd,bkd->b", grouped, k_aligned)
    score: Array = total / q.dtype.type(q.shape[1] * math.sqrt(head_dim))
    return score


def attend_prompt(
    q: Array,
    k: Array,
    v: Array,
    mask: NDArray[np.bool_],
    attention: DenseAttention | StreamingAttention,
) -> Array:
    """Causal attention of a whole prompt at once.

    Args:
        q: Rotated queries, [B, KV, g, P, hd].
        k: Rotated keys, [B, KV, P, hd].
        v: Values, [B, KV, P, hd].
        mask: bool[B, P], False for padding.
        attention: Which keys are attended to.

    Returns:
        [B, KV, g, P, hd]; zero for padding queries.
    """
    seen = visible_in_prompt(mask, attention)[:, None, None]  # [B, 1, 1, P, P]
    scale = q.dtype.type(q.shape[-1] ** -0.5)
    scores = (q * scale) @ k[:, :, None].swapaxes(-1, -2)
    scores = np.where(seen, scores, -np.inf)
    top = np.where(mask[:, None, None, :, None], scores.max(axis=-1, keepdims=True), 0)
    weights = np.exp(scores - top)  # all 0 for padding queries
    total = np.where(mask[:, None, None, :, None], weights.sum(axis=-1, keepdims=True), 1)
    out: Array = weights @ v[:, :, None] / total
    return out


def visible_in_prompt(
    mask: NDArray[np.bool_], attention: DenseAttention | StreamingAttention
) -> NDArray[np.bool_]:
    """bool[B, P, P]: which key slot each query slot of a left-padded prompt sees."""
    slots = np.arange(mask.shape[1])
    seen = mask[:, None, :] & mask[:, :, None] & (slots <= slots[:, None])
    if isinstance(attention, StreamingAttention):
        in_window = slots[:, None] - slots < attention.window
        is_sink = slots < (~mask).sum(axis=1, keepdims=True) + attention.sinks  # [B, P]
        seen &= in_window | is_sink[:, None, :]
    return seen


def attend(
    q: Array, layer: int, state: State, attention: DenseAttention | StreamingAttention
) -> Array:
    """Attention of one decode step over the slots in use, without copying the cache.

    Args:
        q: Rotated queries of the current token, [B, H, hd].
        layer: Layer.
        state: Caches, with the current token's key and value already written.
        attention: Which keys are attended to.

    Returns:
        [B, H * hd].
    """
    end = state.n_slots + 1  # the current token stands in the last slot
    window = end if isinstance(attention, DenseAttention) else attention.window
    start = max(0, end - window)
    batch, _, head_dim = q.shape
    k, v = state.k[layer, :, :, start:end], state.v[layer, :, :, start:end]  # [B, KV, w, hd]
    q = (q * q.dtype.type(head_dim**-0.5)).reshape(batch, k.shape[1], -1, head_dim)
    shape = (*q.shape[:-1], end - start)
    scratch = state.scores[: math.prod(shape)].reshape(shape)  # without gaps, for the exponentials
    scores = np.matmul(q, k.swapaxes(-1, -2), out=scratch)
    if start < state.padded.shape[-1]:
        hidden = state.padded[..., start:end]
        np.copyto(scores[..., : hidden.shape[-1]], -np.inf, where=hidden)
    top = scores.max(axis=-1, keepdims=True)
    total: Array | float = 0.0
    out: Array | float = 0.0
    if isinstance(attention, StreamingAttention) and start > state.padding.min():
        sink_scores, sink_v = _score_sinks(q, layer, state, attention.sinks, start)
        top = np.maximum(top, sink_scores.max(axis=-1, keepdims=True, initial=-np.inf))
        weights = np.exp(sink_scores - top)
        total, out = weights.sum(axis=-1, keepdims=True), weights @ sink_v
    weights = np.exp(np.subtract(scores, top, out=scores), out=scores)  # [B, KV, g, w]
    attended: Array = (out + weights @ v) / (total + weights.sum(axis=-1, keepdims=True))
    return attended.reshape(batch, -1)


def _score_sinks(q: Array, layer: int, state: State, sinks: int, start: int) -> tuple[Array, Array]:
    """Scores and values of the first valid tokens of each row.

    Those that a window from slot ``start`` on holds already score minus infinity, so that no token
    counts twice.

    Returns:
        Scores [B, KV, g, sinks] and values [B, KV, sinks, hd].
    """
    slots = state.padding[:, None] + np.arange(sinks)  # [B, sinks]: rows differ by their padding
    taken = np.minimum(slots, state.n_slots)
    rows = np.arange(len(slots))[:, None]
    k = state.k[layer].swapaxes(1, 2)[rows, taken].swapaxes(1, 2)  # [B, KV, sinks, hd], a copy
    v = state.v[layer].swapaxes(1, 2)[rows, taken].swapaxes(1, 2)
    scores = np.where((slots < start)[:, None, None], q @ k.swapaxes(-1, -2), -np.inf)
    return scores, v

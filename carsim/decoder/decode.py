"""Reference FastCar decoder (arXiv 2505.14709) in NumPy: prefill, then one token per row a step.

Model: a LLaMA-style body whose layers may replay, at each place of a frame, the MLP output that
stood there one frame before. Simplifications: no token head and no sampling here (embeddings go in,
hidden states come out), and rows advance in lockstep. It knows nothing of hardware.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.decisions.attention import Query, Selection
from carsim.decisions.replay import Seen
from carsim.decoder.layers import attend, attend_prompt, gated, rms_norm, rotate
from carsim.decoder.structures import Array, Config, DecoderPolicy, LayerRecord, State, Weights

Recorder = Callable[[LayerRecord], None]
"""Is shown every layer of every decode step; it must not write to what it is shown."""


def prefill(
    config: Config,
    policy: DecoderPolicy,
    weights: Weights,
    prompt: Array,
    prompt_mask: NDArray[np.bool_],
) -> tuple[State, Array]:
    """Run the prompt, which never replays, and fill the caches with its keys and values.

    Args:
        config: Shapes and arithmetic.
        policy: Its attention applies; its tau does not.
        weights: The body.
        prompt: Embeddings, [B, P, d].
        prompt_mask: bool[B, P], False for left padding.

    Returns:
        The state after the prompt, and hidden states after the final norm, [B, P, d].
    """
    shape, attention, arithmetic = config.geometry, policy.attention, weights.arithmetic
    state = State(config, policy, weights, prompt_mask)
    batch, slots, _ = prompt.shape
    positions = np.where(prompt_mask, prompt_mask.cumsum(axis=1) - 1, 1)
    cos, sin = state.cos[positions][:, None], state.sin[positions][:, None]  # [B, 1, P, hd]
    seen = attention.prompt_mask(prompt_mask)  # [B, P, P]
    x = prompt.astype(config.dtype)
    for layer in range(shape.n_layers):
        normed = rms_norm(x, weights.ln_attn[layer], config.rms_eps)
        normed = arithmetic.entering("qkv", layer, normed)
        heads = (normed @ weights.w_qkv[layer]).reshape(batch, slots, -1, shape.head_dim)
        heads = heads.swapaxes(1, 2)  # [B, H + 2 KV, P, hd]
        rotated = rotate(heads[:, : -shape.n_kv_heads], cos, sin)  # queries and keys, not values
        k = arithmetic.cached(rotated[:, shape.n_heads :])  # [B, KV, P, hd]
        v = arithmetic.cached(heads[:, -shape.n_kv_heads :])
        state.k[layer, :, :, :slots], state.v[layer, :, :, :slots] = k, v
        plain_k = heads[:, shape.n_heads : -shape.n_kv_heads]
        attention.append(state.attention, layer, slice(0, slots), plain_k, k, v)
        q = rotated[:, : shape.n_heads].reshape(batch, shape.n_kv_heads, -1, slots, shape.head_dim)
        out = attend_prompt(q, k, v, prompt_mask, seen)  # [B, KV, g, P, hd]
        attended = np.moveaxis(out, 3, 1).reshape(batch, slots, -1)
        x = x + arithmetic.entering("out", layer, attended) @ weights.w_out[layer]
        x = x + mlp(weights, layer, rms_norm(x, weights.ln_mlp[layer], config.rms_eps))
    return state, rms_norm(x, weights.ln_final, config.rms_eps)


def decode_step(state: State, x: Array, record: Recorder | None = None) -> Array:
    """Decode one token of every row.

    Keys and values are always computed and cached; attention reads those that its policy selects.
    A layer with tau scores every step after the first frame, and replays as
    :mod:`carsim.decisions.replay.decide` has it.

    Args:
        state: Of :func:`prefill` or the last step; advanced by one step.
        x: Embeddings, [B, d].
        record: Shown every layer; changes no bit of the result.

    Returns:
        Hidden states after the final norm, [B, d].
    """
    config, shape, slot = state.config, state.config.geometry, state.n_slots
    cos, sin = (  # [B, H + KV, hd]: written out once, as rows of one head are short
        np.repeat(table[slot - state.padding][:, None], shape.n_heads + shape.n_kv_heads, axis=1)
        for table in (state.cos, state.sin)
    )
    for layer in range(shape.n_layers):
        x = _mlp_or_replay(state, layer, *_attention(state, layer, x, cos, sin), record)
        if (state.step + 1) % config.tokens_per_frame == 0:
            keys, values = (cache[layer, :, :, : slot + 1] for cache in (state.k, state.v))
            kept = state.policy.attention.end_of_frame(state.attention, layer, keys, values)
            state.kept[layer] = slot + 1 - state.padding if kept is None else kept
    state.step += 1
    return rms_norm(x, state.weights.ln_final, config.rms_eps)


class _Attended(NamedTuple):
    """Residual stream after attention [B, d], its query, and what it read."""

    x: Array
    query: Query
    chosen: Selection


def _attention(state: State, layer: int, x: Array, cos: Array, sin: Array) -> _Attended:
    """Attention of a layer over the keys that its policy selects."""
    weights, attention, slot = state.weights, state.policy.attention, state.n_slots
    shape, arithmetic = state.config.geometry, weights.arithmetic
    # Query, key and value of the new token; keys and values are cached: [B, d] -> [B, ., hd]
    normed = rms_norm(x, weights.ln_attn[layer], state.config.rms_eps)
    normed = arithmetic.entering("qkv", layer, normed)
    heads = (normed @ weights.w_qkv[layer]).reshape(len(x), -1, shape.head_dim)
    rotated = rotate(heads[:, : -shape.n_kv_heads], cos, sin)  # queries and keys
    q, q_rotated = heads[:, : shape.n_heads], rotated[:, : shape.n_heads]  # [B, H, hd]
    k = arithmetic.cached(rotated[:, shape.n_heads :])  # [B, KV, hd]
    v = arithmetic.cached(heads[:, -shape.n_kv_heads :])
    keys, values = state.k[layer, :, :, : slot + 1], state.v[layer, :, :, : slot + 1]
    keys[:, :, slot], values[:, :, slot] = k, v

    # Attention over the keys that its policy selects: [B, H, hd] -> [B, d]
    plain_k, new = heads[:, shape.n_heads : -shape.n_kv_heads], slice(slot, slot + 1)
    attention.append(state.attention, layer, new, plain_k[:, :, None], k[:, :, None], v[:, :, None])
    query = Query(q, q_rotated, keys, state.padding)
    chosen = attention.select(state.attention, layer, query)
    attended = attend(q_rotated, keys, values, state.padded, chosen)
    x = x + arithmetic.entering("out", layer, attended) @ weights.w_out[layer]
    return _Attended(x, query, chosen)


def _mlp_or_replay(
    state: State, layer: int, x: Array, query: Query, chosen: Selection, record: Recorder | None
) -> Array:
    """Residual stream after the MLP of a layer, of which some rows replay, [B, d]."""
    policy, weights, rule = state.policy, state.weights, state.policy.rule
    arithmetic, tokens_per_frame = weights.arithmetic, state.config.tokens_per_frame
    frame, place = divmod(state.step, tokens_per_frame)

    # Decision: which rows replay, by their score under the rule
    normed = rms_norm(x, weights.ln_mlp[layer], state.config.rms_eps)  # [B, d]

    def key(ago: int) -> Array:  # of so many tokens ago, [B, KV, hd]
        return query.keys[:, :, -1 - ago]

    seen = Seen(query.q, query.q_rotated, key, normed, tokens_per_frame, frame)
    replay, tas = np.zeros(len(x), bool), None
    if policy.scores(layer, state.step, tokens_per_frame):
        tas = rule.score(state.rule, layer, place, seen)  # [B]
        worn = None if rule.max_age is None else state.age[layer, :, place] >= rule.max_age
        replay = policy.decide(tas, layer, worn)
    state.age[layer, :, place] = (state.age[layer, :, place] + 1) * replay

    # MLP of the rows that compute; the others add what is held for this place of the frame
    held, computes = state.held[layer, :, place], ~replay  # [B, d], a view: writing it holds
    if computes.all():
        out = mlp(weights, layer, normed)
        held[:] = arithmetic.held(out)
    else:
        if rule.damps:
            held[replay] *= held.dtype.type(rule.gain_of(layer))
        out = held.copy()
        if computes.any():
            out[computes] = fresh = mlp(weights, layer, normed[computes])
            held[computes] = arithmetic.held(fresh)
    if policy.tau[layer] is not None:
        rule.computed(state.rule, layer, place, computes, seen)
    x = x + out
    if record is not None:
        record(LayerRecord(state.step, layer, query, chosen, seen, tas, replay, out, x))
    return x


def mlp(weights: Weights, layer: int, normed: Array) -> Array:
    """MLP of a layer in the arithmetic of the weights, [.., d] to [.., d]."""
    arithmetic = weights.arithmetic
    inner = gated(arithmetic.entering("gate_up", layer, normed), weights.w_gate_up[layer])
    return arithmetic.entering("down", layer, inner) @ weights.w_down[layer]

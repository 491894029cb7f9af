"""Reference FastCar decoder (arXiv 2505.14709) in NumPy: prefill, then one token per row a step.

Model: a LLaMA-style body whose layers may replay, at each place of a frame, the MLP output that
stood there one frame before. Simplifications: no token head and no sampling here (embeddings go in,
hidden states come out), and rows advance in lockstep. It knows nothing of hardware.
"""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from carsim.decoder.layers import (
    attend,
    attend_prompt,
    rms_norm,
    rotate,
    swiglu,
    temporal_attention_score,
)
from carsim.decoder.structures import (
    Array,
    Config,
    LayerRecord,
    Policy,
    State,
    Weights,
    new_state,
)
from carsim.trace.scope import decision_units, unanimous

Recorder = Callable[[LayerRecord], None]
"""Is shown every layer of every decode step; it must not write to what it is shown."""


def prefill(
    config: Config,
    policy: Policy,
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
    shape = config.geometry
    state = new_state(config, prompt_mask)
    batch, slots, _ = prompt.shape
    positions = np.where(prompt_mask, prompt_mask.cumsum(axis=1) - 1, 1)
    cos, sin = state.cos[positions][:, None], state.sin[positions][:, None]  # [B, 1, P, hd]
    x = prompt.astype(config.dtype)
    for layer in range(shape.n_layers):
        normed = rms_norm(x, weights.ln_attn[layer], config.rms_eps)
        heads = (normed @ weights.w_qkv[layer]).reshape(batch, slots, -1, shape.head_dim)
        heads = heads.swapaxes(1, 2)  # [B, H + 2 KV, P, hd]
        rotated = rotate(heads[:, : -shape.n_kv_heads], cos, sin)  # queries and keys, not values
        k, v = rotated[:, shape.n_heads :], heads[:, -shape.n_kv_heads :]
        state.k[layer, :, :, :slots], state.v[layer, :, :, :slots] = k, v
        q = rotated[:, : shape.n_heads].reshape(batch, shape.n_kv_heads, -1, slots, shape.head_dim)
        out = attend_prompt(q, k, v, prompt_mask, policy.attention)  # [B, KV, g, P, hd]
        x = x + np.moveaxis(out, 3, 1).reshape(batch, slots, -1) @ weights.w_out[layer]
        normed = rms_norm(x, weights.ln_mlp[layer], config.rms_eps)
        x = x + swiglu(normed, weights.w_gate_up[layer], weights.w_down[layer])
    return state, rms_norm(x, weights.ln_final, config.rms_eps)


def decode_step(
    config: Config,
    policy: Policy,
    weights: Weights,
    state: State,
    x: Array,
    record: Recorder | None = None,
) -> Array:
    """Decode one token of every row.

    Keys and values are always computed and cached. A layer with tau scores every step after the
    first frame, and a unit of rows replays iff TAS > tau, strictly, in all its rows: the MLP
    output held for this place is added to the residual and stays held. Otherwise the MLP runs, and
    what it gives is held.

    Args:
        config: Shapes and arithmetic.
        policy: What is skipped.
        weights: The body.
        state: Caches; advanced by one step.
        x: Embeddings, [B, d].
        record: Shown every layer; changes no bit of the result.

    Returns:
        Hidden states after the final norm, [B, d].
    """
    shape, step, slot = config.geometry, state.step, state.n_slots
    batch, place = x.shape[0], step % config.tokens_per_frame
    position = slot - state.padding
    cos, sin = state.cos[position][:, None], state.sin[position][:, None]  # [B, 1, hd]
    units = decision_units(policy.scope, policy.pairs, batch)
    for layer, tau in enumerate(policy.tau):
        normed = rms_norm(x, weights.ln_attn[layer], config.rms_eps)
        heads = (normed @ weights.w_qkv[layer]).reshape(batch, -1, shape.head_dim)
        rotated = rotate(heads[:, : -shape.n_kv_heads], cos, sin)  # queries and keys, not values
        q, q_rotated = heads[:, : shape.n_heads], rotated[:, : shape.n_heads]  # [B, H, hd]
        state.k[layer, :, :, slot] = rotated[:, shape.n_heads :]
        state.v[layer, :, :, slot] = heads[:, -shape.n_kv_heads :]
        x = x + attend(q_rotated, layer, state, policy.attention) @ weights.w_out[layer]

        replay, tas, k_aligned = np.zeros(batch, bool), None, None
        if tau is not None and step >= config.tokens_per_frame:
            k_aligned = state.k[layer, :, :, slot - config.tokens_per_frame]
            tas = temporal_attention_score(q, q_rotated, k_aligned, policy.tas_form)
            replay = unanimous(tas.astype(np.float64) > tau, units)
        held = state.held[layer, :, place]  # [B, d], a view: writing it holds the value
        if not replay.all():
            fresh = slice(None) if not replay.any() else ~replay
            normed = rms_norm(x[fresh], weights.ln_mlp[layer], config.rms_eps)
            held[fresh] = swiglu(normed, weights.w_gate_up[layer], weights.w_down[layer])
        x = x + held
        if record is not None:
            record(LayerRecord(step, layer, q, q_rotated, k_aligned, tas, replay, held, x))
    state.step += 1
    return rms_norm(x, weights.ln_final, config.rms_eps)


def decode(
    config: Config,
    policy: Policy,
    weights: Weights,
    state: State,
    embeddings: Iterable[Array],
    record: Recorder | None = None,
) -> Array:
    """Decode the given embeddings one step after the other (teacher forcing).

    Args:
        config: Shapes and arithmetic.
        policy: What is skipped.
        weights: The body.
        state: The state after the prompt; advanced.
        embeddings: [B, d] for each step.
        record: Shown every layer of every step.

    Returns:
        Hidden states after the final norm, [steps, B, d].
    """
    return np.stack([decode_step(config, policy, weights, state, x, record) for x in embeddings])

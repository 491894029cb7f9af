"""Decode a clip whose tokens are known all at once, a layer at a time, really replaying.

Model: that of ``carsim.decoder.decode`` under teacher forcing, decision scope ``row``. Where tokens
are given, a layer sees all steps of the layer below, and only replay goes from frame to frame: so
matrices meet whole frames instead of single tokens, and a clip takes a third of the time. Decisions
are those of the step-by-step decoder but for rounding (tests hold the two together).
Simplification: one row at a time, without the left padding that the other hides.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from carsim.decoder.layers import rms_norm, rotate, swiglu
from carsim.decoder.model import Model
from carsim.decoder.structures import (
    Array,
    Config,
    Policy,
    Weights,
    rotary_table,
    stack_weights,
)
from carsim.policy import Dense, Streaming
from carsim.replay import Tas

_BLOCK = 128  # queries at a time: their scores stay in a processor's cache


@dataclass(frozen=True, eq=False)
class Layer:
    """What a layer did with the S steps of a video; letters as in ``carsim.decoder.structures``.

    Attributes:
        index: Number of the layer.
        q: Queries before the rotary embedding, [S, H, hd].
        q_rotated: Queries after it, [S, H, hd].
        k: Rotated keys, [S, KV, hd].
        entered: Residual stream before the layer, [S, d].
        attended: What attention added, [S, d].
        mlp: What the MLP branch added, fresh or replayed, [S, d].
        tas: The score that decides, [S]; NaN where it is not evaluated.
        replay: bool[S].
    """

    index: int
    q: Array
    q_rotated: Array
    k: Array
    entered: Array
    attended: Array
    mlp: Array
    tas: Array
    replay: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Decoded:
    """A decoded row.

    Attributes:
        hidden: Hidden states after the final norm, [S, d].
        tas: [S, L], NaN where not evaluated.
        replay: bool[S, L].
    """

    hidden: Array
    tas: Array
    replay: NDArray[np.bool_]


class Decoder:
    """A model made ready for one shape of video."""

    def __init__(self, model: Model, config: Config) -> None:
        self.config = config
        self._weights: Weights = stack_weights(config, model.arrays)
        self._arrays = {
            name: model.arrays[name].astype(config.dtype)
            for name in ("embed_text", "embed_visual", "begin")
        }

    def decode(
        self,
        policy: Policy,
        prompt: bytes,
        codes: NDArray[np.int64],
        look: Callable[[Layer], None] | None = None,
    ) -> Decoded:
        """Decode one row.

        Args:
            policy: What is skipped; its scope must be ``row``, and its rule a kind of TAS.
            prompt: At least one byte.
            codes: int64[S], the tokens of the clip; step s is fed token s - 1.
            look: Shown every layer.
        """
        config, weights, arrays = self.config, self._weights, self._arrays
        shape, n, first = config.geometry, config.tokens_per_frame, len(prompt)
        x = np.concatenate(
            [
                arrays["embed_text"][list(prompt)],
                arrays["begin"][None],
                arrays["embed_visual"][codes[: config.n_steps - 1]],
            ]
        )
        positions, dtype = len(x), np.dtype(config.dtype)
        cos, sin = rotary_table(max(positions, 2), shape.head_dim, config.rope_theta, dtype)
        cos, sin = cos[:positions, None], sin[:positions, None]
        rule = policy.rule
        assert isinstance(rule, Tas)
        all_tas = np.full((config.n_steps, shape.n_layers), np.nan, dtype)
        all_replay = np.zeros(all_tas.shape, bool)
        for index, tau in enumerate(policy.tau):
            entered = x
            normed = rms_norm(x, weights.ln_attn[index], config.rms_eps)
            heads = (normed @ weights.w_qkv[index]).reshape(positions, -1, shape.head_dim)
            rotated = rotate(heads[:, : -shape.n_kv_heads], cos, sin)
            q, q_rotated = heads[:, : shape.n_heads], rotated[:, : shape.n_heads]
            k, v = rotated[:, shape.n_heads :], heads[:, -shape.n_kv_heads :]
            attended = attend(q_rotated, k, v, policy.attention) @ weights.w_out[index]
            x = x + attended
            tas, replay = all_tas[:, index], all_replay[:, index]
            if tau is not None:
                keys = k[first + rule.offset : rule.offset - n or None]  # [S - n, KV, hd]
                tas[n:] = rule.of(q[first + n :], q_rotated[first + n :], keys)
                replay[n:] = tas[n:].astype(np.float64) > tau
            mlp = self._mlp(index, x, replay, first)
            x = x + mlp
            if look is not None:
                video = slice(first, None)
                look(
                    Layer(
                        index,
                        q[video],
                        q_rotated[video],
                        k[video],
                        entered[video],
                        attended[video],
                        mlp[video],
                        tas,
                        replay,
                    )
                )
        hidden = rms_norm(x[first:], weights.ln_final, config.rms_eps)
        return Decoded(hidden, all_tas, all_replay)

    def _mlp(self, index: int, x: Array, replay: NDArray[np.bool_], first: int) -> Array:
        """What the MLP branch adds, [positions, d]; replays chain from frame to frame."""
        weights, n = self._weights, self.config.tokens_per_frame
        out = np.empty_like(x)
        fresh = np.concatenate([np.ones(first, bool), ~replay])
        normed = rms_norm(x[fresh], weights.ln_mlp[index], self.config.rms_eps)
        out[fresh] = swiglu(normed, weights.w_gate_up[index], weights.w_down[index])
        for start in range(n, len(replay), n):
            places = np.flatnonzero(replay[start : start + n]) + first + start
            out[places] = out[places - n]
        return out


def attend(q: Array, k: Array, v: Array, attention: Dense | Streaming) -> Array:
    """Causal attention of all positions at once.

    Args:
        q: Rotated queries, [P, H, hd].
        k: Rotated keys, [P, KV, hd]; head j serves query heads j * g to j * g + g - 1.
        v: Values, [P, KV, hd].
        attention: Which keys are attended to.

    Returns:
        [P, H * hd].
    """
    positions, n_heads, head_dim = q.shape
    served = n_heads // k.shape[1]
    out = np.empty((n_heads, positions, head_dim), q.dtype)
    scratch = np.empty(_BLOCK * positions, q.dtype)  # allocating it anew costs as much as exp
    for begin in range(0, positions, _BLOCK):
        end = min(begin + _BLOCK, positions)
        seen: slice | NDArray[np.int64] = slice(0, end)
        columns = np.arange(end)
        if isinstance(attention, Streaming):
            oldest = max(0, begin - attention.window + 1)
            columns = np.concatenate([np.arange(min(attention.sinks, oldest)), columns[oldest:]])
            seen = columns
        first = 0 if isinstance(attention, Streaming) else begin  # all before is seen
        age = np.arange(begin, end)[:, None] - columns[first:]  # [queries, keys]
        hidden = age < 0
        if isinstance(attention, Streaming):
            hidden |= (age >= attention.window) & (columns >= attention.sinks)
        size = (end - begin, len(columns))
        for head in range(n_heads):
            scores = scratch[: size[0] * size[1]].reshape(size)
            scaled = q[begin:end, head] * q.dtype.type(head_dim**-0.5)
            np.matmul(scaled, k[seen, head // served].T, out=scores)
            np.copyto(scores[:, first:], -np.inf, where=hidden)
            scores -= scores.max(axis=1, keepdims=True)
            np.exp(scores, out=scores)
            weighted = scores @ v[seen, head // served]
            out[head, begin:end] = weighted / scores.sum(axis=1, keepdims=True)
    attended: Array = out.swapaxes(0, 1).reshape(positions, -1)
    return attended

"""Decode a clip whose tokens are known a frame at a time, under any rule of replay.

Model: that of ``carsim.decoder.decode`` under teacher forcing, decision scope ``row``. Where tokens
are given, a layer sees a whole frame of the layer below, and only replay goes from frame to frame:
so matrices meet whole frames instead of single tokens, and a clip takes a fifth of the time. Under
the rule of FastCar the decisions are those of the step-by-step decoder but for rounding (tests hold
the two together). Weights may be rounded and have an arithmetic of their own. Simplification: one
row at a time, without the left padding that the other hides. What an attention policy reads is
counted whether it is asked for or not: a tenth of the time (dense) to half of it (a window).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from carsim.decisions.attention import AttentionPolicy, Dense
from carsim.decoder.decode import mlp
from carsim.decoder.layers import rms_norm, rotate
from carsim.decoder.model import DecoderModel
from carsim.decoder.structures import Array, Config, Weights, rotary_table, stack_weights
from studies.frames import READERS

Bools = NDArray[np.bool_]
Attend = Callable[[int, Array, Array, Array], Array]
"""Attention of the newest positions, [n, H * hd], from the layer, their rotated queries [n, H, hd],
and the keys and values of all positions, [P, KV, hd]; it may write values."""


@dataclass(frozen=True, eq=False)
class Seen:
    """One layer in one frame after the first, before its MLP; N places.

    Attributes:
        frame: Number of the frame, from 1 on.
        layer: Number of the layer.
        fed: int[N], codes that are fed (-1: the begin symbol).
        fed_before: Those of the frame before.
        q: Queries before the rotary embedding, [N, H, hd].
        q_rotated: Queries after it.
        keys: Rotated keys of the places one frame before and of all since, [2 N, KV, hd].
        before: Residual stream before the layer, [N, d].
        u: What the MLP is fed, [N, d].
        u_before: What it was fed, or would have been, one frame before.
        u_held: What it was fed when the output was computed that is held for the place.
        held: The MLP output that is held.
        age: int[N], frames since it was computed, at least 1.
        weights: Of the body.
    """

    frame: int
    layer: int
    fed: NDArray[np.int64]
    fed_before: NDArray[np.int64]
    q: Array
    q_rotated: Array
    keys: Array
    before: Array
    u: Array
    u_before: Array
    u_held: Array
    held: Array
    age: NDArray[np.int64]
    weights: Weights

    @cached_property
    def fresh(self) -> Array:
        """What the MLP would put out, [N, d]."""
        return mlp(self.weights, self.layer, self.u)

    def hold(self, computes: Bools, gain: float = 1.0) -> Array:
        """Compute some places, bool[N], and hold their outputs and inputs from now on.

        Args:
            computes: The places.
            gain: Factor on the cached outputs of all other places: 1 is FastCar's replay, 0 adds
                nothing. It is applied at each replay, so older outputs count less.

        Returns:
            The sum's new term, [N, d]: fresh outputs, and held ones of the other places.
        """
        self.age[computes] = 0
        self.age[:] += 1
        if gain != 1:
            self.held[~computes] *= self.held.dtype.type(gain)
        out = self.held.copy()
        if not computes.any():
            return out
        if "fresh" in self.__dict__:
            made = self.fresh[computes]
        else:
            made = mlp(self.weights, self.layer, self.u[computes])
        out[computes] = made
        self.held[computes] = self.weights.arithmetic.held(made)
        self.u_held[computes] = self.u[computes]
        return out


class Rule(Protocol):
    """Decides which places replay.

    A rule with an attribute ``gain``, a number or one per layer, damps what it replays.
    """

    def decide(self, seen: Seen) -> tuple[Bools, Array | None]:
        """Decisions bool[N], and the scores they follow from, [N], if there are any."""
        ...


@dataclass(frozen=True, eq=False)
class Decoded:
    """A decoded row.

    Attributes:
        hidden: Hidden states after the final norm, [S, d].
        score: [S, L], NaN where not evaluated.
        replay: bool[S, L].
    """

    hidden: Array
    score: Array
    replay: Bools


def outputs(seen: Seen, rule: Rule | None, replay: Bools, score: Array) -> Array:
    """What the MLPs of a layer of a frame give under a rule, [n, d].

    Args:
        seen: The layer.
        rule: What replays; None replays nothing.
        replay: bool[n], to which its decisions are written.
        score: [n], to which its scores are written, if it has any.
    """
    if rule is not None:
        replay[:], scored = rule.decide(seen)
        if scored is not None:
            score[:] = scored
    gain = getattr(rule, "gain", 1.0)
    return seen.hold(~replay, gain[seen.layer] if isinstance(gain, tuple) else gain)


class Decoder:
    """A model made ready for one shape of video.

    Args:
        model: Weights and embeddings.
        config: Shapes and arithmetic.
        weights: The model's in another precision; as they are, if left out.
    """

    def __init__(self, model: DecoderModel, config: Config, weights: Weights | None = None) -> None:
        self.config = config
        self._weights: Weights = weights or stack_weights(config, model.arrays)
        self._arrays = {
            name: model.arrays[name].astype(config.dtype)
            for name in ("embed_text", "embed_visual", "begin")
        }

    def decode(
        self,
        rule: Rule | None,
        prompt: bytes,
        codes: NDArray[np.int64],
        *,
        attention: AttentionPolicy | Attend | None = None,
        look: Callable[[Seen], None] | None = None,
    ) -> Decoded:
        """Decode one row.

        Args:
            rule: What replays; None replays nothing.
            prompt: At least one byte.
            codes: int64[S], the tokens of the clip; step s is fed token s - 1.
            attention: Which keys are attended to, or how; all, if left out.
            look: Shown every layer of every frame after the first.
        """
        config, weights, shape = self.config, self._weights, self.config.geometry
        n, first, layers = config.tokens_per_frame, len(prompt), shape.n_layers
        x_all, fed = self._embed(prompt, codes)
        positions, dtype = len(x_all), np.dtype(config.dtype)
        cos, sin = rotary_table(max(positions, 2), shape.head_dim, config.rope_theta, dtype)
        cos, sin = cos[:, None], sin[:, None]
        keys = np.empty((layers, positions, shape.n_kv_heads, shape.head_dim), dtype)
        values = np.empty_like(keys)
        held, u_held, u_before = np.zeros((3, layers, n, shape.hidden_size), dtype)
        score = np.full((config.n_steps, layers), np.nan, dtype)
        replay = np.zeros(score.shape, bool)
        hidden = np.empty((config.n_steps, shape.hidden_size), dtype)
        age = np.ones((layers, n), np.int64)
        attend = attention or Dense()
        if not callable(attend):
            attend = READERS[attend.kind](attend, config, first)
        for frame in range(config.n_frames):
            begin, end = first + frame * n if frame else 0, first + (frame + 1) * n
            x, steps = x_all[begin:end], slice(frame * n, (frame + 1) * n)
            for layer in range(layers):
                before = x
                k, v = keys[layer, :end], values[layer, :end]
                turn = cos[begin:end], sin[begin:end]
                q, q_rotated, k[begin:], v[begin:] = self._project(x, layer, turn)
                attended = weights.arithmetic.entering("out", layer, attend(layer, q_rotated, k, v))
                x = x + attended @ weights.w_out[layer]
                u = rms_norm(x, weights.ln_mlp[layer], config.rms_eps)
                if frame == 0:
                    out = mlp(weights, layer, u)
                    held[layer] = weights.arithmetic.held(out[first:])
                    u_held[layer] = u[first:]
                else:
                    seen = Seen(
                        frame,
                        layer,
                        fed[steps],
                        fed[steps.start - n : steps.start],
                        q,
                        q_rotated,
                        k[begin - n :],
                        before,
                        u,
                        u_before[layer],
                        u_held[layer],
                        held[layer],
                        age[layer],
                        weights,
                    )
                    if look is not None:
                        look(seen)
                    out = outputs(seen, rule, replay[steps, layer], score[steps, layer])
                u_before[layer] = u[-n:]
                x = x + out
            hidden[steps] = rms_norm(x[-n:], weights.ln_final, config.rms_eps)
        return Decoded(hidden, score, replay)

    def _project(
        self, x: Array, layer: int, turn: tuple[Array, Array]
    ) -> tuple[Array, Array, Array, Array]:
        """Queries, rotated queries, rotated keys and values of a layer, [n, heads, hd] each.

        Args:
            x: Residual stream before the layer, [n, d].
            layer: Its number.
            turn: Cosine and sine of the positions, [n, 1, hd] each.
        """
        shape, weights = self.config.geometry, self._weights
        normed = rms_norm(x, weights.ln_attn[layer], self.config.rms_eps)
        normed = weights.arithmetic.entering("qkv", layer, normed)
        heads = (normed @ weights.w_qkv[layer]).reshape(len(x), -1, shape.head_dim)
        rotated = rotate(heads[:, : -shape.n_kv_heads], *turn)
        q, k = np.split(rotated, [shape.n_heads], axis=1)
        v = heads[:, -shape.n_kv_heads :]
        kept = weights.arithmetic.cached
        return heads[:, : shape.n_heads], q, kept(k), kept(v)

    def _embed(self, prompt: bytes, codes: NDArray[np.int64]) -> tuple[Array, NDArray[np.int64]]:
        """What is fed, [P + S, d], and the codes fed in each step, int64[S]."""
        arrays, steps = self._arrays, self.config.n_steps
        fed = np.concatenate([[-1], codes[: steps - 1]])
        video = np.concatenate([arrays["begin"][None], arrays["embed_visual"][fed[1:]]])
        return np.concatenate([arrays["embed_text"][list(prompt)], video]), fed

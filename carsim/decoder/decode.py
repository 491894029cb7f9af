"""Reference FastCar decoder (arXiv 2505.14709) in NumPy: prefill, then one token per row a step.

Model: a LLaMA-style body whose layers may replay, at each place of a frame, the outputs of some
blocks that stood there one frame before. Simplifications: no token head and no sampling here
(embeddings go in, hidden states come out), and rows advance in lockstep. It knows nothing of
hardware.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.decisions.attention import AttentionPolicy, Query
from carsim.decisions.attention.base import Bools, Ints
from carsim.decisions.replay.seen import Stage
from carsim.decoder.layers import (
    attend,
    attend_prompt,
    gated,
    rms_norm,
    rotate,
    softmax_weights,
)
from carsim.decoder.shown import Shown
from carsim.decoder.structures import (
    Array,
    Config,
    Decided,
    DecoderPolicy,
    LayerRecord,
    State,
    Weights,
)
from carsim.program.program import TOKEN

Recorder = Callable[[LayerRecord], None]
"""Called with every layer of every decode step; it must not write to the arrays."""


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
    state = State(config, policy, weights, prompt_mask)
    if prompt.shape[1] == 0:  # no row has a prompt: nothing is cached
        return state, prompt
    positions = np.where(prompt_mask, prompt_mask.cumsum(axis=1) - 1, 1)
    rotary = _Rotary(cos=state.cos[positions][:, None], sin=state.sin[positions][:, None])
    seen = policy.attention.prompt_mask(prompt_mask)  # [B, P, P]
    x = prompt.astype(config.dtype)
    for layer in range(config.geometry.n_layers):
        queries, keys, values = _cached_prompt(state, layer, x, rotary)
        # Attention: [B, KV, g, P, hd] -> [B, P, d]
        out = attend_prompt(queries, keys, values, valid=prompt_mask, seen=seen)
        attended = np.moveaxis(out, 3, 1).reshape(*prompt.shape[:2], -1)
        attended = weights.arithmetic.entering("out", layer, attended)
        x = x + attended @ weights.w_out[layer]
        x = x + mlp(weights, layer, rms_norm(x, weights.ln_mlp[layer], config.rms_eps))
    return state, rms_norm(x, weights.ln_final, config.rms_eps)


def _cached_prompt(
    state: State, layer: int, x: Array, rotary: "_Rotary"
) -> tuple[Array, Array, Array]:
    """Project the prompt in one layer, and cache its keys and values.

    Args:
        state: Of the decoding; its caches are written.
        layer: Number of the layer.
        x: Residual stream of the prompt, [B, P, d].
        rotary: Cosine and sine at the positions of the prompt, [B, 1, P, hd].

    Returns:
        Rotated queries [B, KV, g, P, hd]; rotated keys and values as cached, [B, KV, P, hd].
    """
    config = state.config
    shape = config.geometry
    weights = state.weights
    arithmetic = weights.arithmetic
    attention = state.policy.attention
    batch, slots, _ = x.shape
    # Queries, keys and values: [B, P, d] -> [B, H + 2 KV, P, hd]
    normed = rms_norm(x, weights.ln_attn[layer], config.rms_eps)
    normed = arithmetic.entering("qkv", layer, normed)
    heads = (normed @ weights.w_qkv[layer]).reshape(batch, slots, -1, shape.head_dim)
    heads = heads.swapaxes(1, 2)
    # Queries and keys are rotated, values are not.
    rotated = rotate(heads[:, : -shape.n_kv_heads], rotary.cos, rotary.sin)
    queries = rotated[:, : shape.n_heads]

    plain_keys = shared_by_heads(attention, heads[:, shape.n_heads : -shape.n_kv_heads])
    keys = arithmetic.cached(shared_by_heads(attention, rotated[:, shape.n_heads :]))
    values = arithmetic.cached(shared_by_heads(attention, heads[:, -shape.n_kv_heads :]))
    source = attention.source_layer(layer)
    if source != layer:
        plain_keys = state.plain_keys[source]
        keys = state.k[source, :, :, :slots]
        values = state.v[source, :, :, :slots]
    state.plain_keys[layer] = plain_keys
    state.k[layer, :, :, :slots] = keys
    state.v[layer, :, :, :slots] = values
    new_slots = slice(0, slots)
    # By position, as policies of users may name these arguments otherwise.
    attention.append(state.attention, layer, new_slots, plain_keys, keys, values)
    return queries.reshape(batch, shape.n_kv_heads, -1, slots, shape.head_dim), keys, values


def decode_step(
    state: State, x: Array, record: Recorder | None = None, codes: Ints | None = None
) -> Array:
    """Decode one token of every row.

    Attention reads the keys that its policy selects. A layer with tau scores every step after the
    first frame, and replays as :mod:`carsim.decisions.replay.decide` has it: a row that replays
    skips the blocks that the policy's ``skip`` names (:mod:`carsim.decoder.skipping`). Where blocks
    follow several decisions, each is made by its own rule and thresholds.

    Args:
        state: Of :func:`prefill` or the last step; advanced by one step.
        x: Embeddings, [B, d].
        record: Shown every layer; changes no bit of the result.
        codes: int[B], the codes that are fed, for rules that look at them; -1 if left out.

    Returns:
        Hidden states after the final norm, [B, d].
    """
    config = state.config
    if codes is not None:
        state.codes[state.step] = codes
    rotary = _rotary_of_step(state)
    for layer in range(config.geometry.n_layers):
        x = _LayerStep(state, layer, x, rotary).run(record)
        if (state.step + 1) % config.tokens_per_frame == 0:
            _end_frame(state, layer)
    state.step += 1
    return rms_norm(x, state.weights.ln_final, config.rms_eps)


class _Rotary(NamedTuple):
    """Cosine and signed sine of a rotary embedding, which broadcast to heads.

    Of a decode step [B, H + KV, hd], of a prompt [B, 1, P, hd].
    """

    cos: Array
    sin: Array


def _rotary_of_step(state: State) -> _Rotary:
    """Rotary embedding of the next token of every row, for queries and keys."""
    shape = state.config.geometry
    positions = state.n_slots - state.padding  # [B]
    heads = shape.n_heads + shape.n_kv_heads
    # Written out once for all heads, as rows of one head are short.
    cos = np.repeat(state.cos[positions][:, None], heads, axis=1)
    sin = np.repeat(state.sin[positions][:, None], heads, axis=1)
    return _Rotary(cos, sin)


def _end_frame(state: State, layer: int) -> None:
    """Let the attention policy drop keys of a layer, and count the tokens that stay."""
    end = state.n_slots + 1
    keys = state.k[layer, :, :, :end]
    values = state.v[layer, :, :, :end]
    cached = state.policy.attention.end_of_frame(state.attention, layer, keys, values)
    state.kept[layer] = end - state.padding if cached is None else cached


class _LayerStep:
    """One layer in one decode step: project, attend, decide, add.

    Args:
        state: The decoding.
        layer: Number of the layer.
        x: Residual stream before the layer, [B, d].
        rotary: Of the newest tokens.
    """

    def __init__(self, state: State, layer: int, x: Array, rotary: _Rotary) -> None:
        self.state = state
        self.layer = layer
        self.x = x
        self.rotary = rotary
        self.place = state.step % state.config.tokens_per_frame  # in the frame
        self.shown = Shown(state, layer, x)
        self.decisions: dict[str, Decided] = {}  # those that are made by now

    def run(self, record: Recorder | None) -> Array:
        """Residual stream after the layer, [B, d]."""
        state = self.state
        self._decide_at("before")
        query = self._project()
        self._decide_at("q")
        attended = self._attention_output(query)
        self._decide_at("attention")
        x = self._add_output(attended)
        # Rows that skip the output have added nothing behind it yet, if it is not held by itself.
        normed = rms_norm(x, state.weights.ln_mlp[self.layer], state.config.rms_eps)  # [B, d]
        self.shown.values["attention_output"] = attended
        self.shown.values["residual"] = x
        self.shown.values["mlp_input"] = normed
        self._decide_at("residual")
        out = self._mlp_output(normed, attended)
        x = x + out
        self._tell_rules()
        if record is not None:
            record(self._layer_record(query, mlp_output=out, residual=x))
        self._count_ages()
        return x

    def _project(self) -> Query:
        """Query, key and value of the new token: [B, d] -> [B, H + 2 KV, hd]; both are cached."""
        state = self.state
        layer = self.layer
        weights = state.weights
        arithmetic = weights.arithmetic
        policy = state.policy.attention
        shape = state.config.geometry
        slot = state.n_slots

        plain_input = rms_norm(self.x, weights.ln_attn[layer], state.config.rms_eps)
        normed = arithmetic.entering("qkv", layer, plain_input)
        heads = (normed @ weights.w_qkv[layer]).reshape(len(self.x), -1, shape.head_dim)
        # Queries and keys turn, values do not.
        rotated = rotate(heads[:, : -shape.n_kv_heads], self.rotary.cos, self.rotary.sin)
        plain_queries = heads[:, : shape.n_heads]  # [B, H, hd]
        queries = rotated[:, : shape.n_heads]

        # Key and value are cached: [B, KV, hd]
        plain_key = shared_by_heads(policy, heads[:, shape.n_heads : -shape.n_kv_heads])
        key = arithmetic.cached(shared_by_heads(policy, rotated[:, shape.n_heads :]))
        value = arithmetic.cached(shared_by_heads(policy, heads[:, -shape.n_kv_heads :]))
        keys = state.k[layer, :, :, : slot + 1]  # views of the cache
        values = state.v[layer, :, :, : slot + 1]
        if "qkv" in state.policy.followed and self._skipping("qkv").any():
            one_frame_before = slot - state.config.tokens_per_frame
            replay = self._skipping("qkv")[:, None, None]
            key = np.where(replay, keys[:, :, one_frame_before], key)
            value = np.where(replay, values[:, :, one_frame_before], value)
        source = policy.source_layer(layer)
        if source != layer:
            plain_key = state.plain_keys[source][:, :, -1]
            key = state.k[source, :, :, slot]
            value = state.v[source, :, :, slot]
        state.plain_keys[layer] = plain_key[:, :, None]
        keys[:, :, slot] = key
        values[:, :, slot] = value
        new_slot = slice(slot, slot + 1)
        # By position, as policies of users may name these arguments otherwise.
        policy.append(
            state.attention,
            layer,
            new_slot,
            plain_key[:, :, None],
            key[:, :, None],
            value[:, :, None],
        )
        query = Query(plain_queries, queries, keys, state.padding)
        self.shown.query = query
        self.shown.values["attention_input"] = plain_input
        self.shown.values["q"] = plain_queries
        self.shown.values["q_rotated"] = queries
        self.shown.values["k"] = plain_key
        self.shown.values["k_rotated"] = key
        self.shown.values["v"] = value
        return query

    def _attention_output(self, query: Query) -> Array:
        """Attention over the keys that the policy selects, and its projection, [B, d]."""
        state = self.state
        weights = state.weights
        policy = state.policy.attention
        chosen = policy.select(state.attention, self.layer, query)
        values = state.v[self.layer, :, :, : query.end]
        attended = attend(query.q_rotated, query.keys, values, padded=state.padded, chosen=chosen)
        if type(policy).attended is not AttentionPolicy.attended:
            policy.attended(state.attention, self.layer, softmax_weights(query, chosen))
        self.shown.chosen = chosen
        entering = weights.arithmetic.entering("out", self.layer, attended)
        projected: Array = entering @ weights.w_out[self.layer]
        return projected

    def _decide_at(self, stage: Stage) -> None:
        """Make the decisions that must be known at this stage."""
        for name, skipped in self.state.policy.skipped.items():
            if skipped.stage == stage:
                self.decisions[name] = self._decided(name, stage)

    def _decided(self, name: str, stage: Stage) -> Decided:
        """A decision: rows that replay, and their scores.

        Args:
            name: Of the decision.
            stage: Where it must be known.
        """
        state = self.state
        made = state.policy.decisions[name]
        if not made.scores(self.layer, state.step, state.config.tokens_per_frame):
            return Decided(replay=np.zeros(len(self.x), np.bool_), tas=None)
        rule = made.rule
        of_decision = state.decisions[name]
        seen = self.shown.at(stage, name)
        tas = rule.score(of_decision.rule, self.layer, self.place, seen)  # [B]
        too_old = None
        if rule.max_age is not None:
            too_old = of_decision.age[self.layer, :, self.place] >= rule.max_age
        return Decided(replay=made.decide(tas, self.layer, too_old), tas=tas)

    def _skipping(self, block: str) -> Bools:
        """Rows that skip a block, bool[B], behind the stage that decides."""
        return self.decisions[self.state.policy.followed[block]].replay

    def _add_output(self, attended: Array) -> Array:
        """Residual stream behind the output projection, [B, d].

        Rows that skip the projection add what is held for it: nothing, where a later block holds
        the outputs of both.
        """
        if "output" not in self.state.policy.followed:
            return self.x + attended
        if "output" in self.state.held:
            return self.x + self._held_or_fresh("output", attended)
        nothing = attended.dtype.type(0)
        return self.x + np.where(self._skipping("output")[:, None], nothing, attended)

    def _mlp_output(self, normed: Array, attended: Array) -> Array:
        """Output of the MLP branch, [B, d]: fresh where rows compute, held where they replay.

        Fresh outputs are held for this place of the next frame; with those of earlier blocks that
        are skipped and do not hold their own.
        """
        policy = self.state.policy
        weights = self.state.weights
        if "mlp" not in policy.followed:
            return mlp(weights, self.layer, normed)
        replay = self._skipping("mlp")
        computes = ~replay
        fresh = np.zeros_like(normed)
        if computes.all():
            fresh = mlp(weights, self.layer, normed)
        elif computes.any():
            fresh[computes] = mlp(weights, self.layer, normed[computes])
        if "mlp" not in self.state.held:
            return fresh
        by_one_decision = policy.followed.get("output") == policy.followed["mlp"]
        holds_both = by_one_decision and "output" not in self.state.held
        if not holds_both:
            return self._held_or_fresh("mlp", fresh)
        sums = self._held_or_fresh("mlp", attended + fresh)
        return np.where(replay[:, None], sums, fresh)

    def _held_or_fresh(self, block: str, fresh: Array) -> Array:
        """Fresh outputs of rows that compute, which are held, and held ones of others, [B, d]."""
        state = self.state
        rule = state.policy.decisions[state.policy.followed[block]].rule
        # [B, d], a view: writing to it holds.
        held_outputs = state.held[block][self.layer, :, self.place]
        computes = ~self._skipping(block)
        if rule.damps:
            held_outputs[~computes] *= held_outputs.dtype.type(rule.gain_of(self.layer))
        out = fresh
        if not computes.all():
            out = held_outputs.copy()
            out[computes] = fresh[computes]
        rounded = state.weights.arithmetic.held(fresh[computes])
        held_outputs[computes] = rounded
        if block == "mlp" and rule.damps:
            state.computed[self.layer, computes, self.place] = rounded
        return out

    def _tell_rules(self) -> None:
        """Tell the rules which rows computed, in a layer that may replay by their decision."""
        state = self.state
        for name, made in state.policy.decisions.items():
            if made.tau[self.layer] is not None:
                seen = self.shown.at("residual", name)
                computes = ~self.decisions[name].replay
                made.rule.computed(
                    state.decisions[name].rule, self.layer, self.place, computes, seen
                )

    def _count_ages(self) -> None:
        """Count the frames that the place has replayed by each decision."""
        for name, decided in self.decisions.items():
            age = self.state.decisions[name].age[self.layer, :, self.place]  # a view
            age += 1
            age *= decided.replay

    def _layer_record(self, query: Query, *, mlp_output: Array, residual: Array) -> LayerRecord:
        return LayerRecord(
            step=self.state.step,
            layer=self.layer,
            query=query,
            chosen=self.shown.chosen,
            seen=self.shown.at("residual", TOKEN),
            decisions=self.decisions,
            mlp=mlp_output,
            residual=residual,
        )


def shared_by_heads(policy: AttentionPolicy, heads: Array) -> Array:
    """Keys or values as the heads of a policy share them, [B, KV, ..., hd].

    Args:
        policy: The policy, which may keep fewer key heads than there are.
        heads: Keys or values of all key heads, [B, KV, ..., hd].
    """
    n_kv_heads = heads.shape[1]
    kept = policy.kept_key_heads(n_kv_heads)
    if kept == n_kv_heads:
        return heads
    group = n_kv_heads // kept
    of_groups = heads.reshape(len(heads), kept, group, *heads.shape[2:])
    return np.repeat(policy.pooled(of_groups), group, axis=1)


def mlp(weights: Weights, layer: int, normed: Array) -> Array:
    """MLP of a layer in the arithmetic of the weights, [.., d] to [.., d]."""
    arithmetic = weights.arithmetic
    inner = gated(arithmetic.entering("gate_up", layer, normed), weights.w_gate_up[layer])
    return arithmetic.entering("down", layer, inner) @ weights.w_down[layer]

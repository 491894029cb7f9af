"""A naive FastCar decoder to judge the real one: no caches, no batches, no masks, no padding.

Every row is a list of tokens, its prompt without padding; keys and values of all tokens are
computed anew at every step from remembered layer inputs, and visible tokens are listed one by one.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from carsim.decisions.attention import Dense, Streaming
from carsim.decisions.replay import Replay, ReplayRule, Tas
from carsim.decisions.trace.precision import Product
from carsim.decoder.decode import Recorder, decode_step, prefill
from carsim.decoder.precision import Arithmetic
from carsim.decoder.structures import Array, Config, DecoderPolicy, LayerRecord, Weights
from carsim.testing.decoder import MASK, DecodedLog, DecodedRows, make_inputs, make_weights

Vector = NDArray[np.float64]
Visible = Callable[[int, int, Vector], list[int]]
"""Tokens that are read: prompt length, the newest token, its logits against all so far."""


@dataclass
class Oracle:
    """Results of :func:`oracle_decode`, as lists by step."""

    replay: NDArray[np.bool_]  # [S, L, B]
    tas: NDArray[np.float64]  # [S, L, B]
    mlp: NDArray[np.float64]  # [S, L, B, d]
    residual: NDArray[np.float64]  # [S, L, B, d]
    hidden: NDArray[np.float64]  # [S, B, d]
    attention_replay: NDArray[np.bool_]  # [S, L, B], of the decision about attention, if there is
    attention_tas: NDArray[np.float64]  # [S, L, B]


def _norm(x: Vector, weight: Vector, eps: float) -> Vector:
    return weight * x / np.sqrt((x**2).mean() + eps)


def _turn(x: Vector, position: int, theta: float) -> Vector:
    """Rotate each pair (i, i + half) of a head by position * theta^(-2i/hd)."""
    half = len(x) // 2
    out = x.copy()
    for i in range(half):
        angle = position * theta ** (-2 * i / len(x))
        out[i] = x[i] * np.cos(angle) - x[i + half] * np.sin(angle)
        out[i + half] = x[i + half] * np.cos(angle) + x[i] * np.sin(angle)
    return out


def _to_code(x: float, step: float, zero: float, most: int) -> float:
    """The value of the nearest code."""
    return (min(max(round(x / step) + zero, 0), most) - zero) * step


def naive_round(x: Vector, bits: int, group: int) -> Vector:
    """Round every group of neighbours on the grid of its own range, number by number."""
    most, out = 2**bits - 1, []
    for start in range(0, len(x), group):
        part = [float(value) for value in x[start : start + group]]
        step = (max(part) - min(part)) / most
        if step == 0:  # met exactly
            out += part
            continue
        out += [_to_code(value, step, round(-min(part) / step), most) for value in part]
    return np.array(out)


def naive_enter(arithmetic: Arithmetic, product: Product, layer: int, x: Vector) -> Vector:
    """Inputs of a product as its grids have them, number by number, polished where they are."""
    if product not in arithmetic.inputs:
        return x
    inputs, out = arithmetic.inputs[product][layer], []
    for channel, value in enumerate(x):
        step, zero = inputs.grid.step[channel], inputs.grid.zero[channel]
        if inputs.w is None:
            out.append(_to_code(value, step, zero, inputs.grid.most))
            continue
        w, sign = inputs.w[channel], -1 if value < 0 else 1
        log = _to_code(sign * (np.log2(abs(value) + w) - np.log2(w)), step, zero, inputs.grid.most)
        out.append((-1 if log < 0 else 1) * (2 ** (abs(log) + np.log2(w)) - w))
    return np.array(out)


@dataclass
class _Row:
    """One row: its layer inputs so far."""

    def __init__(
        self,
        config: Config,
        policy: DecoderPolicy,
        weights: Weights,
        prompt_length: int,
        chooses: Visible | None,
    ) -> None:
        self.config, self.policy, self.weights = config, policy, weights
        self.prompt_length, self.chooses = prompt_length, chooses
        self.inputs: list[list[Vector]] = [[] for _ in policy.tau]

    def project(self, layer: int, token: int) -> tuple[list[Vector], list[Vector], list[Vector]]:
        shape = self.config.geometry
        normed = _norm(self.inputs[layer][token], self.weights.ln_attn[layer], self.config.rms_eps)
        normed = naive_enter(self.weights.arithmetic, "qkv", layer, normed)
        heads = list((normed @ self.weights.w_qkv[layer]).reshape(-1, shape.head_dim))
        keys_end = shape.n_heads + shape.n_kv_heads
        return heads[: shape.n_heads], heads[shape.n_heads : keys_end], heads[keys_end:]

    def cached(self, x: Vector) -> Vector:
        kv = self.weights.arithmetic.kv
        return x if kv.bits == 16 else naive_round(x, kv.bits, kv.group or len(x))

    def key(self, k: Vector, token: int) -> Vector:
        return self.cached(_turn(k, token, self.config.rope_theta))

    def held(self, x: Vector) -> Vector:
        bits = self.weights.arithmetic.replay
        return x if bits == 16 else naive_round(x, bits, len(x))

    def visible(self, token: int, logits: Vector) -> list[int]:
        if self.chooses is not None:
            return self.chooses(self.prompt_length, token, logits)
        attention = self.policy.attention
        if isinstance(attention, Dense):
            return list(range(token + 1))
        assert isinstance(attention, Streaming)
        return [i for i in range(token + 1) if i < attention.sinks or token - i < attention.window]

    def attention(self, layer: int) -> Vector:
        """Residual branch of the newest token, and nothing remembered but layer inputs."""
        shape, theta = self.config.geometry, self.config.rope_theta
        token = len(self.inputs[layer]) - 1
        group = shape.n_heads // shape.n_kv_heads
        projected = [self.project(layer, i) for i in range(token + 1)]
        queries = [_turn(q, token, theta) for q in projected[token][0]]
        heads = []
        for kv_head in range(shape.n_kv_heads):
            keys = np.array([self.key(k[kv_head], i) for i, (_, k, _) in enumerate(projected)])
            values = np.array([self.cached(v[kv_head]) for _, _, v in projected])
            served = np.array(queries[kv_head * group : (kv_head + 1) * group])
            logits = served @ keys.T / np.sqrt(shape.head_dim)  # [g, tokens]
            seen = self.visible(token, logits.max(axis=0))
            for of_head in logits[:, seen]:
                weight = np.exp(of_head - of_head.max())
                heads.append(weight @ values[seen] / weight.sum())
        attended = naive_enter(self.weights.arithmetic, "out", layer, np.concatenate(heads))
        return attended @ self.weights.w_out[layer]

    def score(self, layer: int, rule: ReplayRule) -> float:
        shape, theta = self.config.geometry, self.config.rope_theta
        assert isinstance(rule, Tas)
        token = len(self.inputs[layer]) - 1
        aligned = token - self.config.tokens_per_frame + rule.offset
        keys = self.project(layer, aligned)[1]
        logits = []
        for head, q in enumerate(self.project(layer, token)[0]):
            query = q if rule.form == "released" else _turn(q, token, theta)
            key = self.key(keys[head * len(keys) // shape.n_heads], aligned)
            logits.append(query @ key / np.sqrt(shape.head_dim))
        return float(np.mean(logits) if rule.head is None else logits[rule.head])

    def mlp(self, layer: int, x: Vector) -> Vector:
        normed = _norm(x, self.weights.ln_mlp[layer], self.config.rms_eps)
        normed = naive_enter(self.weights.arithmetic, "gate_up", layer, normed)
        gate, up = np.split(normed @ self.weights.w_gate_up[layer], 2)
        inner = gate / (1 + np.exp(-gate)) * up
        inner = naive_enter(self.weights.arithmetic, "down", layer, inner)
        return inner @ self.weights.w_down[layer]


def _worn(before: NDArray[np.bool_], config: Config, rule: ReplayRule) -> bool:
    """The place of the next step has replayed in as many frames before it as the rule allows."""
    age, per_frame = rule.max_age, config.tokens_per_frame
    if age is None or len(before) < age * per_frame:
        return False
    return all(before[len(before) - per_frame * ago] for ago in range(1, age + 1))


@dataclass
class _Decider:
    """One decision, which is made for all rows layer by layer."""

    made: Replay
    units: list[list[int]]
    replay: NDArray[np.bool_]  # [S, L, B]
    tas: NDArray[np.float64]  # [S, L, B]

    def decide(self, rows: list[_Row], step: int, layer: int) -> None:
        config, tau, rule = rows[0].config, self.made.tau[layer], self.made.rule
        for b, row in enumerate(rows):
            if tau is not None and step >= config.tokens_per_frame:
                self.tas[step, layer, b] = row.score(layer, rule)
        for unit in self.units:
            votes = [tau is not None and bool(self.tas[step, layer, b] > tau) for b in unit]
            votes += [not _worn(self.replay[:step, layer, b], config, rule) for b in unit]
            for b in unit:
                self.replay[step, layer, b] = all(votes)


def oracle_decode(
    config: Config,
    policy: DecoderPolicy,
    weights: Weights,
    prompts: list[NDArray[np.float64]],
    embeddings: NDArray[np.float64],
    units: list[list[int]],
    chooses: Visible | None = None,
    skips: str = "mlp",
    of_attention: Replay | None = None,
) -> Oracle:
    """Decode [S, B, d] embeddings after one unpadded prompt per row; rows of a unit vote.

    ``chooses`` stands in for what an attention policy selects; ``skips`` names what a row that
    replays leaves out: "mlp", "attention" or "attention and mlp". ``of_attention`` decides about
    attention by itself, row by row.
    """
    n_steps, n_rows, width = embeddings.shape
    layers = len(policy.tau)
    out = Oracle(
        replay=np.zeros((n_steps, layers, n_rows), bool),
        tas=np.full((n_steps, layers, n_rows), np.nan),
        mlp=np.zeros((n_steps, layers, n_rows, width)),
        residual=np.zeros((n_steps, layers, n_rows, width)),
        hidden=np.zeros((n_steps, n_rows, width)),
        attention_replay=np.zeros((n_steps, layers, n_rows), bool),
        attention_tas=np.full((n_steps, layers, n_rows), np.nan),
    )
    decider = _Decider(policy, units, out.replay, out.tas)
    about_attention, alone = decider, [[row] for row in range(n_rows)]
    if of_attention is not None:
        about_attention = _Decider(of_attention, alone, out.attention_replay, out.attention_tas)
    rows = [_Row(config, policy, weights, len(prompt), chooses) for prompt in prompts]
    held = np.zeros((config.tokens_per_frame, layers, n_rows, width))
    held_attention = np.zeros_like(held)
    for row, prompt in zip(rows, prompts, strict=True):
        for x in prompt:
            for layer in range(layers):
                row.inputs[layer].append(x)
                x = x + row.attention(layer)
                x = x + row.mlp(layer, x)
    for step in range(n_steps):
        xs = list(embeddings[step])
        for layer in range(layers):
            for b, row in enumerate(rows):
                row.inputs[layer].append(xs[b])
            decider.decide(rows, step, layer)
            if about_attention is not decider:
                about_attention.decide(rows, step, layer)
            place = step % config.tokens_per_frame
            for b, row in enumerate(rows):
                at = place, layer, b
                if about_attention.replay[step, layer, b] and "attention" in skips:
                    held_attention[at] *= about_attention.made.rule.gain_of(layer)
                else:
                    held_attention[at] = row.attention(layer)  # exact: rounding is for MLPs here
                xs[b] = xs[b] + held_attention[at]
                if out.replay[step, layer, b] and "mlp" in skips:
                    held[place, layer, b] *= policy.rule.gain_of(layer)
                    out.mlp[step, layer, b] = held[place, layer, b]
                else:
                    out.mlp[step, layer, b] = row.mlp(layer, xs[b])
                    held[place, layer, b] = row.held(out.mlp[step, layer, b])
                xs[b] = xs[b] + out.mlp[step, layer, b]
                out.residual[step, layer, b] = xs[b]
        for b in range(n_rows):
            out.hidden[step, b] = _norm(xs[b], weights.ln_final, config.rms_eps)
    return out


def naive_rows(
    config: Config,
    policy: DecoderPolicy,
    weights: Weights | None = None,
    units: Iterable[Iterable[int]] = ((0,), (1,), (2,), (3,)),
    chooses: Visible | None = None,
    skips: str = "mlp",
    of_attention: Replay | None = None,
) -> Oracle:
    """The tiny decoder's four rows by :func:`oracle_decode`."""
    prompt, embeddings = make_inputs(config)
    prompts = [x[valid] for x, valid in zip(prompt, MASK, strict=True)]
    weights, of_rows = weights or make_weights(config), [list(unit) for unit in units]
    return oracle_decode(
        config, policy, weights, prompts, embeddings, of_rows, chooses, skips, of_attention
    )


def decode_with(
    config: Config,
    policy: DecoderPolicy,
    weights: Weights,
    inputs: tuple[Array, Array] | None = None,
    also: Recorder = lambda seen: None,
) -> DecodedRows:
    """The tiny decoder's four rows with weights of one's own; ``also`` sees what is recorded."""
    (prompt, embeddings), kept = inputs or make_inputs(config), DecodedLog(config)

    def record(seen: LayerRecord) -> None:
        kept(seen)
        also(seen)

    state, _ = prefill(config, policy, weights, prompt, MASK)
    return DecodedRows(np.stack([decode_step(state, x, record) for x in embeddings]), state, kept)

"""The decoder's data as plain structures: Config, DecoderPolicy, Weights and State.

Letters in shapes: B rows, L layers, d hidden size, H query heads, KV key/value heads, g = H / KV
query heads per key head, hd head size, F feed-forward size, N tokens per frame, T frames, S = N * T
decode steps, P prompt slots, C = P + S cache slots.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.base.errors import InputError
from carsim.decisions.attention import PLAIN, AttentionPolicy, CacheShape, KvReads, Query, Selection
from carsim.decisions.attention.base import Array as Array
from carsim.decisions.attention.base import Bools, Ints
from carsim.decisions.replay import DecoderShape, Replay, Seen
from carsim.decisions.trace.meta import Geometry
from carsim.decoder.precision import EXACT, Arithmetic
from carsim.decoder.skipping import Skipped, skipped_by
from carsim.program.program import TOKEN
from carsim.program.skips import Skip, SkipMlp

MLP_ALONE = SkipMlp()


@dataclass(frozen=True)
class Config:
    """Geometry of the body, shape of a video, and arithmetic."""

    geometry: Geometry
    tokens_per_frame: int
    n_frames: int
    rms_eps: float = 1e-5
    rope_theta: float = 10000.0
    dtype: Literal["float32", "float64"] = "float32"

    @property
    def n_steps(self) -> int:
        """S."""
        return self.n_frames * self.tokens_per_frame

    def cache_shape(self, prompt_slots: int, padding: Ints) -> CacheShape:
        """The cache of a decoding.

        Args:
            prompt_slots: P.
            padding: int[B], padding slots of each row.
        """
        return CacheShape(
            n_layers=self.geometry.n_layers,
            n_heads=self.geometry.n_heads,
            n_kv_heads=self.geometry.n_kv_heads,
            head_dim=self.geometry.head_dim,
            tokens_per_frame=self.tokens_per_frame,
            prompt_slots=prompt_slots,
            n_slots=prompt_slots + self.n_steps,
            padding=padding,
            rope_theta=self.rope_theta,
            dtype=np.dtype(self.dtype),
        )


@dataclass(frozen=True)
class DecoderPolicy(Replay):
    """The decoder skips blocks by replay, and keys by its attention policy.

    The policy itself makes the decision ``token``: its tau, rule and scope.

    Attributes:
        attention: The keys that attention reads.
        skip: The blocks that a row skips where it replays: the MLP, unless stated otherwise.
        further: Decisions beside ``token`` by name, whose pairs are those of the policy.
    """

    attention: AttentionPolicy = PLAIN
    skip: Skip = MLP_ALONE
    further: tuple[tuple[str, Replay], ...] = ()

    @cached_property
    def decisions(self) -> dict[str, Replay]:
        """All decisions by name, ``token`` first."""
        further = {name: replace(made, pairs=self.pairs) for name, made in self.further}
        return {TOKEN: self, **further}

    @cached_property
    def skipped(self) -> dict[str, Skipped]:
        """The blocks that rows skip by each decision, in the order in which they are decided.

        Raises:
            InputError: The decoder cannot skip these blocks, or not with this attention policy, or
                blocks follow other decisions than the policy makes.
        """
        named = f"skip {self.skip.kind!r}"
        skipped = skipped_by(self.skip, n_layers=len(self.tau))
        for name in skipped:
            if name not in self.decisions:
                problem = f"follows the decision {name!r}, and there is {', '.join(self.decisions)}"
                raise InputError(named, problem, f"give `decisions` of the recipe {name!r}")
        for name in self.decisions:
            if name not in skipped:
                problem = f"follows {' and '.join(skipped)}, and not the decision {name!r}"
                raise InputError(named, problem, f"let a block follow {name!r}, or leave it out")
        skips_attention = any("attention" in part.blocks for part in skipped.values())
        if skips_attention and self.attention.records:
            problem = f"attention is skipped, and {self.attention.text} chooses keys by the data"
            cure = "take a policy whose reads follow from the context, or skip the MLP alone"
            raise InputError(named, problem, cure)
        return skipped

    @cached_property
    def followed(self) -> dict[str, str]:
        """Name of each block that rows may skip -> the decision that it follows."""
        return {block: name for name, part in self.skipped.items() for block in part.blocks}

    @cached_property
    def holders(self) -> tuple[str, ...]:
        """Names of the blocks whose output is held."""
        return tuple(block for part in self.skipped.values() for block in part.holds)


@dataclass(frozen=True, eq=False)
class Weights:
    """Matrices of the body, stacked by layer and laid out for ``x @ w``, and their arithmetic."""

    w_qkv: Array  # [L, d, (H + 2 KV) * hd]: query, key and value side by side
    w_out: Array  # [L, H * hd, d]
    w_gate_up: Array  # [L, d, 2 F]: gate and up side by side
    w_down: Array  # [L, F, d]
    ln_attn: Array  # [L, d]
    ln_mlp: Array  # [L, d]
    ln_final: Array  # [d]
    arithmetic: Arithmetic = EXACT


@dataclass(eq=False)
class DecisionState:
    """Memory of one decision; its arrays are written in place by every step.

    Attributes:
        age: [L, B, N], frames in a row that the place has replayed.
        rule: State of the rule.
    """

    age: Ints
    rule: Any


class State:
    """Memory of a decoding, for the rows of a prompt; written in place by every step.

    Args:
        config: Shapes and arithmetic.
        policy: Its attention and its rule of replay may keep states of their own.
        weights: The body.
        prompt_mask: bool[B, P], False for left padding; every row has at least one True.
    """

    def __init__(
        self, config: Config, policy: DecoderPolicy, weights: Weights, prompt_mask: Bools
    ) -> None:
        self.config = config
        self.policy = policy
        self.weights = weights
        body = config.geometry
        layers = body.n_layers
        per_frame = config.tokens_per_frame
        dtype = np.dtype(config.dtype)
        batch, self.prompt_slots = prompt_mask.shape
        self.prompt_lengths = prompt_mask.sum(axis=1)  # [B]
        self.padding = self.prompt_slots - self.prompt_lengths  # [B], slots of each row
        # [B, most padding of a row]: padding as a mask of the first slots
        self.padded: Bools = np.arange(self.padding.max(initial=0)) < self.padding[:, None]

        # Keys, which are rotated, and values: [L, B, KV, C, hd]
        slots = self.prompt_slots + config.n_steps
        self.k: Array = np.zeros((layers, batch, body.n_kv_heads, slots, body.head_dim), dtype)
        self.v: Array = np.zeros(self.k.shape, dtype)
        self.cos, self.sin = rotary_table(  # [positions, hd]
            max(slots, 2), body.head_dim, config.rope_theta, dtype
        )
        # [L, B]: tokens that the cache holds since the last frame ended
        self.kept: Ints = np.tile(self.prompt_lengths, (layers, 1))
        self.attention = policy.attention.begin(config.cache_shape(self.prompt_slots, self.padding))

        # By block, [L, B, N, d]: what a replay adds at each place of the frame
        outputs = (layers, batch, per_frame, body.hidden_size)
        self.held: dict[str, Array] = {name: np.zeros(outputs, dtype) for name in policy.holders}
        # [L, B, N, d]: the MLP output that was computed last, where gains change what is held
        self.computed: Array = self.held.get("mlp", np.zeros(0, dtype))
        if "mlp" in self.held and policy.decisions[policy.followed["mlp"]].rule.damps:
            self.computed = np.zeros(outputs, dtype)
        shape = rule_shape(body, per_frame, batch, dtype)
        self.decisions = {
            name: DecisionState(
                age=np.zeros((layers, batch, per_frame), np.int32), rule=made.rule.begin(shape)
            )
            for name, made in policy.decisions.items()
        }
        # Layer -> newest keys before the rotary embedding, [B, KV, slots, hd], which others share
        self.plain_keys: dict[int, Array] = {}
        self.codes = np.full((config.n_steps, batch), -1)  # [S, B], fed in each step; -1: begin
        self.step = 0  # decode steps done

    @property
    def positions(self) -> Ints:
        """int[B], tokens of each row before the one that is decoded."""
        return self.n_slots - self.padding

    @property
    def n_slots(self) -> int:
        """Cache slots in use: the prompt's and one per step."""
        return self.prompt_slots + self.step


class Decided(NamedTuple):
    """A decision in one layer of one step.

    Attributes:
        replay: Rows that replay, bool[B].
        tas: The score that decides, [B]; None where it is not evaluated.
    """

    replay: Bools
    tas: Array | None


@dataclass(frozen=True, eq=False)
class LayerRecord:
    """One layer in one decode step, as shown to a recorder. Arrays are the decoder's own.

    Attributes:
        step: Decode step.
        layer: Layer.
        query: The newest tokens' queries and the cached keys.
        chosen: The keys that attention read.
        seen: What the rule of the decision ``token`` may look at.
        decisions: Decisions by name.
        mlp: Output of the MLP branch, fresh or replayed, [B, d]; where rows hold the outputs of
            several blocks as one, what they add behind the last of them.
        residual: Residual stream after the layer, [B, d].
    """

    step: int
    layer: int
    query: Query
    chosen: Selection
    seen: Seen
    decisions: Mapping[str, Decided]
    mlp: Array
    residual: Array

    @property
    def tas(self) -> Array | None:
        """Score of the decision ``token``, [B]; None where it is not evaluated."""
        return self.decisions[TOKEN].tas

    @property
    def replay(self) -> Bools:
        """Rows that replay by the decision ``token``, bool[B]."""
        return self.decisions[TOKEN].replay

    @property
    def read(self) -> NDArray[np.bool_]:
        """bool[KV, B, end]: the cache slots that attention read."""
        return self.chosen.read(self.query.padding, self.query.end, self.query.keys.shape[1])

    @property
    def reads(self) -> KvReads:
        """The keys that attention read, counted: int32[KV, B]."""
        return self.chosen.reads(self.query.padding, self.query.end, self.query.keys.shape[1])


def stack_weights(config: Config, arrays: dict[str, NDArray[Any]]) -> Weights:
    """Weights from per-matrix arrays with rows = output (y = x @ W.T), cast to the config's dtype.

    Args:
        config: Gives the dtype.
        arrays: ``wq wk wv wo w_gate w_up w_down``, each [L, out, in]; ``ln_attn ln_mlp`` [L, d];
            ``ln_final`` [d].
    """

    def side_by_side(*names: str) -> Array:
        rows = np.concatenate([arrays[name] for name in names], axis=1).astype(config.dtype)
        return np.ascontiguousarray(rows.transpose(0, 2, 1))

    return Weights(
        w_qkv=side_by_side("wq", "wk", "wv"),
        w_out=side_by_side("wo"),
        w_gate_up=side_by_side("w_gate", "w_up"),
        w_down=side_by_side("w_down"),
        ln_attn=arrays["ln_attn"].astype(config.dtype),
        ln_mlp=arrays["ln_mlp"].astype(config.dtype),
        ln_final=arrays["ln_final"].astype(config.dtype),
    )


def rule_shape(
    geometry: Geometry, tokens_per_frame: int, n_rows: int, dtype: np.dtype[Any]
) -> DecoderShape:
    """A decoding as its rule of replay is told of it."""
    return DecoderShape(
        n_rows=n_rows,
        n_layers=geometry.n_layers,
        n_heads=geometry.n_heads,
        head_dim=geometry.head_dim,
        hidden_size=geometry.hidden_size,
        tokens_per_frame=tokens_per_frame,
        dtype=dtype,
    )


def rotary_table(
    n_positions: int, head_dim: int, theta: float, dtype: np.dtype[Any]
) -> tuple[Array, Array]:
    """Cosine and signed sine of the rotary embedding (arXiv 2104.09864), [positions, hd] each.

    Angles are position * theta^(-2 i / hd) for i < hd / 2, and both halves of a head share them;
    the sine of the first half is negative.
    """
    inverse = (theta ** -(np.arange(0, head_dim, 2) / head_dim)).astype(dtype)
    angles = np.arange(n_positions, dtype=dtype)[:, None] * inverse
    cos = np.cos(angles)
    sin = np.sin(angles)
    return np.concatenate([cos, cos], axis=1), np.concatenate([-sin, sin], axis=1)

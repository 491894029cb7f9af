"""A tiny decoder with random weights, and a recorder that keeps what it did."""

from typing import Any, NamedTuple

import numpy as np

from carsim.decisions.attention.base import Bools
from carsim.decisions.trace.meta import Geometry
from carsim.decoder.decode import decode_step, prefill
from carsim.decoder.structures import (
    Array,
    Config,
    DecoderPolicy,
    LayerRecord,
    State,
    Weights,
    stack_weights,
)

WIDTH = 8
"""Width of the residual stream."""

HEADS = 4
"""Query heads of a layer."""

PROMPT = 4
"""Slots of the prompt."""

MASK = np.array([[1, 1, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1], [0, 1, 1, 1]], bool)
"""bool[B, P], False for padding of the prompt."""


class Setting(NamedTuple):
    """Prompts and frames on which a kind is tried.

    Attributes:
        words: In messages.
        prompts: Tokens of the prompt of each row; rows 2i and 2i + 1 are a guidance pair.
        tokens_per_frame: N.
        n_frames: T.
    """

    words: str
    prompts: tuple[int, ...]
    tokens_per_frame: int = 4
    n_frames: int = 4

    @property
    def mask(self) -> Bools:
        """bool[B, P], False for padding on the left."""
        slots = max(self.prompts)
        return np.arange(slots) >= slots - np.array(self.prompts)[:, None]


SETTINGS = (
    Setting("a prompt shorter than a frame", (3, 2)),
    Setting("a prompt as long as two frames", (8, 8)),
    Setting("an empty prompt", (0, 0)),
    Setting("several guidance pairs", (5, 1, 0, 1, 3, 3)),
    Setting("frames of another size", (2, 1), tokens_per_frame=9, n_frames=3),
    Setting("frames of one token", (2, 1), tokens_per_frame=1, n_frames=6),
)
"""Decodings that every kind is tried on: four frames, unless they are large."""


def make_config(
    n_kv_heads: int = 2,
    n_layers: int = 2,
    dtype: Any = "float64",
    *,
    tokens_per_frame: int = 3,
    n_frames: int = 3,
) -> Config:
    """Three frames of three tokens through layers of width 8 and four heads."""
    geometry = Geometry(
        name="tiny",
        n_layers=n_layers,
        hidden_size=WIDTH,
        n_heads=HEADS,
        n_kv_heads=n_kv_heads,
        head_dim=2,
        ffn_size=12,
    )
    return Config(geometry, tokens_per_frame=tokens_per_frame, n_frames=n_frames, dtype=dtype)


def decode_setting(
    setting: Setting, policy: DecoderPolicy, rows: Any = slice(None), seed: int = 1
) -> "DecodedLog":
    """Decode rows of a setting; inputs follow from the seed and the row alone.

    Args:
        setting: Prompts and frames.
        policy: What is skipped and read.
        rows: Some of the rows.
        seed: Of prompts, embeddings and codes.
    """
    decoding = SettingDecoding(setting, policy, rows, seed)
    for _ in range(decoding.config.n_steps):
        decoding.step()
    return decoding.kept


class SettingDecoding:
    """A decoding of a setting that is advanced step by step.

    Args:
        setting: Prompts and frames.
        policy: What is skipped and read.
        rows: Some of the rows.
        seed: Of prompts, embeddings and codes.

    Attributes:
        config: Shapes.
        kept: What was recorded so far.
        state: The decoder's.
    """

    def __init__(
        self, setting: Setting, policy: DecoderPolicy, rows: Any = slice(None), seed: int = 1
    ) -> None:
        self.config = make_config(
            tokens_per_frame=setting.tokens_per_frame, n_frames=setting.n_frames
        )
        rng = np.random.default_rng(seed)
        n_rows = len(setting.prompts)
        prompt = rng.normal(size=(n_rows, max(setting.prompts), WIDTH))[rows]
        self._codes = rng.integers(0, 4, (self.config.n_steps, n_rows))[:, rows]
        table = rng.normal(size=(4, WIDTH))
        noise = rng.normal(scale=0.3, size=(self.config.n_steps, n_rows, WIDTH))[:, rows]
        self._embeddings = table[self._codes] + noise
        mask = setting.mask[rows]
        self.kept = DecodedLog(self.config, len(mask))
        weights = make_weights(self.config)
        self.state, _ = prefill(self.config, policy, weights, prompt * mask[..., None], mask)

    def step(self) -> None:
        """Decode one token of every row."""
        step = self.state.step
        decode_step(self.state, self._embeddings[step], self.kept, self._codes[step])
        self.kept.held[step // self.config.tokens_per_frame] = self.state.kept


def make_weights(config: Config, seed: int = 0) -> Weights:
    """Random weights of a config."""
    shape = config.geometry
    rng = np.random.default_rng(seed)
    d = shape.hidden_size
    kv = shape.n_kv_heads * shape.head_dim
    inner = shape.ffn_size

    def draw(*size: int) -> Array:
        return rng.normal(0, 0.6, (shape.n_layers, *size))

    # The order of the draws decides the weights.
    weights = {
        "wq": draw(d, d),
        "wk": draw(kv, d),
        "wv": draw(kv, d),
        "wo": draw(d, d),
        "w_gate": draw(inner, d),
        "w_up": draw(inner, d),
        "w_down": draw(d, inner),
        "ln_attn": 1 + draw(d) / 4,
        "ln_mlp": 1 + draw(d) / 4,
        "ln_final": np.linspace(0.5, 1.5, d),
    }
    return stack_weights(config, weights)


def make_inputs(config: Config, rows: int = 4, seed: int = 1) -> tuple[Array, Array]:
    """Prompt [B, P, d] and embeddings [S, B, d]."""
    rng = np.random.default_rng(seed)
    prompt = rng.normal(size=(rows, PROMPT, WIDTH))
    embeddings = rng.normal(size=(config.n_steps, rows, WIDTH)).astype(config.dtype)
    return prompt, embeddings


class DecodedLog:
    """A recorder that keeps copies by step and layer, and counts what attention reads itself.

    Args:
        config: Shapes of the decoding.
        rows: B.

    Attributes:
        replay: bool[S, L, B].
        tas: Scores, [S, L, B].
        mlp: Outputs of the MLP branch, [S, L, B, d].
        residual: Residual stream, [S, L, B, d].
        tokens: Keys read, [S, L, KV, B].
        runs: Runs in which they lie, [S, L, KV, B].
        newest: bool[S, L, KV, B], the newest key was read.
        aligned: bool[S, L, KV, B], the key one frame before was read.
        held: Tokens held after each frame, [T, L, B].
    """

    def __init__(self, config: Config, rows: int = 4) -> None:
        shape = config.geometry
        by_row = (config.n_steps, shape.n_layers, rows)
        by_element = (*by_row, shape.hidden_size)
        by_head = (config.n_steps, shape.n_layers, shape.n_kv_heads, rows)
        self.replay = np.zeros(by_row, bool)
        self.tas = np.full(by_row, np.nan)
        self.mlp = np.zeros(by_element)
        self.residual = np.zeros(by_element)
        self.tokens = np.zeros(by_head, int)
        self.runs = np.zeros(by_head, int)
        self.newest = np.zeros(by_head, bool)
        self.aligned = np.zeros(by_head, bool)
        self.held = np.zeros((config.n_frames, shape.n_layers, rows), int)
        self._per_frame = config.tokens_per_frame

    def __call__(self, seen: LayerRecord) -> None:
        """Keep what one layer did in one step."""
        layer_step = (seen.step, seen.layer)
        self.replay[layer_step] = seen.replay
        self.mlp[layer_step] = seen.mlp
        self.residual[layer_step] = seen.residual
        if seen.tas is not None:
            self.tas[layer_step] = seen.tas
        self.tokens[layer_step] = seen.reads.tokens
        self.runs[layer_step] = seen.reads.runs
        self.newest[layer_step] = seen.read[..., -1]
        if seen.step >= self._per_frame:
            self.aligned[layer_step] = seen.read[..., -1 - self._per_frame]


class DecodedRows(NamedTuple):
    """Hidden states [S, B, d] of a decoding, its last state, and what was recorded."""

    hidden: Array
    state: State
    kept: DecodedLog


def decode_rows(
    config: Config, policy: DecoderPolicy, rows: Any = slice(None), *, record: bool = True
) -> DecodedRows:
    """Decode some of the four rows of :func:`make_inputs`, whose prompts have :data:`MASK`."""
    prompt, embeddings = make_inputs(config)
    weights = make_weights(config)
    log = DecodedLog(config, len(MASK[rows]))
    state, _ = prefill(config, policy, weights, prompt[rows], MASK[rows])
    hidden = []
    for step, x in enumerate(embeddings[:, rows]):
        hidden.append(decode_step(state, x, log if record else None))
        log.held[step // config.tokens_per_frame] = state.kept
    return DecodedRows(np.stack(hidden), state, kept=log)

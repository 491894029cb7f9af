"""Decode a group of rows: prompts in; decisions, tokens and losses out.

Model: both rows of a guidance pair are fed the same visual tokens: first those of a clip, then,
where the group samples, tokens chosen from the pair's mixed logits. Replays are really applied.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from carsim.decisions.attention.base import Array, Ints
from carsim.decisions.trace.file import Scored
from carsim.decoder.decode import decode_step, prefill
from carsim.decoder.decoding import TokenSampling
from carsim.decoder.model import DecoderModel
from carsim.decoder.sampling import chooser, log_chances, mix_guidance
from carsim.decoder.structures import Config, DecoderPolicy, LayerRecord, Weights, stack_weights
from carsim.program.program import TOKEN


@dataclass(frozen=True, eq=False)
class RowGroup:
    """Rows that are decoded together: whole guidance pairs.

    Attributes:
        config: Shapes and arithmetic.
        policy: Replay and attention; pairs count from this group's first row.
        model: Weights and embeddings.
        prompts: Prompt bytes of each row.
        prompt_tokens: P.
        tokens: int64[S, pairs], the visual tokens of each pair's clip.
        given_steps: First steps whose tokens come from the clip; later tokens are sampled.
        sampling: Sampling of these tokens; None if all come from the clip.
        seeds: One per pair, for sampling.
        quantised: The model's weights in another precision than its own, with their arithmetic.
    """

    config: Config
    policy: DecoderPolicy
    model: DecoderModel
    prompts: tuple[bytes, ...]
    prompt_tokens: int
    tokens: NDArray[np.int64]
    given_steps: int
    sampling: TokenSampling | None
    seeds: tuple[tuple[int, int], ...]
    quantised: Weights | None = None

    @property
    def work(self) -> int:
        """Rows times steps: what decoding reports as it advances."""
        return len(self.prompts) * self.config.n_steps


@dataclass(frozen=True, eq=False)
class Decoded:
    """Result of decoding a group.

    Attributes:
        replay: bool[S, L, B].
        tas: [S, L, B] in the arithmetic of the decoder, NaN where not evaluated.
        tokens: int64[S, pairs], given or sampled.
        nats: [S, pairs], minus the log of the chance that the conditional row, without guidance,
            gave the token.
        kv: ``kv_tokens`` and ``kv_runs`` [S, L, KV, B], and ``kv_held`` [T, L, B], if the
            attention policy records what it reads; else empty.
        further: Decisions beside ``token``, with scores as ``tas``, by name.
    """

    replay: NDArray[np.bool_]
    tas: Array
    tokens: NDArray[np.int64]
    nats: NDArray[np.float64]
    kv: dict[str, Ints]
    further: dict[str, Scored]

    def scored(self, name: str) -> Scored:
        """A decision, and its scores.

        Args:
            name: ``token``, or one of the further ones.
        """
        return Scored(self.replay, self.tas) if name == TOKEN else self.further[name]


class Decoding:
    """A group that is being decoded: its state, and the results so far.

    Results of a step are overwritten if the step is decoded again.

    Args:
        group: The rows.

    Attributes:
        group: The rows.
        state: Caches, after as many steps as were fed.
        decoded: The result, once every step is settled.
    """

    def __init__(self, group: RowGroup) -> None:
        config = group.config
        model = group.model
        rows = len(group.prompts)
        self.group = group
        weights = group.quantised or stack_weights(config, model.arrays)
        self._visual = model.arrays["embed_visual"].astype(config.dtype)  # [K, d]
        self._head = model.arrays["head"].astype(np.float64).T  # [d, K]
        prompt, mask = embed_prompts(model, group.prompts, group.prompt_tokens, config)
        self.state, _ = prefill(config, group.policy, weights, prompt, mask)
        layers = config.geometry.n_layers
        shape = (config.n_steps, layers, rows)
        kv: dict[str, Ints] = {}
        if group.policy.attention.records:
            read_shape = (config.n_steps, layers, config.geometry.n_kv_heads, rows)
            kv["kv_tokens"] = np.zeros(read_shape, np.int32)
            kv["kv_runs"] = np.zeros(read_shape, np.int32)
            kv["kv_held"] = np.zeros((config.n_frames, layers, rows), np.int32)
        self.decoded = Decoded(
            replay=np.zeros(shape, bool),
            tas=np.full(shape, np.nan, config.dtype),
            tokens=group.tokens.copy(),
            nats=np.empty(group.tokens.shape),
            kv=kv,
            further={
                name: Scored(replay=np.zeros(shape, bool), tas=np.full(shape, np.nan, config.dtype))
                for name, _ in group.policy.further
            },
        )
        self._choose = group.sampling and chooser(group.sampling, group.seeds)

    def feed(self, tokens: NDArray[np.int64] | None) -> NDArray[np.float64]:
        """Decode one step of every row.

        Args:
            tokens: One per pair, which both of its rows are fed; None: ``begin``.

        Returns:
            Logits, [B, K].
        """
        group = self.group
        if tokens is None:
            begin = group.model.arrays["begin"].astype(group.config.dtype)
            x = np.tile(begin, (len(group.prompts), 1))
            codes = None
        else:
            codes = np.repeat(tokens, 2)
            x = self._visual[codes]
        hidden = decode_step(self.state, x, self._record, codes)
        kv = self.decoded.kv
        if kv:
            # Each step of a frame overwrites the one before, so that the last one counts.
            frame = (self.state.step - 1) // group.config.tokens_per_frame
            kv["kv_held"][frame] = self.state.kept
        return hidden.astype(np.float64) @ self._head

    def settle(self, step: int, logits: NDArray[np.float64]) -> NDArray[np.int64]:
        """The tokens of a step, given or chosen by its logits, one per pair."""
        sampling = self.group.sampling
        if sampling and self._choose and step >= self.group.given_steps:
            mixed = mix_guidance(logits, sampling.guidance_scale)
            self.decoded.tokens[step] = self._choose(mixed)
        tokens: NDArray[np.int64] = self.decoded.tokens[step]
        conditional = logits[0::2]  # the first row of each pair
        pairs = np.arange(len(tokens))
        self.decoded.nats[step] = -log_chances(conditional)[pairs, tokens]
        return tokens

    def _record(self, seen: LayerRecord) -> None:
        """Copy what a layer decided and read."""
        layer_step = (seen.step, seen.layer)
        decoded = self.decoded
        for name, decided in seen.decisions.items():
            scored = decoded.scored(name)
            scored.replay[layer_step] = decided.replay
            if decided.tas is not None:
                scored.tas[layer_step] = decided.tas
        if decoded.kv:
            reads = seen.reads
            decoded.kv["kv_tokens"][layer_step] = reads.tokens
            decoded.kv["kv_runs"][layer_step] = reads.runs


def decode_group(group: RowGroup, advance: Callable[[int], None]) -> Decoded:
    """Decode one group of rows step by step.

    The step that yields token s is fed token s - 1; the first is fed ``begin``.

    Args:
        group: The rows.
        advance: Called after each step with the number of rows.
    """
    decoding = Decoding(group)
    tokens = None
    for step in range(group.config.n_steps):
        logits = decoding.feed(tokens)
        tokens = decoding.settle(step, logits)
        advance(len(group.prompts))
    return decoding.decoded


def embed_prompts(
    model: DecoderModel, prompts: tuple[bytes, ...], prompt_tokens: int, config: Config
) -> tuple[Array, NDArray[np.bool_]]:
    """Left-padded embeddings [B, P, d] and their mask [B, P]; padding is zero."""
    text = model.arrays["embed_text"].astype(config.dtype)
    padding = prompt_tokens - np.array([[len(prompt)] for prompt in prompts])
    mask = np.arange(prompt_tokens) >= padding
    embedded = np.zeros((*mask.shape, text.shape[1]), text.dtype)
    embedded[mask] = text[list(b"".join(prompts))]
    return embedded, mask

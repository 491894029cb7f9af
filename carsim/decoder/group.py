"""Decode a group of rows: prompts in; decisions, tokens and losses out.

Model: both rows of a guidance pair are fed the same visual tokens: first those of a clip, then,
where the group samples, tokens chosen from the pair's mixed logits. Replays are really applied.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from carsim.decisions.attention.base import Array, Ints
from carsim.decoder.decode import decode_step, prefill
from carsim.decoder.decoding import TokenSampling
from carsim.decoder.model import DecoderModel
from carsim.decoder.sampling import chooser, log_chances, mix_guidance
from carsim.decoder.structures import Config, DecoderPolicy, LayerRecord, Weights, stack_weights


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
        given_steps: First steps whose tokens are the clip's; all, or later ones are sampled.
        sampling: How, where some are.
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
        kv: Of ``kv_tokens``, ``kv_runs`` [S, L, KV, B] and ``kv_held`` [T, L, B], those that a
            trace of the attention policy holds.
    """

    replay: NDArray[np.bool_]
    tas: Array
    tokens: NDArray[np.int64]
    nats: NDArray[np.float64]
    kv: dict[str, Ints]


class Decoding:
    """A group under way: its state, and what has been decoded so far.

    Whatever is recorded of a step is overwritten where the step is decoded again.

    Args:
        group: The rows.

    Attributes:
        group: As given.
        state: Caches, after as many steps as were fed.
        decoded: The result, once every step is settled.
    """

    def __init__(self, group: RowGroup) -> None:
        config, model, rows = group.config, group.model, len(group.prompts)
        self.group = group
        weights = group.quantised or stack_weights(config, model.arrays)
        self._visual = model.arrays["embed_visual"].astype(config.dtype)  # [K, d]
        self._head = model.arrays["head"].astype(np.float64).T  # [d, K]
        prompt, mask = embed_prompts(model, group.prompts, group.prompt_tokens, config)
        self.state, _ = prefill(config, group.policy, weights, prompt, mask)
        layers, heads = config.geometry.n_layers, config.geometry.n_kv_heads
        shape = (config.n_steps, layers, rows)
        kv: dict[str, Ints] = {}
        if group.policy.attention.records:
            size = (config.n_steps, layers, heads, rows)
            kv = {name: np.zeros(size, np.int32) for name in ("kv_tokens", "kv_runs")}
            kv["kv_held"] = np.zeros((config.n_frames, layers, rows), np.int32)
        self.decoded = Decoded(
            replay=np.zeros(shape, bool),
            tas=np.full(shape, np.nan, config.dtype),
            tokens=group.tokens.copy(),
            nats=np.empty(group.tokens.shape),
            kv=kv,
        )
        self._choose = group.sampling and chooser(group.sampling, group.seeds)

    def feed(self, tokens: NDArray[np.int64] | None) -> NDArray[np.float64]:
        """Decode one step of every row.

        Args:
            tokens: One per pair, which both of its rows are fed; None: ``begin``.

        Returns:
            Logits, [B, K].
        """
        group, state = self.group, self.state
        if tokens is None:
            begin = group.model.arrays["begin"].astype(group.config.dtype)
            x = np.tile(begin, (len(group.prompts), 1))
        else:
            x = self._visual[np.repeat(tokens, 2)]
        hidden = decode_step(state, x, self._record)
        if kv := self.decoded.kv:  # the last step of a frame has the last word
            kv["kv_held"][(state.step - 1) // group.config.tokens_per_frame] = state.kept
        return hidden.astype(np.float64) @ self._head

    def settle(self, step: int, logits: NDArray[np.float64]) -> NDArray[np.int64]:
        """The tokens of a step, given or chosen by its logits, one per pair."""
        sampling, tokens = self.group.sampling, self.decoded.tokens
        if sampling and self._choose and step >= self.group.given_steps:
            tokens[step] = self._choose(mix_guidance(logits, sampling.guidance_scale))
        token: NDArray[np.int64] = tokens[step]
        self.decoded.nats[step] = -log_chances(logits[0::2])[np.arange(len(token)), token]
        return token

    def _record(self, seen: LayerRecord) -> None:
        at, made = (seen.step, seen.layer), self.decoded
        made.replay[at] = seen.replay
        if seen.tas is not None:
            made.tas[at] = seen.tas
        if made.kv:
            reads = seen.reads
            made.kv["kv_tokens"][at], made.kv["kv_runs"][at] = reads.tokens, reads.runs


def decode_group(group: RowGroup, advance: Callable[[int], None]) -> Decoded:
    """Decode one group of rows step by step.

    The step that yields token s is fed token s - 1; the first is fed ``begin``.

    Args:
        group: The rows.
        advance: Called after each step with the number of rows.
    """
    decoding, fed = Decoding(group), None
    for step in range(group.config.n_steps):
        fed = decoding.settle(step, decoding.feed(fed))  # both rows of a pair see the same token
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

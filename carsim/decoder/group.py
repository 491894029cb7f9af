"""Decode a group of rows: prompts in; decisions, tokens and losses out.

Model: both rows of a guidance pair are fed the same visual tokens: first those of a clip, then,
where the group samples, tokens chosen from the pair's mixed logits. Replays are really applied.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from carsim.decoder.decode import decode_step, prefill
from carsim.decoder.model import Model
from carsim.decoder.recipe import Sampling
from carsim.decoder.sampling import Choose, greedy, log_chances, mix_guidance, top_k
from carsim.decoder.structures import Array, Config, LayerRecord, Policy, Weights, stack_weights
from carsim.policy.base import Ints

READS = ("kv_tokens", "kv_runs")


@dataclass(frozen=True, eq=False)
class Group:
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
    policy: Policy
    model: Model
    prompts: tuple[bytes, ...]
    prompt_tokens: int
    tokens: NDArray[np.int64]
    given_steps: int
    sampling: Sampling | None
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


def decode_group(group: Group, advance: Callable[[int], None]) -> Decoded:
    """Decode one group of rows step by step.

    The step that yields token s is fed token s - 1; the first is fed ``begin``.

    Args:
        group: The rows.
        advance: Called after each step with the number of rows.
    """
    config, model = group.config, group.model
    n_steps, rows = config.n_steps, len(group.prompts)
    weights = group.quantised or stack_weights(config, model.arrays)
    visual = model.arrays["embed_visual"].astype(config.dtype)  # [K, d]
    head = model.arrays["head"].astype(np.float64).T  # [d, K]
    prompt, mask = embed_prompts(model, group.prompts, group.prompt_tokens, config)
    state, _ = prefill(config, group.policy, weights, prompt, mask)
    layers, heads = config.geometry.n_layers, config.geometry.n_kv_heads
    shape = (n_steps, layers, rows)
    replay, tas = np.zeros(shape, bool), np.full(shape, np.nan, config.dtype)
    kv: dict[str, Ints] = {}
    if group.policy.attention.records:
        kv = {name: np.zeros((n_steps, layers, heads, rows), np.int32) for name in READS}
        kv["kv_held"] = np.zeros((config.n_frames, layers, rows), np.int32)
    tokens, pairs = group.tokens.copy(), np.arange(rows // 2)
    nats = np.empty(tokens.shape)
    choose = _chooser(group.sampling, group.seeds)

    def record(seen: LayerRecord) -> None:
        replay[seen.step, seen.layer] = seen.replay
        if seen.tas is not None:
            tas[seen.step, seen.layer] = seen.tas
        if kv:
            reads = seen.reads
            kv["kv_tokens"][seen.step, seen.layer] = reads.tokens
            kv["kv_runs"][seen.step, seen.layer] = reads.runs

    x = np.tile(model.arrays["begin"].astype(config.dtype), (rows, 1))
    for step in range(n_steps):
        hidden = decode_step(config, group.policy, weights, state, x, record)
        if kv:  # the last step of a frame has the last word
            kv["kv_held"][step // config.tokens_per_frame] = state.kept
        logits = hidden.astype(np.float64) @ head  # [B, K]
        if step >= group.given_steps:
            tokens[step] = choose(logits)
        nats[step] = -log_chances(logits[0::2])[pairs, tokens[step]]
        x = visual[np.repeat(tokens[step], 2)]  # both rows of a pair see the same token
        advance(rows)
    return Decoded(replay, tas, tokens, nats, kv)


def embed_prompts(
    model: Model, prompts: tuple[bytes, ...], prompt_tokens: int, config: Config
) -> tuple[Array, NDArray[np.bool_]]:
    """Left-padded embeddings [B, P, d] and their mask [B, P]; padding is zero."""
    text = model.arrays["embed_text"].astype(config.dtype)
    mask = np.zeros((len(prompts), prompt_tokens), bool)
    embedded = np.zeros((*mask.shape, text.shape[1]), text.dtype)
    for row, prompt in enumerate(prompts):
        mask[row, -len(prompt) :] = True
        embedded[row, -len(prompt) :] = text[list(prompt)]
    return embedded, mask


def _chooser(sampling: Sampling | None, seeds: tuple[tuple[int, int], ...]) -> Choose:
    """Logits of all rows [B, K] to one token per guidance pair."""
    if sampling is None:
        return lambda logits: np.empty(0, np.int64)  # never asked: all tokens are given
    scale = sampling.guidance_scale
    of_mixed: Choose = greedy
    if sampling.method == "top_k":
        generators = [np.random.default_rng(seed) for seed in seeds]
        of_mixed = top_k(sampling.k, sampling.temperature, generators)
    return lambda logits: of_mixed(mix_guidance(logits, scale))

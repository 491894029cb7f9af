"""Drive the NumPy decoder over clips: given frames first, then frames of its own."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from carsim.decoder.content import TOKENS_PER_FRAME
from carsim.decoder.decode import Recorder, decode_step, prefill
from carsim.decoder.model import Model
from carsim.decoder.structures import Config, Policy, stack_weights

Codes = NDArray[np.int64]
Choose = Callable[[NDArray[np.float64]], Codes]
"""Logits [B, K] to codes [B]."""


def greedy(logits: NDArray[np.float64]) -> Codes:
    """The likeliest codes; the first of equals."""
    best: Codes = logits.argmax(axis=1)
    return best


def top_k(k: int, n_rows: int, seed: int) -> Choose:
    """Draw among the k likeliest codes, each row with its own generator."""
    generators = [np.random.default_rng([seed, row]) for row in range(n_rows)]

    def choose(logits: NDArray[np.float64]) -> Codes:
        best = np.argsort(-logits, axis=1, kind="stable")[:, :k]
        kept = np.take_along_axis(logits, best, axis=1)
        odds = np.exp(kept - kept.max(axis=1, keepdims=True)).cumsum(axis=1)
        drawn = [
            np.searchsorted(row, generator.random() * row[-1], side="right")
            for row, generator in zip(odds, generators, strict=True)
        ]
        return np.take_along_axis(best, np.array(drawn)[:, None], axis=1)[:, 0]

    return choose


def decode_rows(
    model: Model,
    policy: Policy,
    prompts: list[str],
    given: Codes,
    n_frames: int,
    choose: Choose = greedy,
    record: Recorder | None = None,
) -> Codes:
    """Decode one row per prompt.

    Args:
        model: The twin.
        policy: What is skipped.
        prompts: B texts.
        given: int64[B, frames, 256]: frames that are fed as they are.
        n_frames: T; frames beyond the given ones are chosen from the logits.
        choose: How.
        record: Shown every layer of every step.

    Returns:
        int64[B, T, 256].
    """
    config = Config(model.geometry, TOKENS_PER_FRAME, n_frames)
    weights = stack_weights(config, model.arrays)
    arrays = {key: array.astype(np.float32) for key, array in model.arrays.items()}
    texts = [list(prompt.encode()) for prompt in prompts]
    mask = np.zeros((len(texts), max(map(len, texts))), bool)
    prompt = np.zeros((*mask.shape, model.geometry.hidden_size), np.float32)
    for row, text in enumerate(texts):
        mask[row, -len(text) :] = True
        prompt[row, -len(text) :] = arrays["embed_text"][text]
    state, _ = prefill(config, policy, weights, prompt, mask)
    codes = np.zeros((len(texts), config.n_steps), np.int64)
    n_given = given[0].size
    codes[:, :n_given] = given.reshape(len(texts), -1)
    x = np.tile(arrays["begin"], (len(texts), 1))
    for step in range(config.n_steps):
        hidden = decode_step(config, policy, weights, state, x, record)
        if step >= n_given:
            codes[:, step] = choose(hidden.astype(np.float64) @ arrays["head"].T)
        x = arrays["embed_visual"][codes[:, step]]
    return codes.reshape(len(texts), n_frames, TOKENS_PER_FRAME)

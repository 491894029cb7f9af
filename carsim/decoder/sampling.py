"""From logits to tokens: classifier-free guidance, the likeliest token, or a draw among the best.

Model: logits of a guidance pair are mixed (arXiv 2207.12598), then one token per pair is chosen.
Ties go to the lower token, so that a choice is the same on every machine that has the same logits.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Logits = NDArray[np.floating[Any]]
Choose = Callable[[Logits], NDArray[np.int64]]
"""Logits [n, K] to tokens int64[n]."""


def mix_guidance(logits: Logits, scale: float) -> Logits:
    """Logits of guidance pairs: blank + scale * (conditional - blank); 1 is no guidance.

    Args:
        logits: [2 n, K], conditional and blank row of each pair next to each other.
        scale: Guidance scale.

    Returns:
        [n, K].
    """
    conditional, blank = logits[0::2], logits[1::2]
    mixed: Logits = blank + scale * (conditional - blank)
    return mixed


def greedy(logits: Logits) -> NDArray[np.int64]:
    """The likeliest token of each row; the first of equals.

    >>> greedy(np.array([[0.0, 2.0, 2.0]])).tolist()
    [1]
    """
    best: NDArray[np.int64] = logits.argmax(axis=1)
    return best


def top_k(k: int | None, temperature: float, generators: Sequence[np.random.Generator]) -> Choose:
    """Draw among the k likeliest tokens, each row with its own generator.

    Args:
        k: Tokens that are drawn from; None is all.
        temperature: Divides the logits.
        generators: One per row of logits.
    """

    def choose(logits: Logits) -> NDArray[np.int64]:
        best = np.argsort(-logits, axis=1, kind="stable")[:, :k]
        kept = np.take_along_axis(logits, best, axis=1) / temperature
        odds = np.exp(kept - kept[:, :1]).cumsum(axis=1)  # the first is the largest
        drawn = [
            np.searchsorted(row, rng.random() * row[-1], side="right")
            for row, rng in zip(odds, generators, strict=True)
        ]
        tokens: NDArray[np.int64] = best[np.arange(len(drawn)), drawn]
        return tokens

    return choose


def log_chances(logits: Logits) -> Logits:
    """Log of the softmax over the last axis, in nats."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_chance: Logits = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return log_chance

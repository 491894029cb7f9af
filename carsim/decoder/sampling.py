"""From logits to tokens: classifier-free guidance, the likeliest token, or a draw among the best.

Model: logits of a guidance pair are mixed (arXiv 2207.12598), then one token per pair is chosen.
Ties go to the lower token, so that a choice is the same on every machine that has the same logits.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carsim.decoder.decoding import TokenSampling

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
    conditional = logits[0::2]
    blank = logits[1::2]
    return blank + scale * (conditional - blank)


def top_k(k: int | None, temperature: float, generators: Sequence[np.random.Generator]) -> Choose:
    """Draw among the k likeliest tokens, each row with its own generator; 1 is greedy.

    The Gumbel-max trick: the largest of logits / temperature + g, with g of the standard Gumbel
    distribution, is distributed as their softmax (Maddison, Tarlow and Minka 2014, arXiv
    1411.0030). At every step g is drawn for all K tokens, so that two runs of a clip get the same
    noise for the same token, whatever they chose before (common random numbers). They then part
    only where the model's opinion changes by more than the noise has between the two best tokens:
    with a chance of 2 d / (1 + d) at most, for d the total variation between their chances. On the
    first four clips of ``traces/vilau_8f.yaml``, where 47 % replay, 49 % of the drawn tokens are
    those of dense decoding; with noise that was shared by rank instead of by token it was 24 %.

    Args:
        k: Tokens that are drawn from; None is all.
        temperature: Divides the logits.
        generators: One per row of logits.
    """

    def choose(logits: Logits) -> NDArray[np.int64]:
        n_tokens = logits.shape[1]
        noise = [rng.gumbel(size=n_tokens) for _, rng in zip(logits, generators, strict=True)]
        best = np.argsort(-logits, axis=1, kind="stable")[:, :k]
        noisy = np.take_along_axis(logits / temperature + np.array(noise), best, axis=1)
        return best[np.arange(len(best)), noisy.argmax(axis=1)]

    return choose


def chooser(sampling: TokenSampling, seeds: Sequence[tuple[int, int]]) -> Choose:
    """The choice of tokens that a recipe asks for.

    Args:
        sampling: The recipe's.
        seeds: One per row of logits.
    """
    generators = [np.random.default_rng(seed) for seed in seeds]
    k = 1 if sampling.method == "greedy" else sampling.k
    return top_k(k, sampling.temperature, generators)


def log_chances(logits: Logits) -> Logits:
    """Log of the softmax over the last axis, in nats."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))

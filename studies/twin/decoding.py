"""Drive the NumPy decoder over clips: given frames first, then frames of its own."""

import numpy as np
from numpy.typing import NDArray

from carsim.decoder.content import TOKENS_PER_FRAME
from carsim.decoder.decode import Recorder, decode_step, prefill
from carsim.decoder.group import embed_prompts
from carsim.decoder.model import DecoderModel
from carsim.decoder.sampling import Choose, greedy
from carsim.decoder.structures import Config, DecoderPolicy, stack_weights

Codes = NDArray[np.int64]


def decode_rows(
    model: DecoderModel,
    policy: DecoderPolicy,
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
    texts = tuple(text.encode() for text in prompts)
    prompt, mask = embed_prompts(model, texts, max(map(len, texts)), config)
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

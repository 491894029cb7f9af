"""The shipped twin, decoded without PyTorch, predicts held-out clips better than copying does."""

from pathlib import Path

import numpy as np
import pytest

from carsim.decoder.content import TOKENS_PER_FRAME, Clip, load_codebook, make_clip
from carsim.decoder.decode import decode_step, prefill
from carsim.decoder.group import embed_prompts
from carsim.decoder.model import load_model
from carsim.decoder.recipe import PROMPT
from carsim.decoder.sampling import log_chances
from carsim.decoder.structures import Config, Policy, stack_weights

ROOT = Path(__file__).parents[2]
WEIGHTS = ROOT / "studies" / "twin" / "twin.safetensors"
N_FRAMES = 2


@pytest.fixture(scope="module")
def model():
    return load_model(WEIGHTS)


def test_it_has_the_token_geometry_of_vilau_and_is_small(model):
    assert model.geometry.n_layers == 32
    assert model.n_codes == load_codebook(ROOT / "traces" / "codebook_512.npz").n_codes
    assert WEIGHTS.stat().st_size < 20e6


def test_it_predicts_moving_held_out_clips_better_than_the_best_copying(model):
    codebook = load_codebook(ROOT / "traces" / "codebook_512.npz")
    clips = [Clip(photo, "pan", 4.0, 11) for photo in ("chelsea", "coins", "rocket")]
    codes = np.stack([codebook.encode(make_clip(clip, N_FRAMES)) for clip in clips])
    losses = next_token_losses(model, [f"{PROMPT} {clip.caption}" for clip in clips], codes)
    now, before = codes[:, 1], codes[:, 0]
    # Copying with the share that is best in hindsight, and an even guess elsewhere.
    kept = (now == before).mean()
    copying = -(kept * np.log(kept) + (1 - kept) * np.log((1 - kept) / (model.n_codes - 1)))
    assert losses[:, TOKENS_PER_FRAME:].mean() < 0.8 * copying
    assert losses[:, :TOKENS_PER_FRAME].mean() < np.log(model.n_codes)


def next_token_losses(model, prompts, codes):
    """Nats per token, [B, T * 256], each step fed the true code before it."""
    config = Config(model.geometry, TOKENS_PER_FRAME, N_FRAMES)
    policy = Policy((None,) * model.geometry.n_layers)
    weights = stack_weights(config, model.arrays)
    arrays = {key: array.astype(np.float32) for key, array in model.arrays.items()}
    texts = tuple(prompt.encode() for prompt in prompts)
    prompt, mask = embed_prompts(model, texts, max(map(len, texts)), config)
    state, _ = prefill(config, policy, weights, prompt, mask)
    x = np.tile(arrays["begin"], (len(texts), 1))
    losses = []
    for truth in codes.reshape(len(texts), -1).T:
        logits = decode_step(config, policy, weights, state, x) @ arrays["head"].T
        losses.append(-log_chances(logits)[np.arange(len(texts)), truth])
        x = arrays["embed_visual"][truth]
    return np.stack(losses, axis=1)

"""The shipped proxy model, decoded without PyTorch, predicts held-out scenes better than a copy."""

import numpy as np
import pytest

from carsim.decoder.content import TOKENS_PER_FRAME, load_codebook
from carsim.decoder.model import load_model
from carsim.decoder.structures import Config
from studies.content import CODEBOOK, TWIN, rows_of
from studies.whole import Decoder

N_FRAMES = 2


@pytest.fixture(scope="module")
def model():
    return load_model(TWIN)


def test_it_has_the_token_geometry_of_vilau_and_is_small(model):
    assert model.geometry.n_layers == 32
    assert model.n_codes == load_codebook(CODEBOOK).n_codes
    assert TWIN.stat().st_size < 20e6


def test_it_predicts_a_moving_held_out_scene_better_than_the_best_copying(model):
    decoder = Decoder(model, Config(model.geometry, TOKENS_PER_FRAME, N_FRAMES))
    (row,) = rows_of(("fast_0",), n_frames=N_FRAMES)
    hidden = decoder.decode(None, row.prompt, row.codes).hidden
    logits = hidden.astype(float) @ model.arrays["head"].astype(float).T
    logits -= logits.max(axis=1, keepdims=True)
    nats = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(logits)), row.codes]
    codes = row.codes.reshape(N_FRAMES, -1)
    # Copying with the share that is best in hindsight, and an even guess elsewhere.
    kept = (codes[1:] == codes[:-1]).mean()
    shares = np.array([kept, (1 - kept) / (model.n_codes - 1)])
    copying = -(np.array([kept, 1 - kept]) * np.log(np.maximum(shares, 1e-12))).sum()
    assert nats[TOKENS_PER_FRAME:].mean() < 0.8 * copying
    assert nats[:TOKENS_PER_FRAME].mean() < np.log(model.n_codes)

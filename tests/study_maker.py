"""A tiny model with random weights, which the studies of decisions decode."""

import numpy as np
from random_model import random_model

from carsim.decisions.trace.meta import Geometry
from carsim.decoder.content import Codebook
from carsim.decoder.model import DecoderModel

N_CODES, LAYERS, PROMPT = 12, 2, b"abc"


def make_model(n_kv_heads: int = 2) -> DecoderModel:
    """Grouped key heads by default; weights and codes are the same at every call."""
    shape = Geometry(
        name="tiny",
        n_layers=LAYERS,
        hidden_size=16,
        n_heads=4,
        n_kv_heads=n_kv_heads,
        head_dim=4,
        ffn_size=24,
    )
    pixels = np.random.default_rng(0).integers(0, 256, (N_CODES, 48)).astype(np.uint8)
    return random_model(shape, Codebook(pixels), seed=3)

"""The tiny decoder as a group of rows to calibrate on, and its weights in a precision."""

import numpy as np
from random_model import random_model

from carsim.decisions.trace.precision import DecoderPrecision
from carsim.decoder.content import Codebook
from carsim.decoder.group import RowGroup
from carsim.decoder.quantise import quantise
from carsim.decoder.structures import Config, DecoderPolicy, Weights
from carsim.testing.decoder import PROMPT


def make_group(config: Config, seed: int = 0) -> RowGroup:
    """The four rows of the tiny decoder as two guidance pairs of a model with few codes."""
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (7, 48)).astype(np.uint8)
    model = random_model(config.geometry, Codebook(pixels), seed)
    return RowGroup(
        config=config,
        policy=DecoderPolicy((None,) * config.geometry.n_layers),
        model=model,
        prompts=(b"abcd", b"x", b"efg", b"x"),
        prompt_tokens=PROMPT,
        tokens=rng.integers(0, 7, (config.n_steps, 2)),
        given_steps=config.n_steps,
        sampling=None,
        seeds=((0, 1), (0, 2)),
    )


def make(config: Config, wanted: DecoderPrecision) -> Weights:
    """Weights of the group's model in a precision."""
    return quantise(make_group(config), wanted, lambda units: None)

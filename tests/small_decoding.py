"""The small model on two clips of ``small_8f``: a short recipe, and what an oracle needs of it."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.base.yaml_file import read_mapping
from carsim.decoder.model import load_model
from carsim.decoder.recipe import Recipe, parse_recipe
from carsim.decoder.structures import Config, Weights, stack_weights

ROOT = Path(__file__).parents[1]


def small_recipe(**changes: Any) -> Recipe:
    """Two clips of small_8f, two frames given and one sampled.

    Args:
        changes: Fields of the recipe; None leaves one out.
    """
    path = ROOT / "traces/small_8f.yaml"
    raw = read_mapping(path)
    raw |= {"n_frames": 3, "clips": raw["clips"][:2], "quality": None, "tas_step": None}
    raw |= {"tau": -60.0} | changes
    recipe = parse_recipe({key: value for key, value in raw.items() if value is not None}, path)
    assert isinstance(recipe, Recipe)
    return recipe


class SmallDecoding(NamedTuple):
    """One row of the small model with drawn tokens, in double precision.

    Attributes:
        config: Three frames of four tokens.
        weights: The body.
        embeddings: Of the tokens, [S, 1, d].
        prompt: Embeddings of the first prompt of a recipe, [P, d].
    """

    config: Config
    weights: Weights
    embeddings: NDArray[np.float64]
    prompt: NDArray[np.float64]


def small_decoding(recipe: Recipe) -> SmallDecoding:
    """A decoding of the body of a recipe."""
    config = Config(recipe.decoded, tokens_per_frame=4, n_frames=3, dtype="float64")
    model = load_model(ROOT / "studies/proxy/small.safetensors")
    codes = np.random.default_rng(0).integers(0, 512, (config.n_steps, 1))
    return SmallDecoding(
        config=config,
        weights=stack_weights(config, model.arrays),
        embeddings=model.arrays["embed_visual"][codes].astype(float),
        prompt=model.arrays["embed_text"][list(recipe.prompts[1])].astype(float),
    )

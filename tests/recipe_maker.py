"""A recipe of two scenes and two layers, which decodes in well under a second."""

import json
from pathlib import Path
from shutil import copy
from typing import Any

from random_model import random_model

from carsim.base.yaml_file import read_mapping
from carsim.decisions.trace.meta import Geometry
from carsim.decoder.content import load_codebook
from carsim.decoder.model import save_model
from carsim.decoder.recipe import Recipe, parse_recipe

TRACES = Path(__file__).parents[1] / "traces"
CODEBOOK, SCENES = TRACES / "codebook_512.npz", TRACES / "scenes.npz"
GEOMETRY = {
    **{"name": "tiny", "n_layers": 2, "hidden_size": 24, "ffn_size": 16},
    **{"n_heads": 2, "n_kv_heads": 1, "head_dim": 12},
}
STILL, FAST = ({"scene": f"{pace}_0", "caption": f"a walk, {pace}"} for pace in ("still", "fast"))


def make_recipe(folder: Path, **changes: Any) -> Path:
    """The file of the recipe, with changes; ``absent`` leaves a field out."""
    fields: dict[str, Any] = {
        "name": "tiny",
        "output": "tiny.npz",
        "decoded": GEOMETRY,
        "weights": "tiny.safetensors",
        "codebook": CODEBOOK.name,
        "scenes": SCENES.name,
        "clips": [STILL, FAST],
        "n_frames": 2,
        "prompt_tokens": 50,
        "tau": 1.0,
        "attention": {"kind": "dense"},
        "seed": 1,
    }
    folder.mkdir(exist_ok=True)
    for path in (CODEBOOK, SCENES):  # a checkout lies outside of what an installed carsim reads
        if not (folder / path.name).exists():
            copy(path, folder)
    if not (folder / "tiny.safetensors").exists():
        model = random_model(Geometry.model_validate(GEOMETRY), load_codebook(CODEBOOK), seed=1)
        save_model(folder / "tiny.safetensors", model)
    path = folder / "tiny.yaml"
    kept = {key: value for key, value in {**fields, **changes}.items() if value != "absent"}
    path.write_text(json.dumps(kept))  # which is YAML, too
    return path


def read(path: Path) -> Recipe:
    """A recipe of content from its file."""
    recipe = parse_recipe(read_mapping(path), path)
    assert isinstance(recipe, Recipe)
    return recipe

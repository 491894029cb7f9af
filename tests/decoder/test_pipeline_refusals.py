"""Recipes and pipelines of diffusers that are refused before PyTorch is needed."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hf_maker import refused

from carsim.decoder.pipeline_recipe import PipelineRecipe
from carsim.decoder.recipe import parse_recipe

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "reuse-in-diffusion.md"

PLAN: dict[str, Any] = {
    "name": "wan",
    "output": "wan.npz",
    "weights": {"diffusers": "wan"},
    "prompts": ["a cat"],
    "steps": 3,
    "tau": 0.1,
}

INDEX = {
    "_class_name": "WanPipeline",
    "_diffusers_version": "0.42.1",
    "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
    "text_encoder": ["transformers", "UMT5EncoderModel"],
    "transformer": ["diffusers", "WanTransformer3DModel"],
    "transformer_2": [None, None],
}


def write_plan(folder: Path, **changes: Any) -> Path:
    """A recipe; ``changes`` replace fields, ... takes one out."""
    fields = {name: value for name, value in {**PLAN, **changes}.items() if value is not ...}
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump(fields), encoding="utf-8")
    return path


def write_pipeline(folder: Path, **changes: Any) -> Path:
    """A pipeline without weights beside the recipe; ``changes`` replace keys of its index."""
    network = folder / "wan" / "transformer"
    network.mkdir(parents=True)
    (network / "config.json").write_text(json.dumps({"_class_name": "WanTransformer3DModel"}))
    (folder / "wan" / "model_index.json").write_text(json.dumps(INDEX | changes))
    return network / "config.json"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tau": ...}, "$.tau: is missing; add it"),
        ({"steps": 0}, "$.steps"),
        ({"source": "chunk"}, "$.source"),
        ({"source": "forward", "range_tokens": 3}, "range_tokens is of tokens"),
        ({"source": "forward", "loop": "closed"}, "whole forwards decide in an open loop alone"),
        ({"polynomial": [1.0]}, "polynomial is of whole forwards"),
        ({"source": "forward", "polynomial": []}, "$.polynomial"),
        ({"prompts": []}, "$.prompts"),
        ({"n_frames": 3}, "$.n_frames: unknown key"),
        ({"weights": {"diffusers": "none"}}, "cannot be read: No such file"),
        ({"weights": {"diffusers": "/etc"}}, "$.weights: '/etc' lies outside"),
    ],
)
def test_bad_recipes_get_one_line(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    assert words in refused(write_plan(tmp_path, **changes))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"transformer_2": ["diffusers", "WanTransformer3DModel"]},
            "$.transformer_2: two networks share the steps",
        ),
        ({"vae": ["mine", "Decoder"]}, "$.vae: 'mine' is code of the pipeline's own"),
        ({"_class_name": ["mine", "Pipeline"]}, "$._class_name"),
    ],
)
def test_pipelines_that_are_not_read_get_one_line(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    write_pipeline(tmp_path, **changes)
    assert words in refused(write_plan(tmp_path))


def test_a_network_of_another_class_gets_one_line(tmp_path: Path) -> None:
    config = write_pipeline(tmp_path)
    config.write_text(json.dumps({"_class_name": "AllegroTransformer3DModel"}))
    line = refused(write_plan(tmp_path))
    assert "'AllegroTransformer3DModel' is no network whose forwards are captured" in line
    assert "captured are CogVideoXTransformer3DModel, " in line


@pytest.mark.parametrize(
    ("module", "name"),
    [("diffusers", "diffusers"), ("torch", "torch"), ("accelerate", "Accelerate")],
)
def test_without_the_extra_one_line_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, name: str
) -> None:
    write_pipeline(tmp_path)
    for other in ("accelerate", "diffusers", "torch", "transformers"):
        monkeypatch.setitem(sys.modules, other, sys)  # there, as far as an import tells
    monkeypatch.setitem(sys.modules, module, None)
    line = refused(write_plan(tmp_path))
    assert f"needs {name}" in line
    assert "install it with: " in line


def test_a_tau_is_not_searched_with_a_pipeline(tmp_path: Path) -> None:
    assert "neither a checkpoint, a pipeline" in refused(write_plan(tmp_path), "--calibrate", 0.5)


def test_the_recipe_of_the_page_is_one() -> None:
    blocks = PAGE.read_text(encoding="utf-8").split("```yaml\n# wan.yaml\n")
    loaded = yaml.safe_load(blocks[1].partition("```")[0])
    recipe = parse_recipe(loaded, Path("wan.yaml"), also_from=[Path()])
    assert isinstance(recipe, PipelineRecipe)
    assert recipe.range_tokens == 40

"""Recipes of checkpoints that are refused before PyTorch is needed."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hf_maker import edit_config, refused, write_recipe

from carsim.decisions.trace.meta import Geometry
from carsim.decoder.hf import read_geometry

CONFIG = {"model_type": "llama", "hidden_size": 32, "intermediate_size": 40}
CONFIG |= {"num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 64}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkpoint without weights."""
    made = tmp_path / "tiny"
    made.mkdir()
    (made / "config.json").write_text(json.dumps(CONFIG))
    return made


def test_what_a_configuration_leaves_out_has_the_default_of_llama(folder: Path) -> None:
    geometry = Geometry(
        name="tiny", n_layers=3, hidden_size=32, n_heads=4, n_kv_heads=4, head_dim=8, ffn_size=40
    )
    assert read_geometry(folder)[0] == geometry
    edit_config(folder, num_key_value_heads=None, head_dim=None)
    assert read_geometry(folder)[0] == geometry
    edit_config(folder, num_key_value_heads=2, head_dim=16)
    assert read_geometry(folder)[0] == geometry.model_copy(update={"n_kv_heads": 2, "head_dim": 16})


def test_other_types_have_defaults_of_their_own(folder: Path) -> None:
    edit_config(folder, model_type="qwen3", sliding_window=4096, use_sliding_window=False)
    assert read_geometry(folder)[0].head_dim == 128
    edit_config(folder, model_type="mistral", sliding_window=None)
    assert read_geometry(folder)[0].head_dim == 8


def weigh(folder: Path, *names: str, **mapped: str) -> None:
    for name in names:
        (folder / name).touch()
    if mapped:
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": mapped}))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda f: edit_config(f, model_type="gpt2"), "$.model_type: 'gpt2' is not read; read are"),
        (
            lambda f: edit_config(f, model_type="mistral", sliding_window=4096),
            "$.sliding_window: 4096: layers with a window are not captured; set it to null",
        ),
        (lambda f: edit_config(f, head_dim=7), "$.head_dim: 7 is odd"),
        (lambda f: (f / "config.json").unlink(), "config.json: cannot be read: No such file"),
        (lambda f: weigh(f, "pytorch_model.bin"), "tiny: has no weights in .safetensors files"),
        (lambda f: weigh(f, a="../x.safetensors"), "names '../x.safetensors', no .safetensors"),
        (lambda f: weigh(f, "adapter_config.json", "model.safetensors"), "is an adapter of other"),
        (lambda f: (f / "model.safetensors.index.json").write_text("{}"), "has no weight_map"),
    ],
)
def test_bad_checkpoints_get_one_line(folder: Path, damage: Callable[[Path], Any], words: str):
    damage(folder)
    assert words in refused(write_recipe(folder.parent))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"prompts": ...}, "$.prompts: is missing; add it"),
        ({"prompts": []}, "$.prompts: Tuple should have at least 1 item"),
        ({"prompts": [[1], [1]]}, "equal prompts would give equal videos under greedy sampling"),
        ({"guidance": None, "decision_scope": "pair"}, "'pair' needs guidance"),
        ({"guidance": None, "sampling": {"guidance_scale": 2.0}}, "guidance_scale does nothing"),
        ({"sampling": {"visual_tokens": [30]}}, "$.sampling.visual_tokens"),
        ({"attention": {"kind": "draft", "keep": 0.5}}, "'draft' selects keys by what they hold"),
        ({"dtype": "int8"}, "$.dtype: should be 'float32', 'float64'"),
        ({"codebook": "a.npz"}, "$.codebook: unknown key 'codebook'; known here"),
        ({"weights": {"hf": "none"}}, "none: cannot be read: No such file"),
        ({"weights": {"hf": "/etc"}}, "$.weights: '/etc' lies outside of the recipe's folder"),
        ({"weights": {"hf": "../x"}}, "name its folder in --also-from"),
    ],
)
def test_bad_recipes_get_one_line(folder: Path, changes: dict[str, Any], words: str) -> None:
    assert words in refused(write_recipe(folder.parent, **changes))


def test_options_that_do_not_fit_get_one_line(folder: Path) -> None:
    recipe = write_recipe(folder.parent)
    assert "--calibrate takes neither a checkpoint" in refused(recipe, "--calibrate", 0.5)
    (folder.parent / "mine.npz").touch()
    assert "exists already" in refused(recipe)


def test_without_the_extra_one_line_says_how_to_get_it(folder, monkeypatch):
    weigh(folder, "model.safetensors")
    monkeypatch.setitem(sys.modules, "torch", None)
    line = refused(write_recipe(folder.parent))
    assert "needs torch" in line
    assert "install it with: " in line

"""Input that ``carsim capture --hf`` refuses before it needs PyTorch."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hf_maker import IDS, SMALL, edit_config, refused

from carsim.decisions.trace import Geometry
from carsim.decoder.hf import read_geometry

CONFIG = {
    "model_type": "llama",
    "num_hidden_layers": 3,
    "hidden_size": 32,
    "num_attention_heads": 4,
    "intermediate_size": 40,
}


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
    assert read_geometry(folder) == geometry
    edit_config(folder, num_key_value_heads=None, head_dim=None)
    assert read_geometry(folder) == geometry
    edit_config(folder, num_key_value_heads=2, head_dim=16)
    changes = {"n_kv_heads": 2, "head_dim": 16}
    assert read_geometry(folder) == geometry.model_copy(update=changes)


def test_other_types_have_defaults_of_their_own(folder: Path) -> None:
    edit_config(folder, model_type="qwen3", sliding_window=4096, use_sliding_window=False)
    assert read_geometry(folder).head_dim == 128
    edit_config(folder, model_type="mistral", sliding_window=None)
    assert read_geometry(folder).head_dim == 8


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (
            lambda f: edit_config(f, model_type="gpt2"),
            "model_type 'gpt2', supported are llama, mistral",
        ),
        (lambda f: edit_config(f, model_type=["llama"]), "model_type ['llama'], supported are"),
        (
            lambda f: edit_config(f, model_type="mistral", sliding_window=4096),
            "sliding_window: 4096: layers with a window are not captured; set it to null",
        ),
        (
            lambda f: edit_config(
                f, model_type="qwen2", sliding_window=99, use_sliding_window=True
            ),
            "sliding_window: 99: layers with a window are not captured",
        ),
        (lambda f: edit_config(f, num_attention_heads=5), "hidden_size 32 does not divide by"),
        (lambda f: edit_config(f, num_key_value_heads=3), "num_attention_heads 4 does not divide"),
        (lambda f: edit_config(f, head_dim=7), "head_dim 7 is odd"),
        (lambda f: edit_config(f, hidden_size=None), "hidden_size: expected a positive integer"),
        (lambda f: (f / "config.json").unlink(), "has no config.json"),
        (lambda f: (f / "config.json").write_text("{"), "not readable as JSON"),
        (lambda f: (f / "config.json").write_text("[1]"), "model_type None"),
        (lambda f: edit_config(f, num_hidden_layers=True), "expected a positive integer, got True"),
        (lambda f: (f / "config.json").write_bytes(b"\xff"), "is not UTF-8 text"),
    ],
)
def test_bad_configurations_get_one_line(
    folder: Path, damage: Callable[[Path], Any], words: str
) -> None:
    damage(folder)
    arguments = ("--out", folder / "a.npz", *SMALL, *IDS)
    assert words in refused("--hf", folder, *arguments)
    assert "no such folder" in refused("--hf", folder / "none", *arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--prompt-ids", "1 2"], "--prompt-ids with guidance needs the blank prompt"),
        ([], "needs --prompt or --prompt-ids"),
        ([*IDS, "--prompt", "a"], "needs --prompt or --prompt-ids"),
        ([*IDS, "--blank", "a"], "both --blank and --blank-ids"),
        ([*IDS, "--prompt-ids", "-1"], "'-1' is not a list of token numbers"),
        ([*IDS, "--prompt-ids", ""], "is empty; leave it out, or fill it in"),
        ([*IDS, "--tau", "nan"], "'nan' is neither a number nor none"),
        ([*IDS, "--guidance-pairs", 3], "3 videos of 2 prompts would repeat each other"),
        ([*IDS, "--visual-tokens", "30"], "'30' is not FIRST:LAST"),
        ([*IDS, "--workers", 3], "--workers does not go with --hf"),
        ([*IDS, "--guidance-pairs", 0], "--blank-ids does nothing with --guidance-pairs 0"),
        ([*IDS, "--sinks", 2], "--sinks does nothing without --window"),
        ([*IDS, "--temperature", 2], "--temperature does nothing with --top-k 1"),
        ([*IDS, "--guidance-scale", "nan"], "nan is not a finite number"),
        ([*IDS, "--temperature", "inf"], "inf is not a finite number"),
        ([*IDS, "--top-k", 0], "0 is not in the range x>=1"),
        ([*IDS, "--temperature", 0], "0.0 is not in the range x>0"),
    ],
)
def test_bad_options_get_one_line(folder: Path, arguments: list[object], words: str) -> None:
    out = folder / "a.npz"
    assert words in refused("--hf", folder, "--out", out, *SMALL, *arguments)
    assert not out.exists()


def test_a_recipe_and_a_checkpoint_do_not_mix(folder: Path) -> None:
    assert "Give a RECIPE, or --hf FOLDER" in refused()
    assert "--tas needs --hf" in refused(folder / "a.yaml", "--tas", "paper")
    assert "recipe does not go with --hf" in refused(folder / "a.yaml", "--hf", folder)
    assert "--hf needs --out FILE" in refused("--hf", folder, *IDS)
    (folder / "a.npz").touch()
    assert "exists already" in refused("--hf", folder, "--out", folder / "a.npz", *IDS)


def test_without_the_extra_one_line_says_how_to_get_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    line = refused("--hf", folder, "--out", folder / "a.npz", *SMALL, *IDS)
    assert "needs torch" in line
    assert "install it with: " in line

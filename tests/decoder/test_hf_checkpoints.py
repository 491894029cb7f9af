"""Recipes of checkpoints: the traces that are written, and what is refused."""

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hf_maker import edit_config, refused, write_recipe
from tiny_llama import GQA, MHA, Tiny, edit_weights, greedy, plan, save_tiny, torch, transformers

from carsim.base.errors import InputError
from carsim.cli import carsim
from carsim.decisions.attention import Dense, Streaming
from carsim.decisions.trace import Trace, load_trace
from carsim.decoder.hf import capture_hf, load_checkpoint
from carsim.decoder.hf_recipe import VocabularySampling


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    folder = tmp_path_factory.mktemp("hf") / "tiny"
    arrays = save_tiny(folder, GQA)
    return Tiny(folder, load_checkpoint(folder), arrays)


def invoke(*arguments: object) -> Any:
    return CliRunner().invoke(carsim, ["capture", *map(str, arguments)])


def test_the_command_writes_a_trace_that_says_how_it_was_made(tiny: Tiny) -> None:
    folder = tiny.folder.parent
    few = {"tau": [0.03, None, -0.2], "attention": {"kind": "streaming", "sinks": 4, "window": 5}}
    result = invoke(write_recipe(folder, **few, decision_scope="pair"))
    assert result.exit_code == 0, result.output
    trace = load_trace(folder / "mine.npz")
    meta = trace.meta
    assert (trace.n_steps, trace.n_layers, trace.n_rows) == (12, 3, 4)
    assert meta.tau == (0.03, None, -0.2)
    assert meta.attention == Streaming(sinks=4, window=5)
    assert meta.prompt_lengths == (4, 2, 2, 2)
    assert meta.guidance_pairs == ((0, 1), (2, 3))
    assert meta.decoded == meta.simulated == tiny.model.geometry
    digest = sha256((tiny.folder / "model.safetensors").read_bytes()).hexdigest()
    assert meta.weights == f"checkpoint tiny, sha256 {digest}"
    assert meta.command == "carsim capture mine.yaml"
    assert meta.sampling == VocabularySampling().model_dump()
    assert CliRunner().invoke(carsim, ["trace", "info", str(folder / "mine.npz")]).exit_code == 0
    unguided = {"guidance": None, "prompts": [[3, 9]], "sampling": {"visual_tokens": [10, 20]}}
    result = invoke(write_recipe(folder, "plain", **unguided), "--out", folder / "b.npz")
    assert result.exit_code == 0, result.output
    plain = load_trace(folder / "b.npz")
    assert plain.meta.attention == Dense()
    assert np.isfinite(plain.tas[4:]).all(), "under infinity all is scored"
    assert not plain.replay.any()


def test_text_prompts_go_through_the_tokenizer_of_the_folder(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    folder = tmp_path / "tiny"
    save_tiny(folder, GQA)
    words = {"<s>": 1, "a": 2, "dog": 3, "runs": 4, "?": 5}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="?"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
    sampling = {"method": "top_k", "k": 30, "temperature": 30.0}
    recipe = write_recipe(tmp_path, prompts=["a dog runs"] * 2, guidance=..., sampling=sampling)
    result = invoke(recipe)
    assert result.exit_code == 0, result.output
    trace = load_trace(tmp_path / "mine.npz")
    assert trace.meta.prompt_lengths == (4, 1, 4, 1)
    assert not np.array_equal(trace.tas[4:, :, 0], trace.tas[4:, :, 2]), "each with its own seed"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"prompts": ["a dog"]}, "its tokenizer cannot be used"),
        ({"prompts": [[99]]}, "token 99; give tokens of 0 to 39"),
        ({"tau": [0.1, 0.2]}, "2 taus for 3 layers"),
        ({"rule": {"kind": "tas", "head": 7}}, "head 7"),
        ({"sampling": {"guidance_scale": 1e308}}, "infinite logits under guidance scale 1e+308"),
        ({"sampling": {"visual_tokens": [30, 40]}}, "30 to 40 is not within the vocabulary"),
    ],
)
def test_bad_recipes_get_one_line(tiny: Tiny, changes: dict[str, Any], words: str) -> None:
    assert words in refused(write_recipe(tiny.folder.parent, "bad", **changes))
    recipe = write_recipe(tiny.folder.parent, "bad")
    assert "cannot be loaded" in refused(recipe, "--device", "abacus")
    assert not (tiny.folder.parent / "bad.npz").exists()


QUERY = "model.layers.1.self_attn.q_proj.weight"


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda f: edit_config(f, intermediate_size=48), "9 tensors misshapen: model.layers.0.mlp"),
        (lambda f: (f / "model.safetensors").write_bytes(b"x" * 50), "cannot be loaded"),
        (lambda f: edit_weights(f, lambda t: t.pop(QUERY)), f"1 tensors missing: {QUERY}"),
        (
            lambda f: edit_weights(f, lambda t: t.update({QUERY[:-6] + "bias": torch.ones(32)})),
            f"1 tensors unknown: {QUERY[:-6]}bias",
        ),
        (
            lambda f: edit_weights(f, lambda t: t.pop("lm_head.weight")),
            "has no lm_head.weight, so that no token can be sampled",
        ),
        (
            lambda f: edit_weights(f, lambda t: t[QUERY].fill_(float("nan"))),
            "decoding: step 0: NaN or infinite numbers",
        ),
    ],
)
def test_bad_checkpoints_get_one_line(tmp_path: Path, damage: Callable[[Path], Any], words: str):
    folder = tmp_path / "tiny"
    save_tiny(folder, GQA)
    damage(folder)
    assert words in refused(write_recipe(tmp_path))


def test_a_step_model_stands_in_for_a_head_that_is_not_there(tiny: Tiny, tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    arrays = save_tiny(folder, tiny.model.geometry)
    edit_weights(folder, lambda tensors: tensors.pop("lm_head.weight"))
    body = load_checkpoint(folder)
    assert body.head is None
    without: Trace = capture_hf(body, plan(tau=0.03), greedy(replace(tiny, arrays=arrays)))
    np.testing.assert_array_equal(without.tas, capture_hf(tiny.model, plan(tau=0.03)).tas)
    with pytest.raises(InputError, match=r"step_model: step 0: returned shape \(3, 32\), expected"):
        capture_hf(body, plan(), lambda hidden: hidden[1:])


def test_old_checkpoints_with_rotary_frequencies_load(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    save_tiny(folder, MHA)
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    edit_weights(folder, lambda tensors: tensors.update({name: torch.ones(4)}))
    assert load_checkpoint(folder).geometry == MHA

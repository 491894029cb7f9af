"""``carsim capture --hf`` on checkpoints in folders: traces it writes, and what it refuses."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hf_maker import IDS, SMALL, edit_config, refused
from tiny_llama import GQA, MHA, PLAN, Tiny, edit_weights, greedy, save_tiny, torch, transformers

from carsim.base.errors import InputError
from carsim.cli import carsim
from carsim.decisions.attention import Dense, Streaming
from carsim.decisions.trace import Trace, load_trace
from carsim.decoder.hf import capture_hf, load_checkpoint


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    folder = tmp_path_factory.mktemp("hf") / "tiny"
    arrays = save_tiny(folder, GQA)
    return Tiny(folder, load_checkpoint(folder), arrays)


def invoke(*arguments: object) -> Any:
    return CliRunner().invoke(carsim, ["capture", *map(str, arguments)])


def test_the_command_writes_a_trace_that_says_how_it_was_made(tiny: Tiny, tmp_path: Path) -> None:
    out = tmp_path / "a.npz"
    arguments = ["--hf", tiny.folder, "--out", out, *SMALL, *IDS, "--tau", "0.03,none,-.2"]
    result = invoke(*arguments, "--decision-scope", "pair", "--window", 5, "--seed", 2)
    assert result.exit_code == 0, result.output
    trace = load_trace(out)
    meta = trace.meta
    assert (trace.n_steps, trace.n_layers, trace.n_rows) == (12, 3, 4)
    assert meta.tau == (0.03, None, -0.2)
    assert meta.attention == Streaming(sinks=4, window=5)
    assert meta.prompt_lengths == (4, 2, 2, 2)
    assert meta.guidance_pairs == ((0, 1), (2, 3))
    assert meta.decoded == meta.simulated == tiny.model.geometry
    assert meta.weights.startswith("checkpoint tiny, sha256 ")
    assert meta.command == (
        "carsim capture --hf tiny --frames 3 --tokens-per-frame 4 --prompt-ids '3 9 4 11' "
        "--prompt-ids '8 2' --blank-ids '1 5' --tau 0.03,none,-0.2 --decision-scope pair "
        "--window 5 --seed 2"
    )
    assert CliRunner().invoke(carsim, ["trace", "info", str(out)]).exit_code == 0
    plain = tmp_path / "b.npz"
    unguided = ("--guidance-pairs", 0, "--prompt-ids", "3 9", "--visual-tokens", "10:20")
    result = invoke("--hf", tiny.folder, "--out", plain, *SMALL, *unguided)
    assert result.exit_code == 0, result.output
    assert load_trace(plain).meta.attention == Dense()
    assert np.isfinite(load_trace(plain).tas[4:]).all(), "by default all is scored"
    assert not load_trace(plain).replay.any()


def test_text_prompts_go_through_the_tokenizer_of_the_folder(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    folder = tmp_path / "worded"
    save_tiny(folder, GQA)
    words = {"<s>": 1, "a": 2, "dog": 3, "runs": 4, "?": 5}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="?"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
    arguments = ["--hf", folder, *SMALL, "--prompt", "a dog runs", "--top-k", 30]
    arguments += ["--temperature", 30]
    result = invoke(*arguments, "--guidance-pairs", 2, "--out", tmp_path / "a.npz")
    assert result.exit_code == 0, result.output
    trace = load_trace(tmp_path / "a.npz")
    assert trace.meta.prompt_lengths == (4, 1, 4, 1)
    assert not np.array_equal(trace.tas[4:, :, 0], trace.tas[4:, :, 2]), "each with its own seed"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--prompt", "a dog"], "its tokenizer cannot be used"),
        ([*IDS, "--prompt-ids", "99"], "token 99; give tokens of 0 to 39"),
        ([*IDS, "--tau", "0.1,0.2"], "2 taus for 3 layers"),
        (
            ["--prompt-ids", "1", "--guidance-pairs", 0, "--decision-scope", "pair"],
            "'pair' needs guidance pairs",
        ),
        ([*IDS, "--guidance-scale", "1e308"], "guidance scale 1e+308 makes NaN or infinite"),
        ([*IDS, "--visual-tokens", "30:40"], "30:40 is not within the vocabulary"),
        ([*IDS, "--device", "abacus"], "cannot be loaded"),
    ],
)
def test_bad_options_get_one_line(
    tiny: Tiny, tmp_path: Path, arguments: list[object], words: str
) -> None:
    out = tmp_path / "a.npz"
    assert words in refused("--hf", tiny.folder, "--out", out, *SMALL, *arguments)
    assert not out.exists()


QUERY = "model.layers.1.self_attn.q_proj.weight"


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda f: edit_config(f, intermediate_size=48), "9 tensors misshapen: model.layers.0.mlp"),
        (lambda f: (f / "model.safetensors").unlink(), "cannot be loaded"),
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
def test_bad_checkpoints_get_one_line(
    tmp_path: Path, damage: Callable[[Path], Any], words: str
) -> None:
    folder = tmp_path / "tiny"
    save_tiny(folder, GQA)
    damage(folder)
    arguments = ("--hf", folder, "--out", tmp_path / "a.npz", *SMALL, *IDS)
    assert words in refused(*arguments)


def test_a_step_model_stands_in_for_a_head_that_is_not_there(tiny: Tiny, tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    arrays = save_tiny(folder, tiny.model.geometry)
    edit_weights(folder, lambda tensors: tensors.pop("lm_head.weight"))
    body = load_checkpoint(folder)
    assert body.head is None
    without: Trace = capture_hf(body, replace(PLAN, tau=0.03), greedy(replace(tiny, arrays=arrays)))
    np.testing.assert_array_equal(without.tas, capture_hf(tiny.model, replace(PLAN, tau=0.03)).tas)
    with pytest.raises(InputError, match=r"step_model: step 0: returned shape \(3, 32\), expected"):
        capture_hf(body, PLAN, lambda hidden: hidden[1:])


def test_old_checkpoints_with_rotary_frequencies_load(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    save_tiny(folder, MHA)
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    edit_weights(folder, lambda tensors: tensors.update({name: torch.ones(4)}))
    assert load_checkpoint(folder).geometry == MHA

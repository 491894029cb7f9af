"""A model from its own file: what is read of it, and what is refused in one line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hf_configs import CONFIGS
from strategies import raw_design

from carsim.base.errors import InputError
from carsim.design import Design, load_design

# Parameters of each published checkpoint: the elements of the tensors in its weight files, those
# of a tied classifier once. transformers 5.23 makes the same number of these configurations. Of
# Gemma-3-4B the technical report (arXiv 2503.19786, table 1) gives the text: 675 million of
# embedding and 3,209 million of the rest, in round numbers. Mixtral's authors count 46.7 billion.
PUBLISHED = {
    "llama2_7b": 6_738_415_616,
    "tinyllama_1b": 1_100_048_384,
    "llama3_8b": 8_030_261_248,
    "llama3.2_1b": 1_235_814_400,
    "smollm2_360m": 361_821_120,
    "smollm2_1.7b": 1_711_376_384,
    "mistral_7b": 7_248_023_552,
    "qwen2.5_1.5b": 1_543_714_304,
    "qwen2.5_7b": 7_615_616_512,
    "qwen3_0.6b": 596_049_920,
    "qwen3_8b": 8_190_735_360,
    "gemma3_1b": 999_885_952,
    "gemma3_4b": 3_884_000_000,
    "mixtral_8x7b": 46_702_792_704,
    "qwen3_30b_a3b": 30_532_122_624,
    "qwen1.5_moe_a2.7b": 14_315_784_192,
}

# Parameters that one token uses: arXiv 2401.04088 (section 1), and the model cards of the Qwens.
ACTIVE = {"mixtral_8x7b": 12.9e9, "qwen3_30b_a3b": 3.3e9, "qwen1.5_moe_a2.7b": 2.7e9}

# Published in round numbers; or, the last, without the gates of the shared experts.
ROUNDED = {"gemma3_4b": 0.002, "qwen1.5_moe_a2.7b": 1e-5}


def design_of(folder: Path, config: dict[str, Any], **model: Any) -> Design:
    """A small design whose model is read from a file beside it."""
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    raw = raw_design() | {"model": {"from": "config.json", **model}}
    (folder / "d.yaml").write_text(json.dumps(raw), encoding="utf-8")
    return load_design(str(folder / "d.yaml"))


@pytest.mark.parametrize("name", CONFIGS)
def test_a_preset_is_what_the_published_file_says(name: str, tmp_path: Path) -> None:
    read = design_of(tmp_path, CONFIGS[name]).model
    preset = load_design("kv260", [f"model.preset={name}"]).model
    assert read.body.model_dump() | {"head_size": None} == preset.body.model_dump() | {
        "head_size": None
    }
    assert read.body.head_dim == preset.body.head_dim
    assert read.head == preset.head


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_preset_has_as_many_parameters_as_were_published(name: str) -> None:
    model = load_design("kv260", [f"model.preset={name}"]).model
    assert model.parameters == pytest.approx(PUBLISHED[name], rel=ROUNDED.get(name, 0))
    if name in ACTIVE:
        assert model.active_parameters == pytest.approx(ACTIVE[name], rel=0.02)
    else:
        assert model.active_parameters == model.parameters


def test_every_published_file_has_a_count() -> None:
    assert set(CONFIGS) == set(PUBLISHED)


def test_the_path_is_relative_to_the_design_and_may_be_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "Some-Model"
    folder.mkdir()
    config = {**CONFIGS["smollm2_360m"], "_name_or_path": ""}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    raw = raw_design() | {"model": {"from": "Some-Model"}}
    (tmp_path / "d.yaml").write_text(json.dumps(raw), encoding="utf-8")
    model = load_design(str(tmp_path / "d.yaml")).model
    assert model.name == "Some-Model"
    assert model.body.n_layers == 32


def test_from_the_command_line_a_file_takes_the_place_of_a_preset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own.json").write_text(json.dumps(CONFIGS["qwen3_8b"]), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    design = load_design("kv260", ["model.from=own.json"])
    assert design.model.name == "Qwen3-8B"
    assert design.model.body.qk_norm
    # And a preset that of a file.
    design_of(tmp_path, CONFIGS["qwen3_8b"])
    assert load_design("d.yaml", ["model.preset=tiny"]).model.name == "tiny"


def test_a_file_gives_the_precision_in_which_it_is_stored(tmp_path: Path) -> None:
    plain = design_of(tmp_path, CONFIGS["llama2_7b"]).model
    assert [plain.weights.bits, plain.kv.bits, plain.activations.bits] == [16, 16, 16]
    single = design_of(tmp_path, {**CONFIGS["qwen3_8b"], "dtype": "float32"}).model
    assert single.weights.bits == 32
    quantised = {"quant_method": "gptq", "bits": 4, "group_size": 128}
    config = {**CONFIGS["qwen3_8b"], "quantization_config": quantised}
    weights = design_of(tmp_path, config).model.weights
    assert float(weights.bits_per_element) == 4 + (16 + 4) / 128
    # What the design says goes above it.
    own = design_of(tmp_path, config, weights={"bits": 8}, kv={"bits": 4}).model
    assert [own.weights.bits, own.weights.group, own.kv.bits] == [8, None, 4]


def test_windows_are_read_by_layer(tmp_path: Path) -> None:
    gemma = design_of(tmp_path, CONFIGS["gemma3_4b"]).model.body
    assert (gemma.window, gemma.global_layers) == (1024, (5, 11, 17, 23, 29))
    # Mistral 0.1 has a window in every layer; Qwen 2 from a layer on, if it is in use.
    mistral = {**CONFIGS["mistral_7b"], "sliding_window": 4096}
    body = design_of(tmp_path, mistral).model.body
    assert (body.window, body.global_layers) == (4096, ())
    windowed = {"use_sliding_window": True, "max_window_layers": 3, "sliding_window": 500}
    body = design_of(tmp_path, {**CONFIGS["qwen2.5_7b"], **windowed}).model.body
    assert (body.window, body.global_layers) == (500, (0, 1, 2))
    # Newer files say it layer by layer.
    types = ["full_attention", *["sliding_attention"] * 27]
    body = design_of(tmp_path, {**CONFIGS["qwen2.5_7b"], **windowed, "layer_types": types})
    assert body.model.body.global_layers == (0,)


def test_biases_follow_the_type_and_the_file(tmp_path: Path) -> None:
    assert design_of(tmp_path, CONFIGS["qwen2.5_7b"]).model.body.biases == ("qkv",)
    everywhere = {**CONFIGS["llama3_8b"], "attention_bias": True, "mlp_bias": True}
    body = design_of(tmp_path, everywhere).model.body
    assert body.biases == ("qkv", "out", "gate_up", "down")
    # 4096 + 2 x 1024 of Q, K and V, 4096 twice, 2 x 14336 of gate and up.
    assert body.layer_biases == 6144 + 4096 + 2 * 14336 + 4096


def edited(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda config: {**config, **changes}


def without(key: str) -> Callable[[dict[str, Any]], Any]:
    return lambda config: {name: value for name, value in config.items() if name != key}


@pytest.mark.parametrize(
    ("name", "change", "line"),
    [
        (
            "llama3_8b",
            edited(model_type="rwkv"),
            "config.json: $.model_type: 'rwkv' is not read; read are",
        ),
        ("llama3_8b", edited(model_type="deepseek_v3"), "latent attention is not simulated"),
        ("llama3_8b", without("model_type"), "config.json: $.model_type: is missing; name a"),
        ("llama3_8b", edited(model_type=["llama"]), '["llama"] is not read'),
        ("llama3_8b", without("hidden_size"), "config.json: $.hidden_size: is missing; add it"),
        (
            "llama3_8b",
            edited(num_attention_heads=30, num_key_value_heads=10),
            "$.num_attention_heads: 30 do not divide hidden_size 4096, and there is no head_dim",
        ),
        (
            "llama3_8b",
            edited(num_key_value_heads=5),
            "$.num_key_value_heads: 5 do not divide num_attention_heads 32; take the published",
        ),
        ("llama3_8b", edited(num_hidden_layers=-1), "should be a positive whole number, got -1"),
        ("llama3_8b", edited(num_hidden_layers="32"), "positive whole number, got '32'"),
        ("llama3_8b", edited(vocab_size=True), "positive whole number, got true"),
        ("llama3_8b", edited(intermediate_size=1e30), "positive whole number, got 1e+30"),
        ("llama3_8b", edited(num_hidden_layers=2000), "model.body.n_layers: should be less than"),
        ("llama3_8b", edited(tie_word_embeddings="no"), "should be true or false, got 'no'"),
        ("llama3_8b", edited(hidden_act="relu"), "$.hidden_act: 'relu' is none of silu"),
        ("llama3_8b", edited(torch_dtype="float8"), "$.torch_dtype: 'float8' is none of float32"),
        (
            "llama3_8b",
            edited(quantization_config={"quant_method": "fp8"}),
            "$.quantization_config: 'fp8' is neither gptq nor awq; set model.weights in the design",
        ),
        ("gemma3_4b", edited(text_config=3), "$.text_config: should hold keys, got 3"),
        ("gemma3_4b", edited(text_config={}), "$.text_config.num_hidden_layers: is missing"),
        ("gemma3_1b", edited(layer_types=["full_attention"]), "a list of 1 where 26 of"),
        ("gemma3_1b", edited(layer_types=["linear_attention"] * 26), "'linear_attention' where 26"),
        ("gemma3_1b", edited(use_bidirectional_attention=True), "true: decoding is causal here"),
        ("gemma3_1b", lambda _: [1], "config.json: should hold keys; name a config.json"),
        ("mixtral_8x7b", edited(num_experts_per_tok=9), "9 of 8 experts cannot be chosen"),
        ("qwen3_30b_a3b", without("num_experts"), "$.num_experts: is missing"),
        (
            "qwen3_30b_a3b",
            edited(mlp_only_layers=[0]),
            "$.mlp_only_layers: [0]: layers without experts beside those with experts are not",
        ),
        ("qwen1.5_moe_a2.7b", edited(decoder_sparse_step=2), "$.decoder_sparse_step: 2: layers"),
    ],
)
def test_what_makes_no_sense_gets_one_line(
    tmp_path: Path, name: str, change: Callable[[dict[str, Any]], Any], line: str
) -> None:
    with pytest.raises(InputError) as refused:
        design_of(tmp_path, change(CONFIGS[name]))
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "{", '{"a": 1', "\x00", "[" * 100_000])
def test_what_is_no_json_gets_one_line(tmp_path: Path, text: str) -> None:
    design_of(tmp_path, CONFIGS["qwen3_8b"])
    (tmp_path / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"config\.json: is no JSON: .*; name a config\.json"):
        load_design(str(tmp_path / "d.yaml"))


@pytest.mark.parametrize(
    ("model", "line"),
    [
        ({"from": "none.json"}, "none.json: cannot be read: No such file or directory"),
        ({"from": "."}, "config.json: cannot be read"),
        ({"from": 3}, "$.model.from: 3 is no path; name a model's config.json"),
        ({"from": "a.json", "preset": "tiny"}, "$.model.preset: goes against model.from; give one"),
    ],
)
def test_paths_that_make_no_sense_get_one_line(
    tmp_path: Path, model: dict[str, Any], line: str
) -> None:
    (tmp_path / "d.yaml").write_text(json.dumps(raw_design() | {"model": model}))
    with pytest.raises(InputError) as refused:
        load_design(str(tmp_path / "d.yaml"))
    assert line in str(refused.value)


OTHERS = {
    # microsoft/Phi-3-mini-4k-instruct: 3.82e9 parameters, a window in every layer.
    "phi3": (
        {
            "hidden_size": 3072,
            "intermediate_size": 8192,
            "num_attention_heads": 32,
            "num_key_value_heads": 32,
            "num_hidden_layers": 32,
            "sliding_window": 2047,
            "vocab_size": 32064,
        },
        3_821_079_552,
        (2047, ()),
        2 * 3072,
    ),
    # google/gemma-2b
    "gemma": (
        {
            "hidden_size": 2048,
            "intermediate_size": 16384,
            "num_attention_heads": 8,
            "num_key_value_heads": 1,
            "num_hidden_layers": 18,
        },
        2_506_172_416,
        (None, ()),
        2 * 256,
    ),
    # google/gemma-2-2b: every other layer sees 4,096 tokens.
    "gemma2": (
        {
            "hidden_size": 2304,
            "intermediate_size": 9216,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "num_hidden_layers": 26,
            "sliding_window": 4096,
            "hidden_activation": "gelu_pytorch_tanh",
        },
        2_614_341_888,
        (4096, tuple(range(1, 26, 2))),
        2 * 1024,
    ),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_types_without_a_preset_have_their_published_size(kind: str, tmp_path: Path) -> None:
    """Parameters, windows, and elements of K and V per token and layer."""
    keys, parameters, windows, kv_elements = OTHERS[kind]
    model = design_of(tmp_path, {"model_type": kind, **keys}).model
    assert model.parameters == parameters
    assert (model.body.window, model.body.global_layers) == windows
    assert 2 * model.body.kv_size == kv_elements

"""A model from its own file: what is read of it, and what is refused in one line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from strategies import raw_design

from carsim.base.errors import InputError
from carsim.design import Design, load_design
from carsim.design.load import shipped_presets
from carsim.workload.attention import attend_op
from carsim.workload.ops import Share

PUBLISHED = json.loads(
    (Path(__file__).parents[1] / "data/hf_configs.json").read_text(encoding="utf-8")
)
del PUBLISHED["about"]
CONFIGS = {name: each["config"] for name, each in PUBLISHED.items()}


def design_of(folder: Path, config: dict[str, Any], **model: Any) -> Design:
    """A small design whose model is read from a file beside it."""
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    raw = raw_design() | {"model": {"from": "config.json", **model}}
    (folder / "d.yaml").write_text(json.dumps(raw), encoding="utf-8")
    return load_design(str(folder / "d.yaml"))


@pytest.mark.parametrize("name", sorted(set(CONFIGS) & set(shipped_presets()["model"])))
def test_a_preset_is_what_the_published_file_says(name: str, tmp_path: Path) -> None:
    read = design_of(tmp_path, CONFIGS[name]).model
    preset = load_design("kv260", [f"model.preset={name}"]).model
    assert read.body.model_dump() | {"head_size": None} == preset.body.model_dump() | {
        "head_size": None
    }
    assert read.body.own_size == preset.body.own_size
    assert (read.head, read.context) == (preset.head, preset.context)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_file_has_as_many_parameters_as_its_checkpoint(name: str, tmp_path: Path) -> None:
    model = design_of(tmp_path, CONFIGS[name]).model
    assert model.parameters == PUBLISHED[name]["parameters"]
    assert model.context == CONFIGS[name].get("max_position_embeddings", 131_072)


# Elements of K and V, or of the latent, per token and layer: arXiv 2405.04434 (table 1) has
# (512 + 64) of DeepSeek-V2, against 2 x 128 x 128 of as many plain heads.
@pytest.mark.parametrize(
    ("name", "elements", "windows"),
    [
        ("phi3_mini", 2 * 3072, (2047, ())),
        ("gemma_2b", 2 * 256, (None, ())),
        ("gemma2_2b", 2 * 1024, (4096, tuple(range(1, 26, 2)))),
        ("gemma3_4b", 2 * 1024, (1024, (5, 11, 17, 23, 29))),
        ("deepseek_v2_lite", 512 + 64, (None, ())),
        ("deepseek_v3", 512 + 64, (None, ())),
    ],
)
def test_what_a_token_adds_to_the_cache_of_a_layer(name, elements, windows, tmp_path):
    model = design_of(tmp_path, CONFIGS[name], kv={"bits": 16}).model
    assert model.kv.bytes_of(model.body.kv_elements) == 2 * elements
    assert attend_op(model, Share(1), 1).stream_bytes == 2 * elements
    assert (model.body.window, model.body.global_layers) == windows


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


def test_from_the_command_line_a_file_takes_the_place_of_a_preset(tmp_path, monkeypatch):
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
    assert design_of(tmp_path, {**CONFIGS["qwen3_8b"], "dtype": "float32"}).model.weights.bits == 32
    quantised = {"quant_method": "gptq", "bits": 4, "group_size": 128}
    config = {**CONFIGS["qwen3_8b"], "quantization_config": quantised}
    assert float(design_of(tmp_path, config).model.weights.bits_per_element) == 4 + (16 + 4) / 128
    # What the design says goes above it.
    own = design_of(tmp_path, config, weights={"bits": 8}, kv={"bits": 4}).model
    assert [own.weights.bits, own.weights.group, own.kv.bits] == [8, None, 4]


def test_windows_are_read_by_layer(tmp_path: Path) -> None:
    # Mistral 0.1 has a window in every layer; newer files of Gemma say it layer by layer.
    body = design_of(tmp_path, {**CONFIGS["mistral_7b"], "sliding_window": 4096}).model.body
    assert (body.window, body.global_layers) == (4096, ())
    types = ["full_attention", *["sliding_attention"] * 25]
    body = design_of(tmp_path, {**CONFIGS["gemma3_1b"], "layer_types": types}).model.body
    assert (body.window, body.global_layers) == (512, (0,))


def test_biases_follow_the_type_and_the_file(tmp_path: Path) -> None:
    assert design_of(tmp_path, CONFIGS["qwen2.5_7b"]).model.body.biases == ("qkv",)
    everywhere = {**CONFIGS["llama3_8b"], "attention_bias": True, "mlp_bias": True}
    body = design_of(tmp_path, everywhere).model.body
    assert body.biases == ("qkv", "out", "gate_up", "down")
    # 4096 + 2 x 1024 of Q, K and V, 4096 twice, 2 x 14336 of gate and up.
    assert body.layer_biases == 6144 + 4096 + 2 * 14336 + 4096


AQLM = {"quant_method": "aqlm"}


def edited(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda config: {**config, **changes}


def without(key: str) -> Callable[[dict[str, Any]], Any]:
    return lambda config: {name: value for name, value in config.items() if name != key}


@pytest.mark.parametrize(
    ("name", "change", "line"),
    [
        ("llama3_8b", edited(model_type="rwkv"), "config.json: $.model_type: 'rwkv' is not read"),
        ("deepseek_v3", without("kv_lora_rank"), "$.kv_lora_rank: is missing"),
        ("deepseek_v3", edited(moe_layer_freq=2), "$.moe_layer_freq: 2: layers without experts"),
        ("deepseek_v2", edited(attention_bias=True), "biases of qkv are not simulated with latent"),
        ("deepseek_v2", edited(first_k_dense_replace=60), "60 of 60 layers leave none to experts"),
        ("llama3_8b", without("hidden_size"), "config.json: $.hidden_size: is missing; add it"),
        (
            "llama3_8b",
            edited(num_attention_heads=30),
            "heads: 30 do not divide hidden_size 4096, w",
        ),
        ("llama3_8b", edited(num_key_value_heads=5), "$.num_attention_heads: 32 is no multiple"),
        ("qwen3_8b", edited(use_sliding_window=True), "no published Qwen has windows; choose"),
        ("llama3_8b", edited(tie_word_embeddings="no"), "got 'no'; write true or false"),
        ("llama3_8b", edited(hidden_act="relu"), "$.hidden_act: should be 'silu'"),
        ("llama3_8b", edited(quantization_config=AQLM), "config.quant_method: 'aqlm' is none of"),
        ("gemma3_4b", edited(text_config={}), "$.text_config.hidden_size: is missing"),
        ("gemma3_1b", edited(layer_types=["full_attention"]), "a list of 1 where 26 belong"),
        ("gemma3_1b", edited(use_bidirectional_attention=True), "true: decoding is causal here"),
        ("gemma3_1b", lambda _: [1], "config.json: should hold keys; name a config.json"),
        ("mixtral_8x7b", edited(num_experts_per_tok=9), "9 of 8 experts cannot be chosen"),
        ("qwen3_30b_a3b", edited(mlp_only_layers=[0]), "$.mlp_only_layers: [0]: layers"),
    ],
)
def test_what_makes_no_sense_gets_one_line(tmp_path, name, change, line):
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
def test_paths_that_make_no_sense_get_one_line(tmp_path: Path, model: dict[str, Any], line: str):
    (tmp_path / "d.yaml").write_text(json.dumps(raw_design() | {"model": model}))
    with pytest.raises(InputError) as refused:
        load_design(str(tmp_path / "d.yaml"))
    assert line in str(refused.value)

"""Quantised files: bits by role, published sizes, rules of modules, and what is refused."""

import json
import re
import struct
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from strategies import raw_design

from carsim.base.errors import InputError
from carsim.design import Design, load_design
from carsim.workload.hf_config.stored import StoredSizeWarning, expected_bytes
from carsim.workload.model import Model

LLAMA31_8B: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 131072,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
LLAMA31_70B = {
    **LLAMA31_8B,
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_attention_heads": 64,
    "num_hidden_layers": 80,
}
QWEN25_7B: dict[str, Any] = {
    "model_type": "qwen2",
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_attention_heads": 28,
    "num_hidden_layers": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
TINY: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_attention_heads": 4,
    "num_hidden_layers": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1024,
    "torch_dtype": "bfloat16",
}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True, "desc_act": False}
NF4 = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}


def compressed(weights: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A section of compressed-tensors with one group, the head left out."""
    group = {"targets": ["Linear"], "weights": weights}
    return {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "config_groups": {"group_0": group},
        "ignore": ["lm_head"],
        **more,
    }


W4A16 = compressed({"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128})
W8A8 = compressed({"num_bits": 8, "type": "int", "strategy": "channel"}, format="int-quantized")


def design_of(folder: Path, config: dict[str, Any], **model: Any) -> Design:
    """A small design whose model is read from a file beside it."""
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    raw = raw_design() | {"model": {"from": "config.json", **model}}
    (folder / "d.yaml").write_text(json.dumps(raw), encoding="utf-8")
    return load_design(str(folder / "d.yaml"))


def model_of(folder: Path, config: dict[str, Any], section: Any = None) -> Model:
    """The model of a file with this section on quantisation."""
    extra = {} if section is None else {"quantization_config": section}
    return design_of(folder, {**config, **extra}).model


# Published: bytes of the weight files of these repositories on Hugging Face, where the page gives
# them to three digits ("GB", 10^9); total_size of the index where all digits stand here.
PUBLISHED = {
    # RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16
    "w4a16": (LLAMA31_8B, W4A16, 5_700_595_200, 1e-5),
    # hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4: 4.68 and 1.05 GB
    "awq": (LLAMA31_8B, AWQ, 5.73e9, 1e-3),
    # alpindale/Meta-Llama-3.1-70B-Instruct-GPTQ-INT8: eight files, 74.3 GB together
    "gptq8_70b": (
        LLAMA31_70B,
        {"quant_method": "gptq", "bits": 8, "group_size": 128},
        74.29e9,
        1e-3,
    ),
    # Qwen/Qwen2.5-7B-Instruct-AWQ: 4.00 and 1.57 GB
    "qwen_awq": (QWEN25_7B, AWQ, 5.57e9, 1e-3),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_size_is_met(name: str, tmp_path: Path) -> None:
    config, section, published, tolerance = PUBLISHED[name]
    stored = model_of(tmp_path, config, section).stored_bytes
    assert stored == pytest.approx(published, rel=tolerance)


# Published: total_size of model.safetensors.index.json of openai/gpt-oss-20b and -120b.
@pytest.mark.parametrize(
    ("name", "published"), [("gpt_oss_20b", 13_761_264_768), ("gpt_oss_120b", 65_248_815_744)]
)
def test_experts_in_mxfp4_have_the_published_bytes(name: str, published: int, tmp_path) -> None:
    files = json.loads((Path(__file__).parents[1] / "data/hf_configs_more.json").read_text())
    kept = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens"]
    section = {"quant_method": "mxfp4", "modules_to_not_convert": [*kept, "lm_head"]}
    assert model_of(tmp_path, files[name]["config"], section).stored_bytes == published


def test_head_and_embedding_of_a_quantised_file_keep_their_bits(tmp_path: Path) -> None:
    model = model_of(tmp_path, LLAMA31_8B, W4A16)
    # By hand: 6,979,321,856 weights of 4.125 bits, 2 x 525,336,576 and 266,240 of 16.
    assert model.stored_bytes == 5_700_591_616
    assert model.precision_of("head").bits == 16
    assert model.precision_of("mlp").bits == 4
    awq = model_of(tmp_path, LLAMA31_8B, AWQ)
    # AWQ stores a zero point of 4 bits for each group besides.
    assert awq.stored_bytes == 5_700_591_616 + 6_979_321_856 // 128 // 2


def bits_of(model: Model) -> dict[str, float]:
    """Stored bits of each role that differs, and of the rest."""
    by_role = {
        role: round(float(precision.bits_per_element), 4)
        for role in ("attention_qkv", "attention_output", "mlp", "embedding", "head", "norms")
        if (precision := model.weights_by_role.of(role)) is not None
    }
    return {"weights": round(float(model.weights.bits_per_element), 4), **by_role}


ENDS = {"embedding": 16, "head": 16, "norms": 16}
MLX = {"group_size": 64, "bits": 4}


@pytest.mark.parametrize(
    ("section", "bits"),
    [
        (AWQ, {"weights": 4 + 20 / 128, **ENDS}),
        (AWQ | {"modules_to_not_convert": ["mlp"]}, {"weights": 16, "attention_qkv": 4.1562}),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, {"weights": 8, **ENDS}),
        (GPTQ | {"lm_head": True}, {"weights": 4.1562, "embedding": 16, "norms": 16}),
        (
            GPTQ | {"dynamic": {r"-:.*\.o_proj": {}}},
            {"weights": 4.1562, "attention_output": 16, **ENDS},
        ),
        (NF4, {"weights": 4.5, **ENDS}),
        (NF4 | {"bnb_4bit_use_double_quant": True}, {"weights": 4.127, **ENDS}),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, {"weights": 8, **ENDS}),
        ({"quant_method": "fp8"}, {"weights": 8, **ENDS}),
        (
            {"quant_method": "fp8", "weight_block_size": [128, 128]},
            {"weights": 8 + 32 / 128**2, **ENDS},
        ),
        (W4A16, {"weights": 4.125, **ENDS}),
        (W8A8, {"weights": 8, **ENDS}),
        (
            compressed({"num_bits": 4, "type": "float", "strategy": "tensor_group"}),
            {"weights": 4.5, **ENDS},
        ),
        (
            W4A16 | {"ignore": ["lm_head", r"re:.*down_proj", "model.layers.0.self_attn.o_proj"]},
            # 4.125 and 16 bits, and the shapes of packed matrices.
            {"weights": 8.0833, "attention_qkv": 4.125, "attention_output": 4.125, **ENDS},
        ),
        ({"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4}}},
         {"weights": 4.5, **ENDS}),
        ({"quant_method": "torchao", "quant_type": "int4_weight_only",
          "quant_type_kwargs": {"group_size": 32}}, {"weights": 5, **ENDS}),
        ({"quant_method": "torchao", "quant_type": {"default": {
            "_type": "Int8WeightOnlyConfig", "_data": {}}}}, {"weights": 8, **ENDS}),
        ({"quant_method": "exl2", "bits": 4.25, "head_bits": 6},
         {"weights": 4.25, "embedding": 16, "head": 6, "norms": 16}),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]},
         {"weights": 4.5, **ENDS}),
        (MLX, {"weights": 4.5, "norms": 16}),
        (MLX | {"lm_head": {"bits": 8}, "model.embed_tokens": False},
         {"weights": 4.5, "head": 8.5, "embedding": 16, "norms": 16}),
    ],
)  # fmt: skip
def test_a_format_gives_bits_by_role(section: Any, bits: dict[str, float], tmp_path: Path) -> None:
    read = bits_of(model_of(tmp_path, TINY, section))
    assert {role: read[role] for role in bits} == pytest.approx(bits, abs=1e-3)
    if len(bits) > 2:
        assert set(read) == set(bits)


THREE = {"bits": 3, "group": None, "scale_bits": 0, "zero_bits": 0}
DYNAMIC = GPTQ | {"dynamic": {r"+:.*\.[01]\.mlp\..*": {"bits": 8}, r"-:.*\.3\.mlp\..*": {}}}


def mlp_bits(model: Model) -> list[float]:
    """Stored bits of the MLP's weights, [L]."""
    of_layers = [model.in_group(group).precision_of("mlp") for group in model.group_of]
    return [float(precision.bits_per_element) for precision in of_layers]


def test_bits_of_single_layers_are_kept(tmp_path: Path) -> None:
    model = model_of(tmp_path, TINY, DYNAMIC)
    assert mlp_bits(model) == [8 + 24 / 128, 8 + 24 / 128, 4 + 20 / 128, 16]
    assert bits_of(model)["weights"] == 4.1562
    mlp = 3 * 256 * 512
    rest = 4 * (2 * 256 * 256 + 2 * 256 * 128) * Fraction(133, 32)
    stored = mlp * sum(map(Fraction, mlp_bits(model))) + rest
    assert model.body_bytes == stored / 8 + 2 * model.body.norms


def test_roles_of_a_design_go_before_single_layers_of_a_file(tmp_path: Path) -> None:
    kept = {**TINY, "quantization_config": DYNAMIC}
    written = design_of(tmp_path, kept, weights_by_role={"mlp": THREE})
    assert mlp_bits(written.model) == [3, 3, 3, 3]
    plain = str(tmp_path / "d.yaml")
    design_of(tmp_path, kept)
    assert mlp_bits(load_design(plain, ["model.weights_by_role.mlp={bits: 3}"]).model) == [3] * 4
    assert mlp_bits(load_design(plain, ["model.weights.bits=3"]).model) == [3] * 4
    one = [{"layers": [2], "mlp": {"bits": 2}}]
    again = load_design(plain, [f"model.weights_by_layer={json.dumps(one)}"]).model
    assert mlp_bits(again)[2] == 2


@pytest.mark.parametrize(
    ("section", "activations", "kv"),
    [
        (AWQ, 16, 16),
        ({"quant_method": "fp8", "activation_scheme": "static"}, 8, 16),
        (W8A8 | {"kv_cache_scheme": {"num_bits": 8, "type": "float"}}, 16, 8),
        ({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}, 8, 8),
    ],
)
def test_a_format_gives_bits_of_activations_and_cache(section, activations, kv, tmp_path):
    model = model_of(tmp_path, TINY, section)
    assert (model.activations.bits, model.kv.bits) == (activations, kv)


def test_a_design_that_gives_weights_keeps_activations_and_cache_of_the_file(
    tmp_path: Path,
) -> None:
    cache = {"num_bits": 8, "type": "float"}
    inputs = {"num_bits": 8, "type": "int"}
    section = compressed({"num_bits": 8}, kv_cache_scheme=cache)
    section["config_groups"]["group_0"]["input_activations"] = inputs
    config = {**TINY, "quantization_config": section}
    model = design_of(tmp_path, config, weights={"bits": 4}).model
    assert (model.weights.bits, model.activations.bits, model.kv.bits) == (4, 8, 8)
    assert model.weights_by_role.head is None
    # Of a format that is not read, weights are the cure; the rest has the file's type.
    config["quantization_config"] = {"quant_method": "spqr"}
    model = design_of(tmp_path, config, weights={"bits": 4}).model
    assert (model.weights.bits, model.activations.bits, model.kv.bits) == (4, 16, 16)


def test_the_sidecar_of_modelopt_is_read(tmp_path: Path) -> None:
    sidecar = {
        "producer": {"name": "modelopt"},
        "quantization": {
            "quant_algo": "FP8",
            "kv_cache_quant_algo": None,
            "exclude_modules": ["lm_head", "model.layers.*.mlp*"],
        },
    }
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(sidecar), encoding="utf-8")
    model = model_of(tmp_path, TINY)
    assert bits_of(model)["weights"] == 16
    assert bits_of(model)["attention_qkv"] == 8
    sidecar["quantization"] = {"quant_algo": "W3A1"}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(sidecar), encoding="utf-8")
    with pytest.raises(
        InputError, match=r"hf_quant_config\.json: \$\.quantization\.quant_algo: 'W"
    ):
        model_of(tmp_path, TINY)


REFUSED = {
    "unknown": {"quant_method": "aqlm", "nbits": 2},
    "unnamed": {"weights": 4},
    "torchao": {"quant_method": "torchao", "quant_type": "uintx"},
    "modelopt": {"quant_method": "modelopt", "quant_algo": "W3"},
    "kv": {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "INT2"},
}


# The words of the cure are taken as they stand, and applied where a user can apply them.
@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("where", ["design", "file", "--set"])
def test_the_cure_of_a_refusal_works(name: str, where: str, tmp_path: Path, monkeypatch) -> None:
    with pytest.raises(InputError) as refused:
        model_of(tmp_path, TINY, REFUSED[name])
    advice = re.search(r"set (model\.\w+) in the design, such as (\{[^}]*\})", str(refused.value))
    assert advice is not None
    path, value = advice.groups()
    config = {**TINY, "quantization_config": REFUSED[name]}
    monkeypatch.chdir(tmp_path)
    if where == "--set":
        design = load_design("d.yaml", [f"{path}={value}"])
        assert load_design("kv260", ["model.from=config.json", f"{path}={value}"]).model
    elif where == "design":
        fields = {"bits": 4, "group": 128, "scale_bits": 16}
        design = design_of(tmp_path, config, weights=fields)
    else:
        text = (tmp_path / "d.yaml").read_text(encoding="utf-8")
        changed = text.replace('"from": "config.json"', f'"from": "config.json", weights: {value}')
        (tmp_path / "d.yaml").write_text(changed, encoding="utf-8")
        design = load_design("d.yaml")
    assert float(design.model.weights.bits_per_element) == 4.125
    assert design.model.weights_by_role.of("head") is None


@pytest.mark.parametrize(
    ("section", "line"),
    [
        (AWQ | {"bits": "4"}, "$.quantization_config.bits: should be a whole number"),
        ({"quant_method": "gptq"}, "$.quantization_config.bits: is missing; take the published"),
        (GPTQ | {"dynamic": {"+:(": {}}}, "'(' is no regular expression"),
        (GPTQ | {"dynamic": 3}, "$.quantization_config.dynamic: should hold keys, got 3"),
        ({"quant_method": "fp8", "weight_block_size": 128}, "should be two sizes such as"),
        ({"quant_method": "fp8", "activation_scheme": "x"}, "should be dynamic or static"),
        (compressed({"num_bits": 4, "strategy": "row"}), "'row' is none of tensor, channel"),
        ({"quant_method": "exl2", "bits": 99}, "a number of bits from 0.5 to 32, got 99"),
        ("awq", "$.quantization_config: should hold keys, got 'awq'"),
        (AWQ | {"modules_to_not_convert": "lm_head"}, "should be a list of names"),
    ],
)
def test_what_makes_no_sense_gets_one_line(section: Any, line: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        model_of(tmp_path, TINY, section)
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


# --------------------------------------------------------------------------- weight files


def write_safetensors(path: Path, tensors: dict[str, tuple[str, list[int]]]) -> int:
    """A file of zeros; returns the bytes of its tensors."""
    header: dict[str, Any] = {}
    end = 0
    for name, (dtype, shape) in tensors.items():
        nbytes = int(re.sub(r"\D", "", dtype)) // 8
        for size in shape:
            nbytes *= size
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + nbytes]}
        end += nbytes
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(end))
    return end


def tiny_tensors() -> dict[str, tuple[str, list[int]]]:
    """Tensors of a checkpoint of the tiny model."""
    tensors: dict[str, tuple[str, list[int]]] = {
        "model.embed_tokens.weight": ("BF16", [1024, 256]),
        "lm_head.weight": ("BF16", [1024, 256]),
        "model.norm.weight": ("BF16", [256]),
    }
    for layer in range(4):
        prefix = f"model.layers.{layer}."
        for name, shape in {
            "self_attn.q_proj": [256, 256],
            "self_attn.k_proj": [128, 256],
            "self_attn.v_proj": [128, 256],
            "self_attn.o_proj": [256, 256],
            "mlp.gate_proj": [512, 256],
            "mlp.up_proj": [512, 256],
            "mlp.down_proj": [256, 512],
            "input_layernorm": [256],
            "post_attention_layernorm": [256],
        }.items():
            tensors[f"{prefix}{name}.weight"] = ("BF16", shape)
    return tensors


def test_weight_files_are_compared_byte_for_byte(tmp_path: Path) -> None:
    tensors = tiny_tensors()
    tensors["vision_tower.patch.weight"] = ("F32", [16, 16])  # left out
    write_safetensors(tmp_path / "model.safetensors", tensors)
    model_of(tmp_path, TINY)  # not a word
    tensors["model.layers.0.self_attn.q_proj.bias"] = ("BF16", [256])
    write_safetensors(tmp_path / "model.safetensors", tensors)
    with pytest.warns(StoredSizeWarning, match=r"512 more \(0\.0\d+ %\)"):
        model_of(tmp_path, TINY)


def test_the_total_of_an_index_is_compared(tmp_path: Path) -> None:
    total = write_safetensors(tmp_path / "a.safetensors", tiny_tensors())
    index = {
        "metadata": {"total_size": total},
        "weight_map": {"lm_head.weight": "a.safetensors"},
    }
    place = tmp_path / "model.safetensors.index.json"
    place.write_text(json.dumps(index), encoding="utf-8")
    model_of(tmp_path, TINY)
    (tmp_path / "a.safetensors").unlink()
    with pytest.warns(StoredSizeWarning, match="names 1 file, none of which lies beside it"):
        model_of(tmp_path, TINY)
    index["metadata"]["total_size"] = total - 2
    place.write_text(json.dumps(index), encoding="utf-8")
    with pytest.warns(StoredSizeWarning) as said:
        model_of(tmp_path, TINY)
    assert f"bytes; model.safetensors.index.json has {total - 2:,}, 2 less" in str(said[1].message)


def test_an_index_that_names_absent_shards_gets_one_line(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "a.safetensors", tiny_tensors())
    index = {"weight_map": {"x": "a.safetensors", "y": "b.safetensors", "z": "c.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    with pytest.raises(InputError, match=r"names 2 absent files of 3: b\.safetensors; fetch"):
        model_of(tmp_path, TINY)


HEADER = b'{"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}'
DAMAGED = {
    "empty": b"",
    "truncated header": struct.pack("<Q", len(HEADER)) + HEADER[:9],
    "header larger than its file": struct.pack("<Q", 1 << 40) + HEADER,
    "truncated tensors": struct.pack("<Q", len(HEADER)) + HEADER + b"\0",
    "no JSON": struct.pack("<Q", 5) + b"hello",
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_weight_file_gets_one_line(name: str, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(DAMAGED[name])
    with pytest.raises(InputError) as refused:
        model_of(tmp_path, TINY)
    assert re.search(
        r"model\.safetensors: is no complete safetensors file \(.*\); fetch it again, whole$",
        str(refused.value),
    )
    assert "\n" not in str(refused.value)


def test_expected_bytes_count_what_is_not_quantised(tmp_path: Path) -> None:
    body = model_of(tmp_path, TINY).body
    assert expected_bytes([], body, 16) == 2 * body.norms

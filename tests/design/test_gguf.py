"""GGUF: files that the library writes, and types by name with their published sizes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from strategies import raw_design

from carsim.base.errors import InputError
from carsim.design import Design, load_design
from carsim.workload.model import Model

gguf = pytest.importorskip("gguf")

LLAMA31_8B: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
}


def design_with(folder: Path, model: dict[str, Any]) -> Design:
    """A small design with this section on its model."""
    (folder / "d.yaml").write_text(json.dumps(raw_design() | {"model": model}), encoding="utf-8")
    return load_design(str(folder / "d.yaml"))


def of_type(folder: Path, name: str) -> Model:
    """Llama-3.1-8B in a type of GGUF."""
    (folder / "config.json").write_text(json.dumps(LLAMA31_8B), encoding="utf-8")
    return design_with(folder, {"from": "config.json", "weights": name}).model


# Sizes of bartowski/Meta-Llama-3.1-8B-Instruct-GGUF, of which 8 MB are metadata and tokenizer.
@pytest.mark.parametrize(
    ("name", "gigabytes"),
    [
        ("q8_0", 8.54),
        ("q6_k", 6.60),
        ("q5_k_m", 5.73),
        ("q5_k_s", 5.60),
        ("q4_k_m", 4.92),
        ("q4_k_s", 4.69),
        ("q3_k_l", 4.32),
        ("q3_k_m", 4.02),
        ("q3_k_s", 3.66),
        ("q2_k", 3.18),
        ("f16", 16.07),
    ],
)
def test_a_type_by_name_has_its_published_size(name: str, gigabytes: float, tmp_path: Path) -> None:
    file_bytes = of_type(tmp_path, name).stored_bytes + 8e6
    assert round(file_bytes / 1e9, 2) == pytest.approx(gigabytes, abs=0.0051)


def test_a_type_by_name_sets_bits_by_role(tmp_path: Path) -> None:
    model = of_type(tmp_path, "q4_k_m")
    assert float(model.precision_of("attention_output").bits_per_element) == 4.5
    assert float(model.precision_of("head").bits_per_element) == 6.5625
    assert float(model.precision_of("embedding").bits_per_element) == 4.5
    assert model.precision_of("norms").bits == 32
    # Half of the layers have 6.5625 bits in the last of three matrices of the MLP, others 4.5.
    of_layers = [model.in_group(group).precision_of("mlp") for group in model.group_of]
    bits = [round(float(precision.bits_per_element), 4) for precision in of_layers]
    assert {each: bits.count(each) for each in bits} == {5.1875: 16, 4.5: 16}
    assert bits[:5] == [5.1875] * 4 + [4.5]


def test_a_type_by_name_works_with_set_and_over_a_preset(tmp_path: Path) -> None:
    model = load_design("kv260", ["model.preset=llama3_8b", "model.weights=Q8_0"]).model
    assert float(model.weights.bits_per_element) == 8.5
    with pytest.raises(InputError, match=r"weights.*: 'q4_k_x' is no precision; did you mean"):
        load_design("kv260", ["model.preset=llama3_8b", "model.weights=q4_k_x"])
    with pytest.raises(InputError, match="'q8_0' is for models with a vocabulary"):
        load_design("zcu102", ["model.weights=q8_0"])


def write_gguf(path: Path, architecture: str = "llama") -> None:
    """A file of two layers: most matrices in Q4_K, values and the classifier in Q6_K."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name("Tiny")
    writer.add_block_count(2)
    writer.add_context_length(2048)
    writer.add_embedding_length(256)
    writer.add_feed_forward_length(512)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_vocab_size(1024)
    types = gguf.GGMLQuantizationType

    def add(name: str, outputs: int, inputs: int, kind: Any) -> None:
        weights, nbytes = gguf.GGML_QUANT_SIZES[kind]
        data = np.zeros((outputs, inputs // weights * nbytes), np.uint8)
        writer.add_tensor(f"{name}.weight", data, raw_dtype=kind)

    add("token_embd", 1024, 256, types.Q4_K)
    add("output", 1024, 256, types.Q6_K)
    for layer in range(2):
        prefix = f"blk.{layer}."
        add(f"{prefix}attn_q", 256, 256, types.Q4_K)
        add(f"{prefix}attn_k", 128, 256, types.Q4_K)
        add(f"{prefix}attn_v", 128, 256, types.Q6_K)
        add(f"{prefix}attn_output", 256, 256, types.Q4_K)
        add(f"{prefix}ffn_gate", 512, 256, types.Q4_K)
        add(f"{prefix}ffn_up", 512, 256, types.Q4_K)
        add(f"{prefix}ffn_down", 256, 512, types.Q4_K)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_a_gguf_file_gives_shape_and_bits(tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf")
    model = design_with(tmp_path, {"from": "tiny.gguf"}).model
    body = model.body
    assert (model.name, model.context) == ("Tiny", 2048)
    assert (body.n_layers, body.hidden_size, body.n_kv_heads, body.ffn_size) == (2, 256, 2, 512)
    assert float(model.precision_of("mlp").bits_per_element) == 4.5
    assert float(model.precision_of("head").bits_per_element) == 6.5625
    # Of 512 outputs of Q, K and V, 128 have 6.5625 bits.
    qkv = float(model.precision_of("attention_qkv").bits_per_element)
    assert qkv == pytest.approx(4.5 + 2.0625 / 4)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda data: data[: len(data) // 2], "is no complete GGUF file"),
        (lambda data: b"junk" * 20, "is no complete GGUF file"),
        (lambda data: data.replace(b"llama", b"rwkvx", 1), "general.architecture: 'rwkvx' is none"),
    ],
)
def test_a_damaged_gguf_file_gets_one_line(change: Any, line: str, tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf")
    data = change((tmp_path / "tiny.gguf").read_bytes())
    (tmp_path / "tiny.gguf").write_bytes(data)
    with pytest.raises(InputError) as refused:
        design_with(tmp_path, {"from": "tiny.gguf"})
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_name_of_hugging_face_gets_the_command_that_fetches_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'hf download meta-llama/Llama-3\.1-8B --include"):
        design_with(tmp_path, {"from": "meta-llama/Llama-3.1-8B"})


def test_a_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA31_8B), encoding="utf-8-sig")
    assert design_with(tmp_path, {"from": "config.json"}).model.body.n_layers == 32

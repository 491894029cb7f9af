"""Types of model beyond LLaMA's: parameters of published checkpoints, synonyms, true refusals."""

import json
from pathlib import Path
from typing import Any

import pytest
from strategies import raw_design

from carsim.base.errors import InputError
from carsim.design import Design, load_design
from carsim.workload.attention import qkv_op
from carsim.workload.mlp import mlp_ops
from carsim.workload.ops import Share

PUBLISHED = json.loads(
    (Path(__file__).parents[1] / "data/hf_configs_more.json").read_text(encoding="utf-8")
)
del PUBLISHED["about"]
CONFIGS = {name: entry["config"] for name, entry in PUBLISHED.items()}


def design_of(folder: Path, config: dict[str, Any], **model: Any) -> Design:
    """A small design whose model is read from a file beside it."""
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    raw = raw_design() | {"model": {"from": "config.json", **model}}
    (folder / "d.yaml").write_text(json.dumps(raw), encoding="utf-8")
    return load_design(str(folder / "d.yaml"))


@pytest.mark.parametrize("name", CONFIGS)
def test_a_file_has_as_many_parameters_as_its_checkpoint(name: str, tmp_path: Path) -> None:
    model = design_of(tmp_path, CONFIGS[name]).model
    assert model.parameters == PUBLISHED[name]["parameters"]
    if "bytes" in PUBLISHED[name]:
        assert model.stored_bytes == PUBLISHED[name]["bytes"]


@pytest.mark.parametrize(
    ("name", "window", "global_layers"),
    [
        ("gpt_oss_20b", 128, tuple(range(1, 24, 2))),
        ("command_r7b", 4096, tuple(range(3, 32, 4))),
        ("llama4_scout", 8192, tuple(range(3, 48, 4))),
        ("olmo2_7b", None, ()),
    ],
)
def test_windows_by_layer(name: str, window: int, global_layers: tuple[int, ...], tmp_path: Path):
    body = design_of(tmp_path, CONFIGS[name]).model.body
    assert (body.window, body.global_layers) == (window, global_layers)


def test_layers_with_experts_alternate_with_others_in_llama4_maverick(tmp_path: Path) -> None:
    model = design_of(tmp_path, CONFIGS["llama4_maverick"]).model
    body = model.body
    assert [body.is_dense(layer) for layer in range(4)] == [True, False, True, False]
    assert body.experts is not None
    assert (body.experts.count, body.experts.shared_ffn_size) == (128, 8192)
    # One MLP of 16384 for all tokens, against a router, one expert and the shared one of 8192.
    dense = sum(int(op.stream_bytes) for op in mlp_ops(model, Share(1), dense=True))
    routed = sum(int(op.stream_bytes) for op in mlp_ops(model, Share(1)))
    assert dense == 2 * 3 * 5120 * 16384
    assert routed == 2 * (3 * 5120 * (8192 + 8192) + 5120 * 128)


def test_experts_of_gpt_oss_move_their_biases(tmp_path: Path) -> None:
    model = design_of(tmp_path, CONFIGS["gpt_oss_20b"]).model
    router, gate_up, down = mlp_ops(model, Share(1))
    # 4 experts of 4.25 bits, with biases of 16 bits.
    assert gate_up.stream_bytes == 4 * (2880 * 5760 * 17 // 32 + 2 * 5760)
    assert down.stream_bytes == 4 * (2880 * 2880 * 17 // 32 + 2 * 2880)
    assert router.stream_bytes == 2 * 2880 * 32
    # Attention stays at 16 bits, biases included.
    assert qkv_op(model, Share(1)).stream_bytes == 2 * (2880 + 1) * (4096 + 2 * 512)


# As published: Qwen2-VL keeps the text's keys at the top, Mistral-3 and Llama-4 hold them one level
# down, Kimi-K2 is DeepSeek-V3 under a name of its own.
@pytest.mark.parametrize("outer", ["llava", "qwen2_5_omni", "some_new_model"])
@pytest.mark.parametrize("key", ["text_config", "language_config", "llm_config"])
def test_a_known_type_is_read_one_level_down(outer: str, key: str, tmp_path: Path) -> None:
    inner = {"model_type": "qwen3", **PUBLISHED["mistral_small_3.1"]["config"]["text_config"]}
    inner["model_type"] = "qwen3"
    body = design_of(tmp_path, {"model_type": outer, key: inner}).model.body
    assert body.qk_norm
    assert body.hidden_size == 5120


def test_the_language_model_of_vila_u_lies_in_a_folder(tmp_path: Path) -> None:
    outer = {"model_type": "vila_u_llama", "llm_cfg": {"_name_or_path": "llm"}, "hidden_size": 4096}
    (tmp_path / "llm").mkdir()
    (tmp_path / "config.json").write_text(json.dumps(outer), encoding="utf-8")
    inner = {
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_attention_heads": 32,
        "num_hidden_layers": 32,
        "vocab_size": 48000,
        "torch_dtype": "bfloat16",
    }
    (tmp_path / "llm/config.json").write_text(json.dumps(inner), encoding="utf-8")
    model = load_design("zcu102", [f"model.from={tmp_path}"]).model
    preset = load_design("zcu102").model
    assert model.body == preset.body
    assert model.head == preset.head
    assert model.video == preset.video
    assert model.makes == "video"
    assert model.weights.bits == 16


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("mamba2", "recurrent state of fixed size (Mamba-2)"),
        ("jamba", "recurrent state of fixed size (Mamba)"),
        ("qwen3_next", "recurrent state of fixed size (gated linear attention)"),
        ("t5", "cross-attention to an encoder"),
    ],
)
def test_a_type_that_cannot_be_simulated_is_refused_with_its_reason(kind, reason, tmp_path):
    with pytest.raises(InputError) as refused:
        design_of(tmp_path, {"model_type": kind})
    assert f"$.model_type: '{kind}' is not read: layers" in str(refused.value) or kind == "t5"
    assert reason in str(refused.value)


def test_a_slip_in_a_type_gets_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'gpt_oss'"):
        design_of(tmp_path, {"model_type": "gpt-oss"})


# RoPE scaling: Qwen3's model card tells users to add this section; the file keeps 40960.
def test_yarn_stretches_the_longest_context(tmp_path: Path) -> None:
    config = {
        **PUBLISHED["qwen2.5_vl_7b"]["config"],
        "model_type": "qwen2",
        "max_position_embeddings": 32768,
        "rope_scaling": {
            "type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 32768,
        },
    }
    assert design_of(tmp_path, config).model.context == 131_072
    # gpt-oss gives the stretched length itself.
    assert design_of(tmp_path, CONFIGS["gpt_oss_20b"]).model.context == 131_072


def test_experts_in_every_second_layer_leave_the_others_one_mlp(tmp_path: Path) -> None:
    config = {
        "model_type": "qwen3_moe",
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_attention_heads": 4,
        "num_hidden_layers": 4,
        "vocab_size": 1024,
        "head_dim": 64,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 128,
        "decoder_sparse_step": 2,
    }
    body = design_of(tmp_path, config).model.body
    assert [body.is_dense(layer) for layer in range(4)] == [True, False, True, False]
    # Two MLPs of 512, and twice 8 experts of 128 with their router.
    assert body.mlp_weights == 2 * 3 * 256 * 512 + 2 * (8 * 3 * 256 * 128 + 8 * 256)

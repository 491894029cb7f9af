"""Precision of the weights by role: bytes of published checkpoints, resources, and documents."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from carsim.base.errors import InputError
from carsim.cost.capacity import capacity
from carsim.cost.fit import check_fit, resource_fit
from carsim.design import Design, build_design, load_design, override
from carsim.hardware.machine import Array
from carsim.machine.array import gemm_cycles
from carsim.runs.decode import decode
from carsim.workload.attention import output_op, qkv_op
from carsim.workload.geometry import Video
from carsim.workload.head import head_op, head_passes
from carsim.workload.mlp import mlp_ops
from carsim.workload.ops import Gemm, Share

LLAMA_31_8B = {
    "name": "Llama-3.1-8B",
    "body": {
        "n_layers": 32,
        "hidden_size": 4096,
        "n_heads": 32,
        "n_kv_heads": 8,
        "ffn_size": 14336,
    },
    "head": {"kind": "linear", "vocabulary": 128_256, "embedding": "separate"},
    "kv": {"bits": 16},
    "activations": {"bits": 16},
    "replay": {"bits": 16},
}
W4 = {"bits": 4, "group": 128, "scale_bits": 16}
PLAIN_16 = {"bits": 16}
KEPT = {"embedding": PLAIN_16, "head": PLAIN_16, "norms": PLAIN_16}


def design(weights: Any, by_role: Any = None, base: str = "zcu102_16gb") -> Design:
    """A shipped design with Llama-3.1-8B in these precisions."""
    raw = load_design(base).model_dump()
    raw["model"] = LLAMA_31_8B | {"weights": weights} | {"weights_by_role": by_role or {}}
    return build_design(raw, "a test")


def test_bytes_of_a_published_w4a16_checkpoint() -> None:
    # RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16 has 5,700,595,200 bytes of tensors:
    # 3584 of them are the shapes of its 224 packed matrices, two numbers of 8 bytes each.
    model = design(W4, KEPT).model
    assert model.stored_bytes == 5_700_591_616 == 5_700_595_200 - 224 * 16
    # By hand: 6,979,321,856 weights of 4.125 bits, 1,050,673,152 of 16, 266,240 of norms.
    assert model.body_bytes == 6_979_321_856 * 33 // 64 + 2 * 266_240
    assert model.head_bytes == model.embedding_bytes == 2 * 128_256 * 4096


def test_each_role_is_stored_and_moved_in_its_own_precision() -> None:
    roles = {"attention": {"bits": 8}, "attention_output": {"bits": 2}, "mlp": {"bits": 3}}
    model = design({"bits": 4}, roles | {"head": {"bits": 16}}).model
    share = Share(1)
    # 4096 x (4096 + 2 x 1024) of 8 bits; 4096 x 4096 of 2; 3 x 4096 x 14336 of 3.
    assert qkv_op(model, share).stream_bytes == 4096 * 6144
    assert output_op(model, share).stream_bytes == 4096 * 4096 // 4
    assert sum(op.stream_bytes for op in mlp_ops(model, share)) == 3 * 4096 * 14336 * 3 // 8
    logits = head_op(model, head_passes(model)[0].steps[0], share)
    assert logits.stream_bytes == 2 * 4096 * 128_256
    layer = 4096 * 6144 + 4096 * 4096 // 4 + 3 * 4096 * 14336 * 3 // 8
    assert model.body_bytes == 32 * layer


def test_experts_router_and_shared_experts_have_roles_of_their_own() -> None:
    experts = {"count": 4, "active": 2, "shared_ffn_size": 16}
    body = {"n_layers": 2, "hidden_size": 8, "n_heads": 2, "n_kv_heads": 1, "ffn_size": 32}
    raw = load_design("zcu102_16gb").model_dump()
    raw["model"] |= {"body": body | {"experts": experts}, "weights": {"bits": 8}}
    roles = {"experts": {"bits": 4}, "shared_experts": {"bits": 16}, "router": {"bits": 32}}
    model = build_design(raw | {"model": raw["model"] | {"weights_by_role": roles}}, "x").model
    router, gate_up, down = mlp_ops(model, Share(1))
    # One token goes through 2 experts of 3 matrices of 8 x 32 in 4 bits, and a shared one of 16.
    assert router.stream_bytes == 4 * 8 * 4
    assert gate_up.stream_bytes + down.stream_bytes == 3 * (2 * 8 * 32 // 2 + 2 * 8 * 16)
    attention = 8 * (8 + 2 * 4 + 8)
    stored = 3 * (4 * 8 * 32 // 2 + 2 * 8 * 16) + 4 * 8 * 4
    assert model.body_bytes == 2 * (attention + stored)


@pytest.mark.parametrize("role", ["experts", "shared_experts", "router"])
def test_a_role_without_weights_is_refused(role: str) -> None:
    with pytest.raises(InputError, match=f"weights_by_role.{role}.* no weights of that role"):
        design(W4, {role: PLAIN_16})
    with pytest.raises(InputError, match="unknown key 'heads'; did you mean 'head'"):
        design(W4, {"heads": PLAIN_16})


def test_a_design_that_says_nothing_of_roles_keeps_its_document_and_its_hash() -> None:
    shipped = load_design("zcu102_16gb")
    assert "weights_by_role" not in shipped.model_dump_json()
    again = override(shipped, {"model.weights_by_role": {}})
    assert again.sha256 == shipped.sha256
    named = override(shipped, {"model.weights_by_role.head.bits": 16})
    assert named.model_dump(mode="json")["model"]["weights_by_role"] == {
        "head": PLAIN_16
        | {"group": None, "scale_bits": 0, "zero_bits": 0, "density": 1.0, "index_bits": 0}
    }
    assert build_design(named.model_dump(), "again") == named


def test_memory_holds_head_and_embedding_in_their_own_precision() -> None:
    video = Video(n_frames=1, tokens_per_frame=16, prompt_tokens=4)
    held = {}
    for memory in capacity(design(W4, KEPT), video):
        held |= {content.content: content.nbytes for content in memory.contents}
    assert held["head"] == held["embedding"] == 2 * 128_256 * 4096
    assert held["weights"] == 6_979_321_856 * 33 // 64 + 2 * 266_240


def test_the_usual_weights_set_the_port_and_any_group_a_dequantiser() -> None:
    plain = override(design({"bits": 3}), {"machine.array.arithmetic": "int8", "model.kv.bits": 3})

    def parts(by_role: Any) -> dict[str, Any]:
        return dict(
            resource_fit(override(plain, {"model.weights_by_role": by_role})).resources.by_component
        )

    narrow, wide, grouped = parts({}), parts({"head": PLAIN_16}), parts({"mlp": W4})
    # A 16-bit head does not make the port wider, which is read for longer instead.
    assert wide["weight buffers"] == narrow["weight buffers"]
    assert narrow["dequantisers"]["dsp"] == wide["dequantisers"]["dsp"] == 0
    assert grouped["dequantisers"]["dsp"] > 0
    # Norms and the embedding do not pass the array.
    assert parts({"embedding": PLAIN_16, "norms": PLAIN_16}) == narrow


def test_a_wider_role_is_read_for_longer_and_a_narrower_one_no_faster() -> None:
    model = design({"bits": 4}, {"head": PLAIN_16, "mlp": {"bits": 3}, "attention": W4}).model
    share = Share(1)
    (logits,) = head_op(model, head_passes(model)[0].steps[0], share).gemms
    (gate_up,) = mlp_ops(model, share)[0].gemms
    (output,) = output_op(model, share).gemms
    assert logits.read_cycles == 4
    assert gate_up.read_cycles == 1
    assert output.read_cycles == Fraction(33, 32)  # 4.125 bits through a port for 4


@pytest.mark.parametrize(
    ("array", "rows", "cycles"),
    [
        # 2 x 3 tiles of 32 x 16 weights: each takes 4 cycles to read, and rows of activations pass
        # it in one cycle each.
        ({}, 1, 6 * 4),
        ({}, 3, 6 * 4),
        ({}, 9, 6 * 9),
        ({}, 0, 0),
        ({"weight_load": "rows"}, 9, 6 * (9 + 4 * 32)),
        ({"weight_load": "full_fold"}, 9, 6 * (9 + 4 * 32 + 32 + 16 - 2)),
        # Systolic arrays add the skew of 32 + 16 - 2 cycles.
        ({"dataflow": "weight_stationary"}, 1, 6 * 4 + 46),
        ({"dataflow": "weight_stationary", "weight_load": "rows"}, 9, 128 + 5 * 128 + 9 + 46),
        # Weights stream through these: 1 x 3 tiles of 64 inputs, 2 x 1 tiles of 48 outputs.
        ({"dataflow": "output_stationary"}, 9, 3 * 4 * 64 + 46),
        ({"dataflow": "input_stationary", "weight_load": "full_fold"}, 9, 2 * (32 + 4 * 48 + 46)),
    ],
)
def test_cycles_of_weights_four_times_as_wide_as_the_port(
    array: dict[str, str], rows: int, cycles: int
) -> None:
    made = Array.model_validate({"rows": 32, "cols": 16, "pipeline_cycles": 0, **array})
    product = Gemm(rows, k=64, n=48, read_cycles=Fraction(4))
    assert gemm_cycles(made, [product]) == cycles
    many = Gemm(np.array([rows, rows]), k=64, n=48, read_cycles=Fraction(4))
    assert gemm_cycles(made, [many]).tolist() == [cycles, cycles]


def test_a_wide_head_takes_longer_where_the_array_is_the_limit() -> None:
    changes = {
        "machine.cores": 1,
        "machine.array": {"rows": 8, "cols": 8, "arithmetic": "fp16"},
        "policy.batch": 1,
    }

    def cycles(by_role: Any) -> int:
        made = override(design({"bits": 4}, by_role), changes)
        return decode(made, 16, 16).cycles_per_step

    # One token: each tile of 8 x 8 weights of the classifier takes four cycles instead of one.
    tiles = 4096 * 128_256 // 64
    more = cycles({"head": PLAIN_16}) - cycles({})
    assert more == pytest.approx(3 * tiles, rel=1e-3)


def by_layer(*entries: Any, **changes: Any) -> Design:
    """A design with a model of six layers, whose weights differ from layer to layer."""
    small = {"model.body": {**LLAMA_31_8B["body"], "n_layers": 6, "ffn_size": 2048}}
    made = override(design({"bits": 4}, {"head": PLAIN_16}), small | changes)
    return override(made, {"model.weights_by_layer": entries})


def test_layers_take_the_time_of_their_own_precision() -> None:
    wide = {"mlp": {"bits": 8}, "attention": {"bits": 16}}
    none, some, every = (
        decode(by_layer({"layers": layers, **wide}) if layers else by_layer(), 64, 64)
        for layers in ((), (1, 4), tuple(range(6)))
    )
    assert none.cycles_per_step < some.cycles_per_step
    # Phases depend on nothing but their layer, so that two of six layers take a third of the way.
    wider = every.cycles_per_step - none.cycles_per_step
    assert some.cycles_per_step - none.cycles_per_step == wider / 3
    same = decode(by_layer(**{"model.weights_by_role": {"head": PLAIN_16, **wide}}), 64, 64)
    assert same.cycles_per_step == every.cycles_per_step
    moved = [sum(each.simulation.decode_activity.dram_bytes.values()) for each in (none, some)]
    attention = 2 * 4096 * (4096 + 1024)
    assert moved[1] - moved[0] == 2 * (3 * 4096 * 2048 * 4 + attention * 12) // 8


def test_layers_are_counted_one_by_one_in_bytes_and_means() -> None:
    made = by_layer({"layers": ("0-2", 5), "mlp": {"bits": 8}}, {"layers": (5,), "mlp": W4})
    model = made.model
    assert [list(layers) for layers in model.layer_groups.values()] == [[0, 1, 2], [3, 4], [5]]
    mlp = 3 * 4096 * 2048
    attention = 2 * 4096 * (4096 + 1024)
    bits = 6 * attention * 4 + mlp * (3 * 8 + 2 * 4 + Fraction(33, 8))
    assert model.body_bytes == bits / 8
    assert model.mean_layer_bits == bits / (6 * (attention + mlp))
    assert {each.bits for each in model.multiplied(with_head=False)} == {4, 8}
    again = build_design(made.model_dump(mode="json"), "again")
    assert again.model == model
    plain = by_layer()
    assert "weights_by_layer" not in plain.model_dump_json()


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"layers": (6,), "mlp": W4}, r"weights_by_layer.0.layers: no layer 6 among 6.* 0 to 5"),
        ({"layers": (), "mlp": W4}, r"layers: is empty"),
        ({"layers": ("5-2",), "mlp": W4}, r"'5-2' ends before it begins"),
        ({"layers": ("x",), "mlp": W4}, r"weights_by_layer.0.layers"),
        ({"layers": (0,), "head": W4}, r"head: the role head lies outside .* weights_by_role"),
        ({"layers": (0,), "router": W4}, r"router: these layers have no weights of that role"),
    ],
)
def test_entries_of_layers_that_make_no_sense_get_one_line(entry: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        by_layer(entry)


def test_weights_wider_than_the_array_are_warned_of() -> None:
    video = Video(n_frames=1, tokens_per_frame=16, prompt_tokens=4)
    warnings = check_fit(override(design(W4, KEPT), {"machine.array.arithmetic": "int8"}), video)
    assert "head of 16 bits is rounded to the 8 of the array" in " ".join(warnings.warnings)
    fine = check_fit(override(design(W4, KEPT), {"machine.array.arithmetic": "fp16"}), video)
    assert not any("is rounded" in line for line in fine.warnings)

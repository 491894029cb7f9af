"""What published models need of their description: head size, plain MLPs, pruned weights."""

from typing import Any

import pytest
from strategies import raw_design

from carsim.design import Design, build_design, load_design
from carsim.workload.attention import attend_op, output_op, qkv_op
from carsim.workload.body import Body
from carsim.workload.mlp import mlp_ops
from carsim.workload.ops import Share
from carsim.workload.precision import Precision, WeightPrecision

QWEN = Body(n_layers=28, hidden_size=1024, n_heads=16, n_kv_heads=8, ffn_size=3072, head_size=128)
GPT2 = Body(n_layers=24, hidden_size=1024, n_heads=16, n_kv_heads=16, ffn_size=4096, mlp="plain")


def design(**model: Any) -> Design:
    raw = raw_design()
    raw["model"] |= model
    return build_design(raw, "small")


def test_a_plain_mlp_has_two_matrices() -> None:
    # GPT-2 345M: 12 d^2 a layer, and 353.5 million with its classifier over 50,257 tokens.
    assert GPT2.weights == 24 * 12 * 1024**2
    assert GPT2.weights + 1024 * 50_257 == pytest.approx(353.5e6, rel=1e-3)


def test_ops_of_wide_heads_stream_all_their_weights_and_keys() -> None:
    model = load_design("zcu102").model.model_copy(
        update={"body": QWEN, "weights": WeightPrecision(bits=8), "kv": Precision(bits=8)}
    )
    qkv, attend, output = (
        qkv_op(model, Share(1)),
        attend_op(model, Share(1), 10),
        output_op(model, Share(1)),
    )
    gate_up, down = mlp_ops(model, Share(1))
    ops = (qkv, output, gate_up, down)
    assert sum(op.stream_bytes for op in ops) == QWEN.weights // QWEN.n_layers
    assert sum(op.macs for op in ops) == QWEN.weights // QWEN.n_layers
    assert attend.stream_bytes == 10 * 2 * 1024
    assert attend.macs == 10 * 2 * 2048
    assert attend.gathered_elements == 2048


def test_pruned_weights_are_neither_moved_nor_multiplied() -> None:
    dense = design(weights={"bits": 4}).model
    pruned = design(weights={"bits": 4, "density": 0.5, "index_bits": 2}).model
    # Half of the weights, each 4 bits and 2 to place it: 3 bits per weight of the whole matrix.
    assert pruned.weights.bits_per_element == 3
    for whole, half in zip(
        (qkv_op(dense, Share(1)), *mlp_ops(dense, Share(1))),
        (qkv_op(pruned, Share(1)), *mlp_ops(pruned, Share(1))),
        strict=True,
    ):
        assert half.macs * 2 == whole.macs
        assert half.stream_bytes * 4 == whole.stream_bytes * 3
    attend = (attend_op(model, Share(1), 7) for model in (dense, pruned))
    assert len({(op.macs, op.stream_bytes) for op in attend}) == 1


def test_mean_bits_are_exact_decimals() -> None:
    assert Precision(bits=4.15).bytes_of(800) == 415
    assert WeightPrecision(bits=8, density=0.1).kept(30) == 3
    assert design(weights={"bits": 3.5}).model.weights.bytes_of(16) == 7

"""What a layer-step and a head ask for; every figure with its derivation."""

from typing import get_args

import pytest
from tiny import head_weights_per_step

from carsim.decisions.trace.precision import PRODUCTS
from carsim.design import load_design
from carsim.workload.attention import attend_op, output_op, qkv_op
from carsim.workload.body import Product
from carsim.workload.head import head_op, head_passes
from carsim.workload.mlp import mlp_ops, replay_op
from carsim.workload.model import Model
from carsim.workload.ops import Category, Gemm, Op, Share, Stream
from carsim.workload.precision import Precision

VILA_U = load_design("zcu102_16gb").model  # d = 4096, 32 heads of 128, ff = 11008, 32 layers

PROMPT, STEPS = 62, 8 * 256


def head_ops(model: Model, rows: int, *, guided: bool = True) -> list[Op]:
    return [
        head_op(model, step, Share(rows), codes)
        for steps, codes in head_passes(model, guided=guided)
        for step in steps
    ]


def test_macs_of_vila_u() -> None:
    # Q, K, V and output: 4 d^2 = 4 x 4096^2 = 67,108,864 a layer, 2.147e9 over 32 layers.
    ops = (qkv_op(VILA_U, Share(1)), output_op(VILA_U, Share(1)))
    assert 32 * sum(op.macs for op in ops) == 32 * 4 * 4096**2 == 2_147_483_648
    # Gate, up and down: 3 d ff = 3 x 4096 x 11008 = 135,266,304 a layer, 4.329e9 over 32 layers.
    ops = mlp_ops(VILA_U, Share(1))
    assert 32 * sum(op.macs for op in ops) == 32 * 3 * 4096 * 11008 == 4_328_521_728
    # Scores and weighted sum: 2 d per attended token and layer, 262,144 x context over 32 layers:
    # 0.2848e9 at the mean context of 1086.5.
    for context in (1, 63, 1000, 2110):
        assert 32 * attend_op(VILA_U, Share(1), context).macs == 262_144 * context


def test_weights_of_vila_u_take_4_15625_bits_each() -> None:
    # 4 bits, and 16 + 4 for each group of 128. 6.476e9 x 4.15625 / 8 = 3.364e9 B.
    assert VILA_U.weights.bits_per_element == pytest.approx(4 + 20 / 128, abs=0)
    assert VILA_U.weights.bytes_of(VILA_U.body.weights) == 6_476_005_376 * 133 // 256
    layer = (qkv_op(VILA_U, Share(1)), output_op(VILA_U, Share(1)), *mlp_ops(VILA_U, Share(1)))
    assert 32 * sum(op.stream_bytes for op in layer) == 3_364_487_168
    assert all(op.stream is Stream.WEIGHTS for op in layer)


def test_kv_bytes_of_vila_u() -> None:
    # K and V: 2 d = 8192 B per token and layer at 8 bit; a whole video is 2110 x 32 x 8192 B.
    op = attend_op(VILA_U, Share(1), 1000)
    assert op.stream is Stream.KV
    assert op.stream_bytes == 1000 * 8192
    assert op.kv_side_bytes == 8192  # the token's own, written
    assert 32 * attend_op(VILA_U, Share(1), PROMPT + STEPS).stream_bytes == 553_123_840
    # With 4 bits and 16 + 16 per group of 128, 4.25 / 8 of that: 0.294e9 B.
    narrow = VILA_U.model_copy(
        update={"kv": Precision(bits=4, group=128, scale_bits=16, zero_bits=16)}
    )
    assert 32 * attend_op(narrow, Share(1), PROMPT + STEPS).stream_bytes == 293_847_040


def test_replay_bytes_of_vila_u() -> None:
    # One output of d = 4096 at 16 bit: 8192 B, read by who replays and written by who computes;
    # 256 places x 32 layers hold 67.1e6 B per sequence.
    assert replay_op(VILA_U, Share(1)).replay_bytes == 8192
    assert 256 * 32 * replay_op(VILA_U, Share(1)).replay_bytes == 67_108_864
    damped = replay_op(VILA_U, Share(1), damped=True)  # scaled, added, and written back
    assert (damped.replay_bytes, damped.vector_ops) == (2 * 8192, 2 * 4096)
    gate_up, down = mlp_ops(VILA_U, Share(1))
    assert (gate_up.replay_bytes, down.replay_bytes) == (0, 8192)
    # What replay saves is the MLP's 70e6 B: its cache is 0.01 % of that.
    streamed = gate_up.stream_bytes + down.stream_bytes
    assert 8192 / streamed == pytest.approx(1.2e-4, rel=0.03)
    assert mlp_ops(VILA_U, Share(1), cached=False)[1].replay_bytes == 0


def test_the_head_of_vila_u() -> None:
    # Input projection 4096 x 2560; 6 layers of 4 x 2560^2 + 2 x 2560 x 10240 = 471.9e6 weights;
    # classifier 2560 x 16384 = 41.9e6. Layers and classifier are streamed once per code.
    projection, layers, classifier = 10_485_760, 471_859_200, 41_943_040
    head, body = VILA_U.head, VILA_U.body
    assert head.stored_weights(body) == projection + layers + classifier == 524_288_000
    streamed = projection + 4 * (layers + classifier)
    assert head_weights_per_step(VILA_U) == streamed == 2_065_694_720
    ops = head_ops(VILA_U, 1)
    assert sum(op.stream_bytes for op in ops) == pytest.approx(1.073e9, rel=1e-3)  # x 4.15625 / 8
    # Multiplied once per streamed weight, and 2 x 2560 x code per layer for attention among the
    # codes of a position: 6 x 2 x 2560 x (1 + 2 + 3 + 4) = 307,200.
    assert sum(op.macs for op in ops) == 2_065_694_720 + 307_200
    # +32 % on the bytes of the body.
    assert streamed / body.weights == pytest.approx(0.319, abs=1e-3)


def test_the_passes_of_the_head_depend_on_each_other() -> None:
    # Projection, then per code 6 layers of QKV, attention, output, two MLP matrices; classifier.
    ops = head_ops(VILA_U, 1)
    assert len(ops) == 1 + 4 * (6 * 5 + 1)
    classifiers = [i for i, op in enumerate(ops) if op.gemms == (Gemm(1, 2560, 16384),)]
    assert classifiers == [31, 62, 93, 124]  # a code is sampled before the next pass begins
    assert {op.category for op in ops} == {Category.HEAD}
    # Keys and values of a position stay on chip: attention streams nothing, and sees one more code
    # with every pass.
    attention = [op for op in ops if op.stream is Stream.NONE]
    assert [op.gemms[0].n for op in attention[::6]] == [1, 2, 3, 4]
    assert all(op.stream_bytes == 0 for op in attention)


def test_a_linear_head_is_one_product() -> None:
    (op,) = head_ops(load_design("zcu102", ["model.preset=llama2_7b"]).model, 2)
    assert op.gemms == (Gemm(2, 4096, 32000),)
    assert op.stream is Stream.HEAD
    # 4 operations a logit; 64 (1 + ln(32000 / 64)) = 461.7 enter a list of 64, which moves up.
    assert op.vector_ops == 2 * (4 * 32000 + 462 * 64)
    assert op.gathered_elements == 2 * 2 * 64  # the best of a row, each with its token


def test_guidance_costs_operations_of_the_classifier_only() -> None:
    guided, alone = (head_ops(VILA_U, 2, guided=guided) for guided in (True, False))
    extra = [a.vector_ops - b.vector_ops for a, b in zip(guided, alone, strict=True)]
    # Two more operations (a multiply-add) per logit and row.
    assert [n for n in extra if n] == [2 * 2 * 16384] * 4


def test_queries_of_a_prompt_see_no_later_token() -> None:
    # 5 queries of a prompt of 5 see 1 + 2 + 3 + 4 + 5 = 15 tokens; K and V are read once.
    op = attend_op(VILA_U, Share(1, tokens=5), 5, causal=True)
    assert op.macs == 15 * 2 * 4096
    assert op.stream_bytes == 5 * 8192
    assert op.kv_side_bytes == 5 * 8192
    # Behind 3 tokens already cached, they see 4 + 5 + 6 + 7 + 8 = 30.
    assert attend_op(VILA_U, Share(1, tokens=5), 8, causal=True).macs == 30 * 2 * 4096


def test_an_aligned_key_outside_the_window_costs_its_bytes() -> None:
    plain = attend_op(VILA_U, Share(2), 100)
    outside = attend_op(VILA_U, Share(2), 100, key_elements=4096)
    assert outside.stream_bytes - plain.stream_bytes == 2 * 4096  # one key of d bytes a row


def test_the_core_with_most_columns_sets_the_pace_of_split_matrices() -> None:
    # 11008 columns on 3 cores: 3670, 3669, 3669.
    assert Share(1, 3).columns(11008) == 3670
    gate_up, down = mlp_ops(VILA_U, Share(1, 3))
    assert gate_up.gemms == (Gemm(1, 4096, 2 * 3670),)
    assert down.gemms == (Gemm(1, 11008, 1366),)
    # Attention is split by heads: 11, 11 and 10 of 32.
    assert attend_op(VILA_U, Share(1, 3), 10).gemms[0] == Gemm(1, 128, 10, 11)
    # What all cores need next is whole, however it was computed.
    assert (gate_up.gathered_elements, down.gathered_elements) == (11008, 4096)


def test_bytes_round_up() -> None:
    # 4.25 bits x 3 = 12.75 bits.
    assert Precision(bits=4, group=128, scale_bits=32).bytes_of(3) == 2
    assert Precision(bits=8).bytes_of(0) == 0
    assert Precision(bits=1).bytes_of(9) == 2


def test_inputs_that_are_polished_take_a_logarithm_and_an_exponential() -> None:
    """Down: 11008 logarithms behind the SiLU, 11008 exponentials beside the product, 4 each."""
    polished = VILA_U.model_copy(update={"polished": ("down",)})
    plain, dear = mlp_ops(VILA_U, Share(3)), mlp_ops(polished, Share(3))
    for before, after in zip(plain, dear, strict=True):
        assert after.vector_ops - before.vector_ops == 3 * 11008 * 4
        assert after.serial_vector_ops == before.serial_vector_ops
        assert after.gemms == before.gemms
    # w, step and zero point of each of its inputs come with its weights.
    assert [op.stream_bytes for op in dear] == [
        plain[0].stream_bytes,
        plain[1].stream_bytes + 6 * 11008,
    ]
    assert output_op(polished, Share(3)) == output_op(VILA_U, Share(3))


def test_polishing_behind_a_norm_comes_before_the_array_and_is_split_with_the_heads() -> None:
    polished = VILA_U.model_copy(update={"polished": ("qkv", "out", "gate_up")})
    before, after = qkv_op(VILA_U, Share(2)), qkv_op(polished, Share(2))
    assert after.serial_vector_ops - before.serial_vector_ops == 2 * 4096 * 4
    assert after.vector_ops - before.vector_ops == 2 * 4096 * 4
    quarter = Share(2, 4)  # a core makes a quarter of the outputs of attention, and multiplies all
    made = attend_op(polished, quarter, 9).vector_ops - attend_op(VILA_U, quarter, 9).vector_ops
    used = output_op(polished, quarter).vector_ops - output_op(VILA_U, quarter).vector_ops
    assert (made, used) == (2 * 1024 * 4, 2 * 4096 * 4)
    assert polished.layer_table_bytes == 6 * (4096 + 4096 + 4096)


def test_products_have_the_names_that_traces_give_them() -> None:
    assert get_args(Product) == PRODUCTS


def test_a_norm_that_a_score_has_taken_is_not_taken_again() -> None:
    # Square, scale, weigh, write: 4 operations for each of 4096 elements of two rows.
    alone, scored = (
        mlp_ops(VILA_U, Share(2), normed=normed)[0].serial_vector_ops for normed in (False, True)
    )
    assert (alone, scored) == (2 * 4096 * 4, 0)

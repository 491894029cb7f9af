"""Figures of VILA-U with their derivations, and what tests/oracle.py does not know of an op."""

from typing import get_args

from carsim.decisions.trace.precision import PRODUCTS
from carsim.design import load_design
from carsim.workload.attention import attend_op, output_op, qkv_op
from carsim.workload.body import Body, Product
from carsim.workload.head import head_op, head_passes
from carsim.workload.mlp import mlp_ops, replay_op
from carsim.workload.ops import Category, Share, Stream

VILA_U = load_design("zcu102_16gb").model  # d = 4096, 32 heads of 128, ff = 11008, 32 layers


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
    assert VILA_U.weights.bytes_of(VILA_U.body.weights) == 6_476_005_376 * 133 // 256
    layer = (qkv_op(VILA_U, Share(1)), output_op(VILA_U, Share(1)), *mlp_ops(VILA_U, Share(1)))
    assert 32 * sum(op.stream_bytes for op in layer) == 3_364_487_168


def test_damped_replays_are_scaled_added_and_written_back() -> None:
    # One output of d = 4096 at 16 bit: 8192 B, read by who replays and written by who computes.
    plain, damped = (replay_op(VILA_U, Share(1), damped=each) for each in (False, True))
    assert (plain.replay_bytes, damped.replay_bytes) == (8192, 2 * 8192)
    assert (plain.vector_ops, damped.vector_ops) == (4096, 2 * 4096)


def test_the_head_of_vila_u() -> None:
    # Input projection 4096 x 2560; 6 layers of 4 x 2560^2 + 2 x 2560 x 10240 = 471.9e6 weights;
    # classifier 2560 x 16384 = 41.9e6. Layers and classifier are streamed once per code.
    projection, layers, classifier = 10_485_760, 471_859_200, 41_943_040
    assert VILA_U.head.stored_weights(VILA_U.body) == projection + layers + classifier
    # Attention among the codes of a position: 6 x 2 x 2560 x (1 + 2 + 3 + 4) = 307,200. Its keys
    # and values stay on chip.
    ops = [
        head_op(VILA_U, step, Share(1), codes)
        for steps, codes in head_passes(VILA_U, guided=True)
        for step in steps
    ]
    assert sum(op.macs for op in ops) == projection + 4 * (layers + classifier) + 307_200
    assert {op.category for op in ops} == {Category.HEAD}
    assert sum(op.stream is Stream.NONE for op in ops) == 6 * 4


def test_cores_that_split_a_vocabulary_exchange_the_best_of_a_row_each_with_its_token() -> None:
    model = load_design("zcu102", ["model.preset=llama2_7b"]).model
    (((step,), codes),) = head_passes(model, guided=False)
    assert head_op(model, step, Share(2), codes).gathered_elements == 2 * 2 * 64


def test_polishing_takes_a_table_beside_the_weights() -> None:
    polished = VILA_U.model_copy(update={"polished": ("qkv", "out", "gate_up")})
    assert polished.layer_table_bytes == 6 * (4096 + 4096 + 4096)


def test_a_plain_mlp_has_two_matrices() -> None:
    # GPT-2 345M: 12 d^2 a layer, and 353.5 million with its classifier over 50,257 tokens.
    sizes = {"n_layers": 24, "hidden_size": 1024, "n_heads": 16, "ffn_size": 4096}
    assert Body(**sizes, n_kv_heads=16, mlp="plain").weights == 24 * 12 * 1024**2


def test_products_have_the_names_that_traces_give_them() -> None:
    assert get_args(Product) == PRODUCTS


def test_a_norm_that_a_score_has_taken_is_not_taken_again() -> None:
    # Square, scale, weigh, write: 4 operations for each of 4096 elements of two rows.
    alone, scored = (
        mlp_ops(VILA_U, Share(2), normed=normed)[0].serial_vector_ops for normed in (False, True)
    )
    assert (alone, scored) == (2 * 4096 * 4, 0)

"""Experts: how many are fetched, what they multiply, what they hold."""

from itertools import combinations, product

import numpy as np
import pytest
from strategies import small_design

from carsim.cost.capacity import contents
from carsim.design import Design
from carsim.workload.body import Experts
from carsim.workload.geometry import Video
from carsim.workload.mlp import mlp_ops
from carsim.workload.ops import Share


def small(**body: object) -> Design:
    return small_design(body={"experts": {"count": 6, "active": 2}, **body})


@pytest.mark.parametrize("tokens", [1, 2, 3])
def test_expected_experts_are_the_mean_over_all_choices(tokens: int) -> None:
    choices = list(combinations(range(5), 2))
    touched = [len(set().union(*each)) for each in product(choices, repeat=tokens)]
    assert Experts(count=5, active=2).touched(tokens) / 4096 == pytest.approx(
        np.mean(touched), abs=1 / 4096
    )


def test_one_token_fetches_its_own_and_many_fetch_all() -> None:
    experts = Experts(count=128, active=8)
    assert experts.touched(np.array([0, 1, 10_000])).tolist() == [0, 8 * 4096, 128 * 4096]
    assert Experts(count=3, active=3).touched(np.array([1, 5])).tolist() == [3 * 4096] * 2


def test_bytes_follow_the_experts_and_products_the_tokens() -> None:
    # Width 32, experts of 48: gate and up 3072 weights of a byte, down 1536, router 32 x 6.
    router, gate_up, down = mlp_ops(small().model, Share(3))
    touched = 6 * (1 - (2 / 3) ** 3)  # 4.22 of 6
    assert router.stream_bytes == 192
    assert gate_up.stream_bytes == pytest.approx(touched * 3072, abs=1)
    assert down.stream_bytes == pytest.approx(touched * 1536, abs=1)
    assert router.macs == 3 * 192
    assert gate_up.macs == 3 * 2 * 3072
    assert down.macs == 3 * 2 * 1536
    # 6 choices of 5 experts: four have one token, one has two.
    assert [(gemm.m, gemm.copies) for gemm in gate_up.gemms] == [(2, 1), (1, 4)]
    assert gate_up.held_back
    assert not router.held_back


def test_shared_experts_are_fetched_once_and_multiply_every_token() -> None:
    plain = mlp_ops(small().model, Share(3))
    shared = mlp_ops(
        small(experts={"count": 6, "active": 2, "shared_ffn_size": 10}).model, Share(3)
    )
    more = [b.stream_bytes - a.stream_bytes for a, b in zip(plain, shared, strict=True)]
    assert more == [0, 2 * 32 * 10, 32 * 10]
    macs = [b.macs - a.macs for a, b in zip(plain, shared, strict=True)]
    assert macs == [0, 3 * 2 * 32 * 10, 3 * 32 * 10]


def test_one_expert_for_all_is_the_mlp_itself_beside_its_router() -> None:
    one = mlp_ops(small(experts={"count": 1, "active": 1}).model, Share(3))
    plain = mlp_ops(small(experts=None).model, Share(3))
    assert [op.stream_bytes for op in one[1:]] == [op.stream_bytes for op in plain]
    assert [op.macs for op in one[1:]] == [op.macs for op in plain]


def test_memory_holds_all_experts() -> None:
    held = {each.content: each.nbytes for each in contents(small(), Video(9, 1, 0))}
    # Two layers of 4 x 32 x 32 of attention, a router, and six experts of three matrices.
    assert held["weights"] == 2 * (4096 + 192 + 6 * 3 * 32 * 48)

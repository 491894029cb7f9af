"""TAS of all heads and of one, by hand."""

from fractions import Fraction

import numpy as np
import pytest

from carsim.decisions.replay import MachineShape, RuleWork, Tas

Q = np.array([[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, 0.0]]])  # [1, 4, 2]
K = np.array([[[3.0, 0.0], [0.0, 5.0]]])  # [1, 2, 2]: heads 0 and 1, heads 2 and 3
VILA_U = MachineShape(32, 32, 128, 4096, Fraction(16))


def test_the_mean_over_heads() -> None:
    expected = (3 + 0 + 5 + 0) / 4 / np.sqrt(2)
    assert Tas().of(Q, Q * 0, K) == pytest.approx([expected])
    assert Tas(form="paper").of(Q * 0, Q, K) == pytest.approx([expected])


@pytest.mark.parametrize(("head", "product"), [(0, 3), (1, 0), (2, 5), (3, 0)])
def test_one_head_and_the_key_that_serves_it(head: int, product: float) -> None:
    assert Tas(head=head).of(Q, Q * 0, K) == pytest.approx([product / np.sqrt(2)])


def test_one_head_of_32_costs_a_32nd() -> None:
    assert Tas().work(VILA_U) == RuleWork(vector_ops=4096, key_elements=4096)
    assert Tas(head=7).work(VILA_U) == RuleWork(vector_ops=128, key_elements=128)
    # Grouped queries: 32 query heads on 8 key heads.
    grouped = MachineShape(32, 8, 128, 4096, Fraction(16))
    assert Tas().work(grouped) == RuleWork(vector_ops=4096, key_elements=1024)
    assert Tas(head=7).work(grouped) == RuleWork(vector_ops=128, key_elements=128)


def test_the_key_one_place_later_is_a_token_nearer() -> None:
    assert [Tas(offset=offset).key_distance(256) for offset in (0, 1)] == [256, 255]

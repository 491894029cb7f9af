"""From logits to tokens."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carsim.decoder.sampling import log_chances, mix_guidance, top_k

LOGITS = np.array([[0.0, 3.0, 1.0, 3.0, -2.0], [1.0, 1.0, 1.0, 1.0, 1.0]])

CHI_SQUARED = {3: 16.27, 5: 20.52}
"""By degrees of freedom: what a thousandth of all draws exceeds."""


def generators(n):
    return [np.random.default_rng([7, row]) for row in range(n)]


def test_the_likeliest_is_the_first_of_equals():
    assert top_k(1, 1.0, generators(2))(LOGITS).tolist() == [1, 0]


def test_rows_draw_from_generators_of_their_own():
    both = top_k(3, 1.0, generators(2))
    second = top_k(3, 1.0, generators(2)[1:])
    for _ in range(20):
        assert both(LOGITS)[1] == second(LOGITS[1:])[0]


@pytest.mark.parametrize(("k", "temperature"), [(4, 1.0), (4, 0.5), (6, 2.0), (None, 1.0)])
def test_draws_follow_the_softmax_over_the_k_likeliest(k, temperature):
    logits = np.array([0.3, -1.0, 2.0, 1.5, 0.0, 0.9])
    drawn = top_k(k, temperature, generators(6000))(np.tile(logits, (6000, 1)))
    best = np.sort(np.argsort(-logits)[:k])
    odds = np.exp(logits[best] / temperature)
    expected = 6000 * odds / odds.sum()
    counts = np.bincount(drawn, minlength=6)
    assert counts.sum() == counts[best].sum(), "no other token is drawn"
    assert ((counts[best] - expected) ** 2 / expected).sum() < CHI_SQUARED[len(best) - 1]


@given(seed=st.integers(0, 2**32), k=st.sampled_from([1, 3, 8, None]), rise=st.floats(0, 9))
def test_a_token_that_gains_most_is_drawn_again(seed, k, rise):
    """Common random numbers: the same noise falls on the same token in both runs.

    Where only the best are drawn from, the others have to fall alike: one that is among the best
    now, and was not, may have more noise than any.
    """
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(1, 8))
    first = top_k(k, 1.0, [np.random.default_rng(seed)])(logits)
    others = logits + rng.uniform(-1, 0, size=1 if k == 3 else logits.shape)
    others[0, first] = logits[0, first] + rise
    assert top_k(k, 1.0, [np.random.default_rng(seed)])(others).tolist() == first.tolist()


def test_noise_is_the_same_whatever_was_drawn_before():
    """A run that was made to choose otherwise is back on the other's draws at once."""
    one, other = (top_k(3, 1.0, generators(2)) for _ in range(2))
    rng = np.random.default_rng(1)
    for step in range(20):
        logits = rng.normal(size=(2, 9))
        here, there = one(logits), other(-9 * logits if step < 10 else logits)
        assert step < 10 or here.tolist() == there.tolist()


def test_guidance_moves_away_from_the_blank_row():
    pair = np.array([[1.0, 2.0], [0.5, 4.0]])
    np.testing.assert_allclose(mix_guidance(pair, 1.0), pair[:1])
    np.testing.assert_allclose(mix_guidance(pair, 0.0), pair[1:])
    np.testing.assert_allclose(mix_guidance(pair, 3.0), [[2.0, -2.0]])


def test_log_chances_sum_to_one_however_large_the_logits():
    chances = np.exp(log_chances(np.array([[1000.0, 1001.0, -1000.0]])))
    assert chances.sum() == pytest.approx(1)
    assert chances[0, 1] / chances[0, 0] == pytest.approx(np.e)

"""From logits to tokens."""

import numpy as np
import pytest

from carsim.decoder.sampling import greedy, log_chances, mix_guidance, top_k

LOGITS = np.array([[0.0, 3.0, 1.0, 3.0, -2.0], [1.0, 1.0, 1.0, 1.0, 1.0]])


def generators(n):
    return [np.random.default_rng([7, row]) for row in range(n)]


def test_the_likeliest_is_the_first_of_equals():
    assert greedy(LOGITS).tolist() == [1, 0]
    assert top_k(1, 1.0, generators(2))(LOGITS).tolist() == [1, 0]


def test_draws_stay_among_the_likeliest_and_come_as_often_as_their_chances():
    choose = top_k(3, 1.0, generators(2))
    drawn = np.array([choose(LOGITS) for _ in range(4000)])
    assert set(drawn[:, 0]) == {1, 2, 3}
    assert set(drawn[:, 1]) == {0, 1, 2}
    rest = np.exp(1.0 - 3.0)
    assert (drawn[:, 0] == 2).mean() == pytest.approx(rest / (2 + rest), abs=0.02)
    assert (drawn[:, 0] == 1).mean() == pytest.approx(1 / (2 + rest), abs=0.03)


def test_many_rows_draw_as_often_as_tokens_are_likely():
    logits = np.log(np.tile([[0.1, 0.3, 0.6, 0.2]], (2000, 1)))
    drawn = top_k(2, 1.0, generators(2000))(logits)
    assert set(drawn) == {1, 2}
    assert (drawn == 2).mean() == pytest.approx(2 / 3, abs=0.03)
    assert top_k(1, 1.0, generators(2000))(logits).tolist() == greedy(logits).tolist()


def test_all_tokens_may_be_drawn_where_k_is_left_out_and_heat_evens_the_odds():
    choose = top_k(None, 100.0, generators(2))
    drawn = np.array([choose(LOGITS) for _ in range(4000)])
    shares = np.bincount(drawn[:, 0], minlength=5) / 4000
    np.testing.assert_allclose(shares, 0.2, atol=0.03)


def test_rows_draw_from_generators_of_their_own():
    both = top_k(3, 1.0, generators(2))
    second = top_k(3, 1.0, generators(2)[1:])
    for _ in range(20):
        assert both(LOGITS)[1] == second(LOGITS[1:])[0]


def test_guidance_moves_away_from_the_blank_row():
    pair = np.array([[1.0, 2.0], [0.5, 4.0]])
    np.testing.assert_allclose(mix_guidance(pair, 1.0), pair[:1])
    np.testing.assert_allclose(mix_guidance(pair, 0.0), pair[1:])
    np.testing.assert_allclose(mix_guidance(pair, 3.0), [[2.0, -2.0]])


def test_log_chances_sum_to_one_however_large_the_logits():
    chances = np.exp(log_chances(np.array([[1000.0, 1001.0, -1000.0]])))
    assert chances.sum() == pytest.approx(1)
    assert chances[0, 1] / chances[0, 0] == pytest.approx(np.e)

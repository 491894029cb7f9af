"""Means of a few cases, and how sure one may be of them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carsim.base.statistics import Interval, bootstrap_mean

VALUES = st.lists(st.floats(-1e3, 1e3, allow_subnormal=False), min_size=2, max_size=12)


@given(values=VALUES)
def test_an_interval_lies_among_the_cases(values):
    found = bootstrap_mean(values)
    slack = 1e-9 + 1e-9 * max(map(abs, values))
    assert min(values) - slack <= found.low <= found.high <= max(values) + slack
    assert found.mean == pytest.approx(np.mean(values), abs=slack)


@given(values=VALUES, shift=st.floats(-1e3, 1e3), scale=st.floats(0.01, 100))
def test_it_goes_with_its_cases(values, shift, scale):
    before = bootstrap_mean(values)
    after = bootstrap_mean([shift + scale * value for value in values])
    for name in ("mean", "low", "high"):
        expected = shift + scale * getattr(before, name)
        assert getattr(after, name) == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_two_cases_by_hand():
    """Of two cases a quarter of the resamples is each twice: more than 2.5 %, so both are ends."""
    assert bootstrap_mean([0.0, 1.0]) == Interval(0.5, 0.0, 1.0)


@pytest.mark.parametrize(("n", "least", "most"), [(4, 0.70, 0.88), (32, 0.90, 0.98)])
def test_how_often_it_covers_the_true_mean(n, least, most):
    rng = np.random.default_rng(3)
    found = [bootstrap_mean(rng.normal(size=n)) for _ in range(400)]
    assert least < np.mean([each.low <= 0 <= each.high for each in found]) < most


def test_of_one_case_no_interval_is_known():
    alone = bootstrap_mean([0.25])
    assert (alone.mean, math.isnan(alone.low), alone.text()) == (0.25, True, "+0.250")
    with pytest.raises(ValueError, match="no cases"):
        bootstrap_mean([])


def test_zero_has_no_minus():
    assert Interval(-0.0001, -0.0002, 0.001).text(" nats") == "+0.000 nats [0.000, 0.001]"
    assert Interval(-0.0001, -0.0002, 0.0).text(" nats") == "+0.000 nats"
    assert Interval(-0.01, -0.02, 0.001).text() == "-0.010 [-0.020, 0.001]"

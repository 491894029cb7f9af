"""Conditions mean what Python's do, and a front holds numbers alone."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carsim.base.errors import InputError
from carsim.explore.expression import Expression
from carsim.explore.pareto import pareto

numbers = st.sampled_from([-2, -1, 0, 1, 2, 0.5, 3])
comparisons = st.sampled_from(["<", "<=", "==", "!=", ">", ">="])


@given(sides=st.lists(numbers, min_size=2, max_size=5), data=st.data())
def test_a_chain_of_comparisons_is_that_of_python(sides: list[float], data: st.DataObject) -> None:
    """All neighbours are compared: 1 < x < 4 is 1 < x and x < 4."""
    signs = [data.draw(comparisons) for _ in sides[1:]]
    text = str(sides[0]) + "".join(f" {s} {v}" for s, v in zip(signs, sides[1:], strict=True))
    assert Expression(text, "x").holds({}.__getitem__) == eval(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a.b[0]", "holds 'a.b\\[0\\]', which is not taken"),
        ("f'{a}' == 1", "which is not taken"),
        ("9 ** 9", "holds 'Pow'"),
        ("min(*a) > 1", "holds '\\*a'"),
        ("1 if a else 2", "which is not taken"),
        ("a.b() < 1", "which is not taken"),
        ("(" * 300 + "1" + ")" * 300, "is no expression"),
        ("1" * 1001, "is longer than 1000 characters"),
    ],
)
def test_what_is_no_condition_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        Expression(text, "x")


@pytest.mark.parametrize("text", ["'x' * a == 1", "'%s' % a == 1", "a < 'x'", "1 / (a - 3) < 1"])
def test_what_has_no_value_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="has no value"):
        Expression(text, "x").holds({"a": 3}.__getitem__)


@pytest.mark.parametrize("bad", [math.nan, math.inf, None])
def test_a_point_that_lacks_an_objective_is_on_no_front(bad: float | None) -> None:
    """Though it is the best in the other."""
    frame = pd.DataFrame({"a": [1.0, 2.0, 0.0], "b": [2.0, 1.0, bad]})
    found = pareto(frame, {"a": "min", "b": "min"})
    assert found[["a", "b"]].to_numpy().tolist() == [[1.0, 2.0], [2.0, 1.0]]
    assert np.isfinite(found[["a", "b"]].to_numpy()).all()

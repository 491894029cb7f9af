"""Conditions mean what Python's do, and a front holds numbers alone."""

import math

import numpy as np
import pandas as pd
import pytest

from carsim.base.errors import InputError
from carsim.explore.expression import Expression
from carsim.explore.pareto import pareto


@pytest.mark.parametrize("text", ["1 < a < 4", "4 > a > 3", "a in (1, 3)", "min(a, 2) - -a == 5"])
def test_a_condition_is_that_of_python(text: str) -> None:
    assert Expression(text, "x").holds({"a": 3}.__getitem__) == eval(text, {"a": 3})
    assert Expression("a >= 2", "x").limited == {"a": -1}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a.b[0]", "holds 'a.b\\[0\\]', which is not taken"),
        ("f'{a}' == 1", "which is not taken"),
        ("9 ** 9", "holds 'Pow'"),
        ("min(*a) > 1", "holds '\\*a'"),
        ("1 if a else 2", "which is not taken"),
        ("a.b() < 1", "which is not taken"),
        ("__import__('os')", "which is not taken"),
        ("-" * 999 + "1", "is no expression"),
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

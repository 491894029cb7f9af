"""Conditions mean what Python's do, and a front holds numbers alone."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    ("x", "holds"), [(0, False), (1, False), (2, True), (4, False), (5, False)]
)
def test_a_range_has_two_ends(x: int, holds: bool) -> None:
    assert Expression("1 < a.x < 4", "x").holds({"a.x": x}.__getitem__) is holds


@pytest.mark.parametrize("bad", [math.nan, math.inf, None])
def test_a_point_that_lacks_an_objective_is_on_no_front(bad: float | None) -> None:
    """Though it is the best in the other."""
    frame = pd.DataFrame({"a": [1.0, 2.0, 0.0], "b": [2.0, 1.0, bad]})
    found = pareto(frame, {"a": "min", "b": "min"})
    assert found[["a", "b"]].to_numpy().tolist() == [[1.0, 2.0], [2.0, 1.0]]
    assert np.isfinite(found[["a", "b"]].to_numpy()).all()

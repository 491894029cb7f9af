"""Fronts and hypervolumes against the definitions, taken literally."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from carsim.explore.pareto import front, pareto
from studies.cores_tau.shares import hypervolume

# Few different values make ties, equal points and domination frequent.
SHAPES = st.tuples(st.integers(1, 25), st.integers(1, 4))
POINTS = arrays(float, SHAPES, elements=st.integers(0, 4).map(float))
ANY = arrays(float, SHAPES, elements=st.floats(-1e6, 1e6))


STATUSES = ["ok", "misfit"]


def dominates(a, b):
    return all(a <= b) and any(a < b)


def by_definition(values):
    return [not any(dominates(other, point) for other in values) for point in values]


@given(POINTS | ANY)
def test_a_front_is_what_no_point_dominates(values):
    assert front(values).tolist() == by_definition(values)


@given(POINTS)
def test_a_hypervolume_counts_the_dominated_cells(values):
    m = values.shape[1]
    cells = np.indices((4,) * m).reshape(m, -1).T
    covered = sum(any((point <= cell).all() for point in values) for cell in cells)
    assert hypervolume(values, np.full(m, 4.0)) == pytest.approx(covered)


@given(ANY, st.data())
def test_a_frame_keeps_the_rows_of_the_front_with_their_directions(values, data):
    names = [f"o{i}" for i in range(values.shape[1])]
    signs = data.draw(st.lists(st.sampled_from([1, -1]), min_size=len(names), max_size=len(names)))
    frame = pd.DataFrame(values * signs, columns=names).assign(point=range(len(values)))
    frame["status"] = data.draw(arrays(object, len(values), elements=st.sampled_from(STATUSES)))
    frame.loc[0, "status"] = "ok"
    objectives = {n: "min" if s > 0 else "max" for n, s in zip(names, signs, strict=True)}
    found = pareto(frame, objectives)
    ok = (frame.status == "ok").to_numpy()
    assert sorted(found.point) == sorted(frame.point[ok][by_definition(values[ok])])
    assert found.knee.sum() == 1
    assert found[names[0]].is_monotonic_increasing or signs[0] < 0

"""Fronts and hypervolumes against the definitions, taken literally."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from carsim.base.errors import InputError
from carsim.explore.pareto import families, feasible, front, knee, pareto
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


def test_constraints_that_no_point_meets_leave_every_column():
    frame = pd.DataFrame({"status": ["ok", "ok", "misfit"], "a": [1.0, 2.0, 0.0], "b": [3, 4, 0]})
    limits = ["a <= 0", "b <= 0"]
    kept = feasible(frame, limits)
    assert kept.empty
    assert list(kept.columns) == list(frame.columns)
    said = r"none of 3 points fits, .*; a <= 0 holds for 0 of 2 that fit, b <= 0 for 0; sweep more"
    with pytest.raises(InputError, match=said):
        pareto(frame, {"a": "min", "b": "min"}, limits)


def test_the_constraint_that_no_point_meets_is_named():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3, 4]})
    with pytest.raises(InputError, match="a <= 1 holds for 1 of 2 that fit, b <= 0 for 0; sweep"):
        pareto(frame, {"a": "min"}, ["a <= 1", "b <= 0"])


@given(
    arrays(np.float64, st.tuples(st.integers(1, 30), st.integers(1, 3)), elements=st.floats(0, 9)),
    st.sampled_from([0.0, 0.01, 0.3]),
)
def test_each_point_of_a_front_has_one_near_it_that_stands_for_it(values, share):
    points = values[front(values)]
    first = knee(points)
    stands_for = families(points, share, first)
    assert stands_for[first] == first
    assert (stands_for[stands_for] == stands_for).all()
    assert (points[stands_for] <= points + share * np.abs(points)).all()
    # No representative but the first is near one that came before it.
    chosen = [first, *(place for place in np.unique(stands_for) if place != first)]
    for number, place in enumerate(chosen):
        for earlier in chosen[:number]:
            near = points[earlier] <= points[place] + share * np.abs(points[place])
            assert not near.all()
    if share == 0.0:
        assert len(np.unique(stands_for)) == len(np.unique(points, axis=0))

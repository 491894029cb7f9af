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
SMALL = st.integers(0, 4).map(float)
POINTS = st.integers(1, 5).flatmap(
    lambda m: st.integers(1, 25).flatmap(lambda p: arrays(float, (p, m), elements=SMALL))
)
ANY = st.integers(1, 4).flatmap(
    lambda m: st.integers(1, 25).flatmap(
        lambda p: arrays(float, (p, m), elements=st.floats(-1e6, 1e6))
    )
)


def dominates(a, b):
    return all(a <= b) and any(a < b)


def by_definition(values):
    return [not any(dominates(other, point) for other in values) for point in values]


@given(POINTS | ANY)
def test_a_front_is_what_no_point_dominates(values):
    assert front(values).tolist() == by_definition(values)


@given(POINTS)
def test_a_hypervolume_counts_the_dominated_cells(values):
    if values.shape[1] > 4:
        values = values[:, :4]
    reference = np.full(values.shape[1], 4.0)
    cells = np.stack(
        np.meshgrid(*[np.arange(4.0)] * values.shape[1], indexing="ij"), axis=-1
    ).reshape(-1, values.shape[1])
    covered = sum(any((point <= cell).all() for point in values) for cell in cells)
    assert hypervolume(values, reference) == pytest.approx(covered)


@given(ANY, st.data())
def test_a_frame_keeps_the_rows_of_the_front_with_their_directions(values, data):
    names = [f"o{i}" for i in range(values.shape[1])]
    signs = data.draw(st.lists(st.sampled_from([1, -1]), min_size=len(names), max_size=len(names)))
    frame = pd.DataFrame(values * signs, columns=names).assign(point=range(len(values)))
    frame["status"] = data.draw(
        st.lists(st.sampled_from(["ok", "misfit"]), min_size=len(values), max_size=len(values))
    )
    frame.loc[0, "status"] = "ok"
    objectives = {n: "min" if s > 0 else "max" for n, s in zip(names, signs, strict=True)}
    found = pareto(frame, objectives)
    ok = (frame.status == "ok").to_numpy()
    expected = frame.point[ok][by_definition(values[ok])]
    assert sorted(found.point) == sorted(expected)
    assert found.knee.sum() == 1
    assert found[names[0]].is_monotonic_increasing or signs[0] < 0

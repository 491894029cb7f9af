"""Drawn decisions: ratios of layers, agreement of rows, and the correlations of a real trace."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carsim.decisions.trace import load_trace, trace_stats
from carsim.decisions.trace.decisions import DecisionShape
from carsim.decisions.trace.drawn import (
    MEASURED,
    Assumptions,
    agreement_of,
    correlation_of,
    draw,
    layer_ratios,
)

SHAPE = DecisionShape(6 * 1024, 6, 8)
"""Few frames, layers and rows of many places, which are independent: they tell the error."""
SIGMAS = 5  # of a normal: 6 of ten million draws lie farther out


@given(correlation=st.floats(0, 0.999), p=st.floats(0.01, 0.99))
def test_agreement_and_correlation_lead_to_one_another(correlation: float, p: float) -> None:
    agreement = agreement_of(correlation, p)
    by_chance = p**2 + (1 - p) ** 2
    most = by_chance + correlation * (1 - by_chance)
    assert by_chance - 1e-9 <= agreement <= most + 1e-9, "less than the normals (Gebelein)"
    assert correlation_of(agreement, p) == pytest.approx(correlation, abs=1e-6)
    assert agreement_of(1.0, p) == pytest.approx(1, abs=1e-9)


def test_agreements_out_of_reach_give_an_end() -> None:
    assert correlation_of(0.1, 0.5) == pytest.approx(0)
    assert correlation_of(1.0, 0.5) == 1
    assert agreement_of(0.3, 0.0) == agreement_of(0.3, 1.0) == 1


@given(ratio=st.floats(0, 1), dip=st.floats(0, 20), layers=st.integers(1, 40))
def test_layers_have_the_ratio_in_the_mean_and_the_least_in_the_middle(ratio, dip, layers):
    p = layer_ratios(ratio, dip, layers)
    assert p.mean() == pytest.approx(ratio, abs=1e-9)
    np.testing.assert_allclose(p, p[::-1], atol=1e-12)
    assert (np.diff(p[: (layers + 1) // 2]) <= 1e-15).all(), "falls to the middle"


@pytest.mark.parametrize(
    ("ratio", "assumed"),
    [(0.2, MEASURED), (0.6, Assumptions(dip=1.0, within_pair=0.5, across_clips=0.4))],
)
def test_drawn_decisions_have_the_ratios_and_correlations_that_were_asked_for(ratio, assumed):
    replay = draw(ratio, assumed, 6, SHAPE, seed=1)
    assert replay.shape == SHAPE
    assert not replay[:1024].any(), "the first frame never replays"
    eligible, wanted = replay[1024:], layer_ratios(ratio, assumed.dip, 6)
    error = SIGMAS / np.sqrt(5 * 1024 * 4)
    np.testing.assert_allclose(eligible.mean(axis=(0, 2)), wanted, atol=error)
    for rows, correlation in (((0, 1), assumed.within_pair), ((0, 2), assumed.across_clips)):
        for layer, p in enumerate(wanted):
            a, b = (eligible[:, layer, row] for row in rows)
            expected = agreement_of(correlation, float(p))
            assert (a == b).mean() == pytest.approx(expected, abs=SIGMAS / np.sqrt(4 * 5 * 1024))


def test_the_measured_numbers_are_those_of_the_first_shipped_trace() -> None:
    """If it fails, that trace was captured again: find the numbers that show what it shows."""
    stats = trace_stats(load_trace(Path(__file__).parents[3] / "traces/vilau_8f.npz"))
    ratios = [layer.over_eligible for layer in stats.by_layer if 0 < layer.over_eligible < 1]
    p = layer_ratios(float(np.mean(ratios)), MEASURED.dip, len(ratios))
    assert p.std() == pytest.approx(np.std(ratios), abs=1e-3)
    for found, correlation in (
        (stats.within_layer_pair_phi, MEASURED.within_pair),
        (stats.within_layer_clip_phi, MEASURED.across_clips),
    ):
        agree = np.array([agreement_of(correlation, each) for each in p])
        assert np.mean(1 - (1 - agree) / (2 * p * (1 - p))) == pytest.approx(found, abs=0.05)


@given(
    st.floats(0, 1),
    st.builds(Assumptions, dip=st.floats(0, 6), within_pair=st.floats(0, 1)),
    st.integers(2, 4),
    st.integers(1, 3),
    st.integers(0, 2**70),
)
def test_more_frames_pairs_and_replays_leave_the_other_decisions(
    ratio: float, assumed: Assumptions, frames: int, pairs: int, seed: int
) -> None:
    made = draw(ratio, assumed, frames, DecisionShape(5 * frames, 3, 2 * pairs), seed)
    more = DecisionShape(5 * (frames + 2), 3, 2 * pairs + 2)
    again = draw(ratio, assumed, frames + 2, more, seed)
    np.testing.assert_array_equal(again[: len(made), :, : 2 * pairs], made)
    higher = draw(min(1.0, ratio + 0.1), assumed, frames, DecisionShape(*made.shape), seed)
    assert (higher >= made).all(), "what replays at a ratio replays at a higher one"

"""Intervals of ratios: what two designs share cancels, what they do not is left."""

from collections.abc import Sequence
from math import fsum

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import resources

from carsim.cost.energy import EnergyReport, energy
from carsim.cost.interval import Draws, Ratio, Term, drawn, ratio_of
from carsim.design import Design, load_design, override
from carsim.workload.activity import Activity

WORK = Activity(250_000_000, 10**10, 10**8, 10**10, {"ps_ddr": 10**10})


def report(design: Design, work: Activity = WORK) -> EnergyReport:
    return energy(design, work, resources(design))


def ratio(a: Sequence[Term], b: Sequence[Term], draws: int = 10_000, seed: int = 0) -> Ratio:
    """Ratio of two sums of terms."""

    def total(of: Sequence[Term]) -> Draws:
        return sum((drawn(term, draws, seed) for term in of), np.zeros(draws))

    value = fsum(term.value for term in a) / fsum(term.value for term in b)
    return ratio_of(value, total(a), total(b))


def energy_ratio(a: EnergyReport, b: EnergyReport) -> Ratio:
    """Joules of A over those of B."""
    parts = (
        [Term(p.constant or p.component, p.low_j, p.value_j, p.high_j) for p in each.components]
        for each in (a, b)
    )
    return ratio(*parts)


def test_the_same_work_done_half_costs_half_whatever_the_constants() -> None:
    whole = report(load_design("zcu102"))
    assert energy_ratio(whole.scaled(0.5), whole) == pytest.approx(Ratio(0.5, 0.5, 0.5, 1.0))
    assert energy_ratio(whole, whole).a_wins == 0.5


def test_a_ratio_is_known_better_than_either_of_its_designs() -> None:
    few = load_design("zcu102")
    a, b = report(few), report(override(few, {"machine.cores": 3}))
    result = energy_ratio(a, b)
    assert a.board.high_j / b.board.low_j > 1.5
    assert 0.8 < result.low < result.value < result.high < 1.0
    # Everything else being equal, more logic draws more in every draw.
    assert result.a_wins == 1.0


def test_independent_constants_by_hand() -> None:
    """Two uniform on 1 to 2: the smaller one wins half of the draws."""
    a, b = Term("a", 1.0, 1.5, 2.0), Term("b", 1.0, 1.5, 2.0)
    even = ratio([a], [b], draws=100_000)
    assert even.a_wins == pytest.approx(0.5, abs=0.01)
    # P(ratio < q) = 2 q - 2 + 1 / (2 q) for q of 1/2 to 1: 5 % at q = 0.625.
    assert even.low == pytest.approx(0.625, abs=0.005)
    assert even.high == pytest.approx(1.6, abs=0.015)
    assert ratio([a], [Term("b", 2.0, 2.5, 3.0)]).a_wins == 1.0
    # The value is the median, however lopsided the interval.
    lopsided = ratio([Term("a", 0.9, 1.0, 9.0)], [Term("one", 1.0, 1.0, 1.0)], draws=100_000)
    assert lopsided.a_wins == pytest.approx(0.5, abs=0.01)


@given(st.integers(0, 2**32))
def test_draws_depend_on_nothing_but_the_seed_and_the_names(seed: int) -> None:
    a, b, c = (Term(name, 1.0, 2.0, 5.0) for name in "abc")
    once = ratio([a, c], [b, c], draws=50, seed=seed)
    assert once == ratio([c, a], [c, b], draws=50, seed=seed)
    assert once.a_wins + ratio([b, c], [a, c], draws=50, seed=seed).a_wins == pytest.approx(1)

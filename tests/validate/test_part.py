"""Statistics of a group of comparisons, and when it fails."""

import pytest

from carsim.metrics.comparison import Comparison
from carsim.validate.part import Group, Part


def row(error: float, rival_error: float | None = None, bound: float | None = None) -> Comparison:
    rival = None if rival_error is None else 100 * (1 + rival_error)
    return Comparison("x", 100, 100 * (1 + error), rival, bound, "made up")


ROWS = (row(0.1, -0.05), row(-0.3, 0.4), row(0.05, 0.05))


def test_statistics_are_of_absolute_errors_but_for_the_bias() -> None:
    group = Group("g", ROWS, "null")
    assert group.ours.mean == pytest.approx(0.15)
    assert group.ours.median == pytest.approx(0.1)
    assert group.ours.worst == pytest.approx(0.3)
    assert group.ours.bias == pytest.approx(-0.05)
    assert group.theirs.mean == pytest.approx(0.5 / 3)
    # Nearer in the second row only; equal errors are no win.
    assert group.wins == 1


def test_a_rival_that_says_nothing_has_no_statistics() -> None:
    group = Group("g", (row(0.1),), must_win=True, least_wins=1.0)
    assert group.theirs is None
    assert not group.failures


@pytest.mark.parametrize(
    ("group", "failures"),
    [
        (Group("g", ROWS, "null"), 0),
        (Group("g", ROWS, "null", {"mean": 0.15001, "worst": 0.30001}), 0),
        (Group("g", ROWS, "null", {"median": 0.09, "worst": 0.29}), 2),
        (Group("g", (*ROWS, row(0.2, 0.0)), "null", must_win=True), 1),
        (Group("g", ROWS, "null", must_win=True), 0),
        (Group("g", ROWS, "null", least_wins=1 / 3), 0),
        (Group("g", ROWS, "null", least_wins=2 / 3), 1),
        (Group("g", (row(0.1, bound=0.1 + 1e-9), row(0.1, bound=0.09))), 1),
        (Group("g", (row(-0.05, bound=0.1), row(-0.2, bound=0.1))), 1),
    ],
)
def test_a_group_fails_where_a_bound_is_left(group: Group, failures: int) -> None:
    assert len(group.failures) == failures
    assert Part("p", "p", (group,)).ok == (not failures)

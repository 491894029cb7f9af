"""The ladder between the two fidelities, in its short form."""

from carsim.validate.fidelity import REGIMES, compare_fidelities


def test_fluid_is_within_its_bounds_of_tile_in_every_regime() -> None:
    report = compare_fidelities(seed=7, per_regime=6)
    for regime in REGIMES:
        assert sum(point.regime == regime for point in report.points) == 6
    assert report.passes, report.differences()


def test_the_same_seed_draws_the_same_designs() -> None:
    assert compare_fidelities(3, 1) == compare_fidelities(3, 1)

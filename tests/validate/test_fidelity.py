"""The ladder between the two fidelities, in its short form."""

from carsim.validate.fidelity import REGIMES, validate_fidelity


def test_fluid_is_within_its_bounds_of_tile_in_every_regime() -> None:
    part = validate_fidelity(seed=7, per_regime=6)
    everything, *regimes = part.groups
    assert len(everything.rows) == 6 * len(REGIMES)
    assert [len(group.rows) for group in regimes] == [6] * len(REGIMES)
    assert part.ok, part.failures


def test_the_same_seed_draws_the_same_designs() -> None:
    assert validate_fidelity(seed=3, per_regime=1) == validate_fidelity(seed=3, per_regime=1)

"""The ladder between the two fidelities, in its short form."""

from carsim.validate.fidelity import REGIMES, SHORT_PER_REGIME, validate_fidelity
from carsim.validate.parts import work_out


def test_fluid_is_within_its_bounds_of_tile_in_every_regime() -> None:
    told: list[str] = []
    (part,) = work_out(["fidelity"], True, told.append)
    everything, *regimes = part.groups
    assert len(everything.rows) == SHORT_PER_REGIME * len(REGIMES)
    assert [len(group.rows) for group in regimes] == [SHORT_PER_REGIME] * len(REGIMES)
    assert part.ok, part.failures
    assert {line.partition(":")[0] for line in told} == {"fidelity"}


def test_the_same_seed_draws_the_same_designs() -> None:
    assert validate_fidelity(seed=3, per_regime=1) == validate_fidelity(seed=3, per_regime=1)

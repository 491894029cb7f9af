"""Steps of plain decoding, by hand."""

import pytest
from strategies import small_design
from tiny import resources

from carsim.base.errors import InputError
from carsim.cost.energy import energy
from carsim.runs.decode import contexts_of, decode


def test_a_batch_decodes_as_many_tokens_per_step() -> None:
    one, two = (decode(small_design(batch=batch, cores=batch), 20) for batch in (1, 2))
    assert two.tokens_per_s == pytest.approx(2 / two.seconds_per_step)
    assert one.tokens_per_s < two.tokens_per_s < 2 * one.tokens_per_s


def test_tokens_of_a_batch_share_its_joules() -> None:
    """A board draws what it draws: joules a token times tokens a second are its watts."""
    design = small_design(batch=2, cores=2)
    found, used = decode(design, 20, 24), resources(design)
    watts = found.energy_per_token(used).board.value_j * found.tokens_per_s
    activity = found.simulation.activity
    seconds = activity.cycles / (design.board.fabric_clock_mhz * 1e6)
    assert watts == pytest.approx(energy(design, activity, used).board.value_j / seconds)


def test_a_range_is_the_mean_of_its_steps() -> None:
    design = small_design(batch=1, cores=1)
    steps = [decode(design, context).cycles_per_step for context in (5, 6, 7)]
    assert decode(design, 5, 7).cycles_per_step == pytest.approx(sum(steps) / 3)


def test_a_long_range_is_sampled_where_it_hardly_matters() -> None:
    design = small_design(batch=1, cores=1)
    every = [decode(design, context).cycles_per_step for context in range(1, 301)]
    assert len(contexts_of(1, 300)) == 32
    assert decode(design, 1, 300).cycles_per_step == pytest.approx(sum(every) / 300, rel=0.005)


@pytest.mark.parametrize("contexts", [(0, None), (9, 8), (-1, 3)])
def test_a_context_that_does_not_exist_is_refused(contexts: tuple[int, int | None]) -> None:
    with pytest.raises(InputError, match=r"^context: got"):
        decode(small_design(batch=1), *contexts)

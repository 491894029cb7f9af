"""Settings of a measurement: decisions that are forced, and who computes."""

import numpy as np
import pytest

from carsim.measure.settings import (
    Decided,
    Setting,
    agreement_of,
    computing_rows,
    decided_of,
    settings_of,
)


@pytest.mark.parametrize("percent", [20, 50, 80, 100])
@pytest.mark.parametrize("agreement", ["low", "high"])
def test_every_row_replays_the_ratio_and_never_in_the_first_step(
    percent: int, agreement: str
) -> None:
    drawn = Decided(4, percent, agreement).draw(n_steps=11, n_layers=3, seed=7)  # type: ignore[arg-type]
    assert drawn.shape == (11, 3, 4)
    assert not drawn[0].any()
    assert list(drawn.sum(axis=(0, 1))) == [round(percent / 100 * 30)] * 4


def test_rows_agree_always_or_by_chance() -> None:
    high = Decided(4, 50, "high").draw(201, 4, 0)
    low = Decided(4, 50, "low").draw(201, 4, 0)
    assert agreement_of(high) == 1
    assert agreement_of(low) == pytest.approx(0.5, abs=0.05)
    assert agreement_of(high[..., :1]) == 1


def test_a_seed_gives_equal_decisions_and_another_one_others() -> None:
    decided = Decided(2, 40, "low")
    assert np.array_equal(decided.draw(9, 4, 1), decided.draw(9, 4, 1))
    assert not np.array_equal(decided.draw(9, 4, 1), decided.draw(9, 4, 2))


def test_static_keeps_rows_at_home_and_dynamic_deals_them_evenly() -> None:
    decisions = np.zeros((1, 1, 4), bool)
    decisions[0, 0, 2:] = True  # rows 2 and 3 replay
    assert computing_rows(decisions, 2, "static") == [[[[0, 1], []]]]
    assert computing_rows(decisions, 2, "dynamic") == [[[[0], [1]]]]
    assert computing_rows(decisions, 1, "none") == [[[[0, 1]]]]


@pytest.mark.parametrize("workers", [2, 3, 4])
def test_dynamic_loads_differ_by_one_row_and_every_row_computes_once(workers: int) -> None:
    decisions = np.random.default_rng(3).random((20, 3, 12)) < 0.4
    for step, of_step in enumerate(computing_rows(decisions, workers, "dynamic")):
        for layer, dealt in enumerate(of_step):
            loads = [len(rows) for rows in dealt]
            assert max(loads) - min(loads) <= 1
            expected = list(np.flatnonzero(~decisions[step, layer]))
            assert sorted(row for rows in dealt for row in rows) == expected


def test_settings_of_one_worker_have_all_numbers_of_rows_densely() -> None:
    settings = settings_of((1, 4), (20, 80), 1)
    assert [each.batch for each in settings if each.kind == "dense"] == [1, 2, 3, 4]
    assert [each.batch for each in settings if each.kind == "again"] == [1, 4]
    for kind in ("gathered", "added"):
        assert [each.batch for each in settings if each.kind == kind] == [1, 2, 3, 4]
    replays = [each.name for each in settings if each.kind == "replay"]
    assert replays == [
        "replay-b1_r20_high",
        "replay-b1_r80_high",
        "replay-b4_r20_high",
        "replay-b4_r20_low",
        "replay-b4_r80_high",
        "replay-b4_r80_low",
    ]


def test_settings_of_two_workers_leave_out_batches_that_do_not_divide() -> None:
    settings = settings_of((1, 4), (50,), 2)
    assert [each.batch for each in settings if each.kind == "dense"] == [2, 4]
    assert {each.schedule for each in settings if each.kind == "replay"} == {"static", "dynamic"}
    assert len({each.name for each in settings}) == len(settings)
    assert settings_of((1, 3), (50,), 2) == ()
    assert Setting("dense", 4, 2).name == "dense-b4"
    assert len(list(decided_of((1, 2), (20, 40)))) == 6

"""Raw times and the tables that are made of them."""

from pathlib import Path

import numpy as np
import pytest

from carsim.base.errors import InputError
from carsim.measure.samples import append_round, read_rounds
from carsim.measure.settings import Decided, Setting
from carsim.measure.tables import Measured, as_csv, block_rows, dense_rows, noise_rows, replay_rows

DENSE, AGAIN = Setting("dense", 2, 1), Setting("again", 2, 1)
UNSKIPPED = Setting("unskipped", 2, 1)
DECIDED = Decided(2, 50, "high")
REPLAY = Setting("replay", 2, 1, DECIDED)
SETTINGS = (DENSE, AGAIN, UNSKIPPED, REPLAY)


def measured(rounds: int = 5) -> Measured:
    """Attention takes 10 us a step; MLPs 30 us, 34 us, 30 us and 10 us; one round is an outlier."""
    times = np.empty((rounds, 4, 3, 2))
    times[..., 0] = 10.0
    times[..., 1] = np.array([30.0, 34.0, 30.0, 10.0])[None, :, None]
    times[0] *= 7
    return Measured(1, SETTINGS, times, n_layers=2)


def test_a_speedup_is_the_mean_of_two_dense_times_over_the_median_time() -> None:
    found = measured()
    assert found.total_us(DENSE) == 120
    assert found.speedup(REPLAY) == pytest.approx((120 + 132) / 2 / 60)
    assert found.noise(2) == pytest.approx(1 - 120 / 132)
    low, high = found.ends(REPLAY)
    assert low <= found.speedup(REPLAY) <= high


def test_dense_rows_are_tokens_per_second_of_the_batch() -> None:
    (row,) = dense_rows(measured(), "text:32+3", "machine.cores=2")
    assert row["tokens_per_s"] == 2 * 3 / 120e-6
    assert row["set"] == "policy.batch=2 machine.cores=2"


def test_blocks_come_from_dense_steps_alone() -> None:
    found = measured()
    blocks = list(block_rows(found))
    assert [(row["block"], row["rows"], row["us"]) for row in blocks] == [
        ("attention", 2, 5.0),
        ("mlp", 2, 15.0),
    ]
    found.times[:, 1:] = 1e6  # whatever all other settings take
    assert list(block_rows(found)) == blocks


def test_gathering_and_adding_are_blocks_of_their_own() -> None:
    settings = (Setting("gathered", 2, 1), Setting("added", 2, 1))
    times = np.full((3, 2, 3, 2), 8.0)
    times[:, 1, :, 1] = 6.0
    blocks = block_rows(Measured(1, settings, times, n_layers=2))
    assert [(row["block"], row["rows"], row["us"]) for row in blocks] == [
        ("gather", 2, 4.0),
        ("replay", 2, 3.0),
    ]


def test_replay_rows_state_ratio_agreement_and_noise() -> None:
    decisions = {DECIDED.name: DECIDED.draw(3, 2, 0)}
    (row,) = replay_rows(measured(), decisions)
    assert (row["ratio"], row["agreement"], row["speedup"]) == (0.5, 1.0, 2.1)
    assert row["noise"] == pytest.approx(0.0909)
    (noise,) = noise_rows(measured())
    assert noise["unskipped_us"] == 120
    assert as_csv([noise]).count("\n") == 2


def test_rounds_are_read_back_and_a_cut_one_is_left_out(tmp_path: Path) -> None:
    file, times = tmp_path / "samples.csv", measured().times
    for number in range(3):
        append_round(file, 1, number, SETTINGS, times[number])
        append_round(file, 2, number, SETTINGS, times[number] + 1)
    assert read_rounds(file, 1, SETTINGS, 3) == pytest.approx(times[:3])
    assert read_rounds(file, 2, SETTINGS, 3) == pytest.approx(times[:3] + 1)
    whole = file.read_text()
    for kept in (len(whole) - 3, len(whole) - 30):
        file.write_text(whole[:kept])
        assert len(read_rounds(file, 1, SETTINGS, 3)) == 3
        assert len(read_rounds(file, 2, SETTINGS, 3)) == 2
        append_round(file, 2, 2, SETTINGS, times[2] + 1)
        assert len(read_rounds(file, 2, SETTINGS, 3)) == 3


def test_lines_of_another_measurement_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "samples.csv"
    append_round(file, 1, 0, SETTINGS, measured().times[0])
    with pytest.raises(InputError, match="line 2 belongs to no setting"):
        read_rounds(file, 1, SETTINGS[1:], 3)
    assert len(read_rounds(tmp_path / "none.csv", 1, SETTINGS, 3)) == 0

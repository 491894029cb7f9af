"""``carsim validate replay``: predictions from dense rows alone, scored by measured replay."""

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest

from carsim.base.errors import InputError
from carsim.validate import replay as part
from carsim.validate.replay import (
    CARSIM,
    Key,
    MeasuredReplay,
    measured_folders,
    predict,
    read_measured,
    shipped_rows,
    validate_replay,
)
from carsim.validate.replay_rivals import (
    RIVALS,
    DenseEvidence,
    Replay,
    bytes_over_bandwidth,
    linear_skipping,
    ridge_of,
    roofline,
    table_of_blocks,
)

MLP_US = {1: 20.0, 2: 50.0, 3: 40.0, 4: 60.0}
DENSE = DenseEvidence(
    workers=1,
    attention_weights=40,
    mlp_weights=60,
    n_layers=1,
    step_us={1: 30.0, 2: 30.0, 4: 60.0},
    blocks={
        ("attention", 1): dict.fromkeys(MLP_US, 10.0),
        ("mlp", 1): MLP_US,
        ("mlp", 2): {1: 30.0, 2: 70.0},
        ("attention", 2): {1: 10.0, 2: 10.0},
    },
)


def replay(*rows: tuple[int, ...]) -> Replay:
    """Decisions of one layer: a row of 0 (computes) and 1 (replays) for each step."""
    return Replay(np.array(rows, bool)[:, None, :], "none", 1)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The smallest shipped measurement with three of its traces."""
    folder = tmp_path / "tiny"
    shutil.copytree(shipped_rows() / "tiny", folder)
    for trace in (folder / "traces").iterdir():
        if trace.stem not in ("b1_r80_high", "b4_r60_high", "b4_r60_low"):
            trace.unlink()
    return folder


def test_predictions_open_no_replay_row(copied: Path) -> None:
    expected = predict(copied)
    for name in ("replay.csv", "noise.csv"):
        (copied / name).unlink()
    assert predict(copied) == expected
    with pytest.raises(InputError, match=r"replay\.csv"):
        read_measured(copied)


def test_predictions_stay_if_measured_speedups_change(copied: Path) -> None:
    before = predict(copied).speedups
    rows = list(csv.DictReader((copied / "replay.csv").read_text().splitlines()))
    lines = [",".join(rows[0])]
    lines += [",".join((row | {"speedup": "9"}).values()) for row in rows]
    (copied / "replay.csv").write_text("\n".join(lines) + "\n")
    assert {row.speedup for row in read_measured(copied)} == {9.0}
    assert predict(copied).speedups == before
    predictors = {CARSIM, part.BY_LAYER, part.BARE, *RIVALS}
    assert set(before[Key("tiny", "b4_r60_low", 1, "none")]) == predictors


def test_linear_skipping_saves_its_share() -> None:
    assert linear_skipping(DENSE, replay((0, 0), (1, 0))) == pytest.approx(1 / (1 - 0.25 * 0.6))


def test_bytes_are_saved_only_where_no_row_computes() -> None:
    assert bytes_over_bandwidth(DENSE, replay((1, 0), (0, 1))) == 1
    assert bytes_over_bandwidth(DENSE, replay((0, 0), (1, 1))) == pytest.approx(200 / 140)


def test_bytes_of_workers_are_their_own() -> None:
    static = Replay(np.array([[[True, True, False, False]]]), "static", 2)
    dynamic = Replay(static.decisions, "dynamic", 2)
    assert bytes_over_bandwidth(DENSE, static) == pytest.approx(200 / 140)
    assert bytes_over_bandwidth(DENSE, dynamic) == 1


def test_the_table_takes_the_dense_time_of_each_number_of_rows() -> None:
    # Four rows: dense 10 + 60 a step; with three rows 10 + 40, with two 10 + 50, with none 10.
    found = table_of_blocks(DENSE, replay((1, 0, 0, 0), (1, 1, 0, 0), (1, 1, 1, 1)))
    assert found == pytest.approx(3 * 70 / (50 + 60 + 10))


def test_a_worker_alone_takes_times_of_one_worker() -> None:
    dense = DenseEvidence(2, 40, 60, 1, DENSE.step_us, DENSE.blocks)
    decisions = np.array([[[True, True, False, False]]])
    static = table_of_blocks(dense, Replay(decisions, "static", 2))
    dynamic = table_of_blocks(dense, Replay(decisions, "dynamic", 2))
    assert static == pytest.approx(80 / 60)
    assert dynamic == pytest.approx(80 / 40)


def test_the_roofline_finds_the_ridge_of_dense_steps() -> None:
    assert ridge_of(DENSE) == pytest.approx(2, rel=0.02)
    # Above the ridge of 2 rows, halving 4 rows halves the MLP: 60 * 2 against 60.
    expected = (40 * 2 + 60 * 2) / (40 * 2 + 60)
    assert roofline(DENSE, replay((1, 1, 0, 0))) == pytest.approx(expected, rel=0.02)


def test_noise_above_half_of_the_effect_is_not_scored() -> None:
    key = Key("here", "b2_r50_low", 1, "none")

    def row(speedup: float, noise: float) -> MeasuredReplay:
        return MeasuredReplay(key, 2, 0.5, 0.5, speedup, speedup - 0.01, speedup + 0.01, noise)

    assert row(1.10, 0.049).is_scored
    assert not row(1.10, 0.051).is_scored
    assert row(0.90, 0.049).is_scored
    assert row(1.10, 0.02).covers(1.13)
    assert not row(1.10, 0.0).covers(1.13)


def test_a_folder_of_one_measurement_or_of_several(copied: Path, tmp_path: Path) -> None:
    assert measured_folders(copied) == [copied]
    assert measured_folders(copied.parent) == [copied]
    (tmp_path / "empty").mkdir()
    for place in ("empty", "absent"):
        with pytest.raises(InputError, match="is no folder of carsim measure"):
            measured_folders(tmp_path / place)


def test_shipped_rows_cross_sizes_batches_ratios_agreement_and_workers() -> None:
    measured = [row for folder in measured_folders(shipped_rows()) for row in read_measured(folder)]
    sizes = {"tiny", "medium", "large"}
    assert {row.key.folder for row in measured} == sizes | {f"xeon_{size}" for size in sizes}
    assert {row.batch for row in measured} == {1, 2, 4, 8}
    assert len({round(row.ratio, 1) for row in measured}) == 4
    assert {(row.key.workers, row.key.schedule) for row in measured} == {
        (1, "none"), (2, "static"), (2, "dynamic"),
    }  # fmt: skip
    assert {row.agreement == 1 for row in measured} == {True, False}


def test_the_table_of_dense_blocks_is_nearer_than_linear_skipping_on_large_layers() -> None:
    found = validate_replay(folder=shipped_rows() / "large")
    means = {group.rival: group.theirs.mean for group in found.groups[:7] if group.theirs}
    assert means["table of dense blocks"] < 0.5 * means["linear skipping"]
    assert any("settings were measured" in note for note in found.notes)


def test_carsim_with_times_of_blocks_is_nearer_than_every_rival_on_small_layers() -> None:
    """Gathering and adding take a third of a small MLP, and no rival knows them."""
    found = validate_replay(folder=shipped_rows() / "xeon_tiny")
    rivals = {group.rival: group for group in found.groups[: 2 + len(RIVALS)]}
    assert set(rivals) == {part.BY_LAYER, part.BARE, *RIVALS}
    for group in rivals.values():
        assert group.theirs is not None
        assert group.ours.mean < group.theirs.mean

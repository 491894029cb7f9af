"""A whole measurement, and the files that it leaves in every case."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from carsim import load_design, load_trace, run
from carsim.base.errors import InputError
from carsim.base.yaml_file import read_mapping
from carsim.cli.measure import measure as command
from carsim.measure import host, measuring
from carsim.measure.measuring import Wish, measure
from carsim.measure.shape import SIZES, bytes_of, shape_of, weights_of
from carsim.runs.calibrate import fit, measured_points

WISH = Wish("tiny", batches=(1, 2), workers=(1,), percents=(50,), n_steps=4)


def quiet(*_: Any) -> None:
    """No progress."""


def rows(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(file.read_text().splitlines()))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("measured") / "here"
    measure(WISH, made, 0.0001, quiet)
    return made


def test_a_measurement_writes_all_files(folder: Path) -> None:
    assert {file.name for file in folder.iterdir()} == {
        "blocks.csv", "dense.csv", "host.yaml", "noise.csv", "replay.csv", "samples.csv",
        "setup.yaml", "traces",
    }  # fmt: skip
    replay = rows(folder / "replay.csv")
    assert (replay[0]["batch"], replay[0]["agreement"]) == ("1", "1.0")
    assert len(replay) == 3
    assert all(float(row["low"]) <= float(row["speedup"]) <= float(row["high"]) for row in replay)
    blocks = rows(folder / "blocks.csv")
    assert [(row["block"], row["rows"]) for row in blocks] == [
        ("attention", "1"), ("mlp", "1"), ("attention", "2"), ("mlp", "2"),
        ("gather", "1"), ("gather", "2"), ("replay", "1"), ("replay", "2"),
    ]  # fmt: skip
    assert all(float(row["us"]) > 0 for row in blocks)
    setup = read_mapping(folder / "setup.yaml")
    assert setup["threads_per_worker"] == 1
    assert "numpy" in setup["libraries"]


def test_calibrate_reads_the_dense_rows(folder: Path) -> None:
    points = measured_points(str(folder / "host.yaml"), [str(folder / "dense.csv")])
    assert [point.design.policy.batch for point in points.points] == [1, 2]
    assert fit(points.points).constants.layer_us > 0


def test_run_takes_the_design_and_the_traces(folder: Path) -> None:
    trace = load_trace(folder / "traces" / "b2_r50_low.npz")
    report = run(load_design(str(folder / "host.yaml")), [trace], what_if=False)
    assert report.fit.fits
    assert report.chosen.replay_eligible == pytest.approx(0.5)


def test_the_same_command_adds_rounds_and_another_one_is_refused(folder: Path) -> None:
    before = (folder / "samples.csv").read_text()
    outcome = measure(WISH, folder, 0.05, quiet)
    assert outcome.rounds[1] > 3
    assert (folder / "samples.csv").read_text().startswith(before)
    with pytest.raises(InputError, match="another measurement: seed is 0"):
        measure(Wish(**{**vars(WISH), "seed": 1}), folder, 0.05, quiet)
    with pytest.raises(InputError, match="holds other files"):
        measure(WISH, folder / "traces", 0.05, quiet)


def test_an_abort_leaves_valid_rows(tmp_path: Path) -> None:
    told = 0

    def interrupt(*_: Any) -> None:
        nonlocal told
        told += 1
        if told > 3 * measuring.CHUNKS + 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(WISH, tmp_path / "here", 60, interrupt)
    assert len(rows(tmp_path / "here" / "replay.csv")) == 3
    assert len({row["round"] for row in rows(tmp_path / "here" / "samples.csv")}) == 3


def test_two_workers_measure_both_assignments(tmp_path: Path) -> None:
    wish = Wish("tiny", batches=(2,), workers=(2,), percents=(50,), n_steps=3)
    outcome = measure(wish, tmp_path / "here", 0.0001, quiet)
    assert [row["schedule"] for row in outcome.replay] == ["static", "dynamic"] * 2
    (dense,) = rows(tmp_path / "here" / "dense_2_workers.csv")
    assert dense["set"].startswith("policy.batch=2 machine.cores=2 ")
    points = measured_points(
        str(tmp_path / "here" / "host.yaml"), [str(tmp_path / "here" / "dense_2_workers.csv")]
    )
    assert points.points[0].design.machine.cores == 2


def test_too_little_memory_is_said_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "free_bytes", lambda: 100_000_000)
    with pytest.raises(InputError, match=r"large needs 0\.2\d GiB for 1 worker, and 0\.09 GiB"):
        measure(Wish("large"), tmp_path / "here", 1, quiet)
    assert not (tmp_path / "here").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--rows", "0,1"), "leaves the range 1 to 64"),
        (("--rows", "many"), "say 1,2,4"),
        (("--ratios", "101"), "leaves the range 1 to 100"),
        (("--threads", "2"), "not in the range"),
        (("--minutes", "nan"), "no finite number"),
    ],
)
def test_options_out_of_range_are_refused(arguments: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(command, [*arguments, "--out", "here"])
    assert result.exit_code == 2
    assert said in result.output


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        (lambda: Wish("mediun"), "no decoder 'mediun'; did you mean 'medium'"),
        (lambda: Wish("mixtral_8x7b"), "experts"),
        (lambda: Wish("tiny", batches=(1,), workers=(2,)), "divides among 2 workers"),
        (lambda: Wish("tiny", workers=(1, 2), backend="torch"), "one worker"),
    ],
)
def test_wishes_without_meaning_are_refused(
    wish: Callable[[], Wish], said: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=said):
        measure(wish(), tmp_path / "here", 1, quiet)


def test_sizes_lie_in_three_levels_of_memory() -> None:
    megabytes = [round(bytes_of(shape) / 1e6, 1) for shape in SIZES.values()]
    assert megabytes == [0.8, 12.8, 157.9]
    assert shape_of("smollm2_360m").n_layers == 32
    assert weights_of(SIZES["large"]).mlp_share == pytest.approx(0.67, abs=0.01)

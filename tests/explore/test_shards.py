"""Shards of a study, and the folders of shards joined again."""

import json
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner
from explore_study import answers, make_study, restated, spoilt, write_study

from carsim.base.errors import InputError
from carsim.cli import carsim
from carsim.explore.merge import merge
from carsim.explore.points import make_points
from carsim.explore.shards import ALL_POINTS, Shard
from carsim.explore.store import open_folder, open_store
from carsim.explore.sweep import sweep


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of three shards, ``1`` to ``3``, and of the whole study, ``whole``."""
    folder = tmp_path_factory.mktemp("parts")
    study = make_study(folder)
    for number in (1, 2, 3):
        sweep(study, folder / str(number), workers=0, shard=f"{number}/3")
    sweep(study, folder / "whole", workers=0)
    return folder


@pytest.mark.parametrize("count", [1, 2, 3, 5, 18, 40])
def test_each_point_is_in_one_shard(tmp_path: Path, count: int) -> None:
    points = make_points(make_study(tmp_path))
    shards = [Shard(number, count).points_of(points) for number in range(1, count + 1)]
    dealt = [point.ordinal for shard in shards for point in shard]
    assert sorted(dealt) == list(range(18))
    assert max(map(len, shards)) - min(map(len, shards)) <= max(1, 18 // (8 * count)) + 1
    assert all(shard == sorted(shard, key=lambda point: point.ordinal) for shard in shards)


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "a/b", "-1/3", "1/0", "1/999999", "1/3/5"])
def test_what_is_no_shard_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match="such as 3/16; shards are numbered from 1"):
        sweep(make_study(tmp_path), workers=0, shard=text)


def test_joined_shards_equal_one_sweep(parts: Path, tmp_path: Path) -> None:
    joined = merge([parts / "3", parts / "1", parts / "2"], tmp_path / "joined")
    assert (joined.points, joined.stored, joined.repeated, joined.missing) == (18, 18, 0, ())
    pd.testing.assert_frame_equal(answers(tmp_path / "joined"), answers(parts / "whole"))
    with open_store(tmp_path / "joined") as store:
        assert store.facts["shard"] == ALL_POINTS
    again = sweep(make_study(parts), tmp_path / "joined", workers=0)  # nothing is left
    pd.testing.assert_frame_equal(again, sweep(make_study(parts), tmp_path / "joined", workers=0))


def test_a_missing_shard_is_named_and_the_sweep_completes_the_folder(parts, tmp_path) -> None:
    joined = merge([parts / "1", parts / "3"], tmp_path / "joined")
    assert joined.missing == ("shard 2/3",)
    assert joined.stored < joined.points == 18
    more = merge([parts / "2", parts / "whole"], tmp_path / "joined")
    assert (more.stored, more.missing, more.repeated) == (18, (), 18)
    merge([parts / "1"], tmp_path / "one")
    assert len(sweep(make_study(parts), tmp_path / "one", workers=0)) == 18


def test_a_shard_goes_on_as_that_shard_alone(parts: Path) -> None:
    study = make_study(parts)
    assert len(sweep(study, parts / "1", workers=0, shard="1/3")) == len(answers(parts / "1"))
    for shard in ("2/3", "1/4", None):
        with pytest.raises(InputError, match="holds shard 1/3 of the study, and this is another"):
            sweep(study, parts / "1", workers=0, shard=shard)
    with pytest.raises(InputError, match="`shard`: is a part of a whole sweep"):
        sweep(study, workers=0, shard="1/3", front_only=True)


@pytest.mark.parametrize(
    ("fact", "value", "problem"),
    [
        ("version", "0", "it was made by carsim 0; join folders"),
        ("code", "0", "it was made by other code of this carsim; join folders"),
        ("kind", "front", "it holds a front, and the other a sweep"),
        ("fingerprint", "0", "its study, design or traces differ"),
        ("columns", ["x"], "it has other metrics"),
    ],
)
def test_other_results_are_not_joined(parts, tmp_path, fact, value, problem) -> None:
    other = tmp_path / "other"
    sweep(make_study(parts), other, workers=0, shard="2/3")
    restated(other, **{fact: value})
    with pytest.raises(InputError, match=problem) as refused:
        merge([parts / "1", other], tmp_path / "joined")
    assert refused.value.place == str(other)
    assert not (tmp_path / "joined").exists()


def test_another_seed_is_named(tmp_path: Path) -> None:
    for seed in (1, 2):
        drawn = {"method": "lhs", "points": 4, "seed": seed}
        sweep(make_study(tmp_path, sampling=drawn), tmp_path / str(seed), workers=0)
    with pytest.raises(InputError, match=r'another sampling or seed \(\{.*"seed": 2\} instead of'):
        merge([tmp_path / "1", tmp_path / "2"], tmp_path / "joined")


def test_results_that_differ_are_named(parts: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    study = make_study(parts)
    with open_folder(other) as store:
        store.claim(study, "sweep", 18)
        point = make_points(study)[0]
        store.add([(point, {"status": "ok", "reason": "", "latency_s": 1.0})])
    with pytest.raises(InputError, match=r"point 0 has another result: .* is 1.0 in .*other"):
        merge([other, parts / "whole"], tmp_path / "joined")


def test_failed_points_stay_unless_another_folder_has_them(parts: Path, tmp_path: Path) -> None:
    study = make_study(parts)
    one, other, *_ = make_points(study)
    failed = {"status": "failed", "reason": "killed", "seconds": 0.0}
    with open_folder(tmp_path / "a") as store:
        store.claim(study, "sweep", 18)
        store.add([(one, failed), (other, failed)])
    merge([tmp_path / "a"], tmp_path / "b")
    assert answers(tmp_path / "b")["status"].tolist() == ["failed"] * 2
    said = CliRunner().invoke(carsim, ["merge", str(tmp_path / "a"), "--out", str(tmp_path / "c")])
    assert (said.exit_code, "2 points of 18; 2 failed" in said.output) == (0, True)
    merge([tmp_path / "a", parts / "whole"], tmp_path / "d")
    pd.testing.assert_frame_equal(answers(tmp_path / "d"), answers(parts / "whole"))


def test_damaged_lines_are_left_out(parts: Path, tmp_path: Path, caplog) -> None:
    copy = tmp_path / "copy"
    sweep(make_study(parts), copy, workers=0)
    spoilt(copy, 3)
    assert merge([copy], tmp_path / "joined").stored == 17
    assert "is damaged (line 3)" in caplog.text


def test_two_writers_are_refused(parts: Path, tmp_path: Path) -> None:
    with open_folder(tmp_path / "joined"), pytest.raises(InputError, match="another carsim is"):
        merge([parts / "1"], tmp_path / "joined")


def test_shards_and_their_join_from_the_command_line(tmp_path: Path) -> None:
    study = str(write_study(tmp_path))
    folders = [str(tmp_path / str(number)) for number in (1, 2)]
    for number, folder in enumerate(folders, 1):
        how = ["--workers", "0", "--shard", f"{number}/2", "--out", folder]
        said = CliRunner().invoke(carsim, ["sweep", study, *how])
        assert f"toy study, shard {number}/2: " in said.output
    out = tmp_path / "joined"
    said = CliRunner().invoke(carsim, ["merge", *folders, "--out", str(out), "--json"])
    document = json.loads(said.output)
    assert (document["points"], document["complete"], document["missing_shards"]) == (18, True, [])
    assert json.loads((out / "manifest.json").read_text())["command"].endswith(f"--out {out}")
    joined = pd.read_csv(out / "points.csv")
    assert joined["point"].tolist() == list(range(18))


def test_parquet_of_shards_is_one_data_set(parts: Path, tmp_path: Path) -> None:
    """A column has one type in all shards, even where a shard has no figure of it."""
    pytest.importorskip("pyarrow")
    axes = {"board.dsp": [1, 2520], "machine.cores": [1, 2]}  # no point of 1 DSP slice fits
    study = str(write_study(tmp_path, axes=axes))
    for number in range(1, 5):
        how = ["--workers", "0", "--shard", f"{number}/4", "--out", str(tmp_path / str(number))]
        CliRunner().invoke(carsim, ["sweep", study, *how])
    CliRunner().invoke(carsim, ["sweep", study, "--workers", "0", "--out", str(tmp_path / "all")])
    files = [tmp_path / str(number) / "points.parquet" for number in range(1, 5)]
    read = pd.read_parquet(files).sort_values("point", ignore_index=True)
    whole = pd.read_parquet(tmp_path / "all" / "points.parquet")
    pd.testing.assert_frame_equal(read.drop(columns="seconds"), whole.drop(columns="seconds"))

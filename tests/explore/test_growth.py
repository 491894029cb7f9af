"""Results are kept by content: studies grow, and results come from other folders and other code."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from click.testing import CliRunner
from explore_study import AXES, answers, make_study, restated, write_study
from tiny import write_inputs

from carsim.base.errors import InputError
from carsim.cli import carsim
from carsim.explore.evaluate import Evaluator
from carsim.explore.points import make_points
from carsim.explore.store import STORE_FILE, checksum, open_folder, open_store
from carsim.explore.study import Study
from carsim.explore.sweep import Progress, fill, sweep

GROWN = [
    {"axes": {**AXES, "machine.cores": [1, 2, 3, 4]}},  # a value in between
    {"axes": {**AXES, "policy.tau": [0.5, -0.5, 0.25, 0.0]}},  # another order
    {"axes": {**AXES, "machine.array.cols": [2, 4, 8]}},  # one more axis
    {"axes": {**AXES, "machine.cores": [4, 2]}},  # fewer values
    {"axes": AXES, "filters": ["machine.cores > 1"]},
]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a sweep of 18 points, and its study beside it."""
    folder = tmp_path_factory.mktemp("kept")
    sweep(make_study(folder), folder / "out", workers=0)
    return folder


def filled(study: Study, folder: Path, **how: Any) -> Progress:
    with open_folder(folder) as store:
        return fill(store, study, workers=0, **how)


@pytest.mark.parametrize("changes", GROWN)
def test_a_study_that_changes_keeps_the_points_that_it_shares(tmp_path, changes) -> None:
    sweep(make_study(tmp_path), tmp_path / "out", workers=0)
    study = make_study(tmp_path, **changes)
    done = filled(study, tmp_path / "out")
    whole = sweep(study, workers=0)
    assert done.reused >= 12
    assert done.reused + done.evaluated == len(whole)
    pd.testing.assert_frame_equal(answers(tmp_path / "out"), answers(whole))
    again = filled(study, tmp_path / "out")
    assert (again.evaluated, again.reused) == (0, 0)
    back = filled(make_study(tmp_path), tmp_path / "out")
    assert (back.evaluated, back.reused) == (0, 18)
    first = sweep(make_study(tmp_path), workers=0)
    pd.testing.assert_frame_equal(answers(tmp_path / "out"), answers(first))


def test_a_store_that_grows_is_interrupted_and_goes_on(tmp_path: Path) -> None:
    sweep(make_study(tmp_path), tmp_path / "out", workers=0)
    study = make_study(tmp_path, **GROWN[0])
    with open_folder(tmp_path / "out") as store:
        store.claim(study, "sweep", 24)
        assert store.counts().total() == 0
        first = make_points(study)[0]
        row = store.row_of(first)
        assert row is not None
        store.add([(first, row)])
    done = filled(study, tmp_path / "out")
    assert (done.evaluated, done.reused) == (6, 17)
    pd.testing.assert_frame_equal(answers(tmp_path / "out"), answers(sweep(study, workers=0)))


def test_a_front_grows(tmp_path: Path) -> None:
    axes = {"machine.cores": [1, 2], "board.fabric_clock_mhz": [100.0, 200.0, 400.0]}
    goals = ["seconds_per_video", "dsp", "energy_per_video_j"]
    sweep(make_study(tmp_path, axes=axes, objectives=goals), tmp_path / "out", front_only=True)
    study = make_study(tmp_path, axes=axes | {"machine.cores": [1, 2, 4]}, objectives=goals)
    done = filled(study, tmp_path / "out", front_only=True)
    assert done.reused > 0
    assert done.finished == done.total == 9
    with open_store(tmp_path / "out") as store:
        assert store.facts["within"] == 0.0


def test_a_store_of_quite_another_study_is_refused(kept: Path, tmp_path: Path) -> None:
    sweep(make_study(tmp_path, set={"policy.batch": 2}), tmp_path / "out", workers=0)
    with pytest.raises(InputError, match=r"is of another study .*`reuse`"):
        sweep(make_study(tmp_path), tmp_path / "out", workers=0)


def test_a_folder_is_reused_under_other_names(kept: Path, tmp_path: Path) -> None:
    """Names of axes and of studies, and fields at their usual values, are no content."""
    choice = {
        "two": {"machine.cores": 2},
        "four": {"machine.cores": 4},
        "six": {"machine.cores": 6},
    }
    axes = {"size": {"choice": choice}, "policy.schedule": ["drs", "static"]}
    study = make_study(
        tmp_path, name="other", axes=axes, set={"policy.tau": 0.5, "policy.batch": 4}
    )
    done = filled(study, tmp_path / "out", reuse=[kept / "out"])
    assert (done.reused, done.evaluated) == (4, 2)
    pd.testing.assert_frame_equal(answers(tmp_path / "out"), answers(sweep(study, workers=0)))


def test_other_contents_are_not_reused(kept: Path, tmp_path: Path) -> None:
    write_inputs(tmp_path)
    design = yaml.safe_load((tmp_path / "toy.yaml").read_text())
    design["machine"]["array"]["rows"] = 8
    (tmp_path / "toy.yaml").write_text(yaml.safe_dump(design))
    study = make_study(tmp_path, axes={"machine.cores": [1, 2]})
    assert filled(study, tmp_path / "a", reuse=[kept / "out"]).reused == 0
    (tmp_path / "toy.npz").unlink()
    write_inputs(tmp_path, seed=1)
    study = make_study(tmp_path, axes={"machine.cores": [1, 2]})
    assert filled(study, tmp_path / "b", reuse=[kept / "out"]).reused == 0


def test_a_folder_of_other_code_is_not_reused(tmp_path: Path) -> None:
    study = make_study(tmp_path)
    sweep(study, tmp_path / "out", workers=0)
    restated(tmp_path / "out", code="0")
    with pytest.raises(InputError, match=r"`reuse` .*: was made by other code of this carsim"):
        sweep(study, workers=0, reuse=[tmp_path / "out"])


def test_other_code_is_accepted_if_its_results_are_equal(tmp_path: Path) -> None:
    study = str(write_study(tmp_path))
    out = ["--out", str(tmp_path / "out"), "--workers", "0"]
    CliRunner().invoke(carsim, ["sweep", study, *out])
    restated(tmp_path / "out", code="0", version="0.0.1")
    refused = CliRunner().invoke(carsim, ["sweep", study, *out]).exception
    assert "made by carsim 0.0.1, not by this version; name another folder, or" in str(refused)
    assert CliRunner().invoke(carsim, ["sweep", study, *out, "--accept-code"]).exit_code == 0
    with open_store(tmp_path / "out") as store:
        (record,) = store.facts["accepted"]
    assert (record["version"], record["code"], record["checked"]) == ("0.0.1", "0", 18)
    assert 0 < record["front"] <= 18
    assert CliRunner().invoke(carsim, ["sweep", study, *out]).exit_code == 0


def test_other_code_with_another_result_is_refused(tmp_path: Path, monkeypatch) -> None:
    study = make_study(tmp_path)
    sweep(study, tmp_path / "out", workers=0)
    restated(tmp_path / "out", code="0")
    before = (tmp_path / "out" / STORE_FILE).read_bytes()
    evaluate = Evaluator.evaluate

    def other(self, points):
        rows = evaluate(self, points)
        for point, row in zip(points, rows, strict=True):
            if point.ordinal == 7:
                row["latency_s"] *= 1 + 1e-15
        return rows

    monkeypatch.setattr(Evaluator, "evaluate", other)
    with pytest.raises(InputError, match="point 7 has another result: latency_s is "):
        sweep(study, tmp_path / "out", workers=0, accept_code=True)
    assert (tmp_path / "out" / STORE_FILE).read_bytes() == before


def test_a_damaged_line_is_not_taken_over(tmp_path: Path) -> None:
    sweep(make_study(tmp_path), tmp_path / "out", workers=0)
    lines = (tmp_path / "out" / STORE_FILE).read_bytes().splitlines(keepends=True)
    assert lines[3].startswith(checksum(lines[3].split(b"\t", 1)[1][:-1]))
    lines[3] = lines[3].replace(b"\tok\t", b"\tno\t")
    (tmp_path / "out" / STORE_FILE).write_bytes(b"".join(lines))
    done = filled(make_study(tmp_path, **GROWN[0]), tmp_path / "out")
    assert (done.reused, done.evaluated) == (17, 7)


def test_a_sweep_takes_a_design_and_axes(tmp_path: Path) -> None:
    write_inputs(tmp_path)
    design = str(tmp_path / "toy.yaml")
    frame = sweep(design, {"machine.cores": [1, 2]}, workload="video:1", workers=0)
    assert frame["machine.cores"].tolist() == [1, 2]
    assert (frame["status"] == "ok").all()
    contents = {"design": design, "workload": "video:1", "axes": {"machine.cores": [1, 2]}}
    pd.testing.assert_frame_equal(answers(sweep(contents, workers=0)), answers(frame))
    assert len(sweep(design, {"machine.cores": [2]}, workers=0)) == 1
    with pytest.raises(InputError, match="`workload`: goes with axes"):
        sweep(contents, workload="video:1")
    with pytest.raises(InputError, match="no field 'core'"):
        sweep(design, {"machine.core": [1]}, workers=0)


def test_replay_is_a_name_in_filters(tmp_path: Path) -> None:
    axes = {"replay": [True, False], "policy.tau": [0.0, 0.5]}
    study = make_study(tmp_path, axes=axes, filters=["replay or policy.tau == 0.0"])
    assert [point.values["replay"] for point in make_points(study)] == [True, True, False]
    choice = {"off": {"replay": False}, "on": {"policy.tau": 0.5}}
    study = make_study(tmp_path, axes={"mode": {"choice": choice}}, filters=["replay"])
    assert [point.values["mode"] for point in make_points(study)] == ["on"]
    with pytest.raises(InputError, match="no field 'trace'"):
        make_study(tmp_path, axes={"policy.tau": [0.5]}, filters=["trace == 'x'"])

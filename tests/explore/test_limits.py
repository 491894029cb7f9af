"""Constraints on times, rates and energy leave designs out before they are evaluated."""

import numpy as np
import pytest
from explore_study import make_study

from carsim.explore.certified import CertifiedFront
from carsim.explore.grid import GridStudy
from carsim.explore.grid_bounds import BOUNDS_FILE, GridBounds, grid_bounds, key_of
from carsim.explore.pareto import pareto
from carsim.explore.store import Store, open_folder
from carsim.explore.sweep import fill, sweep
from carsim.report.stored_study import StoredStudy

AXES = {
    "machine.cores": [1, 2, 4],
    "machine.array.rows": [2, 8],
    "board.fabric_clock_mhz": [50.0, 100.0, 200.0, 400.0],
}
GOALS = ["seconds_per_video", "energy_per_video_j", "dsp"]


@pytest.mark.parametrize(
    ("metric", "operator"),
    [
        ("latency_s", "<="),
        ("frames_per_s", ">="),
        ("energy_per_video_j", "<="),
        ("tokens_per_s", ">"),
        ("expected_seconds_per_video", "<"),
    ],
)
def test_a_limit_leaves_out_designs_and_keeps_the_front(tmp_path, metric, operator) -> None:
    study = make_study(tmp_path, axes=AXES, objectives=GOALS, baseline=False)
    whole = sweep(study, workers=0)
    fast = whole[metric].quantile(0.3 if operator.startswith("<") else 0.7)
    limits = [f"{metric} {operator} {fast}"]
    study = make_study(tmp_path, axes=AXES, objectives=GOALS, constraints=limits, baseline=False)
    with Store() as store:
        done = fill(store, study, workers=0, front_only=True)
        some = StoredStudy.of(store)
    assert some.front["point"].tolist() == pareto(whole, GOALS, limits)["point"].tolist()
    assert done.misfits[(limits[0],)] > 5
    met = whole.query(limits[0])["point"]
    assert done.evaluated < len(whole) - len(met)


def test_a_limit_the_other_way_round_is_no_proof(tmp_path) -> None:
    limits = ["latency_s >= 0", "0 <= frames_per_s", "latency_s * 2 <= 1e9", "busy >= 0"]
    study = make_study(tmp_path, axes=AXES, objectives=["latency_s"], constraints=limits)
    with pytest.warns(UserWarning, match="no bound of busy: constraints on it leave out no design"):
        chooser = CertifiedFront(GridStudy(study))
    assert not any(broken.any() for broken in chooser.bounds.missing.values())


def test_bounds_are_kept_for_the_next_time(tmp_path, monkeypatch) -> None:
    limits = ["latency_s <= 1e-3", "dsp <= 100"]
    study = make_study(tmp_path, axes=AXES, objectives=GOALS, constraints=limits).lean
    kept = tmp_path / BOUNDS_FILE
    made = grid_bounds(GridStudy(study), kept)
    monkeypatch.setattr("carsim.explore.grid_bounds.bounds_of", None)
    again = grid_bounds(GridStudy(study), kept)
    assert again.sha256() == made.sha256()
    np.testing.assert_equal(again.objectives, made.objectives)
    np.testing.assert_equal(dict(again.missing), dict(made.missing))
    other = make_study(tmp_path, axes=AXES, objectives=GOALS, constraints=["dsp <= 9"]).lean
    assert GridBounds.load(kept, key_of(other)) is None
    data = bytearray(kept.read_bytes())
    data[len(data) // 2] ^= 1
    kept.write_bytes(bytes(data))
    assert GridBounds.load(kept, key_of(study)) is None
    kept.write_bytes(b"")
    assert GridBounds.load(kept, key_of(study)) is None


def test_an_interrupted_front_goes_on_without_new_bounds(tmp_path, monkeypatch) -> None:
    study = make_study(tmp_path, axes=AXES, objectives=GOALS)
    whole = sweep(study, workers=0, front_only=True)
    pressed = []

    def press(progress) -> None:
        if progress.evaluated and not pressed:
            pressed.append(progress.evaluated)
            raise KeyboardInterrupt

    with open_folder(tmp_path / "out") as store, pytest.raises(KeyboardInterrupt):
        fill(store, study, workers=0, front_only=True, tell=press)
    monkeypatch.setattr("carsim.explore.grid_bounds.bounds_of", None)
    again = sweep(study, tmp_path / "out", workers=0, front_only=True)
    goals = dict.fromkeys(GOALS, "min")
    assert pareto(again, goals)["point"].tolist() == pareto(whole, goals)["point"].tolist()

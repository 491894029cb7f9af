"""Metrics that no point of a study can have are refused before anything is evaluated."""

import pytest
from commands import call
from explore_study import make_study, write_study

from carsim.base.errors import InputError
from carsim.explore.answerable import ONLY_IN_RUNS, check_answerable
from carsim.explore.sweep import sweep
from carsim.metrics import METRICS

TEXT = {"design": "kv260", "traces": None, "workload": "text:16+4"}
TEXT |= {"set": {"model.preset": "tiny"}, "axes": {"machine.cores": [1, 2]}}
VIDEO = {**TEXT, "workload": "video:2,replay=0.5"}


@pytest.mark.parametrize(
    ("study", "message"),
    [
        ({**TEXT, "objectives": ["frames_per_s"]}, "$.objectives: frames_per_s has no value for a"),
        (
            {**TEXT, "constraints": ["frames_per_s >= 1"]},
            "$.constraints: frames_per_s has no value",
        ),
        (
            {**TEXT, "objectives": ["first_frame_s"]},
            "$.objectives: first_frame_s has no value for a decoder",
        ),
        ({**TEXT, "objectives": ["area_mm2"]}, "area_mm2 has no value on KV260; take another"),
        ({**TEXT, "objectives": ["latency_high_s"]}, "only carsim run computes it"),
        ({**TEXT, "baseline": False, "objectives": ["speedup"]}, "without dense decoding ($.base"),
    ],
)
def test_a_metric_without_any_value_is_refused(tmp_path, study, message):
    with pytest.raises(InputError) as caught:
        check_answerable(make_study(tmp_path, **study))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"objectives": ["frames_per_s"], "axes": {"workload": ["text:16+4", "video:2"]}},
        {"objectives": ["area_mm2"], "axes": {"design": ["kv260", "asic_7nm_hbm3"]}},
        {"constraints": ["machine.cores < 2"], "objectives": ["cost_usd", "first_token_s"]},
    ],
)
def test_a_metric_that_some_points_have_is_taken(tmp_path, changes):
    check_answerable(make_study(tmp_path, **{**TEXT, **changes}))


@pytest.mark.parametrize("study", [TEXT, VIDEO])
def test_what_is_taken_has_a_value_and_what_is_refused_has_none(tmp_path, study):
    frame = sweep(make_study(tmp_path, **study), workers=0)
    assert set(frame.status) == {"ok"}
    for name, metric in METRICS.items():
        if metric.better is None:
            continue
        try:
            check_answerable(make_study(tmp_path, **{**study, "objectives": [name]}))
        except InputError:
            assert frame[name].isna().all(), name
        else:
            assert frame[name].notna().all(), name
    assert set(ONLY_IN_RUNS) <= METRICS.keys()


@pytest.mark.parametrize("command", [["sweep"], ["search", "--points", "2"]])
def test_commands_refuse_it_and_leave_no_folder(tmp_path, command):
    path = write_study(tmp_path, **{**TEXT, "objectives": ["frames_per_s"]})
    done = call(command[0], path, "--out", tmp_path / "out", *command[1:])
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert "frames_per_s has no value for a text" in done.err
    assert not (tmp_path / "out").exists()


def test_a_plot_or_a_front_of_it_is_refused(tmp_path):
    out = tmp_path / "out"
    sweep(make_study(tmp_path, **TEXT), out, workers=0)
    of_metric = call("report", out, "--plot", "frames_per_s", "--out", tmp_path / "a.svg")
    assert of_metric.status == 2
    assert "frames_per_s: has no value in any of 2 rows" in of_metric.err
    how = ("--objective", "frames_per_s", "--objective", "lut")
    of_front = call("report", out, "--plot", "front", *how, "--out", tmp_path / "a.svg")
    assert of_front.status == 2
    assert "no point has a value of frames_per_s" in of_front.err
    assert "no point has a value of frames_per_s" in call("report", out, "--front", *how).err
    assert not (tmp_path / "a.svg").exists()

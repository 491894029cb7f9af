"""Quality is interpolated in tau between what was measured, and missing elsewhere."""

import math
from dataclasses import replace

import pytest
from explore_study import write_study

from carsim.base.errors import InputError
from carsim.decisions.trace.file import filed
from carsim.explore.evaluate import Evaluator
from carsim.explore.points import make_points
from carsim.explore.quality import load_quality
from carsim.explore.study import load_study

CSV = """\
frames,scope,window,sampling,tau,replay_eligible,teacher_forced_nats,teacher_forced_dense_nats
3,row,0,greedy,-1.0,20,5.0,4.0
3,row,0,greedy,1.0,30,4.5,4.0
3,row,0,greedy,0.0,,4.6,4.0
3,row,0,greedy,inf,99,4.0,4.0
3,row,256,greedy,0.0,10,9.0,4.0
3,pair,0,greedy,0.0,28,4.2,4.0
"""


@pytest.fixture
def quality(tmp_path):
    (tmp_path / "quality.csv").write_text(CSV, encoding="utf-8")
    return load_quality(tmp_path / "quality.csv")


def at(quality, tau, scope="row", window=0, frames=3, sampling="greedy"):
    return quality.at(tau, frames=frames, scope=scope, window=window, sampling=sampling)


def test_between_measurements_it_is_linear(quality):
    columns, note = at(quality, 0.5)
    assert columns["quality_replay_eligible"] == pytest.approx(27.5)  # from -1 and 1: 0 has none
    assert columns["quality_nats"] == pytest.approx(4.55)
    assert columns["quality_loss"] == pytest.approx(0.55)
    assert note == ""


@pytest.mark.parametrize("tau", [-1.01, 1.01])
def test_beyond_measurements_it_is_missing(quality, tau):
    columns, note = at(quality, tau)
    assert all(map(math.isnan, columns.values()))
    assert note == f"tau {tau:g} is outside of what was measured; measured are -1 to 1"


def test_other_policies_have_curves_of_their_own(quality):
    assert at(quality, 0.0, window=256)[0]["quality_replay_eligible"] == 10
    assert at(quality, 0.0, scope="pair")[0]["quality_replay_eligible"] == 28
    for other in ({"scope": "batch"}, {"frames": 8}, {"sampling": "top_k"}, {"window": 64}):
        columns, note = at(quality, 0.0, **other)
        assert all(map(math.isnan, columns.values()))
        assert note.startswith("nothing was measured for")


def test_points_of_a_study_carry_it(tmp_path, quality):
    axes = {"policy.tau": [0.0, "captured", 2.0], "policy.decision_scope": ["row", "pair"]}
    study = load_study(write_study(tmp_path, axes=axes, quality="quality.csv"))
    evaluator = Evaluator(study)
    rows = {tuple(p.values.values()): evaluator.evaluate(p) for p in make_points(study)}
    assert rows[0.0, "row"]["quality_loss"] == pytest.approx(0.6)
    assert rows["captured", "row"]["quality_loss"] == rows[0.0, "row"]["quality_loss"]
    assert rows[0.0, "pair"]["quality_loss"] == pytest.approx(0.2)
    assert rows[2.0, "row"]["quality_loss"] is None
    assert rows[2.0, "row"]["quality_note"].startswith("tau 2 is outside of what was measured")
    assert all(row["status"] == "ok" for row in rows.values())


def test_layers_that_never_replay_leave_one_tau_to_look_up(tmp_path, quality):
    study = load_study(
        write_study(tmp_path, axes={"policy.tau": ["captured"]}, quality="quality.csv")
    )
    (name, trace), (point,) = *study.traces.items(), make_points(study)
    exempt = (math.inf, *[0.0] * (trace.n_layers - 1))
    for taus, loss in ((exempt, 0.6), ((0.5, *exempt[1:]), None)):
        meta = trace.meta.model_copy(update={"tau": taus})
        consistent = replace(trace, meta=meta, replay=meta.replay.exceeds(trace.tas))
        other = replace(study, traces={name: filed(consistent, "0" * 64)})
        row = Evaluator(other).evaluate(point)
        assert row.get("quality_loss") == (loss and pytest.approx(loss))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("window,", "windows,", "has no column 'window'; it needs frames, scope, window"),
        (
            "replay_eligible,teacher_forced_nats,teacher_forced_dense_nats",
            "a,b,c",
            "measures nothing",
        ),
        ("-1.0,20", "-1.0,good", ":2: replay_eligible is 'good'; give a finite number"),
        ("greedy,1.0", "greedy,-1.0", ":3: tau -1 is measured twice for"),
        ("3,pair", "three,pair", ":7: frames is 'three'"),
    ],
)
def test_a_bad_table_is_one_line(tmp_path, old, new, message):
    path = tmp_path / "quality.csv"
    path.write_text(CSV.replace(old, new), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_quality(path)
    assert message in str(caught.value)

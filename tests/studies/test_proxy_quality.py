"""The quality study gathers what traces measured, clip by clip, as studies read it."""

import pandas as pd
import pytest
from trace_maker import make_quality, make_trace

from studies import measured
from studies.proxy import quality as study


def cells():
    losses = {"teacher_forced_nats": {"own": (1.5, 2.75), "dense": (1.25, 2.5)}}
    few = make_trace(tau=1.0, quality=make_quality())
    many = make_trace(tau=-1.0, quality=make_quality(**losses))
    return pd.concat([study.cells_of(few), study.cells_of(many)])


def test_means_are_what_studies_read(tmp_path, monkeypatch):
    means = study.means_of(cells()).set_index("tau")
    assert means.loc[1.0, "teacher_forced_nats"] == 2.0
    assert means.loc[-1.0, "loss_low"] == means.loc[-1.0, "loss_high"] == 0.25
    assert means.loc[1.0, "loss_low"] == 0
    study.means_of(cells()).to_csv(tmp_path / "quality.csv", index=False)
    monkeypatch.setattr(measured, "TABLE", tmp_path / "quality.csv")
    monkeypatch.setattr(measured, "FRAMES", 3)
    found = measured.with_quality(pd.DataFrame({"policy.tau": [0.0, 1.0, 1.5]}))["quality_loss"]
    assert list(found[:2]) == pytest.approx([(0.125 + 0.25) / 2, 0.125])
    assert found.isna().tolist() == [False, False, True]

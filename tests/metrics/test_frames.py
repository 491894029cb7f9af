"""Results as frames, and as what a terminal or a notebook shows of them."""

import pytest
from tiny import MISFIT, tiny_design, tiny_report, tiny_trace

from carsim import run


def test_phases_sum_to_the_latency_of_every_row() -> None:
    report = tiny_report()
    phases = report.phases()
    assert list(phases.columns) == [row.variant.name for row in report.rows]
    assert list(phases.index) == ["prefill", "qkv", "attention", "output", "mlp", "head"]
    latencies = report.to_frame()["latency_s"].to_numpy()
    assert phases.sum().to_numpy() == pytest.approx(latencies)
    assert report.breakdown().sum().to_numpy() == pytest.approx(latencies[:-1])  # no bound


def test_limits_elasticities_and_fit_as_frames() -> None:
    report = tiny_report()
    limits = report.limits_frame()
    assert list(limits.index) == [limit.phase for limit in report.limits]
    assert limits["share_of_time"].sum() == pytest.approx(1)
    shares = limits[[f"{limit}_share" for limit in ("compute", "memory", "port", "dependency")]]
    assert (shares.idxmax(axis=1) == limits["limited_by"] + "_share").all()
    changes = {e.resource: e.latency_change_per_10_percent for e in report.elasticities}
    assert dict(report.elasticities_frame()["latency_change"]) == changes
    fit = report.fit_frame()
    assert fit["fits"].all()
    assert list(fit["needed"]) == [row.needed for row in report.fit.rows]
    assert not tiny_report(MISFIT).fit_frame()["fits"].all()


def test_a_terminal_shows_one_line() -> None:
    report = tiny_report()
    assert repr(report).startswith("<Report of toy: <FastCar + DRS: ")
    assert "\n" not in repr(report)
    assert "MISFIT" in repr(tiny_report(MISFIT))
    assert repr(report.chosen) in repr(report)


def test_a_notebook_shows_the_comparison_escaped() -> None:
    evil = "<img src=x onerror=alert(1)>"
    shown = run(tiny_design().model_copy(update={"name": evil}), [tiny_trace()])._repr_html_()
    assert "<img" not in shown
    assert "&lt;img" in shown
    assert shown.count("<tr") == 1 + len(tiny_report().rows)
    assert shown.count("font-weight: bold") == 1
    assert "MISFIT: DSP slices: " in tiny_report(MISFIT)._repr_html_()

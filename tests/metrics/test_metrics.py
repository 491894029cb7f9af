"""Every figure has one definition, and all outputs show it."""

import pytest
from tiny import MISFIT, tiny_report

from carsim.metrics import INTERVALS, METRICS, PHASES, Setting, figures, headline


def test_definitions_are_complete() -> None:
    for metric in METRICS.values():
        assert metric.title
        assert metric.meaning
        assert metric.better in ("higher", "lower", None)
    assert {name for ends in INTERVALS.values() for name in ends} <= METRICS.keys()


@pytest.mark.parametrize("overrides", [(), ("machine.include_head=false",)])
def test_figures_follow_from_one_another_as_their_formulas_say(overrides: tuple[str, ...]) -> None:
    report = tiny_report(*overrides)
    for row in report.rows:
        found = {name: value or 0 for name, value in figures(row, report).items()}
        dense = report.row("dense, static").simulation
        cycles = row.simulation.bound_cycles if row.is_bound else row.simulation.cycles
        assert found["speedup"] == pytest.approx(dense.cycles / cycles)
        assert sum(found[f"{phase}_s"] for phase in PHASES) == pytest.approx(found["latency_s"])
        assert found["body_latency_s"] == pytest.approx(found["latency_s"] - found["head_s"])
        assert found["seconds_per_video"] * found["videos_per_batch"] == found["latency_s"]
        power = found["energy_per_video_j"] / found["seconds_per_video"]
        assert found["average_power_w"] == pytest.approx(power)
        active = sum(part.value_j for part in row.energy.components if not part.idle)
        assert found["energy_above_idle_per_video_j"] == pytest.approx(active / 2)


def test_a_board_is_as_full_as_its_fullest_resource() -> None:
    for overrides, is_full in (((), False), ((MISFIT,), True)):
        report = tiny_report(*overrides)
        found = figures(report.chosen, report)
        assert (found["fill"] > 1) == is_full == (not found["fits"])
        shares = [used / available for used, available in report.fit.counts.values() if available]
        assert len(shares) > 2
        assert found["fill"] >= max(shares)


def test_without_a_simulation_only_figures_of_the_design_are_there() -> None:
    report = tiny_report()
    of_sweep = Setting(report.design, report.fit, report.baseline.latency_s)
    assert figures(report.chosen, of_sweep) == figures(report.chosen, report)
    found = figures(None, of_sweep)
    of_design = {name for name, metric in METRICS.items() if metric.of_design}
    of_others = {"area_mm2", "area_low_mm2", "area_high_mm2", "ai_engines"}  # no UltraScale+
    assert {name for name, value in found.items() if value is not None} == of_design - of_others


def test_the_headline_of_a_text_is_that_of_its_tokens() -> None:
    video, text = ({metric.name for metric in headline(kind)} for kind in ("video", "text"))
    assert video & text == {"memory_sustained_share"}
    assert {"seconds_per_video", "speedup", "energy_per_video_j", "busy"} <= video
    assert {"tokens_per_s", "first_token_s", "energy_per_token_j"} <= text

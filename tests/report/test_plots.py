"""Figures: their numbers are those of the report, and drawing shows them, labelled and marked."""

import numpy as np
import pytest
from tiny import MISFIT, tiny_report

from carsim.machine.timeline import usage_by_step
from carsim.report.figures.breakdown import (
    COLOURS,
    BreakdownNumbers,
    breakdown_numbers,
    draw_breakdown,
)
from carsim.report.figures.comparison import comparison_numbers, draw_comparison
from carsim.report.figures.style import style
from carsim.report.figures.utilisation import MAX_BINS, draw_utilisation, utilisation_numbers
from carsim.workload.ops import CATEGORY_LABELS, Category


def figures(*overrides):
    report = tiny_report(*overrides)
    return (
        draw_comparison(comparison_numbers(report)),
        draw_breakdown(breakdown_numbers(report)),
        draw_utilisation(utilisation_numbers(report, usage_by_step(report.chosen))),
    )


def test_comparison_shows_the_numbers_of_the_table():
    report = tiny_report()
    numbers, frame = comparison_numbers(report), report.to_frame()
    assert numbers.policies == tuple(frame.index)
    assert numbers.policies[numbers.chosen] == "FastCar + DRS"
    assert numbers.seconds_per_video == tuple(frame["s_per_video"])
    assert numbers.speedups == tuple(frame["speedup"])
    assert numbers.energy_j == tuple(
        zip(
            frame["energy_per_video_j"],
            frame["energy_per_video_low_j"],
            frame["energy_per_video_high_j"],
            strict=True,
        )
    )
    assert numbers.core_busy == tuple(frame["core_busy"])
    assert numbers.memory_utilisation == tuple(frame["ddr_utilisation"])


def test_breakdown_sums_to_the_latency_of_each_policy():
    report = tiny_report()
    numbers = breakdown_numbers(report)
    simulated = [row for row in report.rows if not row.is_bound]
    assert numbers.policies == tuple(row.variant.name for row in simulated)
    for seconds, row in zip(numbers.seconds, simulated, strict=True):
        assert len(seconds) == len(CATEGORY_LABELS)
        assert sum(seconds) == pytest.approx(row.latency_s)


def test_every_category_has_a_colour_of_its_own():
    assert set(COLOURS) == set(Category)
    assert len(set(COLOURS.values())) == len(COLOURS)


def test_utilisation_of_few_steps_is_that_of_each_step():
    report = tiny_report()
    usage = usage_by_step(report.chosen)
    numbers = utilisation_numbers(report, usage)
    assert numbers.core_busy == pytest.approx(usage.core_busy)
    assert numbers.replay_ratio == pytest.approx(usage.replay_ratio)
    assert numbers.memory_utilisation["ps_ddr"] == pytest.approx(usage.memory_utilisation["ps_ddr"])
    assert np.diff(numbers.seconds) == pytest.approx(usage.cycles / (usage.clock_mhz * 1e6))
    assert numbers.frame_seconds == pytest.approx(numbers.seconds[[0, 16, 32]])


def test_utilisation_of_many_steps_is_averaged_over_time(monkeypatch):
    report = tiny_report()
    usage = usage_by_step(report.chosen)
    monkeypatch.setattr("carsim.report.figures.utilisation.MAX_BINS", 10)
    numbers = utilisation_numbers(report, usage)
    assert len(numbers.core_busy) == 10  # nine runs of five steps, one of three
    assert numbers.core_busy[0] == pytest.approx(
        np.average(usage.core_busy[:5], weights=usage.cycles[:5])
    )
    assert numbers.core_busy[-1] == pytest.approx(
        np.average(usage.core_busy[45:], weights=usage.cycles[45:])
    )
    assert numbers.replay_ratio[-1] == pytest.approx(usage.replay_ratio[45:].mean())
    assert numbers.seconds[-1] == pytest.approx(usage.cycles.sum() / (usage.clock_mhz * 1e6))
    assert MAX_BINS > 48


def test_axes_have_labels_and_units():
    comparison, breakdown, utilisation = figures()
    assert [axes.get_xlabel() for axes in comparison.axes] == ["s", "J", "%"]
    assert breakdown.axes[0].get_xlabel() == "seconds of a batch"
    assert [axes.get_ylabel() for axes in utilisation.axes] == ["utilisation [%]", "replayed [%]"]
    assert utilisation.axes[1].get_xlabel().startswith("seconds since the end of prefill")


def test_comparison_draws_a_bar_as_long_as_each_number():
    numbers = comparison_numbers(tiny_report())
    bars = draw_comparison(numbers).axes[0].patches
    assert [bar.get_width() for bar in bars] == list(numbers.seconds_per_video)


def test_breakdown_leaves_out_what_nobody_would_see():
    seconds = [0.0] * len(CATEGORY_LABELS)
    seconds[Category.MLP], seconds[Category.DRS], seconds[Category.REPLAY] = 10.0, 0.02, 0.001
    numbers = BreakdownNumbers("title", ("one", "two"), (tuple(seconds),) * 2, 0, misfit=False)
    figure = draw_breakdown(numbers)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["MLP", "DRS"]
    widths = [bar.get_width() for bar in figure.axes[0].patches]
    assert widths == pytest.approx([10.0, 10.0, 0.02, 0.02])


@pytest.mark.parametrize(("overrides", "marked"), [((), False), ((MISFIT,), True)])
def test_figures_of_a_design_that_does_not_fit_say_so(overrides, marked):
    for figure in figures(*overrides):
        assert figure.get_suptitle().startswith("MISFIT") == marked


def test_drawing_leaves_the_settings_of_matplotlib_alone():
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    figures()
    assert dict(mpl.rcParams) == before


def test_nothing_is_drawn_outside_of_the_figure_even_with_a_long_name():
    report = tiny_report("name=" + "a very long name of a design, " * 6)
    with style():
        for figure in (
            draw_comparison(comparison_numbers(report)),
            draw_breakdown(breakdown_numbers(report)),
        ):
            figure.canvas.draw()
            assert figure.bbox.x1 >= figure.get_tightbbox().x1 * figure.dpi
            assert figure.get_tightbbox().x0 >= 0

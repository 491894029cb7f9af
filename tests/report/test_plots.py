"""Figures: their numbers are those of the run, and both renderings show them."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from tiny import MISFIT, tiny_report

from carsim.metrics import METRICS
from carsim.report.figures import run_plots
from carsim.report.figures.breakdown import breakdown_plot
from carsim.report.figures.comparison import comparison_plot
from carsim.report.figures.curve import curve_plot
from carsim.report.figures.draw import draw, image, on_paper, save
from carsim.report.figures.interactive import plotly
from carsim.report.figures.plot import Panel, Plot, Series
from carsim.report.figures.roofline import roofline_plot
from carsim.report.figures.style import style
from carsim.report.figures.utilisation import MAX_BINS, utilisation_numbers
from carsim.report.stored import stored
from carsim.runs.timeline import usage_by_step


def plots(*overrides):
    report = tiny_report(*overrides)
    usage = utilisation_numbers(report, usage_by_step(report.chosen))
    return run_plots(stored(report), usage)


@pytest.fixture(scope="module")
def run():
    return stored(tiny_report())


def test_comparison_shows_the_numbers_of_the_simulated_policies(run):
    plot, policies = comparison_plot(run), [each for each in run.policies if not each.is_bound]
    time, energy, _ = plot.panels
    assert time.categories == tuple(policy.policy for policy in policies)
    assert time.categories[plot.strong] == run.own.policy
    assert time.x_label == METRICS["seconds_per_video"].heading
    shown = time[METRICS["seconds_per_video"].title]
    assert list(shown.x) == [policy["seconds_per_video"] for policy in policies]
    joules = energy[METRICS["energy_per_video_j"].title]
    for values, end in ((joules.x, ""), (joules.low, "_low"), (joules.high, "_high")):
        assert list(values) == [policy[f"energy_per_video{end}_j"] for policy in policies]
    for name in ("busy", "memory_utilisation"):
        shares = plot["utilisation [%]"][METRICS[name].title]
        assert list(shares.x) == [100 * policy[name] for policy in policies]


def test_every_policy_has_its_own_bound(run):
    time, name = comparison_plot(run).panels[0], METRICS["bound_latency_s"].title
    shown, seconds = time[name].x, time[METRICS["seconds_per_video"].title].x
    assert len(shown) == len(seconds)
    assert all(bound <= value for bound, value in zip(shown, seconds, strict=True))
    own = time.categories.index(run.own.policy)
    assert shown[own] == pytest.approx(run.bound["seconds_per_video"])


def test_breakdown_sums_to_the_latency_of_each_policy(run):
    (panel,) = breakdown_plot(run).panels
    for line, policy in enumerate(policy for policy in run.policies if not policy.is_bound):
        parts = [series.x[line] - series.base[line] for series in panel.series]
        assert sum(parts) == pytest.approx(policy["latency_s"], rel=0.01)
        assert policy.policy == panel.categories[line]
    looks = [(series.colour, series.hatch) for series in panel.series]
    assert len(set(looks)) == len(looks)


def test_breakdown_leaves_out_what_nobody_would_see(run):
    seconds = {"MLP": 10.0, "DRS": 0.02, "replay": 0.001}
    policies = tuple(each.model_copy(update={"breakdown_s": seconds}) for each in run.policies)
    (panel,) = breakdown_plot(run.model_copy(update={"policies": policies})).panels
    assert [series.name for series in panel.series] == ["MLP", "DRS"]


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
    for place, steps in ((0, slice(5)), (-1, slice(45, None))):
        mean = np.average(usage.core_busy[steps], weights=usage.cycles[steps])
        assert numbers.core_busy[place] == pytest.approx(mean)
    assert numbers.replay_ratio[-1] == pytest.approx(usage.replay_ratio[45:].mean())
    assert numbers.seconds[-1] == pytest.approx(usage.cycles.sum() / (usage.clock_mhz * 1e6))
    assert MAX_BINS > 48


def test_both_renderings_show_the_numbers_of_a_plot():
    bars = Series("one", [3.0, 2.0], [0, 1], "bar", "#000000", base=[1.0, 0.0], text=["a", "b"])
    points = Series("two", [None, 2.5], [0, 1], "points", "#000000", low=[0, 2], high=[0, 4])
    panel = Panel("s", (bars, points), categories=("<b>", "$x_1$"), x_range=(0, 5))
    plot = Plot("title", (panel,), "alt", shares="y", strong=1, misfit=True)
    axes = draw(plot).axes[0]
    assert [bar.get_width() for bar in axes.patches] == [2.0, 2.0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["<b>", "$x_1$"]
    assert axes.get_xlabel() == "s"
    chart = plotly(plot)
    assert [trace["x"] for trace in chart["data"]] == [[2.0, 2.0], [None, 2.5]]
    assert chart["data"][0]["base"] == [1.0, 0.0]
    assert chart["layout"]["yaxis"]["ticktext"] == ["&lt;b&gt;", "<b>$x_1$</b>"]
    assert draw(plot).get_suptitle().startswith("MISFIT")
    assert "title" not in chart["layout"]  # the page's own heading wraps where that would be cut


@pytest.mark.parametrize(("overrides", "marked"), [((), False), ((MISFIT,), True)])
def test_every_figure_is_a_chart(overrides, marked):
    from plotly.graph_objects import Figure

    for plot in plots(*overrides).values():
        chart = plotly(plot)
        Figure(chart)  # refuses what plotly does not know
        json.dumps(chart, allow_nan=False)
        assert plot.full_title.startswith("MISFIT") == marked


def test_equal_figures_are_equal_files_of_every_format(run, tmp_path):
    plot = breakdown_plot(run)
    for suffix, start in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
        path = tmp_path / f"figure{suffix}"
        save(plot, path)
        assert path.read_bytes().startswith(start)
        assert path.read_bytes() == image(plot, suffix[1:])


def test_drawing_leaves_the_settings_of_matplotlib_alone():
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    image(comparison_plot(stored(tiny_report())))
    assert dict(mpl.rcParams) == before


def test_nothing_is_drawn_outside_of_the_figure_even_with_a_long_name():
    for plot in plots("name=" + "a very long name of a design, " * 6).values():
        with style():
            figure = draw(plot)
            figure.canvas.draw()
            assert figure.bbox.x1 >= figure.get_tightbbox().x1 * figure.dpi
            assert figure.get_tightbbox().x0 >= 0


def test_a_roofline_holds_all_policies_that_use_its_memory_alone(run):
    panel = roofline_plot(run).panels[0]
    roof = panel["roof"]
    peak = run.own["macs_per_cycle"] * run.resolved_design["board"]["fabric_clock_mhz"] * 1e6 / 1e9
    assert max(roof.y) == pytest.approx(peak)
    x, y = panel["own policy"].x[0], panel["own policy"].y[0]
    assert y <= peak * (1 + 1e-9)
    # MAC per byte times bytes are MACs: all of the video's.
    (memory,) = (m for m, moved in run.own.memory_gb_per_video_by_memory.items() if moved)
    macs = x * run.own.memory_gb_per_video_by_memory[memory] * 1e9
    assert macs == pytest.approx(y * 1e9 * run.own.seconds_per_video, rel=1e-9)
    assert y <= x * roof.y[0] / roof.x[0] * (1 + 1e-9)


def test_a_pinned_run_has_a_bar_and_a_point_of_its_own(run):
    pinned = [("pinned", run)]
    assert breakdown_plot(run, pinned).panels[0].categories[-1] == "pinned"
    panel = roofline_plot(run, pinned).panels[0]
    assert panel["pinned"].x == panel["own policy"].x


def test_intervals_are_of_the_axis_that_a_series_says():
    points = [SimpleNamespace(name="t", tau=1.0, replay=0.5, speedup=1.5, loss=(0.2, 0.1, 0.4))]
    plot = curve_plot(points, (1.0, 1.5))
    loss = plot.panels[1]["loss"]
    assert (loss.low, loss.high, loss.interval_of) == ((0.1,), (0.4,), "y")
    (drawn,) = (t for t in plotly(plot)["data"] if "error_y" in t)
    assert drawn["error_y"]["array"] == pytest.approx([0.2])
    assert drawn["error_y"]["arrayminus"] == pytest.approx([0.1])
    assert image(plot).startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["comparison", "breakdown", "utilisation"])
def test_a_figure_fits_the_column_of_a_paper(name):
    plot = on_paper(plots()[name], 3.5)
    assert plot.full_title == ""
    figure = draw(plot)
    assert figure.get_size_inches()[0] == 3.5
    canvas = figure.canvas
    canvas.draw()
    width, height = canvas.get_width_height()
    for axes in figure.axes:
        box = axes.get_tightbbox(canvas.get_renderer())
        assert -1 <= box.x0 < box.x1 <= width + 1
        assert -1 <= box.y0 < box.y1 <= height + 1
    columns = {round(axes.get_position().x0, 2) for axes in figure.axes}
    assert len(columns) == 1  # below each other


def test_a_misfit_says_so_on_paper_too():
    assert on_paper(plots(MISFIT)["breakdown"], 3.5).full_title.startswith("MISFIT")

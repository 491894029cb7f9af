"""Figures: their numbers are those of the run, and both renderings show them."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import matplotlib.colors
import matplotlib.image
import numpy as np
import pandas as pd
import pytest
from contact_sheet import KINDS, draw_sheet, make_folders
from contact_sheet import plots as sheet_plots
from explore_study import write_study
from matplotlib.text import Text
from tiny import MISFIT, tiny_report

from carsim.base.errors import InputError
from carsim.explore.sweep import sweep
from carsim.metrics import INTERVALS
from carsim.report import save_report
from carsim.report.caption import caption_text
from carsim.report.figures import Shown, run_plots, shown_policies
from carsim.report.figures.breakdown import breakdown_plot
from carsim.report.figures.draw import draw, image, on_paper, save
from carsim.report.figures.interactive import plotly
from carsim.report.figures.joules import energy_plot
from carsim.report.figures.metric import metric_plot, run_rows
from carsim.report.figures.pareto import viewed
from carsim.report.figures.plot import Panel, Plot, Series
from carsim.report.figures.policy_looks import policy_look
from carsim.report.figures.roofline import roofline_plot
from carsim.report.figures.slices import (
    layer_plot,
    record_layer,
    stored_layer,
    told,
    waits_table,
)
from carsim.report.figures.utilisation import MAX_BINS, utilisation_frame
from carsim.report.plots import OF_ONE, OF_SEVERAL, OF_TAU, numbers, plot_of, write_plot
from carsim.report.report import results
from carsim.report.stored import read_run, stored
from carsim.runs.timeline import usage_by_step

OVERVIEW = ("steps", "phases")
"""Tracks of a timeline that repeat what others do."""


def plots(*overrides):
    report = tiny_report(*overrides)
    return run_plots(stored(report), utilisation_frame(report, usage_by_step(report.chosen)))


@pytest.fixture(scope="module")
def run():
    return stored(tiny_report())


def test_bars_show_the_numbers_of_the_simulated_policies(run):
    metrics = ("seconds_per_video", "energy_per_video_j", "busy")
    plot = metric_plot(run_rows("run", run), metrics)
    policies = [each for each in run.policies if not each.is_bound]
    for panel, metric in zip(plot.panels, metrics, strict=True):
        factor = 100 if metric == "busy" else 1
        assert panel.categories == tuple(policy.policy for policy in policies)
        (bars,) = panel.series
        assert list(bars.x) == [factor * policy[metric] for policy in policies]
        for end, name in zip(("low", "high"), INTERVALS.get(metric, ()), strict=False):
            assert getattr(bars, end) == [policy[name] for policy in policies]
    assert plot["cores busy [%]"] is plot.panels[2]


def test_lines_take_the_best_of_several_points_and_say_so():
    rows = pd.DataFrame(
        {
            "cores": [1, 1, 2, 2, 4, 4, 64],
            "rule": ["a", "a", "a", "b", "a", "b", "b"],
            "latency_s": [9.0, 8.0, 5.0, 6.0, 3.0, None, 1.0],
        }
    )
    plot = metric_plot(rows, ["latency_s"], "cores", "rule")
    (panel,) = plot.panels
    assert (panel["a"].x, panel["a"].y) == ([1, 2, 4], [8, 5, 3])
    assert (panel["b"].x, panel["b"].y) == ([2, 64], [6, 1])
    assert panel.y_label.endswith("best of others")
    assert panel.x_scale == "log"
    # A legend of numbers says of what.
    (panel,) = metric_plot(rows.assign(rule=rows["cores"]), ["latency_s"], "cores", "rule").panels
    assert {each.name for each in panel.series} >= {"rule 1", "rule 64"}
    (panel,) = metric_plot(rows, ["latency_s"], "rule", "cores").panels  # bars of a, then of b
    assert [[round(y) for y in bars.y] for bars in panel.series] == [[0], [0, 1], [0], [1]]
    for page in (on_paper(plot, 7.16), replace(plot, title="title")):
        assert_fits(draw(page))


def assert_fits(figure):
    figure.canvas.draw()
    drawn, paper = figure.get_tightbbox(), figure.bbox_inches
    assert min(drawn.x0, drawn.y0) >= 0
    assert drawn.x1 <= paper.x1
    assert drawn.y1 <= paper.y1


def test_a_stored_timeline_shows_a_layer_step_that_replays_under_both_schedules(folders):
    stored = stored_layer(folders / "one")
    recorded = record_layer(tiny_report(), stored.step, stored.layer)
    assert [*stored.timelines] == [*recorded.timelines]
    for policy, timeline in recorded.timelines.items():
        cut = stored.timelines[policy]
        assert cut.cycles == timeline.cycles
        shown = [
            piece
            for piece in timeline.slices
            if not piece.track.startswith((*OVERVIEW, "DMA")) and piece.start_cycle > 0
        ]
        in_order = sorted(shown, key=lambda piece: (piece.start_cycle, -piece.end_cycle))
        assert [piece for piece in cut.slices if piece.start_cycle > 0] == in_order
    replaying = tiny_report().chosen.batches.replay[0, stored.step, stored.layer]
    assert 0 < replaying.sum() < 4
    assert f" {int(replaying.sum())} replay" in layer_plot(stored).title


@pytest.mark.parametrize("overrides", [(), ("machine.weight_sharing=private",)])
def test_a_layer_step_shows_what_was_recorded_and_says_what_each_slice_is(overrides):
    report = tiny_report(*overrides)
    step = record_layer(report, 20)
    plot = layer_plot(step)
    panels = plot.panels
    assert [panel.y_label for panel in panels] == [*step.timelines]
    own, static = step.timelines.values()
    assert f" ({100 * (static.cycles / own.cycles - 1):+.1f} %). Grey" in plot.caption
    assert f"takes {own.cycles / step.clock_mhz:,.4g} us under FastCar + DRS" in plot.caption
    panel = panels[0]
    first, last = panel.x_range
    of_panels = [series for each in panels for series in each.series]
    bars = [series for series in of_panels if series.mark == "bar"]
    assert all(first <= x <= last for each in bars for x in (*each.base, *each.x))
    assert max(x for each in bars for x in each.x) == pytest.approx(last)
    assert panel["MLP"].x
    timeline = step.timelines[report.chosen.variant.name]
    wait = next(p for p in timeline.slices if p.tiles and not p.is_busy)
    assert told(wait, step.clock_mhz).startswith(f"{wait.note} (")
    assert told(wait, step.clock_mhz) in {text for each in bars for text in each.hover}
    arrows = panel["instructions to a core"]
    assert arrows.x[2::3] == [None] * (len(arrows.x) // 3)
    rows = waits_table(step).rows
    cycles = [int(row[-1].replace(",", "")) for row in rows]
    assert cycles == sorted(cycles, reverse=True)
    assert record_layer(report).step >= 16, "in the first frame, nothing replays"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A run with a timeline, another one, and a sweep."""
    folder = tmp_path_factory.mktemp("plotted")
    save_report(tiny_report(), folder / "one", timeline=(17, 19))
    save_report(tiny_report("machine.cores=1"), folder / "two")
    sweep(write_study(folder, objectives=["seconds_per_video", "dsp"]), folder / "swept", workers=0)
    return folder


@pytest.mark.parametrize(
    ("names", "what", "columns"),
    [
        (["one=My rule", "two"], "seconds_per_video", {"My rule", "two"}),
        (["one", "two=B"], "breakdown", {"one", "B"}),
        (["one", "two"], "roofline", {"roof of one", "two"}),
        (["one"], "timeline", {"FastCar, static", "core 0", "MLP"}),
        (["one", "two"], "energy", {"one", "two", "total"}),
        (["swept", "swept/=again"], "front", {"swept", "again"}),
        (["swept"], "energy_per_video_j:machine.cores:policy.schedule", {"drs"}),
    ],
)
def test_one_command_goes_from_results_to_a_figure_and_its_numbers(folders, names, what, columns):
    out = folders / "figure.svg"
    written = write_plot([str(folders / name) for name in names], what, out, 3.5)
    assert written == [out, folders / "figure.csv"]
    assert out.read_text(encoding="utf-8").startswith("<?xml")
    table = pd.read_csv(folders / "figure.csv", dtype=str).reindex(
        columns=["panel", "series", "category"]
    )
    assert columns <= {*table.to_numpy().flat}


def test_runs_that_share_a_label_are_bars_of_their_own_policies(folders):
    out = folders / "rules.svg"
    names = [f"{folders / name}=mine" for name in ("one", "two")]
    write_plot(names, "seconds_per_video:machine.cores:label", out)
    shown = pd.read_csv(out.with_suffix(".csv"))["x"].tolist()
    owns = {results(folders / name).own["seconds_per_video"] for name in ("one", "two")}
    assert set(shown) == owns


@pytest.mark.parametrize(
    ("names", "what", "out", "problem"),
    [
        (["one"], "energy_j", "a.pdf", "energy_j: is no number of these results; did you mean"),
        (
            ["one", "swept"],
            "busy:board.name",
            "a.pdf",
            "swept: has no board.name; draw it by itself",
        ),
        (["one"], "busy:machine.coers", "a.pdf", "is no axis of these results; did you mean"),
        (["one"], "busy", "a.gif", "has no suffix of a figure"),
        (["one", "one"], "roofline", "a.pdf", "has two folders of one label; write DIR=LABEL"),
        (["one"], "front", "a.pdf", "one: holds other results; front needs folders of sweeps"),
        (["swept"], "roofline", "a.pdf", "holds other results; roofline needs folders of runs"),
        (["two"], "timeline", "a.pdf", "timeline.json: cannot be read"),
    ],
)
def test_a_figure_that_cannot_be_drawn_is_one_line(folders, names, what, out, problem):
    with pytest.raises(InputError, match=problem) as error:
        write_plot([str(folders / name) for name in names], what, folders / out)
    assert "\n" not in str(error.value)
    assert not (folders / out).exists()


def test_breakdown_sums_to_the_time_of_a_video_under_each_policy(run):
    (panel,) = breakdown_plot(shown_policies({"": run})).panels
    for line, (name, policy, _) in enumerate(shown_policies({"": run})):
        parts = [series.x[line] - series.base[line] for series in panel.series]
        assert sum(parts) == pytest.approx(policy["seconds_per_video"], rel=0.01)
        assert name == panel.categories[line]


def test_utilisation_of_many_steps_is_averaged_over_time(monkeypatch):
    report = tiny_report()
    usage = usage_by_step(report.chosen)
    monkeypatch.setattr("carsim.report.figures.utilisation.MAX_BINS", 10)
    numbers = utilisation_frame(report, usage)
    assert numbers.groupby("frame_start_s").size().tolist() == [4, 3, 3]  # runs of 5 steps, 1 of 3
    for place, steps in ((0, slice(5)), (-1, slice(45, None))):
        mean = np.average(usage.core_busy[steps], weights=usage.cycles[steps])
        assert numbers["core_busy"].iloc[place] == pytest.approx(mean)
    assert numbers["replay_ratio"].iloc[-1] == pytest.approx(usage.replay_ratio[45:].mean())
    assert numbers["end_s"].iloc[-1] == pytest.approx(usage.cycles.sum() / (usage.clock_mhz * 1e6))
    assert numbers.frame_start_s[5] == pytest.approx(sum(usage.cycles[:16]) / usage.clock_mhz / 1e6)
    assert MAX_BINS > 48


CHARTS = Path(__file__).parents[1] / "data/charts.json"
"""Charts of a plot of everything; write the file anew if a change is meant."""


def test_both_renderings_show_the_numbers_of_a_plot():
    whiskers = {"low": [0.5, 2], "high": [1.5, 4], "marker": "d", "hollow": True, "size": 8.0}
    named = Panel(
        "long names of axes are wrapped on phones, after some letters",
        (
            Series("<b>", [1.0, 2.0], [0, 1], "bar", "#000000", text=["1", "2"], hatch="/"),
            Series("of", [1.0, None], [0, 1], "points", "#000000", text=["1", ""], **whiskers),
        ),
        categories=("a name that is wrapped as well", "$x_1$"),
        x_range=(0, 5),
        verticals=[1.5],
        share=2.0,
    )
    lines = Panel(
        "cores",
        (
            Series("of", [1, 100], [3, 4], "marked line", "#000000", keys=[7, 8], dash="dot"),
            Series("", [1, 100], [4, 3], "line", "#000000", hover=["so", "<so>"]),
            Series("steps", [1, 2, 100], [4, 3], "steps", "#000000"),
        ),
        "latency [s]",
        x_range=(1, 1000),
        x_scale="log",
        y_scale="log",
    )
    plots = [Plot("t", (named, lines), "alt", shares=way) for way in ("x", "y")]
    assert json.loads(json.dumps(list(map(plotly, plots)))) == json.loads(CHARTS.read_text())
    figure = draw(replace(plots[1], panels=(named,), misfit=True))
    assert [bar.get_width() for bar in figure.axes[0].patches] == [1.0, 2.0]
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == [*named.categories]
    assert ("d", "none") in [(m.get_marker(), m.get_mfc()) for m in figure.axes[0].lines]
    assert figure.get_suptitle().startswith("MISFIT")


@pytest.mark.parametrize(("overrides", "marked"), [((), False), ((MISFIT,), True)])
def test_every_figure_is_a_chart(overrides, marked):
    from plotly.graph_objects import Figure

    for plot in plots(*overrides).values():
        chart = plotly(plot)
        Figure(chart)  # refuses what plotly does not know
        json.dumps(chart, allow_nan=False)
        assert plot.full_title.startswith("MISFIT") == marked


def test_equal_figures_are_equal_files_of_every_format(run, tmp_path):
    plot = breakdown_plot(shown_policies({"": run}))
    for suffix, start in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
        path = tmp_path / f"figure{suffix}"
        save(plot, path)
        assert path.read_bytes().startswith(start)
        assert path.read_bytes() == image(plot, suffix[1:])


def test_a_roofline_holds_all_policies_that_use_its_memory_alone(run):
    panel = roofline_plot(shown_policies({"": run})).panels[0]
    roof = panel["roof"]
    peak = run.own["macs_per_cycle"] * run.resolved_design["board"]["fabric_clock_mhz"] * 1e6 / 1e9
    assert panel.y_range[1] > max(roof.y) == pytest.approx(peak)
    x, y = panel[f"{run.own.policy} *"].x[0], panel[f"{run.own.policy} *"].y[0]
    prompt, decoding = run.own.stages
    assert prompt.seconds + decoding.seconds == pytest.approx(run.own["latency_s"] * run.batches)
    assert panel["prompt"].x[0] > x  # each byte of weights serves many tokens of it
    assert y <= peak * (1 + 1e-9)
    # MAC per byte times bytes are MACs: all of decoding.
    (memory,) = (m for m, moved in run.own.memory_gb_per_video_by_memory.items() if moved)
    assert x * decoding.memory_gb[memory] == pytest.approx(y * decoding.seconds, rel=1e-9)
    moved_gb = sum(stage.memory_gb[memory] for stage in run.own.stages)
    videos = run.batches * run.videos_per_batch
    assert moved_gb == pytest.approx(run.own.memory_gb_per_video_by_memory[memory] * videos)
    assert y <= x * roof.y[0] / roof.x[0] * (1 + 1e-9)


def test_a_pinned_run_has_a_bar_and_a_point_of_its_own(run):
    policies = [*shown_policies({"": run}), Shown("pinned", run.own, run.model_copy())]
    assert breakdown_plot(policies).panels[0].categories[-1] == "pinned"
    panel = roofline_plot(policies).panels[0]
    assert panel["pinned"].x == panel[f"{run.own.policy} *"].x
    own = run.own.model_copy(update={"memory_gb_per_video_by_memory": {"hbm": 1.0}})
    hbm = run.memories[0].model_copy(update={"name": "hbm"})
    other = run.model_copy(update={"policies": (own,), "memories": (hbm,)})
    plot = roofline_plot(shown_policies({"a": run, "b": other}))
    assert plot.panels[0].x_label == "MAC per byte of the memory"


def test_figures_fit_the_column_of_a_paper_with_the_last_number_of_their_axes():
    names = ("dense, static", "sparse attention, static")
    panels = [
        Panel("s", (Series("", [value, 450.0], [0, 1], "bar", "black"),), categories=names)
        for value in (487.2, 490.0, 494.0)
    ]
    for plot in (*plots().values(), *(Plot("", (panel,), alt="") for panel in panels)):
        figure = draw(on_paper(plot, 3.5))
        assert figure.get_size_inches()[0] == 3.5
        assert_fits(figure)
        columns = {round(axes.get_position().x0, 2) for axes in figure.axes}
        assert len(columns) == 1  # below each other


@pytest.fixture(scope="module")
def sheet(tmp_path_factory):
    """Folders of the contact sheet."""
    folder = tmp_path_factory.mktemp("sheet")
    make_folders(folder)
    return folder


def test_all_kinds_of_figures_are_on_the_contact_sheet_and_fit_their_paper(sheet):
    """Open ``contact_sheet.png`` in the folder of the test, and look at it."""
    kinds = {kind.split(":")[0].strip() for kind in KINDS}
    assert kinds >= {*OF_SEVERAL, *OF_ONE, OF_TAU, "front"}
    titles = draw_sheet(sheet, sheet / "contact_sheet.png")
    assert len(titles) == 2 * (len(KINDS) + 1)
    assert (sheet / "contact_sheet.png").stat().st_size > 100_000
    for _, plot in sheet_plots(sheet):
        for paper in (plot, on_paper(plot, 3.5)):
            figure = draw(paper)
            assert_fits(figure)
            assert_nothing_collides(figure)


def assert_nothing_collides(figure):
    """Numbers below an axis do not overlap, and the legend leaves room to the plot."""
    figure.canvas.draw()
    for axes in figure.axes:
        boxes = [each.get_window_extent() for each in axes.get_xticklabels() if each.get_text()]
        inside = [box for box in boxes if axes.bbox.x0 - 2 <= box.x0 + box.width / 2]
        inside = [box for box in inside if box.x0 + box.width / 2 <= axes.bbox.x1 + 2]
        for left, right in pairwise(sorted(inside, key=lambda box: box.x0)):
            assert left.x1 <= right.x0 + 1
    for legend in figure.legends:
        plotted = sum(axes.bbox.height for axes in figure.axes[:1])
        assert legend.get_window_extent().height < 1.3 * plotted


def test_runs_of_different_batches_are_broken_down_per_video(sheet):
    names = {"one": "batch 4", "pair": "batch 2"}
    plot = plot_of([f"{sheet / name}={label}" for name, label in names.items()], "breakdown")
    (panel,) = plot.panels
    assert panel.x_label == "seconds per video"
    runs = [results(sheet / name) for name in names]
    assert runs[0].videos_per_batch != runs[1].videos_per_batch
    table = numbers(plot)
    for run, label in zip(runs, names.values(), strict=True):
        parts = table[table["category"] == label]
        # The file holds lengths of bars, not their ends.
        assert parts["x"].sum() == pytest.approx(run.own["seconds_per_video"], rel=0.01)
        mlp = parts[parts["series"] == "MLP"]["x"].item()
        assert mlp == pytest.approx(run.own.breakdown_s["MLP"] / run.videos_per_batch)


def test_texts_are_broken_down_per_token():
    run = stored(tiny_report())
    video = run.video.model_copy(update={"kind": "text", "frames": 1, "tokens_per_frame": 10})
    text = run.model_copy(update={"video": video})
    (panel,) = breakdown_plot(shown_policies({"": text})).panels
    assert panel.x_label == "milliseconds per new token, prompt included"
    whole = max(max(series.x) for series in panel.series)
    longest_s = max(policy["seconds_per_video"] for policy in run.policies if not policy.is_bound)
    assert whole == pytest.approx(1e3 * longest_s / 10, rel=0.01)
    both = shown_policies({"a": run, "b": text})
    assert breakdown_plot(both).panels[0].x_label == "seconds per video or text"


def test_an_axis_of_a_sweep_has_its_name_and_its_own_values_as_ticks(sheet):
    (bars,) = plot_of([str(sheet / "two")], "seconds_per_video").panels
    assert (bars.y_label, bars.categories) == ("cores", ("1", "2"))
    (lines,) = plot_of([str(sheet / "swept")], "seconds_per_video:machine.array.cols").panels
    assert (lines.x_label, lines.x_ticks, lines.x_scale) == ("array cols", (8, 16, 32), "log")
    axes = draw(Plot("", (lines,), alt="")).axes[0]
    assert [each.get_text() for each in axes.get_xticklabels()] == ["8", "16", "32"]
    layout = plotly(Plot("", (lines,), alt=""))["layout"]
    assert layout["xaxis"]["ticktext"] == ["8", "16", "32"]


def test_a_metric_of_the_machine_alone_is_drawn_once(sheet):
    (panel,) = plot_of([str(sheet / "one")], "cost_usd").panels
    assert panel.categories == ("all policies",)
    (panel,) = plot_of([str(sheet / "one")], "seconds_per_video").panels
    assert len(panel.categories) > 1


def test_a_front_fills_its_axes_and_says_what_lies_beyond(tmp_path):
    table = pd.DataFrame(
        {
            "point": range(6),
            "status": "ok",
            "seconds_per_video": [1.00, 1.01, 1.02, 1.03, 2.0, 9.0],
            "energy_per_video_j": [5.3, 5.2, 5.1, 5.0, 9.0, 90.0],
        }
    )
    x, y = "seconds_per_video", "energy_per_video_j"
    front = table.head(4)
    line = Series("", front[x].tolist(), front[y].tolist(), "line", "black")
    keys = table["point"].tolist()
    points = Series("not on the front, 2", table[x].tolist(), table[y].tolist(), "points", "grey")
    panel = viewed("x", "y", [replace(points, keys=keys), line])
    assert panel.x_range[0] > 0.9
    assert panel.x_range[1] < 1.1
    assert 4.5 < panel.y_range[0] < panel.y_range[1] < 6
    assert panel.series[-1].name == "2 beyond the axes"
    assert_fits(draw(Plot("", (panel,), alt="")))


def front_panel(x_values, y_values, line_points):
    """A panel with a front of these points, of which ``line_points`` are on the line and a knee."""
    keys = list(range(len(x_values)))
    grey = Series("not on the front, 0", x_values, y_values, "points", "grey")
    front = Series(f"on the front, {len(keys)}", x_values, y_values, "points", "black")
    line = Series("", x_values[:line_points], y_values[:line_points], "line", "blue")
    knee = Series(
        "knee, point 11",
        x_values[1:2],
        y_values[1:2],
        "points",
        "red",
        text=["knee, point 11"],
    )
    series = [replace(grey, keys=keys), line, replace(front, keys=keys), replace(knee, keys=[1])]
    return viewed("time per video [s]", "energy per video [J]", series)


def test_a_front_that_a_third_objective_spreads_is_shown_in_full():
    """Half of these points are far from the line of two objectives, and none is so far as a dot."""
    seconds = [2879.0, 5757.0, 5756.0, 11512.0, 11514.0, 23025.0]
    joules = [2.0e5, 3.6e5, 3.7e5, 7.0e5, 6.9e5, 13.4e5]
    panel = front_panel(seconds, joules, line_points=1)
    assert panel.x_range[0] < min(seconds) < max(seconds) < panel.x_range[1]
    assert not any("beyond" in series.name for series in panel.series)


def test_points_of_a_front_beyond_the_axes_are_counted_as_such():
    seconds = [359.6, 359.9, 364.4, 366.1, 366.4, 366.6, 359.8, 647.5]
    joules = [2811.0, 2655.0, 2420.0, 2447.0, 2279.0, 2371.0, 2495.0, 3359.0]
    panel = front_panel(seconds, joules, line_points=7)
    assert panel.series[-1].name == "1 beyond the axes, 1 of them on the front"


@pytest.mark.parametrize("spread", [1.0, 2.0, 8.0, 40.0])
def test_numbers_below_a_narrow_logarithmic_axis_do_not_overlap(spread):
    """A column is narrow, and half of a decade has a tick at each of its thousands."""
    seconds = [2879.0 * factor for factor in (1.0, 2.0 * spread, 1.2, 1.5)]
    panel = front_panel(seconds, [2.0e5, 3.6e5, 7.0e5, 13.4e5], line_points=4)
    shaded = [
        replace(series, shade=[900.0, 6000.0, 1.0, 2.0], shade_label="DSP slices")
        if series.name.startswith("on the front")
        else series
        for series in panel.series
    ]
    panel = replace(panel, series=tuple(shaded), x_scale="log")
    figure = draw(on_paper(Plot("", (panel,), alt=""), 3.5))
    figure.draw_without_rendering()
    axes = figure.axes[0]
    left, right = axes.get_xlim()
    boxes = [
        label.get_window_extent()
        for tick, label in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
        if left <= tick <= right and label.get_text()
    ]
    assert len(boxes) >= 2
    boxes.sort(key=lambda box: box.x0)
    assert all(one.x1 + 3 < other.x0 for one, other in pairwise(boxes))


def test_a_slice_of_a_timeline_that_is_thinner_than_its_edge_is_seen():
    """The dispatch of a layer-step takes a thousandth of it, and white edges would cover it."""
    slices = Series("dispatch", [1000.0, 1001.0, 2000.0], [0.0, 1.0, 1.0], "bar", "#cc0000")
    slices = replace(slices, base=[0.0, 1000.0, 1002.0])
    panel = Panel("time [us]", (slices,), categories=("core 0", "DRS"))
    bars = draw(on_paper(Plot("", (panel,), alt=""), 3.5)).axes[0].patches
    edges = [matplotlib.colors.to_hex(bar.get_edgecolor()) for bar in bars]
    assert edges == ["#ffffff", "#cc0000", "#ffffff"]


@pytest.mark.parametrize("place", [0.05, 0.5, 0.95])
def test_the_name_of_a_knee_takes_no_room_from_the_axes(place):
    """A long name beside the right edge would squeeze the axes, or run over the colour bar."""
    x_values = [0.0, place, 1.0]
    panel = front_panel(x_values, [3.0, 2.0, 1.0], line_points=3)
    figure = draw(on_paper(Plot("", (panel,), alt=""), 3.5))
    figure.draw_without_rendering()
    axes = figure.axes[0]
    (name,) = [text for text in axes.texts if text.get_text()]
    box = name.get_window_extent()
    assert axes.bbox.width > figure.bbox.width / 2
    assert axes.bbox.x0 <= box.x0
    assert box.x1 <= axes.bbox.x1


def test_a_roofline_tells_the_prompt_from_decoding(run):
    plot = roofline_plot(shown_policies({"": run}))
    names = [series.name for series in plot.panels[0].series]
    assert names.count("prompt") == 1
    marks = [series for series in plot.panels[0].series if series.mark == "points"]
    assert {series.marker for series in marks if not series.hollow} == {"o", "^"}
    nothing = {"stages": (), "blocks": ()}
    older = tuple(policy.model_copy(update=nothing) for policy in run.policies)
    plot = roofline_plot(shown_policies({"": run.model_copy(update={"policies": older})}))
    assert {series.marker for series in plot.panels[0].series if series.mark == "points"} == {"o"}


def test_energy_is_drawn_by_part_with_the_interval_of_each(folders):
    run = read_run(folders / "one")
    (panel,) = energy_plot(shown_policies({"": run})).panels
    own = panel[f"{run.own.policy} *"]
    by_line = dict(zip(panel.categories, zip(own.x, own.low, own.high, strict=True), strict=True))
    names = [f"energy_per_video{end}_j" for end in ("", "_low", "_high")]
    assert by_line["total"] == tuple(run.own[name] for name in names)
    parts = run.own.energy_parts_per_video_j
    drawn = [line for line in by_line if line in parts]
    assert drawn
    for line in drawn:
        assert by_line[line] == (parts[line].value, parts[line].low, parts[line].high)
    rest = sum(parts[name].value for name in parts.keys() - {*drawn})
    assert by_line["others"][0] == pytest.approx(rest)
    assert sum(by_line[line][0] for line in [*drawn, "others"]) == pytest.approx(own.x[0])


def test_a_paper_has_panels_side_by_side_small_type_and_a_caption_with_provenance(folders):
    out = folders / "paper.png"
    what = "seconds_per_video,energy_per_video_j"
    written = write_plot([str(folders / "one")], what, out, look="paper")
    assert [path.suffix for path in written] == [".png", ".csv", ".txt"]
    width, height = matplotlib.image.imread(out).shape[1::-1]
    assert width == 3.5 * 300
    assert height < width
    plot = on_paper(plot_of([str(folders / "one")], what), 3.5, "paper")
    figure = draw(plot)
    places = [axes.get_position() for axes in figure.axes]
    assert len(places) == 2
    assert places[0].x1 < places[1].x0
    sizes = {text.get_size() for text in figure.findobj(Text) if text.get_text()}
    assert 7 <= min(sizes) <= max(sizes) <= 9
    run = read_run(folders / "one")
    caption = written[2].read_text()
    for text in (run.design_sha256[:12], run.traces[0].sha256[:12], run.carsim_version):
        assert text in caption
    assert f"decisions {run.own.decisions}" in caption


def test_a_caption_says_open_loop_where_it_applies(folders):
    run = read_run(folders / "one")
    plot = plot_of([str(folders / "one")], "breakdown")
    assert "open loop" not in caption_text(plot, {"one": run})
    own = run.own.model_copy(update={"decisions": "re-thresholded at 0.4 (open loop)"})
    again = run.model_copy(update={"policies": (own,)})
    assert "open loop: the threshold was applied to scores" in caption_text(plot, {"one": again})


def test_a_layer_step_numbers_the_sequences_that_each_core_computes():
    step = record_layer(tiny_report("machine.cores=5"), 17, 2)
    panels = layer_plot(step).panels
    for panel, timeline in zip(panels, step.timelines.values(), strict=True):
        shown: dict[str, set[str]] = {}
        for bars in panel.series:
            for place, text in zip(bars.y, bars.text, strict=False):
                if text:
                    shown.setdefault(panel.categories[round(place)], set()).add(text)
        computed: dict[str, set[str]] = {}
        for piece in timeline.slices:
            if piece.decision and piece.is_busy and piece.kind and piece.track.startswith("core"):
                numbers = ", ".join(map(str, piece.sequences))
                computed.setdefault(piece.track, set()).add(numbers)
        assert shown == computed
        assert len(shown) == 3, "3 of 4 sequences compute, on a core each"
    texts = {text.get_text() for text in draw(layer_plot(step)).axes[0].texts}
    assert {"0", "1", "2", "3"} & texts
    assert all(trace["textposition"] == "inside" for trace in plotly(layer_plot(step))["data"][:3])


def test_arrows_have_heads_a_second_axis_its_numbers_and_bars_their_colours():
    arrow = Series("to", [1.0, 2.0, None], [0, 1, None], "arrows", "#000000")
    bars = Series("b", [1.0, 2.0], [0, 1], "bar", "#000000", colours=("#111111", "#222222"))
    bars = replace(bars, hatches=("", "/"))
    panel = Panel("t", (bars, arrow), "one", categories=("a", "b"))
    plot = Plot("", (panel, replace(panel, y_label="two")), alt="", shares="x")
    data = plotly(plot)["data"]
    assert [trace["x"] for trace in data[:2]] == [[1.0], [2.0]]
    assert [trace["marker"]["color"] for trace in data[:2]] == ["#111111", "#222222"]
    assert [trace["marker"]["pattern"]["shape"] for trace in data[:2]] == ["", "/"]
    heads = data[2]["marker"]
    assert (heads["symbol"], heads["angleref"]) == ("arrow", "previous")
    assert [size > 0 for size in heads["size"]] == [False, True, False]
    listed = [trace["showlegend"] for trace in data if trace["name"] == "to"]
    assert listed == [True, False]
    left, _ = draw(plot).axes
    (drawn,) = left.texts
    assert (drawn.arrow_patch is not None, drawn.xy) == (True, (2.0, 1))
    assert [bar.get_facecolor()[0] for bar in left.patches] == pytest.approx([17 / 255, 34 / 255])

    lines = (
        Series("speed", [0, 1, 2], [1.0, 1.5, 2.0], "marked line", "#000000"),
        Series("ratio", [0, 1, 2], [90, 50, 10], "line", "#000000", axis="right"),
    )
    panel = Panel("tau", lines, "x", right_label="replayed [%]", right_range=(0.0, 100.0))
    plot = Plot("", (panel,), alt="")
    left, right = draw(plot).axes
    assert [line.get_label() for line in left.lines] == ["speed"]
    assert list(right.lines[0].get_ydata()) == [90, 50, 10]
    assert (right.get_ylim(), right.get_ylabel()) == ((0, 100), "replayed [%]")
    chart = plotly(plot)
    assert [trace["yaxis"] for trace in chart["data"]] == ["y", "y2"]
    assert chart["layout"]["yaxis2"]["side"] == "right"
    assert chart["layout"]["yaxis2"]["overlaying"] == "y"


def test_speed_up_over_tau_has_the_replay_ratio_of_its_points_on_a_second_axis(sheet):
    study = results(sheet / "policies")
    plot = plot_of([str(sheet / "policies")], "tau")
    (panel,) = plot.panels
    points = study.counted
    for policy, rows in points.groupby("policy_name"):
        if not rows["replay_eligible"].any():
            continue
        best = rows.groupby("policy.tau")["speedup"].max()
        assert dict(zip(panel[policy].x, panel[policy].y, strict=True)) == best.to_dict()
    ratios = points.groupby("policy.tau")["replay_eligible"].max()
    line = panel["replay ratio"]
    assert line.axis == "right"
    for tau, percent in zip(line.x, line.y, strict=True):
        assert percent == pytest.approx(100 * ratios[tau])
    assert sorted(line.y, reverse=True) == list(line.y)
    assert panel.y_label == "speed-up over dense, best of others"
    assert "Open loop" in plot.caption
    caption = caption_text(plot, {"policies": study})
    assert "open loop: the threshold was applied to scores that another one had shaped" in caption
    assert "toy.yaml; trace toy.npz (sha256 " in caption


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["swept"], "swept: has no policy.tau; sweep over policy.tau"),
        (["one"], "tau: has 0 thresholds? with a speed-up; sweep over"),
    ],
)
def test_results_of_one_threshold_have_no_figure_over_tau(sheet, names, problem):
    with pytest.raises(InputError, match=problem):
        plot_of([str(sheet / name) for name in names], "tau")


def test_a_front_marks_its_policies_and_names_the_knee(sheet):
    study = results(sheet / "policies")
    assert len(study.policies) > 1
    (panel,) = plot_of([str(sheet / "policies")], "front").panels
    marks = [series for series in panel.series if series.name.startswith("on the front: ")]
    counts = study.front["policy_name"].value_counts()
    assert {s.name for s in marks} == {f"on the front: {n}, {c}" for n, c in counts.items()}
    for series in marks:
        policy = series.name.removeprefix("on the front: ").rpartition(",")[0]
        assert series.colour == policy_look(policy).colour
    knee = next(series for series in panel.series if series.name.startswith("knee"))
    assert list(knee.text) == [f"knee, point {study.knee['point'].item()}"]
    (both,) = plot_of([str(sheet / "swept"), str(sheet / "three")], "front").panels
    assert {"knee of swept", "knee of three"} <= {series.name for series in both.series}


def test_equal_labels_of_a_point_are_drawn_once():
    """Two studies may have the same best point; another name at the same place is drawn, too."""
    first = Series("one", (1.0,), (2.0,), mark="points", colour="#000000", text=("point 17",))
    second = replace(first, name="two")
    third = replace(first, name="three", text=("point 3",))
    panel = Panel("seconds", (first, second, third))
    figure = draw(Plot("", (panel,), alt="labels"))
    assert [label.get_text() for label in figure.axes[0].texts] == ["point 17", "point 3"]


def test_labels_of_points_at_the_right_do_not_run_beyond_the_axes():
    point = Series("one", (1.0,), (2.0,), mark="points", colour="#000000", text=("knee, point 17",))
    series = (point, replace(point, name="two", x=(9.0,), text=("knee, point 3",)))
    figure = draw(Plot("", (Panel("seconds", series, x_range=(0.5, 10.0)),), alt="labels"))
    figure.canvas.draw()
    axes = figure.axes[0].get_window_extent()
    for label in figure.axes[0].texts:
        box = label.get_window_extent()
        assert axes.x0 <= box.x0
        assert box.x1 <= axes.x1


def test_a_long_name_of_a_policy_is_not_cut_off_in_the_legend():
    """Two kinds of reuse at once have a name that is wider than a column."""
    name = "on the front: reuse of forwards and replay across frames + DRS, 1"
    series = [
        Series("not on the front, 3", [1.0], [2.0], "points", "black"),
        Series(name, [2.0], [1.0], "points", "red"),
    ]
    plot = on_paper(Plot("fronts", (Panel("time", tuple(series), "energy"),), alt=""), 3.5)
    figure = draw(plot)
    figure.draw_without_rendering()
    (legend,) = figure.legends
    extent = legend.get_window_extent()
    assert extent.x0 >= 0
    assert extent.x1 <= figure.bbox.width


def test_rows_of_a_chart_are_as_high_as_their_names():
    """A policy of four lines needs more room than the bars of two policies."""
    name = "reuse of forwards (MLP of the middle third skipped), static *"
    bars = Series("", [2879.0, 2793.0], [0.0, 1.0], "bar", "black")
    panel = Panel("time per video", (bars,), categories=("dense, static", name))
    plot = Plot("policies", (panel, panel), alt="", size_in=(10, 1.3), shares="y")
    layout = plotly(plot)["layout"]
    lines = layout["yaxis"]["ticktext"][1].count("<br>") + 1
    rows_px = layout["height"] - layout["margin"]["t"] - layout["margin"]["b"]
    assert lines == 4
    assert rows_px / 2 >= 15 * lines


def test_panels_of_lines_stand_side_by_side_in_print_under_one_legend(sheet):
    what = "seconds_per_video,energy_per_video_j:machine.array.cols:machine.cores"
    plot = on_paper(plot_of([str(sheet / "swept")], what), 3.5, "paper")
    figure = draw(plot)
    assert_fits(figure)
    assert_nothing_collides(figure)
    left, right = (axes.get_position() for axes in figure.axes)
    assert left.x1 < right.x0
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["cores 1", "cores 2", "cores 8"]
    assert plot.size_in[1] < plot.size_in[0]


def test_a_roofline_has_a_ring_for_each_block_of_the_own_policy(run):
    (panel,) = roofline_plot(shown_policies({"": run})).panels
    decoding = next(stage for stage in run.own.stages if stage.stage == "decoding")
    blocks = run.own.blocks
    assert sum(block.seconds for block in blocks) == pytest.approx(decoding.seconds)
    assert sum(block.gmacs for block in blocks) == pytest.approx(decoding.gmacs)
    (memory,) = (name for name, moved in decoding.memory_gb.items() if moved)
    assert sum(block.memory_gb[memory] for block in blocks) == pytest.approx(
        decoding.memory_gb[memory]
    )
    rings = {series.name: series for series in panel.series if series.hollow}
    assert {"block: attention", "block: MLP and replay"} <= {*rings}
    attention = next(block for block in blocks if block.block == "attention")
    ring = rings["block: attention"]
    assert ring.x == [attention.gmacs / attention.memory_gb[memory]]
    assert ring.y == [attention.gmacs / attention.seconds]
    assert panel.x_range[0] < min(series.x[0] for series in rings.values())
    older = run.model_copy(
        update={
            "policies": tuple(policy.model_copy(update={"blocks": ()}) for policy in run.policies)
        }
    )
    (panel,) = roofline_plot(shown_policies({"": older})).panels
    assert not any(series.hollow for series in panel.series)

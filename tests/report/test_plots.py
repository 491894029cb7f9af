"""Figures: their numbers are those of the run, and both renderings show them."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from explore_study import write_study
from tiny import MISFIT, tiny_report

from carsim.base.errors import InputError
from carsim.explore.sweep import sweep
from carsim.metrics import INTERVALS
from carsim.report import save_report
from carsim.report.figures import Shown, run_plots, shown_policies
from carsim.report.figures.breakdown import breakdown_plot
from carsim.report.figures.draw import draw, image, on_paper, save
from carsim.report.figures.interactive import plotly
from carsim.report.figures.metric import metric_plot, run_rows
from carsim.report.figures.plot import Panel, Plot, Series
from carsim.report.figures.roofline import roofline_plot
from carsim.report.figures.slices import layer_plot, mixed_layer, timeline_plot
from carsim.report.figures.utilisation import MAX_BINS, utilisation_frame
from carsim.report.plots import write_plot
from carsim.report.report import results
from carsim.report.stored import stored
from carsim.runs.timeline import usage_by_step


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


def test_a_timeline_shows_the_first_two_layers_of_its_first_step(folders):
    panel = timeline_plot(folders / "one").panels[0]
    events = json.loads((folders / "one/timeline.json").read_text())["traceEvents"]
    shown = [e for e in events if "ts" in e and e["ts"] / 1e3 < panel.x_range[1]]
    phases = {event["name"].split(":")[0] for event in shown if event["cat"] == "phases"}
    assert phases == {"layer 0", "layer 1"}
    for bars in panel.series:
        assert len(bars.x) == sum(event["name"] == bars.name for event in shown)


@pytest.mark.parametrize("overrides", [(), ("machine.weight_sharing=private",)])
def test_a_layer_shows_what_was_recorded_of_it_and_no_more(overrides):
    row = tiny_report(*overrides).chosen
    layer = mixed_layer(row, 20)
    plot = layer_plot(row, 20, layer)
    (panel,) = plot.panels
    first, last = panel.x_range
    assert all(first <= x <= last for each in panel.series for x in (*each.base, *each.x))
    assert max(x for each in panel.series for x in each.x) == pytest.approx(last)
    assert plot.title.endswith(f", {int(row.batches.replay[0, 20, layer].sum())} replay")
    assert panel["MLP"].x
    following = layer_plot(row, 20, 1).panels[0].x_range[0]
    assert layer_plot(row, 20, 0).panels[0].x_range[1] == following


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
        (["one"], "timeline", {"DRS", "MLP"}),
        (["swept", "swept/=again"], "front", {"swept", "again"}),
        (["swept"], "energy_per_video_j:machine.cores:policy.schedule", {"drs"}),
    ],
)
def test_one_command_goes_from_results_to_a_figure_and_its_numbers(folders, names, what, columns):
    out = folders / "figure.svg"
    written = write_plot([str(folders / name) for name in names], what, out, 3.5)
    assert written == [out, folders / "figure.csv"]
    assert out.read_text(encoding="utf-8").startswith("<?xml")
    table = pd.read_csv(folders / "figure.csv", dtype=str).reindex(columns=["series", "category"])
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
        (["one", "swept"], "busy", "a.pdf", "swept: has no policy; draw it by itself"),
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


def test_breakdown_sums_to_the_latency_of_each_policy(run):
    (panel,) = breakdown_plot(shown_policies({"": run})).panels
    for line, (name, policy, _) in enumerate(shown_policies({"": run})):
        parts = [series.x[line] - series.base[line] for series in panel.series]
        assert sum(parts) == pytest.approx(policy["latency_s"], rel=0.01)
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
    assert y <= peak * (1 + 1e-9)
    # MAC per byte times bytes are MACs: all of the video's.
    (memory,) = (m for m, moved in run.own.memory_gb_per_video_by_memory.items() if moved)
    macs = x * run.own.memory_gb_per_video_by_memory[memory] * 1e9
    assert macs == pytest.approx(y * 1e9 * run.own.seconds_per_video, rel=1e-9)
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

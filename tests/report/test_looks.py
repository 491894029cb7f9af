"""Each category has one look in all figures, which people with any colour vision can tell apart."""

from itertools import combinations

import numpy as np
import pytest
from tiny import tiny_report

from carsim.report.figures import Shown, run_plots, shown_policies
from carsim.report.figures.breakdown import breakdown_plot
from carsim.report.figures.interactive import plotly
from carsim.report.figures.joules import energy_plot
from carsim.report.figures.looks import LOOKS, OTHER, WAITS, category_of, look_of
from carsim.report.figures.metric import metric_plot, run_rows
from carsim.report.figures.policy_looks import (
    OUTSIDE_COLOURS,
    POLICY_LOOKS,
    PolicyLook,
    looks_by_policy,
    looks_of_shown,
    policy_look,
)
from carsim.report.figures.roofline import roofline_plot
from carsim.report.figures.slices import layer_plot, record_layer
from carsim.report.stored import stored
from carsim.workload.ops import CATEGORY_LABELS

# Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision
# Deficiency", IEEE TVCG 15(6), 2009: matrices of severity 1.0, on linear RGB.
VISIONS = {
    "usual": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
LEAST_DIFFERENCE = 10.0
"""CIE 1976 colour difference; 2.3 is just noticeable side by side."""


def lab_of(colour, vision):
    """CIELAB of a colour as a vision has it (D65)."""
    coded = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)
    seen = np.clip(VISIONS[vision] @ linear, 0, 1)
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    ratios = to_xyz @ seen / [0.9505, 1.0, 1.089]
    roots = np.where(ratios > 0.008856, np.cbrt(ratios), 7.787 * ratios + 16 / 116)
    x, y, z = roots
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_no_two_categories_share_a_look():
    assert len(LOOKS) >= 14
    assert len({*LOOKS.values(), OTHER}) == len(LOOKS) + 1


@pytest.mark.parametrize("vision", VISIONS)
def test_looks_of_one_hatch_differ_in_colour_for_any_colour_vision(vision):
    for (name, a), (other, b) in combinations(LOOKS.items(), 2):
        if a.hatch == b.hatch:
            difference = np.linalg.norm(lab_of(a.colour, vision) - lab_of(b.colour, vision))
            assert difference > LEAST_DIFFERENCE, (name, other, difference)


def test_waits_are_grey_and_nothing_else_is():
    for name, look in LOOKS.items():
        red, green, blue = look.colour[1:3], look.colour[3:5], look.colour[5:]
        is_grey = red == green == blue and look.colour != "#000000"
        assert is_grey == (name in WAITS), name


def test_the_labels_of_a_run_are_categories_that_have_looks():
    assert {category_of(label) for label in CATEGORY_LABELS} <= {*LOOKS}


@pytest.mark.parametrize(
    "overrides",
    [(), ("machine.cores=5",), ("machine.cores=4", "machine.weight_sharing=private")],
)
def test_breakdown_timeline_page_and_studio_draw_a_category_alike(overrides):
    report = tiny_report(*overrides)
    run = stored(report)
    plots = [breakdown_plot(shown_policies({"": run})), layer_plot(record_layer(report, 20, 1))]
    plots.append(run_plots(run, None)["breakdown"])
    drawn = set()
    for plot in plots:
        of_work = [series for series in plot.panels[0].series if series.mark == "bar"]
        looks = {(bars.colour, bars.hatch) for bars in of_work}
        assert len(looks) == len(of_work)
        for bars in of_work:
            assert (bars.colour, bars.hatch) == look_of(bars.name) != OTHER
            drawn.add(bars.name)
        for trace in plotly(plot)["data"]:  # as the page and the studio draw it
            if trace["type"] != "bar":
                continue
            look = look_of(trace["name"])
            marker = trace["marker"]
            assert (marker["color"], marker["pattern"]["shape"]) == look
    assert {"QKV projection", "MLP", "waiting for a memory"} <= drawn


def test_cores_that_compute_never_look_like_cores_that_wait():
    panels = layer_plot(record_layer(tiny_report("machine.cores=5"), 20, 1)).panels
    of_work = [series for panel in panels for series in panel.series if series.mark == "bar"]
    waits = {(bars.colour, bars.hatch) for bars in of_work if bars.name in WAITS}
    works = {(bars.colour, bars.hatch) for bars in of_work if bars.name not in WAITS}
    assert waits
    assert works
    assert not waits & works


RECORDED = PolicyLook("#66EEBB", "-", marker="o", dash="dot")
NAMES = ("my rule + DRS", "my rule, static", "TeaCache + DRS", "every 2nd step, static", "a", "b")


def test_a_policy_from_outside_has_the_look_of_its_name_wherever_it_stands():
    alone = [policy_look(name) for name in NAMES]
    assert alone == [policy_look(name) for name in NAMES]
    for names in (NAMES, NAMES[::-1], (*NAMES, *POLICY_LOOKS)):
        looks = looks_by_policy(names)
        assert [looks[name].colour for name in NAMES] == [look.colour for look in alone]
        assert len(set(looks.values())) == len(set(names))
    # Recorded: the look of a name may not move from one version to the next.
    assert policy_look("my rule + DRS") == RECORDED


def test_looks_of_many_policies_are_all_different():
    names = [f"rule {number}, static" for number in range(40)]
    looks = looks_by_policy(names)
    assert len(set(looks.values())) == len(names)
    assert {look.colour for look in looks.values()} <= {*OUTSIDE_COLOURS}
    assert len({look.colour for look in looks.values()}) == len(OUTSIDE_COLOURS)


@pytest.mark.parametrize("vision", VISIONS)
def test_policies_of_one_hatch_differ_in_colour_for_any_colour_vision(vision):
    pairs = [
        (a.colour, b.colour)
        for a, b in combinations(POLICY_LOOKS.values(), 2)
        if a.hatch == b.hatch
    ]
    pairs += list(combinations(OUTSIDE_COLOURS, 2))
    for a, b in pairs:
        assert np.linalg.norm(lab_of(a, vision) - lab_of(b, vision)) > LEAST_DIFFERENCE, (a, b)


def test_policies_that_a_run_compares_have_looks_of_the_table():
    shipped = {row.variant.name for row in tiny_report().rows if not row.is_bound}
    assert shipped <= {*POLICY_LOOKS}


def test_bars_energy_roofline_and_points_show_a_policy_in_one_colour():
    run = stored(tiny_report())
    shown = shown_policies({"": run})
    names = [each.policy.policy for each in shown]
    wanted = [policy_look(name).colour for name in names]
    (bars,) = metric_plot(run_rows("run", run), ["seconds_per_video"]).panels[0].series
    assert list(bars.colours) == wanted
    by_policy = metric_plot(run_rows("run", run), ["seconds_per_video"], "label", "policy")
    assert [series.colour for series in by_policy.panels[0].series] == wanted
    assert [series.colour for series in energy_plot(shown).panels[0].series] == wanted
    roofline = roofline_plot(shown).panels[0]
    assert [roofline[each.name].colour for each in shown] == wanted
    page = run_plots(run, None)["comparison"]
    (of_page,) = page.panels[0].series
    assert list(of_page.colours) == wanted


def test_a_pinned_run_is_told_from_the_same_policy_and_moves_no_colour():
    run = stored(tiny_report())
    shown = shown_policies({"": run})
    pinned = Shown("pinned", run.own, run.model_copy())
    looks = looks_of_shown([*shown, pinned])
    assert looks[:-1] == looks_of_shown(shown)
    assert looks[-1] not in looks[:-1]
    of_runs = looks_of_shown([Shown("a", run.own, run), pinned])
    assert of_runs[0].colour != of_runs[1].colour

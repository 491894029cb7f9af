"""Speed-up over the threshold tau, with the replay ratio on a second axis."""

from typing import TYPE_CHECKING

from carsim.base.errors import InputError
from carsim.explore.frame import open_loop_points
from carsim.report.figures import style
from carsim.report.figures.plot import Panel, Plot, Series, ticks_of
from carsim.report.figures.policy_looks import looks_by_policy

if TYPE_CHECKING:
    import pandas as pd

TAU = "policy.tau"
"""The axis."""

SPEEDUP = "speedup"
"""Metric on the left."""
RATIO = "replay_eligible"
"""Metric on the right."""

SAME = 1e-9
"""Difference below which two replay ratios are equal."""


def threshold_plot(rows: "pd.DataFrame") -> Plot:
    """Speed-up over dense decoding as a line per group, and its replay ratio, over tau.

    Of several points at one tau the fastest is shown, and the axis says so. Policies that never
    replay are left out.

    Args:
        rows: Columns ``policy.tau``, ``group``, ``policy``, ``speedup``, ``replay_eligible`` and
            ``decisions``, a row per point.

    Raises:
        InputError: Fewer than two thresholds, or no point with a speed-up.
    """
    numeric = rows.assign(**{TAU: _numbers(rows)})
    complete = numeric.dropna(subset=[TAU, SPEEDUP, RATIO])
    highest_ratio_of_group = complete.groupby("group")[RATIO].transform("max")
    replaying = complete[highest_ratio_of_group > 0]
    threshold_count = replaying[TAU].nunique()
    if threshold_count < 2:
        problem = f"has {threshold_count} threshold with a speed-up"
        raise InputError("tau", problem, f"sweep over {TAU}, or give runs with different ones")
    fastest_first = replaying.sort_values(SPEEDUP, ascending=False, kind="stable")
    best = fastest_first.drop_duplicates([TAU, "group"]).sort_values(TAU, kind="stable")
    best_note = ", best of others" if len(best) < len(replaying) else ""
    caption = "Grey: replay ratio, on the right axis."
    if open_loop_points(best):
        caption += " Open loop: thresholds were applied to stored scores."
    panel = Panel(
        "threshold tau",
        (*_speedups(best), *_ratios(best)),
        f"speed-up over dense{best_note}",
        x_ticks=ticks_of(best[TAU].tolist()),
        right_label="replayed after the first frame [%]",
        right_range=(0.0, 100.0),
    )
    return Plot(
        "speed-up and replay ratio over the threshold",
        (panel,),
        alt="Speed-up over dense decoding, and replay ratio, over tau",
        caption=caption,
        size_in=(6.5, 4.0),
    )


# -------------------------------------------------------------------- private


def _numbers(rows: "pd.DataFrame") -> "pd.Series[float]":
    """Thresholds as numbers; a threshold per layer, or none, is no number."""
    import pandas as pd

    return pd.to_numeric(rows[TAU], errors="coerce").astype(float)


def _speedups(best: "pd.DataFrame") -> list[Series]:
    """A line of speed-ups per group, in the colour of its policy or of a palette.

    Groups have the colours of policies if each group has a policy of its own.
    """
    looks = looks_by_policy(best["policy"])
    has_policy_per_group = best["group"].nunique() == best["policy"].nunique()
    palette_of_group = dict(zip(best["group"].unique(), style.PALETTE, strict=False))
    series = []
    for group, points in best.groupby("group", sort=False):
        look = looks[points["policy"].iloc[0]]
        if has_policy_per_group:
            colour = look.colour
        elif group in palette_of_group:
            colour, _hatch = palette_of_group[group]
        else:
            colour = style.BLACK
        line = Series(
            str(group),
            points[TAU].tolist(),
            points[SPEEDUP].tolist(),
            "marked line",
            colour,
            marker=look.marker,
            size=4.5,
        )
        series.append(line)
    return series


def _ratios(best: "pd.DataFrame") -> list[Series]:
    """A line per different course of the replay ratio; equal ones are drawn once."""
    drawn: list[Series] = []
    for group, points in best.groupby("group", sort=False):
        thresholds = points[TAU].tolist()
        ratios = (100 * points[RATIO]).tolist()
        if any(_is_same(line, thresholds, ratios) for line in drawn):
            continue
        name = "replay ratio" if not drawn else f"replay ratio, {group}"
        line = Series(name, thresholds, ratios, "line", style.GREY, dash="dash", axis="right")
        drawn.append(line)
    return drawn


def _is_same(line: Series, thresholds: list[float], ratios: list[float]) -> bool:
    """Whether a line has a ratio for each threshold already."""
    ratio_at = dict(zip(line.x, line.y, strict=True))
    for threshold, ratio in zip(thresholds, ratios, strict=True):
        if threshold not in ratio_at:
            return False
        drawn = ratio_at[threshold] or 0.0
        if abs(drawn - ratio) >= SAME:
            return False
    return True

"""Any metric as bars over policies, machines or choices, or as lines over a numeric axis."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle
from typing import TYPE_CHECKING, Any

from carsim.base.text import quantity
from carsim.metrics import INTERVALS, METRICS
from carsim.report.figures import shown_policies, style
from carsim.report.figures.pareto import heading
from carsim.report.figures.plot import DASHES, Panel, Plot, Series, scale_of_choices, ticks_of
from carsim.report.figures.policy_looks import PolicyLook, looks_by_policy

if TYPE_CHECKING:
    import pandas as pd

    from carsim.report.stored import StoredRun

Parts = dict[str, "pd.DataFrame"]
"""Rows by what a legend calls them."""

MARKERS = ("o", "s", "^", "d", "*")
POLICY = "policy"
"""The axis whose values have looks of their own."""
ALL_POLICIES = "all policies"
"""The value of that axis where a figure depends on the machine alone."""
NAMED_AXES = (POLICY, "label")
"""Axes whose values say what they are."""

BAR_IN, FRAME_IN = 0.17, 1.0
"""Height of a bar, and of everything around the bars."""


def run_rows(label: str, run: "StoredRun", *, own_only: bool = False) -> "pd.DataFrame":
    """A row per simulated policy of a run: ``label``, ``policy``, fields of the design, metrics."""
    import pandas as pd

    fields, rows = _fields(run.resolved_design), []
    for _, policy, _ in shown_policies({label: run}):
        if policy.is_chosen or not own_only:
            figures = {metric: policy.get(metric) for metric in METRICS}
            rows.append(fields | figures | {"label": label, "policy": policy.policy})
    return pd.DataFrame(rows)


def metric_plot(
    rows: "pd.DataFrame", metrics: Sequence[str], axis: str = "policy", by: str = ""
) -> Plot:
    """A panel per metric: bars, or lines where the axis has three different numbers or more.

    Of several rows at one place the best in the metric is shown, and the label says so.

    Args:
        rows: Columns ``axis``, ``by``, the metrics, and the ends of their intervals.
        metrics: Names of columns.
        axis: Column along which values are placed.
        by: Column whose values have a bar or a line each; none if empty.
    """
    is_line = rows[axis].dtype.kind in "iuf" and rows[axis].nunique() > 2
    places = list(dict.fromkeys(rows[axis]))
    groups = dict.fromkeys(rows[by]) if by else [""]
    panels = []
    for metric in metrics:
        best = _best(rows, metric, [axis, by] if by else [axis])
        label = heading(metric) + " [%]" * (METRICS[metric].unit == "share")
        label += ", best of others" * (len(best) < len(rows[metric].dropna()))
        parts: Parts = {}
        for each in groups:
            name = each if isinstance(each, str) else f"{heading(by)} {quantity(each)}"
            parts[name] = best[best[by] == each] if by else best
        if is_line:
            panels.append(replace(_lines(parts, axis, metric, by), y_label=label))
        else:
            panels.append(replace(_bars(parts, axis, metric, places, by), x_label=label))
    of_bars = FRAME_IN + BAR_IN * len(places) * len(groups) * 1.4
    return Plot(
        "",
        tuple(panels),
        alt=f"{', '.join(map(heading, metrics))} over {heading(axis)}",
        caption="Whiskers: range over measured bandwidths, and over the energy constants.",
        size_in=(min(11.0, 4.0 + 2.5 * len(panels)), 2.6 * len(panels) if is_line else of_bars),
        shares="" if is_line else "y",
    )


def _best(rows: "pd.DataFrame", metric: str, keys: list[str]) -> "pd.DataFrame":
    """The best row of each group, in the order of the rows."""
    known, down = rows[rows[metric].notna()], METRICS[metric].better == "higher"
    ranked = known.sort_values(metric, ascending=not down, kind="stable")
    return ranked.drop_duplicates(keys).sort_index()


def _scaled(part: "pd.DataFrame", metric: str) -> list[float]:
    """Values in the unit of the axis: shares as percent."""
    factor = 100.0 if METRICS[metric].unit == "share" else 1.0
    return [factor * float(value) for value in part[metric]]


def _looks(names: Sequence[str], by: str) -> list[PolicyLook]:
    """Looks of the groups of a figure: those of policies, or of a palette in order."""
    if by == POLICY:
        of_policy = looks_by_policy(names)
        return [of_policy[name] for name in names]
    palette = zip(names, cycle(style.PALETTE), cycle(MARKERS), cycle(DASHES), strict=False)
    return [
        PolicyLook(colour, hatch, marker=marker, dash=dash)
        for _, (colour, hatch), marker, dash in palette
    ]


def _bars(parts: Parts, axis: str, metric: str, places: list[Any], by: str) -> Panel:
    height, ends = 0.76 / len(parts), INTERVALS.get(metric, ())
    are_named = all(isinstance(place, str) for place in places)  # numbers need the axis' name
    series = []
    looks = _looks([*parts], by)
    for index, ((name, part), policy) in enumerate(zip(parts.items(), looks, strict=True)):
        lines = [places.index(p) + (index - (len(parts) - 1) / 2) * height for p in part[axis]]
        texts = [METRICS[metric].text(value) for value in part[metric]]
        look: dict[str, Any] = {"hatch": policy.hatch, "height": 0.92 * height, "hover": texts}
        if axis == POLICY and not by and ALL_POLICIES not in places:
            of_bars = looks_by_policy(part[axis])
            look["colours"] = [of_bars[name].colour for name in part[axis]]
            look["hatches"] = [of_bars[name].hatch for name in part[axis]]
        if ends and all(end in part and part[end].notna().all() for end in ends):
            look |= {"low": part[ends[0]].tolist(), "high": part[ends[1]].tolist()}
        else:
            look["text"] = texts
        series.append(Series(name, _scaled(part, metric), lines, "bar", policy.colour, **look))
    y_label = "" if are_named and axis in NAMED_AXES else heading(axis)
    return Panel("", tuple(series), y_label, categories=tuple(map(quantity, places)))


def _lines(parts: Parts, axis: str, metric: str, by: str) -> Panel:
    series = []
    for (name, part), policy in zip(parts.items(), _looks([*parts], by), strict=True):
        part = part.sort_values(axis)
        look: dict[str, Any] = {"marker": policy.marker, "dash": policy.dash, "size": 4.0}
        x, y = part[axis].tolist(), _scaled(part, metric)
        series.append(Series(name, x, y, "marked line", policy.colour, **look))
    values = [x for each in series for x in each.x if x is not None]
    ticks, scale = ticks_of(values), scale_of_choices(values)
    return Panel(heading(axis), tuple(series), x_scale=scale, x_ticks=ticks)


def _fields(document: dict[str, Any]) -> dict[str, Any]:
    """Fields of a nested document by their paths."""
    import pandas as pd

    (found,) = pd.json_normalize(document).to_dict("records")
    return {
        str(path): value if isinstance(value, int | float | str) else str(value)
        for path, value in found.items()
    }

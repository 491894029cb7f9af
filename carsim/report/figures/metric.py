"""Any metric as bars over policies, machines or choices, or as lines over a numeric axis."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
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

RowsByName = dict[str, "pd.DataFrame"]
"""Name in the legend -> rows that are drawn under this name."""

MARKERS = ("o", "s", "^", "d", "*")
POLICY = "policy"
"""The axis whose values have looks of their own."""
ALL_POLICIES = "all policies"
"""The value of that axis where a figure depends on the machine alone."""
NAMED_AXES = (POLICY, "label")
"""Axes whose values say what they are."""

BAR_IN = 0.17
"""Height of a bar, inches."""
GAP_FACTOR = 1.4
"""Height of a bar with its gap, over that of the bar alone."""
FRAME_IN = 1.0
"""Height of everything around the bars, inches."""
LINES_PANEL_IN = 2.6
"""Height of a panel of lines, inches."""
GROUP_HEIGHT = 0.76
"""Height of all bars of one category; categories are 1 apart."""
BAR_SHARE = 0.92
"""Share of its place that a bar fills."""


def run_rows(label: str, run: "StoredRun", *, own_only: bool = False) -> "pd.DataFrame":
    """A row per simulated policy of a run: ``label``, ``policy``, fields of the design, metrics.

    Args:
        label: Name of the run, which all rows repeat.
        run: The run.
        own_only: Only the policy that the design itself chooses.
    """
    import pandas as pd

    fields = _fields(run.resolved_design)
    rows = []
    for _, policy, _ in shown_policies({label: run}):
        if own_only and not policy.is_chosen:
            continue
        row = dict(fields)
        for metric in METRICS:
            row[metric] = policy.get(metric)
        row["label"] = label
        row["policy"] = policy.policy
        rows.append(row)
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
    categories = list(dict.fromkeys(rows[axis]))
    groups = list(dict.fromkeys(rows[by])) if by else [""]
    panels = []
    for metric in metrics:
        best = _best(rows, metric, [axis, by] if by else [axis])
        label = _metric_label(metric, is_best=len(best) < len(rows[metric].dropna()))
        rows_by_name = _rows_by_name(best, by, groups)
        if is_line:
            panels.append(replace(_lines(rows_by_name, axis, metric, by=by), y_label=label))
        else:
            bars = _bars(rows_by_name, axis, metric, categories=categories, by=by)
            panels.append(replace(bars, x_label=label))
    width_in = min(11.0, 4.0 + 2.5 * len(panels))
    if is_line:
        height_in = LINES_PANEL_IN * len(panels)
    else:
        height_in = FRAME_IN + BAR_IN * len(categories) * len(groups) * GAP_FACTOR
    return Plot(
        title="",
        panels=tuple(panels),
        alt=f"{', '.join(map(heading, metrics))} over {heading(axis)}",
        caption="Whiskers: range over measured bandwidths, and over the energy constants.",
        size_in=(width_in, height_in),
        shares="" if is_line else "y",
    )


def _metric_label(metric: str, *, is_best: bool) -> str:
    """The label of a metric's axis; ``is_best`` says that rows which are worse are not shown."""
    label = heading(metric)
    if METRICS[metric].unit == "share":
        label += " [%]"
    if is_best:
        label += ", best of others"
    return label


def _best(rows: "pd.DataFrame", metric: str, keys: list[str]) -> "pd.DataFrame":
    """Of rows with equal values in the columns ``keys``, the best in the metric.

    Rows without the metric are left out. Those that stay keep their order.
    """
    with_metric = rows[rows[metric].notna()]
    is_smaller_better = METRICS[metric].better != "higher"
    best_first = with_metric.sort_values(metric, ascending=is_smaller_better, kind="stable")
    return best_first.drop_duplicates(keys).sort_index()


def _rows_by_name(rows: "pd.DataFrame", by: str, groups: Sequence[Any]) -> RowsByName:
    """The rows of each group under the name that the legend gives it.

    Args:
        rows: Rows of all groups.
        by: Column of the groups; if empty, there is one group of all rows.
        groups: Values of that column.
    """
    rows_by_name: RowsByName = {}
    for group in groups:
        name = group if isinstance(group, str) else f"{heading(by)} {quantity(group)}"
        rows_by_name[name] = rows[rows[by] == group] if by else rows
    return rows_by_name


def _in_axis_unit(values: Iterable[float], metric: str) -> list[float]:
    """Values of a metric in the unit of its axis: shares as percent."""
    factor = 100.0 if METRICS[metric].unit == "share" else 1.0
    return [factor * float(value) for value in values]


def _looks(names: Sequence[str], by: str) -> list[PolicyLook]:
    """Looks of the groups of a figure: those of policies, or of a palette in order."""
    if by == POLICY:
        look_of_policy = looks_by_policy(names)
        return [look_of_policy[name] for name in names]
    looks = []
    for index in range(len(names)):
        colour, hatch = style.PALETTE[index % len(style.PALETTE)]
        marker = MARKERS[index % len(MARKERS)]
        dash = DASHES[index % len(DASHES)]
        looks.append(PolicyLook(colour, hatch, marker=marker, dash=dash))
    return looks


def _bars(
    rows_by_name: RowsByName, axis: str, metric: str, *, categories: list[Any], by: str
) -> Panel:
    """Horizontal bars: a line for each category, and in it a bar for each group.

    Args:
        rows_by_name: Rows of each group, by its name in the legend.
        axis: Column of the categories.
        metric: Column that gives the lengths of bars.
        categories: Values of the axis, from the top down.
        by: Column of the groups; empty if there is one group.
    """
    names = list(rows_by_name)
    spacing = GROUP_HEIGHT / len(names)
    # Policies keep their colours, unless the legend has the colours of groups.
    is_policy_coloured = axis == POLICY and not by and ALL_POLICIES not in categories
    series = []
    for index, (name, look) in enumerate(zip(names, _looks(names, by), strict=True)):
        rows = rows_by_name[name]
        offset = (index - (len(names) - 1) / 2) * spacing
        texts = [METRICS[metric].text(value) for value in rows[metric]]
        bars = Series(
            name,
            x=_in_axis_unit(rows[metric], metric),
            y=[categories.index(category) + offset for category in rows[axis]],
            mark="bar",
            colour=look.colour,
            hatch=look.hatch,
            height=BAR_SHARE * spacing,
            hover=texts,
        )
        if is_policy_coloured:
            bars = _policy_coloured(bars, list(rows[axis]))
        series.append(_with_interval_or_text(bars, rows, metric, texts=texts))
    names_say_axis = all(isinstance(category, str) for category in categories)
    y_label = "" if names_say_axis and axis in NAMED_AXES else heading(axis)
    return Panel("", tuple(series), y_label, categories=tuple(map(quantity, categories)))


def _policy_coloured(bars: Series, policies: list[str]) -> Series:
    """The bars, each in the look of its policy."""
    looks = looks_by_policy(policies)
    colours = [looks[policy].colour for policy in policies]
    hatches = [looks[policy].hatch for policy in policies]
    return replace(bars, colours=colours, hatches=hatches)


def _with_interval_or_text(
    bars: Series, rows: "pd.DataFrame", metric: str, *, texts: list[str]
) -> Series:
    """The bars with whiskers where all rows know their interval, else with their values as text."""
    if metric in INTERVALS:
        low, high = INTERVALS[metric]
        has_interval = all(end in rows and rows[end].notna().all() for end in (low, high))
        if has_interval:
            return replace(bars, low=rows[low].tolist(), high=rows[high].tolist())
    return replace(bars, text=texts)


def _lines(rows_by_name: RowsByName, axis: str, metric: str, *, by: str) -> Panel:
    """A line for each group, through the values of a metric over a numeric axis.

    Args:
        rows_by_name: Rows of each group, by its name in the legend.
        axis: Numeric column.
        metric: Column of the vertical axis.
        by: Column of the groups; empty if there is one group.
    """
    names = list(rows_by_name)
    series = []
    axis_values: list[float] = []
    for name, look in zip(names, _looks(names, by), strict=True):
        rows = rows_by_name[name].sort_values(axis)
        x = rows[axis].tolist()
        axis_values += x
        line = Series(
            name,
            x=x,
            y=_in_axis_unit(rows[metric], metric),
            mark="marked line",
            colour=look.colour,
            marker=look.marker,
            dash=look.dash,
            size=4.0,
        )
        series.append(line)
    return Panel(
        heading(axis),
        tuple(series),
        x_scale=scale_of_choices(axis_values),
        x_ticks=ticks_of(axis_values),
    )


def _fields(document: dict[str, Any]) -> dict[str, Any]:
    """Fields of a nested document by their paths, such as ``machine.cores``.

    Numbers and texts stay what they are; all other values become texts.
    """
    import pandas as pd

    (row,) = pd.json_normalize(document).to_dict("records")
    fields: dict[str, Any] = {}
    for path, value in row.items():
        fields[str(path)] = value if isinstance(value, int | float | str) else str(value)
    return fields

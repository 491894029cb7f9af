"""Any metric as bars over policies, machines or choices, or as lines over a numeric axis."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle
from typing import TYPE_CHECKING, Any

from carsim.base.text import quantity
from carsim.metrics import INTERVALS, METRICS
from carsim.report.figures import shown_policies
from carsim.report.figures.breakdown import LOOKS
from carsim.report.figures.pareto import heading
from carsim.report.figures.plot import DASHES, Panel, Plot, Series, scale_of

if TYPE_CHECKING:
    import pandas as pd

    from carsim.report.stored import StoredRun

Parts = dict[str, "pd.DataFrame"]
"""Rows by what a legend calls them."""

MARKERS = ("o", "s", "^", "d", "*")
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
            panels.append(replace(_lines(parts, axis, metric), y_label=label))
        else:
            panels.append(replace(_bars(parts, axis, metric, places), x_label=label))
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


def _bars(parts: Parts, axis: str, metric: str, places: list[Any]) -> Panel:
    height, ends = 0.76 / len(parts), INTERVALS.get(metric, ())
    series = []
    looks = zip(parts.items(), cycle(LOOKS), strict=False)
    for index, ((name, part), (colour, hatch)) in enumerate(looks):
        lines = [places.index(p) + (index - (len(parts) - 1) / 2) * height for p in part[axis]]
        texts = [METRICS[metric].text(value) for value in part[metric]]
        look: dict[str, Any] = {"hatch": hatch, "height": 0.92 * height, "hover": texts}
        if ends and all(end in part and part[end].notna().all() for end in ends):
            look |= {"low": part[ends[0]].tolist(), "high": part[ends[1]].tolist()}
        else:
            look["text"] = texts
        series.append(Series(name, _scaled(part, metric), lines, "bar", colour, **look))
    return Panel("", tuple(series), categories=tuple(map(quantity, places)))


def _lines(parts: Parts, axis: str, metric: str) -> Panel:
    series = []
    looks = zip(parts.items(), cycle(LOOKS), cycle(MARKERS), cycle(DASHES), strict=False)
    for (name, part), (colour, _), marker, dash in looks:
        part = part.sort_values(axis)
        look: dict[str, Any] = {"marker": marker, "dash": dash, "size": 4.0}
        x, y = part[axis].tolist(), _scaled(part, metric)
        series.append(Series(name, x, y, "marked line", colour, **look))
    return Panel(heading(axis), tuple(series), x_scale=scale_of(each.x for each in series))


def _fields(document: dict[str, Any]) -> dict[str, Any]:
    """Fields of a nested document by their paths."""
    import pandas as pd

    (found,) = pd.json_normalize(document).to_dict("records")
    return {
        str(path): value if isinstance(value, int | float | str) else str(value)
        for path, value in found.items()
    }

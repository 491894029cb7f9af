"""Any metric as bars over policies, machines or choices, or as lines over a numeric axis."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle
from typing import TYPE_CHECKING, Any

from carsim.base.text import quantity
from carsim.metrics import INTERVALS, METRICS
from carsim.report.figures import shown_policies, style
from carsim.report.figures.breakdown import LOOKS
from carsim.report.figures.pareto import heading
from carsim.report.figures.plot import DASHES, Panel, Plot, Series, scale_of

if TYPE_CHECKING:
    import pandas as pd

    from carsim.report.stored import StoredRun

MARKERS = ("o", "s", "^", "d", "*")
BAR_IN, FRAME_IN = 0.17, 1.0
"""Height of a bar, and of everything around the bars."""


def run_rows(label: str, run: "StoredRun", *, own_only: bool = False) -> "pd.DataFrame":
    """A row per simulated policy of a run: ``label``, ``policy``, fields of the design, metrics."""
    import pandas as pd

    fields, rows = _fields(run.resolved_design), []
    for name, policy, _ in shown_policies({label: run}):
        if policy.is_chosen or not own_only:
            figures = {metric: policy.get(metric) for metric in METRICS}
            rows.append(fields | figures | {"label": label, "policy": name})
    return pd.DataFrame(rows)


def metric_plot(
    rows: "pd.DataFrame",
    metrics: Sequence[str],
    axis: str = "policy",
    by: str = "",
    strong: str = "",
) -> Plot:
    """A panel per metric: bars, or lines where the axis has three different numbers or more.

    Of several rows at one place the best in the metric is shown, and the label says so.

    Args:
        rows: Columns ``axis``, ``by``, the metrics, and the ends of their intervals.
        metrics: Names of columns.
        axis: Column along which values are placed.
        by: Column whose values have a bar or a line each; none if empty.
        strong: Value of the axis whose name is bold.
    """
    is_line = rows[axis].dtype.kind in "iuf" and rows[axis].nunique() > 2
    places = list(dict.fromkeys(rows[axis]))
    groups = list(dict.fromkeys(rows[by])) if by else [""]
    panels = []
    for metric in metrics:
        best = _best(rows, metric, [axis, by] if by else [axis])
        label = heading(metric) + " [%]" * (METRICS[metric].unit == "share")
        label += ", best of others" * (len(best) < len(rows[metric].dropna()))
        parts = [best[best[by] == group] if by else best for group in groups]
        names = [
            group if isinstance(group, str) else f"{heading(by)} {quantity(group)}"
            for group in groups
        ]
        if is_line:
            panels.append(_lines(parts, names, axis, metric, label))
        else:
            panels.append(_bars(parts, names, places, axis, metric, label, strong))
    lines = len(places) * len(groups)
    height_in = 2.6 if is_line else FRAME_IN + BAR_IN * lines * 1.4
    return Plot(
        "",
        tuple(panels),
        alt=f"{', '.join(map(heading, metrics))} over {heading(axis)}",
        caption="Whiskers: range over measured bandwidths, and over the energy constants.",
        size_in=(min(11.0, 4.0 + 2.5 * len(panels)), height_in),
        shares="" if is_line else "y",
        columns=3,
        strong=None if is_line or strong not in places else places.index(strong),
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


def _bars(
    parts: "Sequence[pd.DataFrame]",
    names: Sequence[str],
    places: Sequence[Any],
    axis: str,
    metric: str,
    label: str,
    strong: str,
) -> Panel:
    height, ends = 0.76 / len(parts), INTERVALS.get(metric, ())
    series = []
    for index, (part, name, look) in enumerate(zip(parts, names, cycle(LOOKS), strict=False)):
        lines = [places.index(p) + (index - (len(parts) - 1) / 2) * height for p in part[axis]]
        values = _scaled(part, metric)
        has_ends = bool(ends) and all(end in part and part[end].notna().all() for end in ends)
        texts = [METRICS[metric].text(value) for value in part[metric]]
        colour: str | tuple[str, ...] = look[0]
        if strong in places and len(parts) == 1:
            colour = tuple(style.BLUE if p == strong else style.SKY for p in part[axis])
        bar = Series(name, values, lines, "bar", colour, hover=texts, hatch=look[1])
        series.append(replace(bar, text=() if has_ends else texts, height=0.92 * height))
        if has_ends:
            whiskers = Series("", values, lines, "points", style.BLACK, marker="|", size=2.0)
            low, high = (part[end].tolist() for end in ends)
            series.append(replace(whiskers, low=low, high=high))
    return Panel(label, tuple(series), categories=tuple(map(quantity, places)))


def _lines(
    parts: "Sequence[pd.DataFrame]", names: Sequence[str], axis: str, metric: str, label: str
) -> Panel:
    looks = zip(cycle(colour for colour, _ in LOOKS), cycle(MARKERS), cycle(DASHES), strict=False)
    series = []
    for part, name, (colour, marker, dash) in zip(parts, names, looks, strict=False):
        part = part.sort_values(axis)
        x, y = part[axis].tolist(), _scaled(part, metric)
        line = Series(name, x, y, "marked line", colour, marker=marker, dash=dash, size=4.0)
        series.append(line)
    return Panel(heading(axis), tuple(series), label, x_scale=scale_of(each.x for each in series))


def _fields(document: dict[str, Any]) -> dict[str, Any]:
    """Fields of a nested document by their paths."""
    import pandas as pd

    (found,) = pd.json_normalize(document).to_dict("records")
    return {
        str(path): value if isinstance(value, int | float | str) else str(value)
        for path, value in found.items()
    }

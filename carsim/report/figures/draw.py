"""Plots as files: PNG, SVG or PDF by matplotlib."""

import io
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from carsim.report.figures import style
from carsim.report.figures.plot import Panel, Plot, Series

DASHES = {"solid": "-", "dash": "--", "dot": ":"}
PANEL_IN = 2.2
"""Least width of panels that stand beside each other."""
MARGINS_IN = 1.2
"""Height of title, label and legend."""
NARROW_IN = 5.0
"""Figures that are no wider than a column have names and labels in several lines."""
PAD_IN = 0.1
"""Least distance from the edges of such figures."""
LOW_IN = 3.0
"""Figures that are lower have upright labels in several lines."""
LINE = 20
"""Characters of such a line of a name."""
ROOM = 1.45
"""Length of an axis over that of the longest bar, with room for its label."""
LINE_IN = 0.14
"""Height of a further line of a name."""
LEAST_IN, ASPECT = 0.4, 0.68
"""Height of what is around panels, and of a panel without categories per width of the figure."""
CHARACTERS_PER_INCH = 9
"""Width of text in a legend, with room for the marks."""


def on_paper(plot: Plot, width_in: float) -> Plot:
    """The plot at a width: that of a column, say. Its caption is the paper's, so it has no title.

    Panels that would be too narrow beside each other go below each other.

    Args:
        plot: The plot.
        width_in: Width, inches.
    """
    count = len(plot.panels)
    beside = count if plot.shares == "y" else min(plot.columns, count)
    height = plot.size_in[1]
    if plot.shares != "x" and width_in < PANEL_IN * beside:
        # Of a row of panels, what is not title and legend is repeated.
        rows = -(-count // beside)
        height += (count - rows) * (height - MARGINS_IN) / rows
        panels = tuple(replace(panel, share=1.0) for panel in plot.panels)
        plot = replace(plot, panels=panels, shares="", columns=1)
    if width_in < NARROW_IN:
        below = plot.panels if plot.columns == 1 and plot.shares != "y" else plot.panels[:1]
        names = [name for panel in below for name in panel.categories]
        height += LINE_IN * sum(len(textwrap.wrap(name, LINE)) - 1 for name in names)
    if not any(panel.categories for panel in plot.panels):
        tall = 1.3 if plot.shares == "x" else float(-(-count // plot.columns))
        height = min(height, LEAST_IN + ASPECT * width_in * tall)
    return replace(plot, title="" if not plot.misfit else plot.title, size_in=(width_in, height))


def draw(plot: Plot) -> Figure:
    """The plot as a figure of matplotlib; save it within :func:`.style.style`."""
    with style.style():
        figure = style.new_figure(*plot.size_in, plot.title, misfit=plot.misfit)
        count, is_narrow = len(plot.panels), plot.size_in[0] < NARROW_IN
        if is_narrow:  # constrained layout may leave out half of an axis' last number
            figure.set_layout_engine("constrained", w_pad=PAD_IN)
        columns = {"x": 1, "y": count}.get(plot.shares, min(plot.columns, count))
        rows = -(-count // columns)
        shares = [panel.share for panel in plot.panels]
        how: dict[str, Any] = {f"share{axis}": plot.shares == axis for axis in "xy"}
        how["width_ratios"] = shares if plot.shares == "y" else None
        how["height_ratios"] = shares if columns == 1 else None
        grid = figure.subplots(rows, columns, squeeze=False, **how).flat
        for place, axes in enumerate(grid):
            if place >= count:
                axes.set_visible(False)
                continue
            is_last = plot.shares != "x" or place == count - 1
            shape = {"is_narrow": is_narrow, "is_low": is_narrow or plot.size_in[1] < LOW_IN}
            _draw_panel(axes, plot.panels[place], is_last=is_last, **shape)
            if plot.panels[place].categories and (place == 0 or plot.shares != "y"):
                names = plot.panels[place].categories
                if is_narrow:
                    names = tuple(textwrap.fill(name, LINE) for name in names)
                axes.set_yticks(range(len(names)), names)
                if plot.strong is not None:
                    axes.get_yticklabels()[plot.strong].set_fontweight("bold")
                axes.tick_params(axis="y", length=0)
                axes.set_ylim(len(names) - 0.5, -0.5)
        entries = {
            label: handle
            for axes, panel in zip(figure.axes, plot.panels, strict=False)
            if len(panel.series) > 1 or plot.shares == "x"
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        if len(entries) > 1:
            needed = 6 + max(map(len, entries))
            columns = max(1, int(CHARACTERS_PER_INCH * plot.size_in[0]) // needed)
            texts, handles = entries.keys(), entries.values()
            figure.legend(handles, texts, loc="outside lower center", ncols=columns)
    return figure


def image(plot: Plot, file_format: str = "png") -> bytes:
    """The plot as a file of the format ``png``, ``svg`` or ``pdf``; equal plots, equal bytes."""
    file = io.BytesIO()
    undated: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with style.style():
        draw(plot).savefig(file, format=file_format, metadata=undated.get(file_format))
    return file.getvalue()


def save(plot: Plot, path: Path, file_format: str = "") -> None:
    """Write the plot in a format, or in that which the suffix of the path names."""
    path.write_bytes(image(plot, file_format or path.suffix.removeprefix(".")))


def _draw_panel(axes: Axes, panel: Panel, *, is_last: bool, is_narrow: bool, is_low: bool) -> None:
    for series in panel.series:
        _draw_series(axes, series)
    for place in panel.verticals:
        axes.axvline(place, color=style.GREY, linewidth=0.5, linestyle=":")
    for axis, scale, ends in (
        ("x", panel.x_scale, panel.x_range),
        ("y", panel.y_scale, panel.y_range),
    ):
        if scale == "log":
            axes.set(**{f"{axis}scale": "log"})
            ticks = getattr(axes, f"{axis}axis")
            subs = (1.0, 3.0) if is_narrow and axis == "x" else (1.0, 2.0, 5.0)
            ticks.set_major_locator(LogLocator(subs=subs))
            ticks.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.9g}"))
            ticks.set_minor_formatter(NullFormatter())
        if ends:
            axes.set(**{f"{axis}lim": ends})
    if panel.x_scale == "linear" and all(isinstance(x, int) for s in panel.series for x in s.x):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if not panel.x_range and any(series.text for series in panel.series):
        axes.set_xlim(0, ROOM * max(x for each in panel.series for x in each.x if x is not None))
    label = textwrap.fill(panel.x_label, 2 * LINE) if is_narrow else panel.x_label
    upright = textwrap.fill(panel.y_label, LINE + 6) if is_low else panel.y_label
    axes.set(xlabel=label if is_last else "", ylabel=upright)
    axes.grid(axis="x" if panel.categories else "y" if panel.verticals else "both")


def _draw_series(axes: Axes, series: Series) -> None:
    look: dict[str, Any] = {"label": series.name or None, "color": series.colour}
    x, y = _numbers(series.x), _numbers(series.y)
    if series.mark == "bar":
        starts = list(series.base) or [0.0] * len(x)
        lengths = [end - start for start, end in zip(starts, x, strict=True)]
        look |= {"hatch": 3 * series.hatch, "edgecolor": "white", "linewidth": 0.5}
        bars = axes.barh(y, lengths, left=starts, height=series.height, **look)
        if series.text:
            axes.bar_label(bars, list(series.text), padding=3, fontsize=8)
        return
    if series.mark == "steps":
        axes.stairs(y, x, baseline=None, linestyle=DASHES[series.dash], linewidth=1.4, **look)
        return
    if series.low:
        interval = [
            [value - low for value, low in zip(x, series.low, strict=True)],
            [high - value for value, high in zip(x, series.high, strict=True)],
        ]
        axes.errorbar(x, y, xerr=interval, fmt="none", ecolor=style.GREY, capsize=3)
    if series.shade:
        how: dict[str, Any] = {"cmap": "viridis_r", "label": series.name, "zorder": 2}  # as lines
        marks = axes.scatter(x, y, series.size**2, series.shade, **how)
        axes.figure.colorbar(marks, ax=axes, label=series.shade_label, format="{x:,.6g}")
        return
    look["marker"] = None if series.mark == "line" else series.marker
    look["linestyle"] = "none" if series.mark == "points" else DASHES[series.dash]
    look["markeredgewidth"] = 2 if series.marker == "|" else 1.2
    look["markerfacecolor"] = "none" if series.hollow else series.colour
    look |= {"linewidth": 1.2, "markersize": series.size, "rasterized": len(x) > 2000}
    axes.plot(x, y, **look)
    for label, point in zip(series.text, zip(x, y, strict=True), strict=False):
        axes.annotate(label, point, (6, -3), textcoords="offset points", fontsize=7.5)


def _numbers(values: Any) -> list[float]:
    return [float("nan") if value is None else float(value) for value in values]

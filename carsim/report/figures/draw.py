"""Plots as files: PNG, SVG or PDF by matplotlib."""

import io
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
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
"""Figures that are no wider than a column have names in several lines."""
PAD_IN = 0.1
"""Least distance from the edges of such figures."""
LINE = 20
"""Characters of such a line of a name; labels of axes have some more."""
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
    count, height = len(plot.panels), plot.size_in[1]
    if plot.shares == "y" and width_in < PANEL_IN * count:
        height += (count - 1) * (height - MARGINS_IN)  # what is not title and legend is repeated
        panels = tuple(replace(panel, share=1.0) for panel in plot.panels)
        plot = replace(plot, panels=panels, shares="")
    if width_in < NARROW_IN:
        below = plot.panels[:1] if plot.shares == "y" else plot.panels
        names = [name for panel in below for name in panel.categories]
        height += LINE_IN * sum(len(textwrap.wrap(name, LINE)) - 1 for name in names)
    if not any(panel.categories for panel in plot.panels):
        tall = 1.3 if plot.shares == "x" else count
        height = min(height, LEAST_IN + ASPECT * width_in * tall)
    return replace(plot, title="" if not plot.misfit else plot.title, size_in=(width_in, height))


def draw(plot: Plot) -> Figure:
    """The plot as a figure of matplotlib; save it within :func:`.style.style`."""
    with style.style():
        figure = style.new_figure(*plot.size_in, plot.full_title, misfit=plot.misfit)
        count, is_narrow = len(plot.panels), plot.size_in[0] < NARROW_IN
        if is_narrow:  # constrained layout may leave out half of an axis' last number
            figure.set_layout_engine("constrained", w_pad=PAD_IN)
        beside = plot.shares == "y"
        how: dict[str, Any] = {f"share{axis}": plot.shares == axis for axis in "xy"}
        how["width_ratios" if beside else "height_ratios"] = [panel.share for panel in plot.panels]
        size = (1, count) if beside else (count, 1)
        grid = figure.subplots(*size, squeeze=False, **how).flat
        entries: dict[str, Any] = {}
        for place, (axes, panel) in enumerate(zip(grid, plot.panels, strict=True)):
            _draw_panel(axes, panel, is_narrow)
            if plot.shares == "x" and place < count - 1:
                axes.set_xlabel("")
            if panel.categories and (place == 0 or not beside):
                _name_lines(axes, panel.categories, is_narrow)
            if len(panel.series) > 1 or plot.shares == "x":
                handles, labels = axes.get_legend_handles_labels()
                entries |= dict(zip(labels, handles, strict=True))
        if len(entries) > 1:
            needed = 6 + max(map(len, entries))
            columns = max(1, int(CHARACTERS_PER_INCH * plot.size_in[0]) // needed)
            look: dict[str, Any] = {"loc": "outside lower center", "ncols": columns}
            figure.legend(entries.values(), entries.keys(), **look)
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


def _name_lines(axes: Axes, names: Sequence[str], is_narrow: bool) -> None:
    axes.set_yticks(range(len(names)), [textwrap.fill(n, LINE) if is_narrow else n for n in names])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(names) - 0.5, -0.5)


def _draw_panel(axes: Axes, panel: Panel, is_narrow: bool) -> None:
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
    axes.set(xlabel=_even(panel.x_label, 2 * LINE), ylabel=_even(panel.y_label, LINE + 6))
    axes.grid(axis="x" if panel.categories else "y" if panel.verticals else "both")


def _even(text: str, width: int) -> str:
    """The text in as few lines as the width allows, all about as long."""
    fewest = len(textwrap.wrap(text, width))
    fits = (n for n in range(1, width) if len(textwrap.wrap(text, n)) <= fewest)
    return textwrap.fill(text, next(fits, width))


def _draw_series(axes: Axes, series: Series) -> None:
    look: dict[str, Any] = {"label": series.name or None, "color": series.colour}
    x, y = (np.array(values, float) for values in (series.x, series.y))  # None is no number
    if series.low:
        interval = np.abs(np.array([series.low, series.high]) - x)
        axes.errorbar(x, y, xerr=interval, fmt="none", ecolor=style.GREY, capsize=3)
    if series.mark == "bar":
        starts = np.array(series.base or [0.0] * len(x))
        look |= {"hatch": 3 * series.hatch, "edgecolor": "white", "linewidth": 0.5}
        bars = axes.barh(y, x - starts, left=starts, height=series.height, **look)
        if series.text:
            axes.bar_label(bars, list(series.text), padding=3, fontsize=8)
        return
    if series.mark == "steps":
        axes.stairs(y, x, baseline=None, linestyle=DASHES[series.dash], linewidth=1.4, **look)
        return
    if series.shade:
        how: dict[str, Any] = {"cmap": "viridis_r", "label": series.name, "zorder": 2}  # as lines
        how |= {"edgecolors": style.GREY, "linewidths": 0.3}  # light colours are seen on white
        marks = axes.scatter(x, y, series.size**2, series.shade, **how)
        axes.figure.colorbar(marks, ax=axes, label=series.shade_label, format="{x:,.6g}")
        return
    look["marker"] = None if series.mark == "line" else series.marker
    look["linestyle"] = "none" if series.mark == "points" else DASHES[series.dash]
    look["markerfacecolor"] = "none" if series.hollow else series.colour
    look |= {
        "linewidth": 1.2,
        "markeredgewidth": 1.2,
        "markersize": series.size,
        "rasterized": len(x) > 2000,
    }
    axes.plot(x, y, **look)
    for label, point in zip(series.text, zip(x, y, strict=True), strict=False):
        axes.annotate(label, point, (6, -3), textcoords="offset points", fontsize=7.5)

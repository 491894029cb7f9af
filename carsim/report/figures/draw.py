"""Plots as files: PNG, SVG or PDF by matplotlib."""

import io
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import fsum, log10
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from carsim.report.figures import style
from carsim.report.figures.plot import Panel, Plot, Series

LABEL_PT = 7.5
"""Type of labels beside bars and points."""
INSIDE: dict[str, Any] = {
    "zorder": 6,  # above the heads of arrows, which are annotations of zorder 3
    "fontsize": 7.0,
    "bbox": {"facecolor": "white", "alpha": 0.85, "pad": 0.8, "linewidth": 0},
}
"""Look of labels that stand in bars, whose hatches would cross them."""
DASHES = {"solid": "-", "dash": "--", "dot": ":"}
PANEL_IN = 2.2
"""Least width of panels that stand beside each other."""
NAMED_PANEL_IN = 2.6
"""Least width of panels beside each other, of which one has names of its own."""
PAPER_PANEL_IN = 1.5
"""Least width of such panels where type is smaller, so that two share a column."""
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
THIN = 0.3
"""Bars of less height, in lines of their panel, have thin whiskers."""
LINE_IN = 0.14
"""Height of a further line of a name."""
TICK_IN, NAMES_IN = 0.9, 0.8
"""Width that a number below an axis needs, and width of what stands to the left of an axis."""
DIGIT_IN = 0.075
"""Width of a digit below an axis."""
LEGEND_LINE_IN = 0.18
"""Height of a line of a legend."""
LEAST_IN, ASPECT = 0.4, 0.68
"""Height of what is around panels, and of a panel without categories per width of the figure."""
LEAST_TALL = 0.7
"""Height of panels beside each other, over that of one which has the whole width."""
CHARACTERS_PER_INCH = {"usual": 13, "paper": 18}
"""Width of text in a legend, by the look of a plot."""
MARK_CHARACTERS = {"usual": 9, "paper": 6}
"""Width of the mark of a legend's entry, and of the gap to the next."""
TITLE_LINE_IN = 0.2
"""Height of a line of a title."""
PAPER_TRACK_IN = 0.17
"""Height of a track of a timeline in print."""


def on_paper(plot: Plot, width_in: float, look: Literal["usual", "paper"] = "usual") -> Plot:
    """The plot at a width: that of a column, say. Its caption is the paper's, so it has no title.

    A timeline keeps its title, but for a paper.

    Panels that would be too narrow beside each other go below each other.

    Args:
        plot: The plot.
        width_in: Width, inches.
        look: ``paper`` for type of 7 to 8 points, 300 dpi and narrower panels.
    """
    count, height = len(plot.panels), plot.size_in[1]
    own_lines = _legend_lines(plot)
    plot = replace(plot, look=look)
    least_in = PAPER_PANEL_IN if look == "paper" else PANEL_IN
    has_names = any(panel.categories for panel in plot.panels)
    if plot.shares == "beside" and has_names:
        least_in = NAMED_PANEL_IN
    has_room = width_in >= least_in * count
    if plot.shares in ("y", "beside") and not has_room:
        height += (count - 1) * (height - MARGINS_IN)  # what is not title and legend is repeated
        panels = tuple(replace(panel, share=1.0) for panel in plot.panels)
        plot = replace(plot, panels=panels, shares="")
    elif plot.shares == "" and look == "paper" and has_room and count > 1 and not has_names:
        plot = replace(plot, shares="beside")
    if width_in < NARROW_IN:
        below = plot.panels[:1] if plot.shares == "y" else plot.panels
        names = [name for panel in below for name in panel.categories]
        height += LINE_IN * sum(len(textwrap.wrap(name, LINE)) - 1 for name in names)
    legend_lines = _legend_lines(replace(plot, size_in=(width_in, height)))
    if has_names and look == "paper" and plot.shares == "x":
        tracks = sum(len(panel.categories) for panel in plot.panels)
        height = MARGINS_IN + PAPER_TRACK_IN * tracks + LEGEND_LINE_IN * legend_lines
    elif has_names:
        height += LEGEND_LINE_IN * max(0, legend_lines - own_lines)
    else:
        tall = {"x": 1.3, "beside": max(1 / count, LEAST_TALL)}.get(plot.shares, float(count))
        height = min(height, LEAST_IN + ASPECT * width_in * tall)
        height += LEGEND_LINE_IN * legend_lines  # which the plot itself keeps
    has_title = plot.misfit or (plot.keeps_title and look == "usual")
    if has_title and not plot.misfit:
        height += TITLE_LINE_IN * len(textwrap.wrap(plot.title, style.title_width(width_in)))
    return replace(plot, title=plot.title if has_title else "", size_in=(width_in, height))


def draw(plot: Plot) -> Figure:
    """The plot as a figure of matplotlib; save it within :func:`.style.style`."""
    with style.style(plot.look):
        figure = style.new_figure(*plot.size_in, plot.full_title, misfit=plot.misfit)
        count, is_narrow = len(plot.panels), plot.size_in[0] < NARROW_IN
        if is_narrow:  # constrained layout may leave out half of an axis' last number
            figure.set_layout_engine("constrained", w_pad=PAD_IN)
        beside = plot.shares in ("y", "beside")
        how: dict[str, Any] = {f"share{axis}": plot.shares == axis for axis in "xy"}
        how["width_ratios" if beside else "height_ratios"] = [panel.share for panel in plot.panels]
        size = (1, count) if beside else (count, 1)
        grid = figure.subplots(*size, squeeze=False, **how).flat
        entries: dict[str, Any] = {}
        shares = [panel.share / fsum(each.share for each in plot.panels) for panel in plot.panels]
        for place, (axes, panel) in enumerate(zip(grid, plot.panels, strict=True)):
            width_in = plot.size_in[0] * (shares[place] if beside else 1.0)
            _draw_panel(axes, panel, is_narrow, width_in)
            if plot.shares == "x" and place < count - 1:
                axes.set_xlabel("")
            if panel.categories and (place == 0 or plot.shares != "y"):
                _name_lines(axes, panel.categories, is_narrow)
            if len(panel.series) > 1 or plot.shares == "x":
                for drawn in figure.axes:
                    handles, labels = drawn.get_legend_handles_labels()
                    entries |= dict(zip(labels, handles, strict=True))
        if len(entries) > 1:
            columns = _legend_columns([*entries], plot)
            look: dict[str, Any] = {"loc": "outside lower center", "ncols": columns}
            figure.legend(entries.values(), entries.keys(), **look)
    return figure


def image(plot: Plot, file_format: str = "png") -> bytes:
    """The plot as a file of the format ``png``, ``svg`` or ``pdf``; equal plots, equal bytes."""
    file = io.BytesIO()
    undated: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with style.style(plot.look):
        dpi = style.PAPER_DPI if plot.look == "paper" else "figure"
        draw(plot).savefig(file, dpi=dpi, format=file_format, metadata=undated.get(file_format))
    return file.getvalue()


def save(plot: Plot, path: Path, file_format: str = "") -> None:
    """Write the plot in a format, or in that which the suffix of the path names."""
    path.write_bytes(image(plot, file_format or path.suffix.removeprefix(".")))


def _legend_columns(names: Sequence[str], plot: Plot) -> int:
    """The most columns of a legend that fit the width of a plot; names fill column by column."""
    characters = CHARACTERS_PER_INCH[plot.look] * plot.size_in[0]
    for columns in range(len(names), 1, -1):
        longer, more = divmod(len(names), columns)
        ends = [longer * (column + 1) + min(more, column + 1) for column in range(columns)]
        widths = [
            MARK_CHARACTERS[plot.look] + max(map(len, names[start:end]))
            for start, end in pairwise([0, *ends])
        ]
        if sum(widths) <= characters:
            return columns
    return 1


def _legend_lines(plot: Plot) -> int:
    """Lines of the legend of a plot at its width; 0 without one."""
    series = [series for panel in plot.panels for series in panel.series if series.name]
    names = [*dict.fromkeys(each.name for each in series)]
    if len(names) < 2:
        return 0
    return -(-len(names) // _legend_columns(names, plot))


def _name_lines(axes: Axes, names: Sequence[str], is_narrow: bool) -> None:
    axes.set_yticks(range(len(names)), [textwrap.fill(n, LINE) if is_narrow else n for n in names])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(names) - 0.5, -0.5)


def _draw_panel(axes: Axes, panel: Panel, is_narrow: bool, width_in: float) -> None:
    _draw_all_series(axes, panel)
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
    _place_ticks(axes, panel, width_in)
    axes.set(xlabel=_even(panel.x_label, 2 * LINE), ylabel=_even(panel.y_label, LINE + 6))
    axes.grid(axis="x" if panel.categories else "y" if panel.verticals else "both")


def _draw_all_series(axes: Axes, panel: Panel) -> None:
    """Series on the left axis, and on a second one to the right where the panel has it."""
    right = axes.twinx() if panel.right_label else axes
    for series in panel.series:
        _draw_series(right if series.axis == "right" else axes, series)
    if panel.right_label:
        right.set(ylabel=_even(panel.right_label, LINE + 6), ylim=panel.right_range)
        right.spines["right"].set_visible(True)


def _place_ticks(axes: Axes, panel: Panel, width_in: float) -> None:
    """Ticks of the horizontal axis, and room for labels beside bars."""
    if panel.x_ticks:
        ticks = _apart(panel, width_in - NAMES_IN)
        axes.set_xticks(ticks, [f"{tick:,.9g}" for tick in ticks])
        axes.set_xticks([], minor=True)
    elif panel.x_scale == "linear" and all(isinstance(x, int) for s in panel.series for x in s.x):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    elif panel.x_scale == "linear":
        intervals = max(2, round((width_in - NAMES_IN) / TICK_IN))
        axes.xaxis.set_major_locator(MaxNLocator(nbins=min(intervals, 9)))
    if not panel.x_range and any(each.text and not each.inside for each in panel.series):
        axes.set_xlim(0, ROOM * max(x for each in panel.series for x in each.x if x is not None))


def _apart(panel: Panel, width_in: float) -> list[float]:
    """Ticks of a panel whose numbers do not collide, from the left."""
    at = [log10(tick) if panel.x_scale == "log" else tick for tick in panel.x_ticks]
    per_unit = width_in / ((max(at) - min(at)) or 1.0)
    ticks = [panel.x_ticks[0]]
    last = at[0]
    last_text = f"{ticks[0]:,.9g}"
    for tick, place in zip(panel.x_ticks[1:], at[1:], strict=True):
        text = f"{tick:,.9g}"
        needed = DIGIT_IN * (len(text) + len(last_text)) / 2
        if (place - last) * per_unit >= needed + DIGIT_IN:
            ticks.append(tick)
            last = place
            last_text = text
    return ticks


def _even(text: str, width: int) -> str:
    """The text in as few lines as the width allows, all about as long."""
    fewest = len(textwrap.wrap(text, width))
    fits = (n for n in range(1, width) if len(textwrap.wrap(text, n)) <= fewest)
    return textwrap.fill(text, next(fits, width))


def _draw_arrows(axes: Axes, series: Series) -> None:
    """An arrow for each start and end, and an entry of the legend for all of them."""
    look: dict[str, Any] = {"arrowstyle": "-|>", "color": series.colour, "linewidth": 0.7}
    look |= {"mutation_scale": 6, "shrinkA": 0, "shrinkB": 0}
    places = list(zip(series.x, series.y, strict=True))
    for start, end in zip(places[::3], places[1::3], strict=True):
        axes.annotate("", xy=end, xytext=start, arrowprops=look)
    axes.plot(
        [], [], color=series.colour, marker=">", markersize=3, linewidth=0.7, label=series.name
    )


def _draw_series(axes: Axes, series: Series) -> None:
    look: dict[str, Any] = {"label": series.name or None, "color": series.colour}
    x, y = (np.array(values, float) for values in (series.x, series.y))  # None is no number
    if series.low:
        interval = np.abs(np.array([series.low, series.high]) - x)
        is_thin = series.mark == "bar" and series.height < THIN
        whisker: dict[str, Any] = {"fmt": "none", "ecolor": style.INTERVAL}
        whisker["capsize"] = 1.5 if is_thin else 3.0
        whisker["elinewidth"] = whisker["capthick"] = 0.6 if is_thin else 1.2
        axes.errorbar(x, y, xerr=interval, **whisker)
    if series.mark == "bar":
        starts = np.array(series.base or [0.0] * len(x))
        look |= {"hatch": 3 * series.hatch, "edgecolor": "white", "linewidth": 0.5}
        if series.colours:
            look["color"] = list(series.colours)
            look["hatch"] = [3 * hatch for hatch in series.hatches]
        bars = axes.barh(y, x - starts, left=starts, height=series.height, **look)
        if series.inside:
            axes.bar_label(bars, list(series.text), label_type="center", **INSIDE)
        elif series.text:
            axes.bar_label(bars, list(series.text), padding=3, fontsize=LABEL_PT)
        return
    if series.mark == "arrows":
        _draw_arrows(axes, series)
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
        axes.annotate(label, point, (6, -3), textcoords="offset points", fontsize=LABEL_PT)

"""Plots as files: PNG, SVG or PDF by matplotlib."""

import io
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from math import ceil, fsum, log10
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.text import Annotation
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from numpy.typing import NDArray

from carsim.report.figures import style
from carsim.report.figures.plot import Number, Panel, Plot, Scale, Series

LABEL_PT = 7.5
"""Type of labels beside bars and points."""
HALO_PT = 2.5
"""Width of the white line around labels beside points, which may stand on other points."""
INSIDE_PT = 7.0
"""Type of labels that stand in bars."""
INSIDE_BOX: dict[str, Any] = {"facecolor": "white", "alpha": 0.85, "pad": 0.8, "linewidth": 0}
"""Background of labels that stand in bars, whose hatches would cross them."""
ABOVE_ARROWS = 6
"""Place of these labels among what is drawn; arrows are annotations at 3."""
MOST_VECTOR_POINTS = 2000
"""More points than this are a picture in a file of vectors, which would be large."""
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
X_LABEL_CHARACTERS = 2 * LINE
"""Characters in a line of the label of a horizontal axis."""
Y_LABEL_CHARACTERS = LINE + 6
"""Characters in a line of the label of a vertical axis."""
ROOM = 1.45
"""Length of an axis over that of the longest bar, with room for its label."""
THIN = 0.3
"""Bars of less height, in lines of their panel, have thin whiskers."""
LINE_IN = 0.14
"""Height of a further line of a name."""
TICK_IN = 0.9
"""Width that a number below an axis needs."""
NAMES_IN = 0.8
"""Width of what stands to the left of an axis."""
COLOUR_BAR_IN = 1.3
"""Width of a colour bar with its numbers and its label."""
PT_PER_IN = 72
LEAST_EDGED_PT = 1.0
"""Bars of less width have no white edge: half of it on either side would cover them."""
DIGIT_IN = 0.075
"""Width of a digit below an axis."""
LEGEND_LINE_IN = 0.18
"""Height of a line of a legend."""
LEAST_IN = 0.4
"""Height of what is around panels."""
ASPECT = 0.68
"""Height of a panel without categories, over the width of the figure."""
LEAST_TALL = 0.7
"""Least height of panels beside each other, over that of a panel that has the whole width."""
STACK_TALL = 1.3
"""Height of all panels on one horizontal axis, over that of a panel alone."""
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
    panel_count = len(plot.panels)
    height_in = plot.size_in[1]
    legend_lines_before = _legend_lines(plot)
    plot = replace(plot, look=look)
    has_names = any(panel.categories for panel in plot.panels)
    if plot.shares == "beside" and has_names:
        least_panel_in = NAMED_PANEL_IN
    elif look == "paper":
        least_panel_in = PAPER_PANEL_IN
    else:
        least_panel_in = PANEL_IN
    is_paper_stack = plot.shares == "" and look == "paper" and panel_count > 1
    fits_beside = width_in >= least_panel_in * panel_count
    if plot.shares in ("y", "beside") and not fits_beside:
        # Everything but title and legend is drawn once more for each further panel.
        height_in += (panel_count - 1) * (height_in - MARGINS_IN)
        panels = tuple(replace(panel, share=1.0) for panel in plot.panels)
        plot = replace(plot, panels=panels, shares="")
    elif is_paper_stack and fits_beside and not has_names:
        plot = replace(plot, shares="beside")
    if width_in < NARROW_IN:
        height_in += LINE_IN * _further_name_lines(plot)
    legend_lines = _legend_lines(replace(plot, size_in=(width_in, height_in)))
    if has_names and look == "paper" and plot.shares == "x":
        tracks = sum(len(panel.categories) for panel in plot.panels)
        height_in = MARGINS_IN + PAPER_TRACK_IN * tracks + LEGEND_LINE_IN * legend_lines
    elif has_names:
        height_in += LEGEND_LINE_IN * max(0, legend_lines - legend_lines_before)
    else:
        height_in = min(height_in, LEAST_IN + ASPECT * width_in * _relative_height(plot))
        height_in += LEGEND_LINE_IN * legend_lines  # the plot's own height includes its legend
    keeps_title = plot.keeps_title and look == "usual"
    if keeps_title and not plot.misfit:
        title_lines = len(textwrap.wrap(plot.title, style.title_width(width_in)))
        height_in += TITLE_LINE_IN * title_lines
    title = plot.title if plot.misfit or keeps_title else ""
    return replace(plot, title=title, size_in=(width_in, height_in))


def _further_name_lines(plot: Plot) -> int:
    """Lines of the names of categories beyond the first line of each, in a narrow figure."""
    labelled = plot.panels[:1] if plot.shares == "y" else plot.panels
    lines = 0
    for panel in labelled:
        for name in panel.categories:
            lines += len(textwrap.wrap(name, LINE)) - 1
    return lines


def _relative_height(plot: Plot) -> float:
    """Height of all panels without categories, over that of a panel alone at the same width."""
    panel_count = len(plot.panels)
    if plot.shares == "x":
        return STACK_TALL
    if plot.shares == "beside":
        return max(1 / panel_count, LEAST_TALL)
    return float(panel_count)


def draw(plot: Plot) -> Figure:
    """The plot as a figure of matplotlib; save it within :func:`.style.style`."""
    width_in, height_in = plot.size_in
    with style.style(plot.look):
        figure = style.new_figure(width_in, height_in, plot.full_title, misfit=plot.misfit)
        is_narrow = width_in < NARROW_IN
        if is_narrow:  # constrained layout may leave out half of an axis' last number
            figure.set_layout_engine("constrained", w_pad=PAD_IN)
        handle_of: dict[str, Any] = {}
        panel_axes = _subplots(figure, plot)
        shared = zip(panel_axes, plot.panels, _panel_widths_in(plot), strict=True)
        for number, (axes, panel, panel_width_in) in enumerate(shared):
            is_last = number == len(plot.panels) - 1
            _draw_panel(axes, panel, is_narrow=is_narrow, width_in=panel_width_in)
            if plot.shares == "x" and not is_last:
                axes.set_xlabel("")
            if panel.categories and (number == 0 or plot.shares != "y"):
                _name_lines(axes, panel.categories, is_narrow=is_narrow)
            if len(panel.series) > 1 or plot.shares == "x":
                handle_of |= _legend_entries(figure)
        if len(handle_of) > 1:
            names = list(handle_of)
            handles = list(handle_of.values())
            columns = _legend_columns(names, plot)
            texts = _legend_texts(names, plot)
            figure.legend(handles, texts, loc="outside lower center", ncols=columns)
        # The legend has copied the look of the first bar of each series.
        for axes, panel_width_in in zip(panel_axes, _panel_widths_in(plot), strict=True):
            _show_short_bars(axes, panel_width_in - NAMES_IN)
    return figure


def _subplots(figure: Figure, plot: Plot) -> list[Axes]:
    """Axes of each panel of a plot, in the order of the panels."""
    panel_count = len(plot.panels)
    sizes = [panel.share for panel in plot.panels]
    is_beside = plot.shares in ("y", "beside")
    grid = figure.subplots(
        nrows=1 if is_beside else panel_count,
        ncols=panel_count if is_beside else 1,
        sharex=plot.shares == "x",
        sharey=plot.shares == "y",
        squeeze=False,
        width_ratios=sizes if is_beside else None,
        height_ratios=None if is_beside else sizes,
    )
    return list(grid.flat)


def _panel_widths_in(plot: Plot) -> list[float]:
    """Width of each panel with its labels, inches."""
    width_in = plot.size_in[0]
    if plot.shares not in ("y", "beside"):
        return [width_in] * len(plot.panels)
    total = fsum(panel.share for panel in plot.panels)
    return [width_in * (panel.share / total) for panel in plot.panels]


def _legend_entries(figure: Figure) -> dict[str, Any]:
    """Name of each series that is drawn so far -> its mark in the legend."""
    handle_of: dict[str, Any] = {}
    for axes in figure.axes:
        handles, names = axes.get_legend_handles_labels()
        handle_of |= dict(zip(names, handles, strict=True))
    return handle_of


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
    line_characters = CHARACTERS_PER_INCH[plot.look] * plot.size_in[0]
    for columns in range(len(names), 1, -1):
        # The first columns have a name more than the others if names do not divide evenly.
        least_names, longer_columns = divmod(len(names), columns)
        needed_characters = 0
        start = 0
        for column in range(columns):
            end = start + least_names + (1 if column < longer_columns else 0)
            longest_name = max(len(name) for name in names[start:end])
            needed_characters += MARK_CHARACTERS[plot.look] + longest_name
            start = end
        if needed_characters <= line_characters:
            return columns
    return 1


def _legend_texts(names: Sequence[str], plot: Plot) -> list[str]:
    """Names of a legend in lines that fit the width of a plot, which cuts off longer ones."""
    line_characters = round(CHARACTERS_PER_INCH[plot.look] * plot.size_in[0])
    name_characters = max(LINE, line_characters - MARK_CHARACTERS[plot.look])
    return [textwrap.fill(name, name_characters) for name in names]


def _legend_lines(plot: Plot) -> int:
    """Lines of the legend of a plot at its width; 0 without one."""
    names: list[str] = []
    for panel in plot.panels:
        for series in panel.series:
            if series.name and series.name not in names:
                names.append(series.name)
    if len(names) < 2:
        return 0
    columns = _legend_columns(names, plot)
    if columns > 1:
        return ceil(len(names) / columns)
    return sum(text.count("\n") + 1 for text in _legend_texts(names, plot))


def _name_lines(axes: Axes, names: Sequence[str], *, is_narrow: bool) -> None:
    """Name the categories at the left of axes, from the top down."""
    texts = list(names)
    if is_narrow:
        texts = [textwrap.fill(name, LINE) for name in names]
    axes.set_yticks(range(len(names)), texts)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(names) - 0.5, -0.5)


def _draw_panel(axes: Axes, panel: Panel, *, is_narrow: bool, width_in: float) -> None:
    """Draw a panel with its scales, ticks and labels on empty axes.

    Args:
        axes: The axes.
        panel: The panel.
        is_narrow: The figure is no wider than a column, so that ticks are fewer.
        width_in: Width of the panel with its labels, inches.
    """
    _draw_all_series(axes, panel)
    for position in panel.verticals:
        axes.axvline(position, color=style.GREY, linewidth=0.5, linestyle=":")
    if panel.x_scale == "log":
        axes.set_xscale("log")
        _place_log_ticks(axes.xaxis, digits=(1.0, 3.0) if is_narrow else (1.0, 2.0, 5.0))
    if panel.x_range:
        axes.set_xlim(panel.x_range)
    if panel.y_scale == "log":
        axes.set_yscale("log")
        _place_log_ticks(axes.yaxis, digits=(1.0, 2.0, 5.0))
    if panel.y_range:
        axes.set_ylim(panel.y_range)
    if not panel.categories:
        _turn_labels(axes)
    _place_ticks(axes, panel, width_in)
    axes.set_xlabel(_even(panel.x_label, X_LABEL_CHARACTERS))
    axes.set_ylabel(_even(panel.y_label, Y_LABEL_CHARACTERS))
    if panel.categories:
        axes.grid(axis="x")
    elif panel.verticals:
        axes.grid(axis="y")
    else:
        axes.grid(axis="both")


def _show_short_bars(axes: Axes, width_in: float) -> None:
    """Give bars that their white edges would hide an edge of their own colour.

    Args:
        axes: Axes whose limits are set.
        width_in: Length of the horizontal axis, inches.
    """
    if axes.get_xscale() != "linear":
        return
    left, right = axes.get_xlim()
    pt_per_unit = PT_PER_IN * width_in / abs(right - left)
    for bar in axes.patches:
        if isinstance(bar, Rectangle) and 0 < bar.get_width() * pt_per_unit < LEAST_EDGED_PT:
            bar.set_edgecolor(bar.get_facecolor())


def _place_log_ticks(axis: Axis, digits: Sequence[float]) -> None:
    """Ticks of a logarithmic axis at these digits of every power of ten, as plain numbers."""
    axis.set_major_locator(LogLocator(subs=digits))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.9g}"))
    axis.set_minor_formatter(NullFormatter())


def _draw_all_series(axes: Axes, panel: Panel) -> None:
    """Series on the left axis, and on a second one to the right where the panel has it."""
    right = axes.twinx() if panel.right_label else axes
    for series in panel.series:
        _draw_series(right if series.axis == "right" else axes, series)
    if panel.right_label:
        right.set_ylabel(_even(panel.right_label, Y_LABEL_CHARACTERS))
        right.set_ylim(panel.right_range)
        right.spines["right"].set_visible(True)


def _place_ticks(axes: Axes, panel: Panel, width_in: float) -> None:
    """Ticks of the horizontal axis, and room for labels beside bars."""
    if panel.x_ticks:
        ticks = _apart(panel.x_ticks, panel.x_scale, width_in - NAMES_IN)
        axes.set_xticks(ticks, [f"{tick:,.9g}" for tick in ticks])
        axes.set_xticks([], minor=True)
    elif panel.x_scale == "linear":
        positions = [x for series in panel.series for x in series.x]
        if all(isinstance(x, int) for x in positions):
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        else:
            intervals = max(2, round((width_in - NAMES_IN) / TICK_IN))
            axes.xaxis.set_major_locator(MaxNLocator(nbins=min(intervals, 9)))
    else:
        _thin_log_ticks(axes, panel, width_in - NAMES_IN)
    has_outer_text = any(series.text and not series.inside for series in panel.series)
    if has_outer_text and not panel.x_range:
        ends = [x for series in panel.series for x in series.x if x is not None]
        axes.set_xlim(0, ROOM * max(ends))


def _thin_log_ticks(axes: Axes, panel: Panel, width_in: float) -> None:
    """Leave out ticks of a logarithmic axis whose numbers would collide.

    An axis of less than a decade has its ticks at even distances, which are crowded at its end.

    Args:
        axes: Axes whose horizontal axis is logarithmic.
        panel: Its panel.
        width_in: Room for the axis and a colour bar, inches.
    """
    has_colour_bar = any(series.shade for series in panel.series)
    length_in = width_in - COLOUR_BAR_IN if has_colour_bar else width_in
    left, right = axes.get_xlim()
    inside = [float(tick) for tick in axes.get_xticks() if left <= tick <= right]
    if len(inside) < 2:
        return
    # The numbers span less than the axis, and have no more than their share of its length.
    share = log10(inside[-1] / inside[0]) / log10(right / left)
    ticks = _apart(inside, panel.x_scale, share * length_in)
    if len(ticks) < len(inside):
        axes.set_xticks(ticks, [f"{tick:,.9g}" for tick in ticks])


def _apart(candidates: Sequence[float], scale: Scale, width_in: float) -> list[float]:
    """Ticks whose numbers do not collide, from the left.

    Args:
        candidates: Ticks in ascending order.
        scale: Scale of the axis.
        width_in: Length of the horizontal axis from the first to the last tick, inches.
    """
    positions = [log10(tick) if scale == "log" else tick for tick in candidates]
    span = max(positions) - min(positions)
    in_per_unit = width_in / (span or 1.0)
    ticks = [candidates[0]]
    last_position = positions[0]
    last_text = f"{ticks[0]:,.9g}"
    for tick, position in zip(candidates[1:], positions[1:], strict=True):
        text = f"{tick:,.9g}"
        # Numbers are centred at their ticks: half of either lies between the two.
        needed_in = DIGIT_IN * (len(text) + len(last_text)) / 2
        if (position - last_position) * in_per_unit >= needed_in + DIGIT_IN:
            ticks.append(tick)
            last_position = position
            last_text = text
    return ticks


def _even(text: str, width: int) -> str:
    """The text in as few lines as the width allows, all about as long."""
    fewest_lines = len(textwrap.wrap(text, width))
    for narrower in range(1, width):
        if len(textwrap.wrap(text, narrower)) <= fewest_lines:
            return textwrap.fill(text, narrower)
    return textwrap.fill(text, width)


def _draw_series(axes: Axes, series: Series) -> None:
    """Draw a series on axes, in the way of its mark."""
    if series.low:
        _draw_intervals(axes, series)
    if series.mark == "bar":
        _draw_bars(axes, series)
    elif series.mark == "arrows":
        _draw_arrows(axes, series)
    elif series.mark == "steps":
        axes.stairs(
            _numbers(series.y),
            edges=_numbers(series.x),
            baseline=None,
            linestyle=DASHES[series.dash],
            linewidth=1.4,
            color=series.colour,
            label=series.name or None,
        )
    elif series.shade:
        _draw_shaded_points(axes, series)
    else:
        _draw_line_or_points(axes, series)


def _numbers(values: Sequence[Number]) -> NDArray[np.float64]:
    """The values as an array, with NaN for None."""
    return np.array(values, float)


def _draw_intervals(axes: Axes, series: Series) -> None:
    """Whiskers from the lower to the upper end of each value."""
    x = _numbers(series.x)
    is_thin = series.mark == "bar" and series.height < THIN
    line_width = 0.6 if is_thin else 1.2
    axes.errorbar(
        x,
        _numbers(series.y),
        xerr=np.abs(np.array([series.low, series.high]) - x),
        fmt="none",
        ecolor=style.INTERVAL,
        capsize=1.5 if is_thin else 3.0,
        elinewidth=line_width,
        capthick=line_width,
    )


def _draw_bars(axes: Axes, series: Series) -> None:
    """Horizontal bars from their starts to ``x``, with labels in them or beside them."""
    ends = _numbers(series.x)
    starts = np.array(series.base or [0.0] * len(ends))
    # A hatch of matplotlib is three times as dense if its sign is written three times.
    colours: str | list[str] = series.colour
    hatches: str | list[str] = 3 * series.hatch
    if series.colours:
        colours = list(series.colours)
        hatches = [3 * hatch for hatch in series.hatches]
    bars = axes.barh(
        _numbers(series.y),
        ends - starts,
        left=starts,
        height=series.height,
        color=colours,
        hatch=hatches,
        edgecolor="white",
        linewidth=0.5,
        label=series.name or None,
    )
    if series.inside:
        axes.bar_label(
            bars,
            list(series.text),
            label_type="center",
            fontsize=INSIDE_PT,
            bbox=INSIDE_BOX,
            zorder=ABOVE_ARROWS,
        )
    elif series.text:
        axes.bar_label(bars, list(series.text), padding=3, fontsize=LABEL_PT)


def _draw_arrows(axes: Axes, series: Series) -> None:
    """An arrow for each start and end, and an entry of the legend for all of them."""
    look: dict[str, Any] = {
        "arrowstyle": "-|>",
        "color": series.colour,
        "linewidth": 0.7,
        "mutation_scale": 6,
        "shrinkA": 0,
        "shrinkB": 0,
    }
    points = list(zip(series.x, series.y, strict=True))
    starts = points[::3]  # start, end and None for each arrow
    ends = points[1::3]
    for start, end in zip(starts, ends, strict=True):
        axes.annotate("", xy=end, xytext=start, arrowprops=look)
    axes.plot(
        [], [], color=series.colour, marker=">", markersize=3, linewidth=0.7, label=series.name
    )


def _draw_shaded_points(axes: Axes, series: Series) -> None:
    """Points whose colour is a third number, with a colour bar."""
    points = axes.scatter(
        _numbers(series.x),
        _numbers(series.y),
        s=series.size**2,
        c=series.shade,
        cmap="viridis_r",
        edgecolors=style.GREY,  # light colours are seen on white
        linewidths=0.3,
        zorder=2,  # that of lines
        label=series.name,
    )
    axes.figure.colorbar(points, ax=axes, label=series.shade_label, format="{x:,.6g}")


def _turn_labels(axes: Axes) -> None:
    """Put labels to the left of points in the right half of the axes, beyond which they would run.

    Args:
        axes: Axes whose limits are set, with labels of :func:`_label_points`.
    """
    axes.get_xlim()  # fits limits to the points where none were set
    to_shares = axes.transData - axes.transAxes
    for label in axes.texts:
        if not isinstance(label, Annotation) or not label.get_text():
            continue  # an arrow
        share_of_width, _ = to_shares.transform(label.xy)
        if share_of_width > 0.5:
            right_pt, up_pt = label.xyann
            label.xyann = (-right_pt, up_pt)
            label.set_horizontalalignment("right")


def _draw_line_or_points(axes: Axes, series: Series) -> None:
    """A line, points, or a line with points, and the labels of points."""
    x = _numbers(series.x)
    y = _numbers(series.y)
    axes.plot(
        x,
        y,
        color=series.colour,
        linestyle="none" if series.mark == "points" else DASHES[series.dash],
        linewidth=1.2,
        marker=None if series.mark == "line" else series.marker,
        markerfacecolor="none" if series.hollow else series.colour,
        markeredgewidth=1.2,
        markersize=series.size,
        rasterized=len(x) > MOST_VECTOR_POINTS,
        label=series.name or None,
    )
    _label_points(axes, series)


def _label_points(axes: Axes, series: Series) -> None:
    """Labels beside points, readable above other points; equal labels of a place are one."""
    earlier = {
        (label.get_text(), label.xy) for label in axes.texts if isinstance(label, Annotation)
    }
    halo = withStroke(linewidth=HALO_PT, foreground="white")
    aside_pt = series.size / 2 + 3
    points = zip(_numbers(series.x), _numbers(series.y), strict=True)
    for text, (x, y) in zip(series.text, points, strict=False):
        if (text, (x, y)) in earlier:
            continue
        label = axes.annotate(
            text,
            (x, y),
            (aside_pt, -3),
            textcoords="offset points",
            fontsize=LABEL_PT,
            path_effects=[halo],
        )
        label.set_in_layout(False)  # a long label would squeeze the axes

"""Plots as charts of a page: ``data`` and ``layout`` of Plotly.

Ink, grid and paper are the page's, which knows whether it is light or dark. Names reach Plotly
escaped, since Plotly takes some HTML for markup.
"""

import html
import math
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from carsim.report.figures import style
from carsim.report.figures.plot import Panel, Plot, Series

Json = dict[str, Any]

MARKERS = {
    "o": "circle",
    "s": "square",
    "d": "diamond",
    "^": "triangle-up",
    "*": "star",
    "x": "x-thin-open",
}
"""Marker of a series -> its name in Plotly."""
MODES = {
    "points": "markers",
    "line": "lines",
    "marked line": "lines+markers",
    "steps": "lines",
    "arrows": "lines+markers",
}
"""Mark of a series -> mode of its trace in Plotly."""
LOG_TICKS = [digit * 10.0**power for power in range(-9, 13) for digit in (1, 2, 5)]
"""Plotly leaves out those beyond the axis, and those that would collide."""

PIXELS_PER_INCH = 96
TOP_PX = 10
"""Margin above a chart."""
BOTTOM_PX = 50
"""Margin below a chart, for numbers and labels of its axes."""
NAME_LINE_PX = 15
"""Height of a line of a name at the left."""
NAME_CHARACTERS = 18
"""Characters in a line of the name of a bar, which leave room on a phone."""
LABEL_CHARACTERS = 40
"""Characters in a line of the label of an axis."""

ARROW_PX = 9
"""Length of the head of an arrow."""

GAP = 0.05
"""Between panels, as a share of the chart."""


class _AxisNames(NamedTuple):
    """Suffixes of the axes of a panel, such as ``2`` of ``xaxis2``; the first axis has none.

    Attributes:
        x: Suffix of the horizontal axis.
        y: Suffix of the vertical axis.
        right: Suffix of the second vertical axis, which few panels have.
    """

    x: str
    y: str
    right: str

    def of_trace(self, side: str) -> Json:
        """The axes that a series is read on, as its trace names them."""
        y = self.right if side == "right" else self.y
        return {"xaxis": f"x{self.x}", "yaxis": f"y{y}"}


def plotly(plot: Plot) -> Json:
    """``data`` and ``layout`` of the chart: panels beside each other, unless they share ``x``."""
    has_names = any(panel.categories for panel in plot.panels)
    is_stack = plot.shares == "x"
    layout = _layout(plot, is_unified=is_stack and not has_names)
    data: list[Json] = []
    domains = _domains([panel.share for panel in plot.panels])
    for number, (panel, domain) in enumerate(zip(plot.panels, domains, strict=True)):
        names = _axis_names(number, len(plot.panels), is_stack=is_stack)
        horizontal = _horizontal_axis(panel)
        vertical = _vertical_axis(panel)
        start, end = domain
        if is_stack:
            # Plotly counts from below, and the first panel is the uppermost.
            vertical["domain"] = [1 - end, 1 - start]
            horizontal["anchor"] = f"y{names.y}"
        else:
            horizontal["domain"] = [start, end]
        layout[f"xaxis{names.x}"] = horizontal
        # The first of panels beside each other has the vertical axis of them all.
        layout.setdefault(f"yaxis{names.y}", vertical)
        for series in panel.series:
            axes = names.of_trace(series.axis)
            data += [_trace(part, panel) | axes for part in _by_colour(series)]
        if panel.right_label:
            layout[f"yaxis{names.right}"] = _right_axis(panel, names)
        for position in panel.verticals:
            layout["shapes"].append(_vertical_line(position, f"x{names.x}"))
    if has_names and is_stack:
        _list_once(data)
    return {"data": data, "layout": layout}


def _least_height(plot: Plot) -> int:
    """Pixels of a chart whose names at the left do not overlap; all rows are of one height.

    Panels below each other have names of one line or two, for which their own height is enough.
    """
    names = plot.panels[0].categories
    if plot.shares != "y" or not names:
        return 0
    most_lines = max(_lines(name, NAME_CHARACTERS).count("<br>") + 1 for name in names)
    return TOP_PX + BOTTOM_PX + len(names) * NAME_LINE_PX * most_lines


def _layout(plot: Plot, *, is_unified: bool) -> Json:
    """Settings of a whole chart, without its axes.

    Args:
        plot: The plot.
        is_unified: The pointer shows all series at a place of the horizontal axis.
    """
    return {
        "height": max(round(PIXELS_PER_INCH * plot.size_in[1]) - 20, _least_height(plot)),
        "font": {"family": "system-ui, sans-serif", "size": 12},
        "margin": {"l": 10, "r": 15, "t": TOP_PX, "b": BOTTOM_PX},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "legend": {"orientation": "h", "y": -0.2, "yanchor": "top", "x": 0, "traceorder": "normal"},
        "hovermode": "x unified" if is_unified else "closest",
        "barmode": "overlay",
        "shapes": [],
    }


def _axis_names(number: int, panels: int, *, is_stack: bool) -> _AxisNames:
    """Suffixes of the axes of the panel of a number, counted from 0, among so many panels."""
    own = "" if number == 0 else str(number + 1)
    right = str(panels + 1 + number)
    if is_stack:
        return _AxisNames(x="", y=own, right=right)
    return _AxisNames(x=own, y="", right=right)


def _list_once(data: Sequence[Json]) -> None:
    """Give series of one name in several panels one entry of the legend, which hides all."""
    listed: set[str] = set()
    for trace in data:
        name = trace["name"]
        trace["legendgroup"] = name
        if name in listed:
            trace["showlegend"] = False
        elif trace["showlegend"]:
            listed.add(name)


def escaped(text: str) -> str:
    """A text that Plotly shows as it is.

    >>> escaped("a<b>&c")
    'a&lt;b&gt;&amp;c'
    """
    return html.escape(text, quote=False)


def _trace(series: Series, panel: Panel) -> Json:
    """A series as an entry of ``data``, without the names of its axes."""
    trace: Json = {
        "name": escaped(series.name),
        "x": list(series.x),
        "y": list(series.y),
        "showlegend": bool(series.name) and len(panel.series) > 1,
        "hovertemplate": "%{x:.4g}" if panel.categories else "%{y:.1f}",
    }
    if series.hover:
        trace["hovertext"] = list(map(escaped, series.hover))
        trace["hovertemplate"] = "%{hovertext}<extra></extra>"
    if series.keys:
        trace["customdata"] = list(series.keys)
    if series.low:
        trace["error_x"] = _intervals(series)
    if series.mark == "bar":
        return trace | _bars(series)
    trace["type"] = "scatter"
    trace["mode"] = MODES[series.mark]
    if "markers" in trace["mode"]:
        trace["marker"] = _markers(series)
    if "lines" in trace["mode"]:
        trace["line"] = {"color": series.colour, "width": 1.6, "dash": series.dash}
        if not series.name and len(panel.series) > 1:  # it joins points, which a click means
            trace["hoverinfo"] = "skip"
            trace["hovertemplate"] = None
    if series.mark == "steps":
        trace["y"] = [*series.y, series.y[-1]]
        trace["line"]["shape"] = "hv"
    return trace


def _intervals(series: Series) -> Json:
    """Whiskers of a series; Plotly counts their ends from the values."""
    above = []
    below = []
    for x, low, high in zip(series.x, series.low, series.high, strict=True):
        value = x or 0.0
        above.append(high - value)
        below.append(value - low)
    return {
        "type": "data",
        "symmetric": False,
        "array": above,
        "arrayminus": below,
        "color": style.GREY,
        "thickness": 1.2,
    }


def _markers(series: Series) -> Json:
    """Markers of points, of the ends of arrows, or of points that show a third number."""
    marker: Json = {
        "color": series.colour,
        "size": 1.7 * series.size,
        "symbol": MARKERS[series.marker] + ("-open" if series.hollow else ""),
        "line": {"width": 2, "color": series.colour},
    }
    if series.mark == "arrows":
        marker |= _heads(series)
    if series.shade:
        marker |= _shades(series)
    return marker


def _shades(series: Series) -> Json:
    """Colours of points that show a third number, with the bar of these colours."""
    return {
        "color": list(series.shade),
        "colorscale": "Viridis",
        "line": {},
        "reversescale": True,
        "colorbar": {"title": {"text": escaped(series.shade_label), "side": "right"}},
    }


def _heads(series: Series) -> Json:
    """Markers of arrows: a head at each end, which points away from the start."""
    arrows = len(series.x) // 3
    sizes = [0, ARROW_PX, 0] * arrows  # start, end, and the gap to the next arrow
    return {"symbol": "arrow", "size": sizes, "angleref": "previous", "line": {"width": 0}}


def _by_colour(series: Series) -> list[Series]:
    """The series, or a series for each of its bars where these have colours of their own."""
    if not series.colours:
        return [series]
    bars = []
    for number, colour in enumerate(series.colours):
        only = slice(number, number + 1)  # of an empty sequence, nothing
        bar = replace(
            series,
            x=series.x[only],
            y=series.y[only],
            colour=colour,
            base=series.base[only],
            low=series.low[only],
            high=series.high[only],
            text=series.text[only],
            hover=series.hover[only],
            hatch=series.hatches[number],
            colours=(),
            hatches=(),
        )
        bars.append(bar)
    return bars


def _bars(series: Series) -> Json:
    """Properties of a trace that make it one of horizontal bars."""
    starts = list(series.base) or [0.0] * len(series.x)
    lengths = [(end or 0.0) - start for end, start in zip(series.x, starts, strict=True)]
    pattern = {"shape": series.hatch, "fillmode": "overlay", "fgcolor": "rgba(255,255,255,0.6)"}
    bars: Json = {
        "type": "bar",
        "orientation": "h",
        "base": starts,
        "x": lengths,
        "width": series.height,
        "marker": {"color": series.colour, "pattern": pattern},
        "text": [escaped(text) for text in series.text],
        "textposition": "inside" if series.inside else "auto",
        "textangle": 0,
    }
    if series.inside:  # arrows are drawn above bars, and their heads are where a bar begins
        bars["insidetextanchor"] = "end"
    return bars


def _domains(shares: Sequence[float]) -> list[list[float]]:
    """Start and end of each panel, as shares of the chart's width or height.

    Args:
        shares: Sizes of panels, relative to each other.

    >>> [[round(end, 3) for end in ends] for ends in _domains([1, 1])]
    [[0.0, 0.475], [0.525, 1.0]]
    """
    gaps = GAP * (len(shares) - 1)
    size_per_share = (1 - gaps) / math.fsum(shares)
    domains = []
    start = 0.0
    for share in shares:
        size = share * size_per_share
        domains.append([start, min(1.0, start + size)])
        start += size + GAP
    return domains


def _axis(title: str, ends: tuple[float, float] | None, scale: str) -> Json:
    """An axis with its title and scale; without ends, Plotly fits it to the numbers."""
    text = _lines(title, LABEL_CHARACTERS)
    axis: Json = {
        "title": {"text": text, "standoff": 8},
        "zeroline": False,
        "automargin": True,
        "type": scale,
    }
    if scale == "log":
        if ends:
            axis["range"] = [math.log10(end) for end in ends]
        axis["tickvals"] = LOG_TICKS
        axis["ticktext"] = [f"{tick:,.9g}" for tick in LOG_TICKS]
    elif ends:
        axis["range"] = list(ends)
    else:
        axis["rangemode"] = "tozero"
    return axis


def _horizontal_axis(panel: Panel) -> Json:
    """The horizontal axis of a panel, with its own ticks if it has any."""
    axis = _axis(panel.x_label, panel.x_range, panel.x_scale)
    if panel.x_ticks:
        axis["tickvals"] = list(panel.x_ticks)
        axis["ticktext"] = [f"{tick:,.9g}" for tick in panel.x_ticks]
    return axis


def _vertical_axis(panel: Panel) -> Json:
    """The vertical axis of a panel: numbers, or names from the top down."""
    axis = _axis(panel.y_label, panel.y_range, panel.y_scale)
    if not panel.categories:
        return axis
    names = [_lines(name, NAME_CHARACTERS) for name in panel.categories]
    axis["tickvals"] = list(range(len(names)))
    axis["ticktext"] = names
    axis["range"] = [len(names) - 0.5, -0.5]
    axis["ticksuffix"] = " "
    axis["showgrid"] = False
    return axis


def _right_axis(panel: Panel, names: _AxisNames) -> Json:
    """The second vertical axis of a panel, over the first, without a grid of its own."""
    axis = _axis(panel.right_label, panel.right_range, "linear")
    axis["overlaying"] = f"y{names.y}"
    axis["anchor"] = f"x{names.x}"
    axis["side"] = "right"
    axis["showgrid"] = False
    return axis


def _lines(text: str, characters: int) -> str:
    """A text in lines of at most so many characters, as Plotly shows it."""
    return "<br>".join(map(escaped, textwrap.wrap(text, characters)))


def _vertical_line(position: float, axis: str) -> Json:
    """A thin dotted line over the whole height, at a position of a horizontal axis."""
    return {
        "type": "line",
        "xref": axis,
        "yref": "paper",
        "line": {"color": style.GREY, "width": 0.7, "dash": "dot"},
        "x0": position,
        "x1": position,
        "y0": 0,
        "y1": 1,
    }

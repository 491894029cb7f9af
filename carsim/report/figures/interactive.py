"""Plots as charts of a page: ``data`` and ``layout`` of Plotly.

Ink, grid and paper are the page's, which knows whether it is light or dark. Names reach Plotly
escaped, since Plotly takes some HTML for markup.
"""

import html
import math
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from operator import sub
from typing import Any

from carsim.report.figures import style
from carsim.report.figures.plot import Panel, Plot, Series

Json = dict[str, Any]

MARKERS = {
    **{"o": "circle", "x": "x-thin-open", "d": "diamond", "*": "star"},
    **{"s": "square", "^": "triangle-up"},
}
MODES = {
    **{"points": "markers", "line": "lines", "marked line": "lines+markers"},
    **{"steps": "lines", "arrows": "lines+markers"},
}
LOG_TICKS = [digit * 10.0**power for power in range(-9, 13) for digit in (1, 2, 5)]
"""Plotly leaves out those beyond the axis, and those that would collide."""

PIXELS_PER_INCH = 96
WRAP, LABEL = 18, 40
"""Characters in a line of the name of a bar, and of an axis, that leave room on a phone."""

ARROW_PX = 9
"""Length of the head of an arrow."""

GAP = 0.05
"""Between panels, as a share of the chart."""


def plotly(plot: Plot) -> Json:
    """``data`` and ``layout`` of the chart: panels beside each other, unless they share ``x``."""
    has_names = any(panel.categories for panel in plot.panels)
    layout: Json = {
        "height": round(PIXELS_PER_INCH * plot.size_in[1]) - 20,
        "font": {"family": "system-ui, sans-serif", "size": 12},
        "margin": {"l": 10, "r": 15, "t": 10, "b": 50},
        **dict.fromkeys(("paper_bgcolor", "plot_bgcolor"), "rgba(0,0,0,0)"),
        "legend": {"orientation": "h", "y": -0.2, "yanchor": "top", "x": 0, "traceorder": "normal"},
        "hovermode": "x unified" if plot.shares == "x" and not has_names else "closest",
        **{"barmode": "overlay", "shapes": []},
    }
    data: list[Json] = []
    is_stack = plot.shares == "x"
    domains = _domains([panel.share for panel in plot.panels])
    for place, (panel, (start, end)) in enumerate(zip(plot.panels, domains, strict=True)):
        suffix = "" if place == 0 else str(place + 1)
        x_axis, y_axis = ("", suffix) if is_stack else (suffix, "")
        horizontal = _axis(panel.x_label, panel.x_range, panel.x_scale)
        if panel.x_ticks:
            horizontal["tickvals"] = list(panel.x_ticks)
            horizontal["ticktext"] = [f"{tick:,.9g}" for tick in panel.x_ticks]
        vertical = _axis(panel.y_label, panel.y_range, panel.y_scale)
        if panel.categories:
            vertical |= _lines(panel.categories)
        if is_stack:
            vertical["domain"], horizontal["anchor"] = [1 - end, 1 - start], f"y{suffix}"
        else:
            horizontal["domain"] = [start, end]
        layout[f"xaxis{x_axis}"] = horizontal
        layout.setdefault(f"yaxis{y_axis}", vertical)
        axes = {"xaxis": f"x{x_axis}", "yaxis": f"y{y_axis}"}
        right = {"yaxis": f"y{len(plot.panels) + 1 + place}"}
        for series in panel.series:
            sides = axes | right if series.axis == "right" else axes
            data += [_trace(each, panel) | sides for each in _by_colour(series)]
        if panel.right_label:
            number = len(plot.panels) + 1 + place
            layout[f"yaxis{number}"] = _right_axis(panel, axes)
        layout["shapes"] += [_vertical(at, f"x{x_axis}") for at in panel.verticals]
    if has_names and is_stack:
        _list_once(data)
    return {"data": data, "layout": layout}


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
    trace: Json = {"name": escaped(series.name), "x": list(series.x), "y": list(series.y)}
    trace["showlegend"] = bool(series.name) and len(panel.series) > 1
    trace["hovertemplate"] = "%{x:.4g}" if panel.categories else "%{y:.1f}"
    if series.hover:
        trace["hovertext"] = list(map(escaped, series.hover))
        trace["hovertemplate"] = "%{hovertext}<extra></extra>"
    if series.keys:
        trace["customdata"] = list(series.keys)
    if series.low:
        at = [value or 0.0 for value in series.x]
        above = list(map(sub, series.high, at))
        below = list(map(sub, at, series.low))
        bars = {"array": above, "arrayminus": below, "color": style.GREY, "thickness": 1.2}
        trace["error_x"] = {"type": "data", "symmetric": False, **bars}
    if series.mark == "bar":
        return trace | _bars(series)
    trace |= {"type": "scatter", "mode": MODES[series.mark]}
    if "markers" in trace["mode"]:
        symbol = MARKERS[series.marker] + ("-open" if series.hollow else "")
        trace["marker"] = {"color": series.colour, "size": 1.7 * series.size, "symbol": symbol}
        trace["marker"]["line"] = {"width": 2, "color": series.colour}
        trace["marker"] |= _heads(series) if series.mark == "arrows" else {}
        trace["marker"] |= _shades(series) if series.shade else {}
    if "lines" in trace["mode"]:
        trace["line"] = {"color": series.colour, "width": 1.6, "dash": series.dash}
        if not series.name and len(panel.series) > 1:  # it joins points, which a click means
            trace |= {"hoverinfo": "skip", "hovertemplate": None}
    if series.mark == "steps":
        trace["y"] = [*series.y, series.y[-1]]
        trace["line"]["shape"] = "hv"
    return trace


def _shades(series: Series) -> Json:
    """Colours of points that show a third figure, with the bar of these colours."""
    bar = {"title": {"text": escaped(series.shade_label), "side": "right"}}
    shades: Json = {"color": list(series.shade), "colorscale": "Viridis", "line": {}}
    return shades | {"reversescale": True, "colorbar": bar}


def _heads(series: Series) -> Json:
    """Markers of arrows: a head at each end, which points away from the start."""
    count = len(series.x) // 3
    sizes = [0, ARROW_PX, 0] * count
    return {"symbol": "arrow", "size": sizes, "angleref": "previous", "line": {"width": 0}}


def _by_colour(series: Series) -> list[Series]:
    """The series, or a series for each of its bars where these have colours of their own."""
    if not series.colours:
        return [series]
    parts = []
    for place, colour in enumerate(series.colours):
        here = slice(place, place + 1)  # of what the series has none, the bar has none
        parts.append(
            replace(
                series,
                x=series.x[here],
                y=series.y[here],
                colour=colour,
                base=series.base[here],
                low=series.low[here],
                high=series.high[here],
                text=series.text[here],
                hover=series.hover[here],
                hatch=series.hatches[place],
                colours=(),
                hatches=(),
            )
        )
    return parts


def _bars(series: Series) -> Json:
    """What makes a trace one of bars."""
    base = list(series.base) or [0.0] * len(series.x)
    lengths = list(map(sub, [end or 0.0 for end in series.x], base))
    pattern: Json = {"shape": series.hatch, "fillmode": "overlay"}
    pattern["fgcolor"] = "rgba(255,255,255,0.6)"
    bars: Json = {"type": "bar", "orientation": "h", "base": base, "x": lengths}
    bars |= {"width": series.height, "marker": {"color": series.colour, "pattern": pattern}}
    place = "inside" if series.inside else "auto"
    texts = [escaped(text) for text in series.text]
    if series.inside:  # arrows are drawn above bars, and their heads are where a bar begins
        bars["insidetextanchor"] = "end"
    return bars | {"text": texts, "textposition": place, "textangle": 0}


def _domains(shares: Sequence[float]) -> list[list[float]]:
    """Parts of the chart's width or height, in order, with gaps between them.

    >>> [[round(end, 3) for end in ends] for ends in _domains([1, 1])]
    [[0.0, 0.475], [0.525, 1.0]]
    """
    room = (1 - GAP * (len(shares) - 1)) / math.fsum(shares)
    ends, start = [], 0.0
    for share in shares:
        ends.append([start, min(1.0, start + share * room)])
        start += share * room + GAP
    return ends


def _axis(title: str, ends: tuple[float, float] | None, scale: str) -> Json:
    axis: Json = {
        "title": {"text": "<br>".join(map(escaped, textwrap.wrap(title, LABEL))), "standoff": 8},
        **{"zeroline": False, "automargin": True, "type": scale},
    }
    if ends:
        axis["range"] = [math.log10(end) for end in ends] if scale == "log" else list(ends)
    if scale == "log":
        axis |= {"tickvals": LOG_TICKS, "ticktext": [f"{tick:,.9g}" for tick in LOG_TICKS]}
    elif not ends:
        axis["rangemode"] = "tozero"
    return axis


def _right_axis(panel: Panel, axes: Json) -> Json:
    """A second vertical axis, whose grid would be a second grid.

    Args:
        panel: The panel.
        axes: Names of its first axes.
    """
    axis = _axis(panel.right_label, panel.right_range, "linear")
    sides = {"overlaying": axes["yaxis"], "anchor": axes["xaxis"], "side": "right"}
    return axis | sides | {"showgrid": False}


def _lines(categories: Sequence[str]) -> Json:
    names = ["<br>".join(map(escaped, textwrap.wrap(name, WRAP))) for name in categories]
    axis: Json = {"tickvals": list(range(len(names))), "ticktext": names}
    return axis | {"range": [len(names) - 0.5, -0.5], "ticksuffix": " ", "showgrid": False}


def _vertical(at: float, axis: str) -> Json:
    line = {"color": style.GREY, "width": 0.7, "dash": "dot"}
    ends = {"x0": at, "x1": at, "y0": 0, "y1": 1}
    return {"type": "line", "xref": axis, "yref": "paper", "line": line} | ends

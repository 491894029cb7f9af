"""Figures that answer the pointer: numbers in, ``data`` and ``layout`` of Plotly out.

They show the numbers of the printed figures, in the same colours; ink, grid and paper are the
page's, which knows whether it is light or dark. Names reach Plotly escaped, since it takes some
HTML for markup.
"""

import html
from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

from carsim.report.figures import style
from carsim.text import number
from carsim.workload.ops import CATEGORY_LABELS, Category

if TYPE_CHECKING:
    from carsim.report.figures.breakdown import BreakdownNumbers
    from carsim.report.figures.comparison import ComparisonNumbers
    from carsim.report.figures.utilisation import UtilisationNumbers

Json = dict[str, Any]

COLOURS = {
    Category.QKV: style.BLUE,
    Category.ATTENTION: style.ORANGE,
    Category.OUTPUT: style.SKY,
    Category.MLP: style.GREEN,
    Category.REPLAY: style.YELLOW,
    Category.DRS: style.GREY,  # black would be lost on dark paper
    Category.HEAD: style.PURPLE,
    Category.WAIT_DDR: style.LIGHT_GREY,
    Category.WAIT_CORE: style.VERMILION,
}


def comparison_figure(numbers: "ComparisonNumbers") -> Json:
    """Time per video, energy with its interval, and utilisation; a policy per line."""
    names = [escaped(name) for name in numbers.policies]
    colours = [style.BLUE if line == numbers.chosen else style.SKY for line in range(len(names))]
    colours[-1] = style.GREY
    values = [value for value, _, _ in numbers.energy_j]
    data: list[Json] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": "time",
            "y": names,
            "x": list(numbers.seconds_per_video),
            "marker": {"color": colours},
            "customdata": [round(speedup, 3) for speedup in numbers.speedups],
            "text": [f"{number(seconds)} s" for seconds in numbers.seconds_per_video],
            "hovertemplate": "%{y}<br>%{text} per video<br>"
            "%{customdata:.3f} times as fast as dense<extra></extra>",
            "showlegend": False,
        },
        {
            "type": "scatter",
            "mode": "markers",
            "name": "energy",
            "y": names,
            "x": values,
            "xaxis": "x2",
            "marker": {"color": colours, "size": 10},
            "error_x": {
                "type": "data",
                "symmetric": False,
                "array": [high - value for value, _, high in numbers.energy_j],
                "arrayminus": [value - low for value, low, _ in numbers.energy_j],
                "color": style.GREY,
                "thickness": 1.2,
            },
            "customdata": [[number(part) for part in energy] for energy in numbers.energy_j],
            "hovertemplate": "%{y}<br>%{customdata[0]} J per video<br>"
            "%{customdata[1]} to %{customdata[2]} J<extra></extra>",
            "showlegend": False,
        },
    ]
    for label, shares, colour in (
        ("cores busy", numbers.core_busy, style.ORANGE),
        ("fullest memory, of its peak", numbers.memory_utilisation, style.GREEN),
    ):
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": label,
                "y": names,
                "x": [100 * share for share in shares],
                "xaxis": "x3",
                "marker": {"color": colour},
                "hovertemplate": "%{y}<br>%{fullData.name}: %{x:.1f} %<extra></extra>",
            }
        )
    layout = _layout(130 + 46 * len(names), numbers.title, misfit=numbers.misfit)
    layout |= {
        "barmode": "group",
        "yaxis": _categories(names),
        "xaxis": _axis("seconds per video", domain=[0, 0.36], rangemode="tozero"),
        "xaxis2": _axis("joules per video, of the board", domain=[0.41, 0.68], rangemode="tozero"),
        "xaxis3": _axis("utilisation [%]", domain=[0.73, 1], range=[0, 100]),
    }
    return {"data": data, "layout": layout}


def breakdown_figure(numbers: "BreakdownNumbers") -> Json:
    """Where the time of a batch goes, a stacked bar per policy."""
    names = [escaped(name) for name in numbers.policies]
    totals = [sum(parts) for parts in numbers.seconds]
    data: list[Json] = []
    for category, label in enumerate(CATEGORY_LABELS):
        seconds = [parts[category] for parts in numbers.seconds]
        if any(seconds):
            data.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "name": label,
                    "y": names,
                    "x": seconds,
                    "marker": {"color": COLOURS[Category(category)]},
                    "customdata": [
                        [number(part), f"{part / total:.1%}"]
                        for part, total in zip(seconds, totals, strict=True)
                    ],
                    "hovertemplate": "%{y}<br>%{fullData.name}: %{customdata[0]} s, "
                    "%{customdata[1]}<extra></extra>",
                }
            )
    layout = _layout(150 + 40 * len(names), numbers.title, misfit=numbers.misfit)
    layout |= {
        "barmode": "stack",
        "yaxis": _categories(names),
        "xaxis": _axis("seconds of a batch"),
    }
    return {"data": data, "layout": layout}


def utilisation_figure(numbers: "UtilisationNumbers") -> Json:
    """Utilisation above, the replay ratio that drives it below; frames as vertical lines."""
    middles = ((numbers.seconds[:-1] + numbers.seconds[1:]) / 2).tolist()

    def line(label: str, shares: Sequence[float], colour: str, **more: Any) -> Json:
        return {
            "type": "scatter",
            "mode": "lines",
            "name": escaped(label),
            "x": middles,
            "y": [100 * share for share in shares],
            "line": {"color": colour, "width": 1.6, "shape": "hvh"},
            "hovertemplate": "%{y:.1f} %",
        } | more

    data = [line("cores busy", numbers.core_busy.tolist(), style.ORANGE)]
    for (name, shares), colour in zip(
        numbers.memory_utilisation.items(),
        cycle([style.GREEN, style.PURPLE, style.SKY]),
        strict=False,
    ):
        data.append(line(f"{name}, of its peak rate", shares.tolist(), colour))
    replayed = numbers.replay_ratio.tolist()
    data.append(line("replayed", replayed, style.BLUE, yaxis="y2", fill="tozeroy"))
    layout = _layout(430, numbers.title, misfit=numbers.misfit)
    layout |= {
        "hovermode": "x unified",
        "xaxis": _axis(
            "seconds since the end of prefill; vertical lines: frames",
            anchor="y2",
            range=[0, float(numbers.seconds[-1])],
            hoverformat=".3~f",
            ticksuffix="",
        ),
        "yaxis": _axis("utilisation [%]", domain=[0.36, 1], range=[0, 102]),
        "yaxis2": _axis("replayed [%]", domain=[0, 0.26], range=[0, 102]),
        "shapes": [
            {
                "type": "line",
                "xref": "x",
                "yref": "paper",
                "x0": float(seconds),
                "x1": float(seconds),
                "y0": 0,
                "y1": 1,
                "line": {"color": style.GREY, "width": 0.7, "dash": "dot"},
            }
            for seconds in numbers.frame_seconds[1:]
        ],
    }
    return {"data": data, "layout": layout}


def escaped(text: str) -> str:
    """A text that Plotly shows as it is.

    >>> escaped("a<b>&c")
    'a&lt;b&gt;&amp;c'
    """
    return html.escape(text, quote=False)


def _layout(height: int, title: str, *, misfit: bool) -> Json:
    mark = "MISFIT, this design does not fit its board: " if misfit else ""
    return {
        "height": height,
        "title": {
            "text": escaped(mark + title),
            "x": 0.004,
            "font": {"size": 14},
            "automargin": True,
            "yref": "container",
        },
        "font": {"family": "system-ui, sans-serif", "size": 12},
        "margin": {"l": 10, "r": 15, "t": 50, "b": 50},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "legend": {
            "orientation": "h",
            "y": -0.22,
            "yanchor": "top",
            "x": 0,
            "traceorder": "normal",
        },
        "bargap": 0.3,
    }


def _axis(title: str, **more: Any) -> Json:
    return {"title": {"text": title, "standoff": 8}, "zeroline": False, "automargin": True} | more


def _categories(names: Sequence[str]) -> Json:
    return {
        "type": "category",
        "autorange": "reversed",
        "automargin": True,
        "categoryorder": "array",
        "categoryarray": list(names),
        "ticksuffix": " ",
    }

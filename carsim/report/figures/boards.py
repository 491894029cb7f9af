"""Published systems: speed and power as predicted against what was published, on log axes."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from carsim.report.figures import style
from carsim.text import number

if TYPE_CHECKING:
    from carsim.validate.boards import BoardsReport

NEAR = 0.10
"""Relative distance that the band around equality shows."""

TOGETHER = 0.12
"""Decades below which labels of two points would overlap."""


@dataclass(frozen=True)
class BoardsNumbers:
    """A value per system; systems are numbered from 1 in the order of the file.

    Attributes:
        published_tokens_per_s: What was published.
        tokens_per_s: What carsim predicts.
        null_tokens_per_s: What the naive rival predicts.
        in_scope: The bottleneck lies inside the model.
        power: Number of a system that published its power -> (published, predicted, low, high), W.
    """

    published_tokens_per_s: tuple[float, ...]
    tokens_per_s: tuple[float, ...]
    null_tokens_per_s: tuple[float, ...]
    in_scope: tuple[bool, ...]
    power: dict[int, tuple[float, float, float, float]]


def boards_numbers(report: "BoardsReport") -> BoardsNumbers:
    """The numbers of the figure."""
    rows = report.rows
    power = {}
    for place, row in enumerate(rows, start=1):
        if row.published.power_w is not None:
            watts = row.power_w
            power[place] = (row.published.power_w, watts.value_j, watts.low_j, watts.high_j)
    return BoardsNumbers(
        published_tokens_per_s=tuple(row.published.tokens_per_s for row in rows),
        tokens_per_s=tuple(row.decode.tokens_per_s for row in rows),
        null_tokens_per_s=tuple(row.published.null_tokens_per_s for row in rows),
        in_scope=tuple(row.published.in_scope for row in rows),
        power=power,
    )


def draw_boards(numbers: BoardsNumbers) -> Figure:
    """Two panels: tokens per second, and power with the interval of its constants."""
    with style.style():
        figure = style.new_figure(
            10, 5.2, "published systems, from their configurations alone", misfit=False
        )
        speed, power = figure.subplots(1, 2, width_ratios=[1.3, 1])
        _draw_speed(speed, numbers)
        _draw_power(power, numbers)
    return figure


def _draw_speed(axes: Axes, numbers: BoardsNumbers) -> None:
    published, found = numbers.published_tokens_per_s, numbers.tokens_per_s
    everything = (*published, *found, *numbers.null_tokens_per_s)
    ends = (0.7 * min(everything), 1.5 * max(everything))
    axes.fill_between(
        ends,
        [(1 - NEAR) * end for end in ends],
        [(1 + NEAR) * end for end in ends],
        color=style.LIGHT_GREY,
        linewidth=0,
        label=f"within {NEAR:.0%}",
    )
    for is_inside, colour, label in (
        (True, style.BLUE, "carsim, bottleneck inside the model"),
        (False, style.ORANGE, "carsim, outside, as told before it was run"),
    ):
        chosen = [place for place, inside in enumerate(numbers.in_scope) if inside == is_inside]
        axes.plot(
            [published[place] for place in chosen],
            [found[place] for place in chosen],
            "o",
            color=colour,
            markersize=6,
            markeredgecolor="white",
            label=label,
        )
    axes.plot(
        published,
        numbers.null_tokens_per_s,
        "x",
        color=style.BLACK,
        markersize=4,
        markeredgewidth=0.8,
        label="null model: 0.9 of the peak bandwidth",
    )
    for point, label in _labels(list(zip(published, found, strict=True))):
        axes.annotate(label, point, (8, -3), textcoords="offset points", fontsize=7.5)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(ends)
    axes.set_ylim(ends)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(_plain))
    axes.set_title("speed; numbers as in the table")
    axes.set_xlabel("published tokens/s")
    axes.set_ylabel("predicted tokens/s")
    axes.grid(which="major")
    axes.legend(loc="upper left")


def _draw_power(axes: Axes, numbers: BoardsNumbers) -> None:
    points, lines = list(numbers.power.values()), range(len(numbers.power))
    axes.errorbar(
        [value for _, value, _, _ in points],
        lines,
        xerr=[
            [value - low for _, value, low, _ in points],
            [high - value for _, value, _, high in points],
        ],
        fmt="o",
        color=style.BLUE,
        ecolor=style.SKY,
        markersize=6,
        capsize=3,
        label="carsim, with the interval of its constants",
    )
    axes.plot(
        [published for published, _, _, _ in points],
        lines,
        "|",
        color=style.VERMILION,
        markersize=14,
        markeredgewidth=2,
        label="published",
    )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(_plain))
    axes.set_yticks(lines, [str(number) for number in numbers.power])
    axes.set_ylim(len(points) - 0.4, -1.6)  # room for the legend
    axes.tick_params(axis="y", length=0)
    axes.set_title("power of the board while decoding")
    axes.set_xlabel("W")
    axes.set_ylabel("number in the table")
    axes.grid(axis="x")
    axes.legend(loc="upper left")


def _labels(points: list[tuple[float, float]]) -> list[tuple[tuple[float, float], str]]:
    """Where to write which numbers; points too close to be told apart share a label."""
    groups: list[list[int]] = []
    for place, (x, y) in enumerate(points):
        for group in groups:
            first_x, first_y = points[group[0]]
            if math.hypot(math.log10(x / first_x), math.log10(y / first_y)) < TOGETHER:
                group.append(place)
                break
        else:
            groups.append([place])
    return [
        (max(points[place] for place in group), ", ".join(str(place + 1) for place in group))
        for group in groups
    ]


def _plain(value: float, _: int | None) -> str:
    return number(value)

"""Points of a study in the plane of two of their numbers, with their Pareto front."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from carsim.report.figures import style
from carsim.report.figures.interactive import escaped

COLOURS = (
    *(style.BLUE, style.ORANGE, style.GREEN, style.PURPLE),
    *(style.SKY, style.VERMILION, style.YELLOW, style.GREY),
)

Cell = float | str | None


@dataclass(frozen=True)
class FrontNumbers:
    """What is known of each point. P of them, all of which fit.

    Attributes:
        title: Of the study.
        columns: Axes and metrics by name; a value per point, None where it has none.
        hover: Columns that a point is told by.
        x: Column to the right.
        y: Column upwards.
        colour: Column that colours points, or nothing.
        on_front: Of each point, whether no other dominates it.
        knee: Place of the compromise among the points; None without a front.
        joined: Whether the front is a line in the plane of ``x`` and ``y``.
    """

    title: str
    columns: Mapping[str, tuple[Cell, ...]]
    hover: tuple[str, ...]
    x: str
    y: str
    colour: str
    on_front: tuple[bool, ...]
    knee: int | None
    joined: bool


def front_figure(numbers: FrontNumbers) -> dict[str, Any]:
    """For the page, which lets readers choose what goes right, up and into colour."""
    return {
        "data": [],
        "layout": {
            "height": 540,
            "font": {"family": "system-ui, sans-serif", "size": 12},
            "margin": {"l": 70, "r": 20, "t": 20, "b": 60},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "legend": {"orientation": "h", "y": -0.16, "yanchor": "top", "x": 0},
            "xaxis": {"zeroline": False, "automargin": True},
            "yaxis": {"zeroline": False, "automargin": True},
            "hovermode": "closest",
        },
        "choices": {
            "columns": {
                escaped(name): [escaped(v) if isinstance(v, str) else v for v in values]
                for name, values in numbers.columns.items()
            },
            "hover": [escaped(name) for name in numbers.hover],
            "x": escaped(numbers.x),
            "y": escaped(numbers.y),
            "colour": escaped(numbers.colour),
            "front": list(numbers.on_front),
            "knee": numbers.knee,
            "joined": numbers.joined,
            "colours": COLOURS,
        },
    }


def draw_front(numbers: FrontNumbers) -> Figure:
    """The same on paper: all points, the front, and its knee."""
    with style.style():
        figure = style.new_figure(10, 4.6, numbers.title, misfit=False)
        axes = figure.subplots()
        xs, ys = numbers.columns[numbers.x], numbers.columns[numbers.y]
        points = [
            (x, y, front, place == numbers.knee)
            for place, (x, y, front) in enumerate(zip(xs, ys, numbers.on_front, strict=True))
            if x is not None and y is not None
        ]
        front = [(x, y) for x, y, is_front, _ in points if is_front]
        axes.plot(
            [x for x, _, _, _ in points],
            [y for _, y, _, _ in points],
            "o",
            color=style.SKY,
            markersize=4,
            label="points that fit",
        )
        if front:
            axes.plot(
                [x for x, _ in front],
                [y for _, y in front],
                "o-" if numbers.joined else "o",
                color=style.BLUE,
                markersize=6,
                linewidth=1,
                label="Pareto front",
            )
        for x, y, _, is_knee in points:
            if is_knee:
                axes.plot(x, y, "*", color=style.VERMILION, markersize=15, label="knee")
        axes.set_xlabel(numbers.x)
        axes.set_ylabel(numbers.y)
        axes.grid()
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure

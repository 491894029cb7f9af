"""The figure of a reproduced paper: latency over the replay ratio, and the error of each row."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from carsim.base.text import number
from carsim.report.figures import style
from carsim.report.figures.plot import DASHES, Panel, Plot, Series

MARKERS = ("o", "s", "^", "d")
OURS, RIVALS = style.BLUE, (style.GREY, style.ORANGE, style.GREEN)
HATCHES = ("", "/", "\\", "x")


class Published(NamedTuple):
    """A published row.

    Attributes:
        label: Its name.
        group: Rows of one group share a marker, such as those of one attention.
        ratio: Its replay ratio.
        latency_s: Its published latency.
        ours_s: The simulated latency.
        errors: Who predicts it -> relative error; carsim first.
    """

    label: str
    group: str
    ratio: float
    latency_s: float
    ours_s: float
    errors: Mapping[str, float]


class Line(NamedTuple):
    """A curve: who says so, replay ratios, latencies in seconds."""

    name: str
    ratios: Sequence[float]
    latencies_s: Sequence[float]


def reproduced_plot(title: str, rows: Sequence[Published], lines: Sequence[Line]) -> Plot:
    """Published points and predicted curves on the left, errors by row on the right.

    Args:
        title: The paper and its tables.
        rows: The rows, in the order of the paper.
        lines: Curves, carsim's first, then those of rivals.
    """
    curves = Panel(
        "replay ratio of eligible steps [%]",
        (*_curves(lines), *_points(rows)),
        "latency of a video [s]",
        x_range=(-3.0, 100.0),
        x_ticks=(0.0, 20.0, 40.0, 60.0, 80.0, 100.0),
        share=1.1,
    )
    errors = Panel(
        "error of the latency [%]",
        tuple(_errors(rows)),
        categories=tuple(row.label for row in rows),
    )
    return Plot(
        title,
        (curves, errors),
        alt="Published and simulated latency over the replay ratio, and the errors of each row",
        caption="Filled marks are published, rings are simulated; the curves have full attention.",
        size_in=(10.0, 4.2),
        shares="beside",
    )


# -------------------------------------------------------------------- private


def _curves(lines: Sequence[Line]) -> list[Series]:
    colours = (OURS, *RIVALS)
    return [
        Series(
            line.name,
            [100 * ratio for ratio in line.ratios],
            list(line.latencies_s),
            "line",
            colour,
            dash=dash,
        )
        for line, colour, dash in zip(lines, colours, DASHES, strict=False)
    ]


def _points(rows: Sequence[Published]) -> list[Series]:
    """Published points, and rings where the same rows are simulated, by group."""
    series = []
    for group, marker in zip(dict.fromkeys(row.group for row in rows), MARKERS, strict=False):
        members = [row for row in rows if row.group == group]
        ratios = [100 * row.ratio for row in members]
        published = [row.latency_s for row in members]
        told = [f"{row.label}: published {number(row.latency_s)} s" for row in members]
        series.append(
            Series(
                f"published, {group}",
                ratios,
                published,
                "points",
                style.VERMILION,
                hover=told,
                marker=marker,
                size=4.5,
            )
        )
        series.append(
            Series(
                f"carsim, {group}",
                ratios,
                [row.ours_s for row in members],
                "points",
                OURS,
                hover=[f"{row.label}: carsim {number(row.ours_s)} s" for row in members],
                marker=marker,
                size=6.5,
                hollow=True,
            )
        )
    return series


def _errors(rows: Sequence[Published]) -> list[Series]:
    """Bars of the errors of each row, by who predicts it."""
    names = [*rows[0].errors]
    height = 0.8 / len(names)
    series = []
    looks = zip(names, (OURS, *RIVALS), HATCHES, strict=False)
    for place, (name, colour, hatch) in enumerate(looks):
        aside = (place - (len(names) - 1) / 2) * height
        percent = [100 * row.errors[name] for row in rows]
        series.append(
            Series(
                f"error of {name}",
                percent,
                [line + aside for line in range(len(rows))],
                "bar",
                colour,
                hover=[
                    f"{row.label}: {name} {error:+.1f} %"
                    for row, error in zip(rows, percent, strict=True)
                ],
                hatch=hatch,
                height=0.92 * height,
            )
        )
    return series

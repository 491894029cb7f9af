"""The figure of a reproduced paper: latency over the replay ratio, and the error of each row."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from carsim.base.text import number
from carsim.report.figures import style
from carsim.report.figures.plot import DASHES, Panel, Plot, Series

MARKERS = ("o", "s", "^", "d")
OURS = style.BLUE
"""Colour of carsim."""
RIVALS = (style.GREY, style.ORANGE, style.GREEN)
"""Colours of other predictions, in order."""
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
    """A predicted curve.

    Attributes:
        name: Who predicts it.
        ratios: Replay ratios, 0 to 1.
        latencies_s: Latency of a video at each of them, seconds.
    """

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
    """The curves, as percent and seconds."""
    curves = []
    for line, colour, dash in zip(lines, (OURS, *RIVALS), DASHES, strict=False):
        percent = [100 * ratio for ratio in line.ratios]
        curve = Series(line.name, percent, list(line.latencies_s), "line", colour, dash=dash)
        curves.append(curve)
    return curves


def _points(rows: Sequence[Published]) -> list[Series]:
    """Published points, and rings where the same rows are simulated, by group."""
    series = []
    groups = dict.fromkeys(row.group for row in rows)
    for group, marker in zip(groups, MARKERS, strict=False):
        members = [row for row in rows if row.group == group]
        percent = [100 * row.ratio for row in members]
        published = Series(
            f"published, {group}",
            x=percent,
            y=[row.latency_s for row in members],
            mark="points",
            colour=style.VERMILION,
            hover=[f"{row.label}: published {number(row.latency_s)} s" for row in members],
            marker=marker,
            size=4.5,
        )
        simulated = Series(
            f"carsim, {group}",
            x=percent,
            y=[row.ours_s for row in members],
            mark="points",
            colour=OURS,
            hover=[f"{row.label}: carsim {number(row.ours_s)} s" for row in members],
            marker=marker,
            size=6.5,
            hollow=True,
        )
        series += [published, simulated]
    return series


def _errors(rows: Sequence[Published]) -> list[Series]:
    """Bars of the errors of each row, by who predicts it."""
    predictors = list(rows[0].errors)
    spacing = 0.8 / len(predictors)  # lines of the panel are 1 apart
    series = []
    looks = zip(predictors, (OURS, *RIVALS), HATCHES, strict=False)
    for index, (predictor, colour, hatch) in enumerate(looks):
        offset = (index - (len(predictors) - 1) / 2) * spacing
        percent = [100 * row.errors[predictor] for row in rows]
        bars = Series(
            f"error of {predictor}",
            x=percent,
            y=[line + offset for line in range(len(rows))],
            mark="bar",
            colour=colour,
            hover=[
                f"{row.label}: {predictor} {error:+.1f} %"
                for row, error in zip(rows, percent, strict=True)
            ],
            hatch=hatch,
            height=0.92 * spacing,
        )
        series.append(bars)
    return series

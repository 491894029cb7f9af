"""Where the time of a batch goes, policy by policy."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from carsim.report.figures import style
from carsim.workload.ops import CATEGORY_LABELS, Category

if TYPE_CHECKING:
    from carsim.machine import Report

COLOURS = {
    Category.QKV: style.BLUE,
    Category.ATTENTION: style.ORANGE,
    Category.OUTPUT: style.SKY,
    Category.MLP: style.GREEN,
    Category.REPLAY: style.YELLOW,
    Category.DRS: style.BLACK,
    Category.HEAD: style.PURPLE,
    Category.WAIT_DDR: style.LIGHT_GREY,
    Category.WAIT_CORE: style.VERMILION,
}
"""A colour per category; waiting for memory is the pale remainder."""

LEAST_SHARE = 0.001
"""Of the longest bar: less than a dot of the figure."""

MAX_COLUMNS = 6
"""Entries of the legend that fit side by side."""


@dataclass(frozen=True)
class BreakdownNumbers:
    """Seconds of a batch by category.

    Attributes:
        title: What is broken down.
        policies: Names of the simulated policies.
        seconds: Per policy, one number per category of ``CATEGORY_LABELS``.
        chosen: Index of the design's own policy.
        misfit: The design does not fit its board.
    """

    title: str
    policies: tuple[str, ...]
    seconds: tuple[tuple[float, ...], ...]
    chosen: int
    misfit: bool


def breakdown_numbers(report: "Report") -> BreakdownNumbers:
    """The numbers of the figure."""
    rows = [row for row in report.rows if not row.is_bound]
    return BreakdownNumbers(
        title=f"where the time of a batch goes: {report.design.name}",
        policies=tuple(row.variant.name for row in rows),
        seconds=tuple(
            tuple(row.seconds_by_category[label] for label in CATEGORY_LABELS) for row in rows
        ),
        chosen=rows.index(report.chosen),
        misfit=not report.fit.fits,
    )


def draw_breakdown(numbers: BreakdownNumbers) -> Figure:
    """A stacked bar per policy; categories too short to be seen in any are left out."""
    with style.style():
        count = len(numbers.policies)
        figure = style.new_figure(10, 1.6 + 0.5 * count, numbers.title, misfit=numbers.misfit)
        axes = figure.subplots()
        starts = [0.0] * count
        visible_s = LEAST_SHARE * max(map(sum, numbers.seconds))
        for category, label in enumerate(CATEGORY_LABELS):
            seconds = [parts[category] for parts in numbers.seconds]
            if max(seconds) > visible_s:
                axes.barh(
                    range(count),
                    seconds,
                    left=starts,
                    height=0.65,
                    color=COLOURS[Category(category)],
                    edgecolor="white",
                    linewidth=0.5,
                    label=label,
                )
            starts = [start + more for start, more in zip(starts, seconds, strict=True)]
        style.label_policies(axes, numbers.policies, numbers.chosen)
        axes.set_xlim(0, 1.03 * max(starts))
        axes.set_xlabel("seconds of a batch")
        axes.grid(axis="x")
        axes.tick_params(axis="y", length=0)
        handles, labels = axes.get_legend_handles_labels()
        columns = len(labels) if len(labels) <= MAX_COLUMNS else -(-len(labels) // 2)
        figure.legend(handles, labels, loc="outside lower center", ncols=columns)
    return figure

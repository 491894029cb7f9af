"""Fluid against tile fidelity: how many of the drawn designs differ by how much."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, PercentFormatter

from carsim.report.figures import style

if TYPE_CHECKING:
    from carsim.validate.fidelity import FidelityReport

LEAST = 1e-5
"""Smaller differences, none included, are drawn here."""

COLOURS = (style.ORANGE, style.GREEN, style.PURPLE, style.BLUE)


@dataclass(frozen=True)
class FidelityNumbers:
    """Absolute relative differences by regime, ascending, and the bounds."""

    differences: dict[str, tuple[float, ...]]
    median_bound: float
    worst_bound: float


def fidelity_numbers(report: "FidelityReport") -> FidelityNumbers:
    """The numbers of the figure."""
    from carsim.validate.fidelity import MEDIAN_BOUND, REGIMES, WORST_BOUND

    return FidelityNumbers(
        {
            regime: tuple(
                sorted(abs(each.difference) for each in report.points if each.regime == regime)
            )
            for regime in REGIMES
        },
        MEDIAN_BOUND,
        WORST_BOUND,
    )


def draw_fidelity(numbers: FidelityNumbers) -> Figure:
    """Cumulative shares of the designs of each regime."""
    with style.style():
        figure = style.new_figure(
            10, 3.6, "difference of latency, fluid against tile fidelity", misfit=False
        )
        axes = figure.subplots()
        for (regime, found), colour in zip(numbers.differences.items(), COLOURS, strict=True):
            shares = [(place + 1) / len(found) for place in range(len(found))]
            axes.step(
                [max(LEAST, difference) for difference in (LEAST, *found)],
                [0.0, *shares],
                where="post",
                color=colour,
                linewidth=1.5,
                label=f"limited by {regime} ({len(found)})",
            )
        for bound, what in ((numbers.median_bound, "median"), (numbers.worst_bound, "worst")):
            axes.axvline(bound, color=style.VERMILION, linestyle="--", linewidth=0.9)
            axes.annotate(
                f"bound of the {what}",
                (bound, 0.04),
                (-3, 0),
                textcoords="offset points",
                rotation=90,
                ha="right",
                va="bottom",
                fontsize=8,
                color=style.VERMILION,
            )
        axes.set_xscale("log")
        axes.set_xlim(LEAST, 1.6 * numbers.worst_bound)
        axes.set_ylim(0, 1.02)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g} %"))
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.set_ylabel("designs that differ by no more")
        axes.set_xlabel(f"difference; at the left edge: {100 * LEAST:g} % or less")
        axes.grid()
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure

"""Efficiency of DRAMs: carsim's over that of two cycle-accurate simulators, row by row."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from carsim.report.figures import style

if TYPE_CHECKING:
    from carsim.validate.dram import DramReport

MARKS = (("s", style.ORANGE), ("D", style.GREEN), ("^", style.PURPLE), ("v", style.SKY))
"""Marker and colour of the simulators, in the order of their names."""


@dataclass(frozen=True)
class DramPanel:
    """All efficiencies of one standard.

    Attributes:
        title: Name of the standard.
        pairs: Simulator -> its efficiencies and carsim's for the same rows.
    """

    title: str
    pairs: dict[str, list[tuple[float, float]]]


@dataclass(frozen=True)
class DramNumbers:
    """Panels, and the efficiency that the naive rival takes for granted."""

    title: str
    panels: tuple[DramPanel, ...]
    null: float


def dram_numbers(report: "DramReport") -> DramNumbers:
    """The numbers of the figure: every efficiency of the report against every simulator."""
    from carsim.validate.dram import NULL_EFFICIENCY

    panels: dict[str, DramPanel] = {}
    for kind in report.kinds:
        for check in kind.checks if kind.name.startswith("efficiency") else ():
            name = check.situation.standard
            pairs = panels.setdefault(name, DramPanel(name, {})).pairs
            for simulator, counted in check.references.items():
                pairs.setdefault(simulator, []).append((counted, check.value))
    title = "share of the peak bandwidth that one channel sustains"
    return DramNumbers(title, tuple(panels.values()), NULL_EFFICIENCY)


def draw_dram(numbers: DramNumbers) -> Figure:
    """A panel per standard; on the diagonal carsim agrees with a simulator."""
    with style.style():
        figure = style.new_figure(10, 4.2, numbers.title, misfit=False)
        grid = figure.subplots(1, len(numbers.panels), sharey=True, squeeze=False)[0]
        names = sorted({name for panel in numbers.panels for name in panel.pairs})
        marks = dict(zip(names, MARKS, strict=False))
        for axes, panel in zip(grid, numbers.panels, strict=True):
            axes.axline((0, 0), slope=1, color=style.GREY, linewidth=0.9)
            axes.axhline(
                numbers.null, color=style.GREY, linestyle="--", linewidth=0.9,
                label=f"null model: {numbers.null:g}",
            )  # fmt: skip
            for name, pairs in panel.pairs.items():
                marker, colour = marks[name]
                axes.plot(
                    *zip(*pairs, strict=True), marker, color=colour, markerfacecolor="none",
                    markersize=5, label=name,
                )  # fmt: skip
            axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="simulator")
            axes.xaxis.set_major_formatter(PercentFormatter(1))
            axes.yaxis.set_major_formatter(PercentFormatter(1))
            axes.set_title(panel.title)
            axes.grid()
        grid[0].set_ylabel("carsim")
        handles, labels = grid[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return figure

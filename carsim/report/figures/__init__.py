"""Figures: results in, named numbers out, drawn by one of two renderings.

Each figure is a function that gives a :class:`.plot.Plot` of plain numbers, so that they are tested
without drawing. :mod:`.draw` makes files of a plot, :mod:`.interactive` charts of a page.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from carsim.report.figures.plot import Plot
    from carsim.report.figures.utilisation import UtilisationNumbers
    from carsim.report.stored import StoredRun


def run_plots(run: "StoredRun", usage: "UtilisationNumbers | None") -> "dict[str, Plot]":
    """The figures of a run by their names.

    Args:
        run: The run.
        usage: Its utilisation over time; without it, there is a figure less.
    """
    from carsim.report.figures.breakdown import breakdown_plot
    from carsim.report.figures.comparison import comparison_plot
    from carsim.report.figures.utilisation import utilisation_plot

    plots = {"comparison": comparison_plot(run), "breakdown": breakdown_plot(run)}
    return plots if usage is None else plots | {"utilisation": utilisation_plot(run, usage)}

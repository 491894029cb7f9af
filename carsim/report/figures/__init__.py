"""Figures: results in, named numbers out, drawn by one of two renderings.

Each figure is a function that gives a :class:`.plot.Plot` of plain numbers, so that they are tested
without drawing. :mod:`.draw` makes files of a plot, :mod:`.interactive` charts of a page.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from carsim.report.figures.plot import Plot
    from carsim.report.figures.utilisation import UtilisationNumbers
    from carsim.report.stored import StoredRun

COMPARED = ("seconds_per_video", "energy_per_video_j", "busy", "memory_utilisation")
"""Metrics that the page of a run compares."""


def run_plots(run: "StoredRun", usage: "UtilisationNumbers | None") -> "dict[str, Plot]":
    """The figures of a run by their names.

    Args:
        run: The run.
        usage: Its utilisation over time; without it, there is a figure less.
    """
    from carsim.report.figures.breakdown import breakdown_plot
    from carsim.report.figures.metric import metric_plot, run_rows
    from carsim.report.figures.utilisation import utilisation_plot

    compared = metric_plot(run_rows(run), COMPARED, strong=run.own.policy)
    title = f"{run.design} on {run.spec().board.name}, {run.spec().model.name}"
    comparison = replace(compared, title=title, misfit=not run.fits)
    plots = {"comparison": comparison, "breakdown": breakdown_plot(run)}
    return plots if usage is None else plots | {"utilisation": utilisation_plot(run, usage)}

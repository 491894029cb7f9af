"""Figures: results in, named numbers out, drawn by one of two renderings.

Each figure is a function that gives a :class:`.plot.Plot` of plain numbers, so that they are tested
without drawing. :mod:`.draw` makes files of a plot, :mod:`.interactive` charts of a page. Figures
of runs show what :func:`shown_policies` chooses.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from carsim.metrics import headline

if TYPE_CHECKING:
    import pandas as pd

    from carsim.report.figures.plot import Plot
    from carsim.report.stored import StoredPolicy, StoredRun


OWN_MARK = " *"
"""Ends the name of a run's own policy among the others."""


class Shown(NamedTuple):
    """A policy of a run, by the name that a figure gives it."""

    name: str
    policy: "StoredPolicy"
    run: "StoredRun"


def shown_policies(runs: "Mapping[str, StoredRun]") -> list[Shown]:
    """All simulated policies of a run, ``*`` its own; of several, that of each under its label."""
    if len(runs) > 1:
        return [Shown(label, run.own, run) for label, run in runs.items()]
    (run,) = runs.values()
    simulated = (policy for policy in run.policies if not policy.is_bound)
    return [Shown(each.policy + OWN_MARK * each.is_chosen, each, run) for each in simulated]


def run_plots(run: "StoredRun", usage: "pd.DataFrame | None") -> "dict[str, Plot]":
    """The figures of a run by their names.

    Args:
        run: The run.
        usage: Its utilisation over time; without it, there is a figure less.
    """
    from carsim.report.figures.breakdown import breakdown_plot
    from carsim.report.figures.metric import metric_plot, run_rows
    from carsim.report.figures.utilisation import utilisation_plot

    rows, names = run_rows(run.design, run), [each.name for each in headline(run.video.kind)]
    rows["policy"] = [name for name, *_ in shown_policies({"": run})]
    names = [name for name in names if name in rows and rows[name].dtype.kind in "if"]
    title = f"{run.design} on {run.spec().board.name}, {run.spec().model.name}"
    comparison = replace(metric_plot(rows, names), title=title, misfit=not run.fits)
    plots = {"comparison": comparison, "breakdown": breakdown_plot(shown_policies({"": run}))}
    return plots if usage is None else plots | {"utilisation": utilisation_plot(run, usage)}

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
    """Policies that a figure of runs shows.

    Of a single run, these are all policies that were simulated; the name of the run's own ends with
    :data:`OWN_MARK`. Of several runs, these are their own policies, under the labels of the runs.

    Args:
        runs: Label -> run.
    """
    if len(runs) > 1:
        return [Shown(label, run.own, run) for label, run in runs.items()]
    (run,) = runs.values()
    shown = []
    for policy in run.policies:
        if policy.is_bound:
            continue
        name = policy.policy + OWN_MARK if policy.is_chosen else policy.policy
        shown.append(Shown(name, policy, run))
    return shown


def run_plots(run: "StoredRun", usage: "pd.DataFrame | None") -> "dict[str, Plot]":
    """The figures of a run by their names.

    Args:
        run: The run.
        usage: Its utilisation over time; without it, there is a figure less.
    """
    from carsim.report.figures.breakdown import breakdown_plot
    from carsim.report.figures.metric import metric_plot, run_rows
    from carsim.report.figures.utilisation import utilisation_plot

    policies = shown_policies({"": run})
    rows = run_rows(run.design, run)
    rows["policy"] = [shown.name for shown in policies]
    metrics = []
    for metric in headline(run.video.kind):
        is_number = metric.name in rows and rows[metric.name].dtype.kind in "if"
        if is_number:
            metrics.append(metric.name)
    spec = run.spec()
    title = f"{run.design} on {spec.board.name}, {spec.model.name}"
    comparison = replace(metric_plot(rows, metrics), title=title, misfit=not run.fits)
    plots = {"comparison": comparison, "breakdown": breakdown_plot(policies)}
    if usage is not None:
        plots["utilisation"] = utilisation_plot(run, usage)
    return plots

"""A stored run as a page: the answer, the comparison, what was asked, and everything behind it."""

from pathlib import Path

from carsim.base.text import number, percent, span
from carsim.design.document import design_yaml
from carsim.metrics import INTERVALS
from carsim.report.figures import run_plots
from carsim.report.figures.utilisation import read_utilisation
from carsim.report.html import chart, links_to, page
from carsim.report.run_tables import (
    asked,
    breakdown_table,
    elasticities_table,
    energy_table,
    fit_table,
    held,
    labels,
    limits_note,
    limits_table,
    metrics_table,
    policies_table,
    trust,
)
from carsim.report.run_words import advice, answer
from carsim.report.stored import StoredRun

BESIDE = {
    "timeline.json": "timeline of a window of steps; open it in Perfetto (ui.perfetto.dev)",
    "design.yaml": "the resolved design",
    "summary.json": "all figures of this page",
    "comparison.csv": "the comparison of policies",
    "utilisation.csv": "utilisation over the first batch",
    "steps.parquet": "cycles of every layer-step of the design's own policy",
    "steps.csv": "the same as text",
    "steps.csv.gz": "the same as compressed text",
}
"""Files of a run's folder that a page links to."""


def run_page(run: StoredRun, folder: Path, address: str) -> str:
    """The page of a run as HTML.

    Args:
        run: The run.
        folder: Folder in which it is stored.
        address: Of that folder in the page's links; empty if both are in the same place.

    Raises:
        InputError: The folder holds a broken file, or plotly is not installed.
    """
    design = run.spec()
    plots = run_plots(run, read_utilisation(run, folder))
    return page(
        "run.html",
        f"{run.design} on {design.board.name}",
        run=run,
        board=design.board.name,
        description=design.description,
        tiles=tiles(run),
        answer=[" ".join(answer(run)), *advice(run)],
        headline=policies_table(run),
        details=metrics_table(run),
        labels=list(labels(run)),
        asked=list(asked(run, design)),
        charts={name: chart(plot) for name, plot in plots.items()},
        breakdown=breakdown_table(run),
        limits=limits_table(run),
        limits_note=limits_note(run, design),
        elasticities=elasticities_table(run),
        fit=fit_table(run),
        held=list(held(run)),
        energy=energy_table(run),
        notes=[*run.warnings, *run.notes, *trust(run)],
        links=links_to(BESIDE, folder, address),
        yaml=design_yaml(design),
    )


def tiles(run: StoredRun) -> list[tuple[str, str, str]]:
    """The headline figures of a run: label, figure, note."""
    own, dense_s = run.own, run.dense.seconds_per_video
    low, high = own.text("energy_per_video_low_j"), own.text("energy_per_video_high_j")
    time = own.policy
    if run.bandwidth_interval is not None:
        fast, slow = map(own.text, INTERVALS["seconds_per_video"])
        time += f", {span(fast, slow, ' to ')} s"
    return [
        (run.named("time per video"), f"{number(own.seconds_per_video)} s", time),
        ("speed-up over dense", f"{own['speedup']:.2f} x", f"dense: {number(dense_s)} s"),
        (
            run.named("energy per video"),
            f"{own.text('energy_per_video_j')} J",
            f"{span(low, high, ' to ')} J",
        ),
        ("fits the board", "yes" if run.fits else "NO", _fullest(run)),
    ]


def _fullest(run: StoredRun) -> str:
    """The fullest resource of board and memories. Buffers are left out: they may be full."""
    shares = [
        (row.needed / row.available, row.what)
        for row in run.fit
        if row.available and (row.unit != "B" or row.what.startswith("memory "))
    ]
    if not run.fits:
        return f"{len(run.misfits)} of {len(run.fit)} rows are not satisfied"
    share, what = max(shares, default=(0.0, "nothing"))
    return f"fullest: {what}, {percent(share)}"

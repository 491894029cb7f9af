"""A stored run as a page: the answer, charts, and everything that ``carsim run --full`` prints."""

from collections.abc import Sequence
from pathlib import Path

from carsim.base.text import percent, span
from carsim.design.document import design_yaml
from carsim.metrics import INTERVALS, Metric, headline
from carsim.report.figures import run_plots
from carsim.report.figures.utilisation import read_utilisation
from carsim.report.html import chart, page
from carsim.report.run_words import fullest, more_sections, short_sections
from carsim.report.stored import StoredRun

Tile = tuple[str, str, str]
"""Label, figure and note."""


def run_page(run: StoredRun, folder: Path, links: Sequence[str]) -> str:
    """The page of a run as HTML.

    Args:
        run: The run.
        folder: Folder in which it is stored.
        links: Names of files beside the page.

    Raises:
        InputError: The folder holds a broken file, or plotly is not installed.
    """
    design = run.spec()
    plots = run_plots(run, read_utilisation(folder))
    (_, answer), (_, policies), *_ = short_sections(run)
    return page(
        "run.html",
        f"{run.design} on {design.board.name}",
        run=run,
        board=design.board.name,
        description=design.description,
        tiles=tiles(run),
        answer=[*answer, *policies, *run.warnings],
        charts={name: chart(plot) for name, plot in plots.items()},
        sections=list(more_sections(run)),
        links=links,
        yaml=design_yaml(design),
    )


def tiles(run: StoredRun) -> list[Tile]:
    """The headline figures of the kind of work, and whether the design fits."""
    full = f"{len(run.misfits)} of {len(run.fit)} rows are not satisfied"
    if run.fits:
        what, share = next(iter(fullest(run)), ("nothing", 0.0))
        full = f"fullest: {what}, {percent(share)}"
    of_kind = [each for each in headline(run.video.kind) if each.headline_of]
    figures = [(metric.title, *_figure(run, metric)) for metric in of_kind]
    return [*figures, ("fits the board", "yes" if run.fits else "NO", full)]


def _figure(run: StoredRun, metric: Metric) -> tuple[str, str]:
    """A figure with its unit, and its interval or that of dense decoding."""
    texts = [run.own.text(name) for name in (metric.name, *INTERVALS.get(metric.name, ()))]
    unit = "" if metric.unit == "share" else f" {metric.unit}"
    note = f"dense: {run.dense.text(metric.name)}{unit}"
    if len(texts) > 1 and "-" not in texts:
        note = f"{span(texts[1], texts[2], ' to ')}{unit}"
    return texts[0] + unit, note

"""A stored run as a page: the answer, charts, and everything that ``carsim run --full`` prints."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from carsim.base.text import Table, percent, span
from carsim.design.document import design_yaml
from carsim.metrics import INTERVALS, METRICS, Metric, headline
from carsim.metrics.table import EXPECTED
from carsim.report.figures import run_plots
from carsim.report.figures.slices import TIMELINE, layer_plot, stored_layer, waits_table
from carsim.report.figures.utilisation import read_utilisation
from carsim.report.html import chart, page
from carsim.report.run_tables import policies_table
from carsim.report.run_words import advice, expected_figure, fullest, more_sections
from carsim.report.screen import facts
from carsim.report.stored import StoredRun

EXPECTED_HEADLINES = {"video": "expected_seconds_per_video", "text": "expected_tokens_per_s"}
"""Kind of work -> the metric of the first tile."""

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
    waits = None
    if (folder / TIMELINE).is_file():
        layer_step = stored_layer(folder)
        plots["timeline"] = replace(layer_plot(layer_step), misfit=not run.fits)
        waits = waits_table(layer_step)
    answer = Table(("", ""), tuple(facts(run)), text_columns=2)
    notes = [run.schedule_note] if run.schedule_note else []
    return page(
        "run.html",
        f"{run.design} on {design.board.name}",
        run=run,
        board=design.board.name,
        description=design.description,
        tiles=tiles(run),
        answer=[answer, policies_table(run), *advice(run), *notes, *run.warnings],
        charts={name: chart(plot) for name, plot in plots.items()},
        sections=list(more_sections(run)),
        waits=waits,
        links=links,
        yaml=design_yaml(design),
    )


def tiles(run: StoredRun) -> list[Tile]:
    """The expected headline, simulated figures of the kind of work, and whether the design fits.

    Returns:
        Label, value and note of each.
    """
    full = f"{len(run.misfits)} of {len(run.fit)} rows are not satisfied"
    if run.fits:
        resource, share = next(iter(fullest(run)), ("nothing", 0.0))
        full = f"fullest: {resource}, {percent(share)}"
    of_kind = [metric for metric in headline(run.video.kind) if metric.headline_of]
    figures = [(_label(run, metric), *_figure(run, metric)) for metric in of_kind]
    name = EXPECTED_HEADLINES[run.video.kind]
    value, unit, interval = expected_figure(run)
    expected = (METRICS[name].title, f"{value} {unit}", interval)
    return [expected, *figures, ("fits the board", "yes" if run.fits else "NO", full)]


class TileChange(NamedTuple):
    """The change of a tile's figure from that of another run.

    Attributes:
        text: The change in words; empty where the figures cannot be compared.
        verdict: ``better``, ``worse`` or empty.
    """

    text: str
    verdict: str


def tile_changes(run: StoredRun, other: StoredRun) -> list[TileChange]:
    """Changes of the figures of :func:`tiles` from another run, in their order.

    Args:
        run: The run whose tiles are shown.
        other: The run to compare with, such as a pinned one.
    """
    metrics = [METRICS[EXPECTED_HEADLINES[run.video.kind]]]
    metrics += [metric for metric in headline(run.video.kind) if metric.headline_of]
    changes = [_change(metric, run, other) for metric in metrics]
    if run.fits == other.fits:
        changes.append(TileChange("as pinned", ""))
    elif run.fits:
        changes.append(TileChange("pinned: no", "better"))
    else:
        changes.append(TileChange("pinned: yes", "worse"))
    return changes


def _change(metric: Metric, run: StoredRun, other: StoredRun) -> TileChange:
    """The change of a figure; shares change by points."""
    now = run.own.get(metric.name)
    before = other.own.get(metric.name)
    if not isinstance(now, int | float) or not isinstance(before, int | float):
        return TileChange("", "")
    if now == before:
        return TileChange("as pinned", "")
    if metric.unit == "share":
        text = f"{100 * (now - before):+.1f} points from pinned"
    elif before == 0:
        return TileChange("", "")
    else:
        text = f"{100 * (now / before - 1):+.1f} % from pinned"
    if metric.better is None:
        return TileChange(text, "")
    is_better = (now > before) == (metric.better == "higher")
    return TileChange(text, "better" if is_better else "worse")


def _label(run: StoredRun, metric: Metric) -> str:
    """Title of a simulated figure; of a time or rate, with the overheads that it includes."""
    is_time = metric.name in EXPECTED.values() or metric.name == "first_token_s"
    return f"{metric.title}, {run.result.removeprefix('time ')}" if is_time else metric.title


def _figure(run: StoredRun, metric: Metric) -> tuple[str, str]:
    """A figure with its unit, and its interval or that of dense decoding."""
    texts = [run.own.text(name) for name in (metric.name, *INTERVALS.get(metric.name, ()))]
    unit = "" if metric.unit == "share" else f" {metric.unit}"
    note = f"dense: {run.dense.text(metric.name)}{unit}"
    if len(texts) > 1 and "-" not in texts:
        note = f"{span(texts[1], texts[2], ' to ')}{unit}"
    return texts[0] + unit, note

"""A stored run as a page: the answer, the comparison, what was asked, and everything behind it."""

from pathlib import Path

from carsim.base.text import count, number, percent, span
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
from carsim.report.run_words import advice, answer, fullest
from carsim.report.stored import StoredPolicy, StoredRun

Tile = tuple[str, str, str]
"""Label, figure and note."""

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


def tiles(run: StoredRun) -> list[Tile]:
    """The headline figures of a run; of a text, those of its tokens."""
    own, dense_s = run.own, run.dense.seconds_per_video
    full = f"{len(run.misfits)} of {len(run.fit)} rows are not satisfied"
    if run.fits:
        what, share = next(iter(fullest(run)), ("nothing", 0.0))
        full = f"fullest: {what}, {percent(share)}"
    fits = "fits the board", "yes" if run.fits else "NO", full
    if run.video.kind == "text":
        streams = f"{count(run.videos_per_batch, 'stream')} of {own.text('stream_tokens_per_s')}"
        prompt = f"after a prompt of {count(run.video.prompt_tokens, 'token')}"
        return [
            ("decoding speed", f"{own.text('tokens_per_s')} tokens/s", streams),
            ("first token", f"{own.text('first_token_s')} s", prompt),
            _energy(own, "energy_per_token_j", "energy per token"),
            fits,
        ]
    time = own.policy
    if run.bandwidth_interval is not None:
        fast, slow = map(own.text, INTERVALS["seconds_per_video"])
        time += f", {span(fast, slow, ' to ')} s"
    return [
        ("time per video", f"{number(own.seconds_per_video)} s", time),
        ("speed-up over dense", f"{own['speedup']:.2f} x", f"dense: {number(dense_s)} s"),
        _energy(own, "energy_per_video_j", "energy per video"),
        fits,
    ]


def _energy(own: StoredPolicy, metric: str, label: str) -> Tile:
    low, high = map(own.text, INTERVALS[metric])
    return label, f"{own.text(metric)} J", f"{span(low, high, ' to ')} J"

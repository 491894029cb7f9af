"""Write everything that a run found into one folder."""

import json
from collections.abc import Callable
from pathlib import Path

from carsim.base.digests import DIGESTS, write_digests
from carsim.design.document import design_yaml
from carsim.metrics.columns import csv_text
from carsim.report.chrome import chrome_trace
from carsim.report.folder import whole_folder
from carsim.report.run_words import misfit_mark
from carsim.report.stored import SUMMARY, summary
from carsim.runs.report import Report
from carsim.runs.rollout import chunk_figures
from carsim.runs.timeline import Window, record_timeline, usage_by_step

REPORT = "report.html"
"""The page that ``carsim report`` adds."""

NOTICE = "RESCUED.txt"
"""What of a damaged folder was not rescued."""

CHUNKS = "chunks.csv"
"""Figures of each chunk, of a video that is made in chunks."""

RESULTS = (SUMMARY, "design.yaml", "comparison.csv", "utilisation.csv", CHUNKS, "timeline.json")
"""Names of the files of a run."""

OUTPUT_FILES = (*RESULTS, DIGESTS, NOTICE, REPORT)
"""Names that a run's folder may hold; one that holds others is never replaced."""


def save_report(
    report: Report,
    folder: str | Path,
    *,
    overwrite: bool = False,
    timeline: "tuple[int, int] | Window | None" = None,
    progress: Callable[[str], None] | None = None,
) -> list[str]:
    """Write a report into a folder, which appears whole or not at all.

    Files: ``summary.json`` (all figures, the hashes of design and traces, version, seed),
    ``design.yaml`` (the resolved design), ``comparison.csv``, ``utilisation.csv`` (over
    the first batch), ``chunks.csv`` of a video in chunks, and, if asked for, ``timeline.json`` for https://ui.perfetto.dev.
    ``SHA256SUMS`` has the digest of each.

    Args:
        report: A report of a run.
        folder: The folder to be made.
        overwrite: Replace a folder of an earlier run.
        timeline: First step, and the step after the last, of the timeline of the first batch; or a
            window that names policies, too.
        progress: Told what is being written.

    Returns:
        Names of the files.

    Raises:
        InputError: The window is no part of the video, a policy is none of the run, or the folder
            cannot be written.
    """
    import pandas as pd

    from carsim.report.figures.utilisation import utilisation_frame

    tell = progress or (lambda _: None)
    with whole_folder(Path(folder), overwrite=overwrite, ours=OUTPUT_FILES) as into:
        tell("summary and comparison")
        _write_text(into / SUMMARY, json.dumps(summary(report), indent=2, allow_nan=False))
        mark = "" if report.fit.fits else f"# {misfit_mark(report.design)}\n"
        _write_text(into / "design.yaml", mark + design_yaml(report.design))
        _write_text(into / "comparison.csv", csv_text(report.to_frame(), index=True))
        tell("utilisation")
        usage = utilisation_frame(report, usage_by_step(report.chosen))
        _write_text(into / "utilisation.csv", csv_text(usage, index=True))
        chunks = pd.DataFrame(chunk_figures(report))
        if len(chunks):
            _write_text(into / CHUNKS, csv_text(chunks))
        if timeline is not None:
            tell("timeline")
            _write_text(into / "timeline.json", _timeline_json(report, Window.of(timeline)))
        names = {path.name for path in into.iterdir()}
        write_digests(into, [name for name in OUTPUT_FILES if name in names])
    return [name for name in OUTPUT_FILES if name in names or name == DIGESTS]


def _write_text(path: Path, text: str) -> None:
    path.write_text(text if text.endswith("\n") else text + "\n", encoding="utf-8")


def _timeline_json(report: Report, window: Window) -> str:
    from carsim.report.figures.slices import compared_rows

    first = window.first
    stop = window.stop
    chosen = report.chosen
    design = report.design
    rows = compared_rows(report, window.policies)
    title = f"{design.name}: first batch, steps {first} to {stop - 1}"
    if not report.fit.fits:
        title = f"{misfit_mark(report.design)}. {title}"
    traces = [sha256 for _, sha256 in report.traces]
    facts = {"design_sha256": design.sha256, "traces": traces, "fits": report.fit.fits}
    facts["decisions"] = chosen.batches.label
    facts["first_step"] = first
    timelines = {row.variant.name: record_timeline(row, first, stop) for row in rows}
    document = chrome_trace(timelines, design.board.fabric_clock_mhz, title, facts)
    return json.dumps(document, allow_nan=False, separators=(",", ":"))

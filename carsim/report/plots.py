"""One figure of runs or sweeps as a file, and its numbers as CSV."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from carsim.base.errors import InputError
from carsim.base.files import write_whole
from carsim.base.text import closest
from carsim.metrics import METRICS
from carsim.metrics.columns import csv_text
from carsim.report.figures import shown_policies
from carsim.report.figures.breakdown import breakdown_plot
from carsim.report.figures.metric import metric_plot, run_rows
from carsim.report.figures.pareto import front_plot
from carsim.report.figures.plot import Plot
from carsim.report.figures.roofline import roofline_plot
from carsim.report.figures.slices import timeline_plot
from carsim.report.figures.utilisation import UTILISATION, read_utilisation, utilisation_plot
from carsim.report.report import results
from carsim.report.stored import StoredRun

FORMATS = ("pdf", "svg", "png")
"""Suffixes of a figure's file."""

OF_SEVERAL = {"breakdown": breakdown_plot, "roofline": roofline_plot}
OF_ONE = ("utilisation", "timeline")
"""Figures of a run; ``front`` is one of studies, and a metric one of either."""

Labelled = Sequence[tuple[str, Any]]
"""Stored runs and studies with their labels."""


def write_plot(
    sources: Sequence[str],
    what: str,
    out: str | Path,
    width_in: float = 3.5,
    *,
    objectives: Mapping[str, str] | None = None,
    constraints: Sequence[str] = (),
) -> list[Path]:
    """Draw one figure of some folders of results.

    Args:
        sources: Folders that carsim run, sweep or search wrote, each as ``DIR`` or ``DIR=LABEL``.
        what: ``METRIC[:AXIS[:BY]]``, where METRIC may be several with commas between them;
            ``front``, ``breakdown``, ``roofline``, ``utilisation`` or ``timeline``.
        out: The file; its suffix is one of :data:`FORMATS`. An existing one is replaced.
        width_in: Width on paper, inches. The height follows from what is drawn.
        objectives: Of ``front``, metric -> ``min`` or ``max``; the study's if not given.
        constraints: Further conditions that points of studies have to meet.

    Returns:
        The figure, and its numbers as CSV beside it.

    Raises:
        InputError: A folder without results, an unknown metric or axis, a file that cannot be
            written.
    """
    from carsim.report.figures.draw import on_paper, save

    out = Path(out)
    if out.suffix.removeprefix(".") not in FORMATS:
        raise InputError(str(out), "has no suffix of a figure", f"end it in .{', .'.join(FORMATS)}")
    labelled = [_labelled(source) for source in sources]
    found: Labelled = [
        (label, each if isinstance(each, StoredRun) else each.seen(objectives, constraints))
        for label, folder in labelled
        for each in [results(folder)]
    ]
    plot = on_paper(_plot(found, labelled[0][1], what), width_in)
    numbers_file = out.with_suffix(".csv")
    write_whole(out, partial(save, plot, file_format=out.suffix[1:]))
    write_whole(numbers_file, csv_text(numbers(plot)))
    return [out, numbers_file]


def numbers(plot: Plot) -> pd.DataFrame:
    """The numbers of a plot, a row each: panel, series, category, x, y and ends of intervals."""
    rows = []
    for panel in plot.panels:
        for series in panel.series:
            for place, (x, y) in enumerate(zip(series.x, series.y, strict=False)):
                row = {"panel": panel.x_label or panel.y_label, "series": series.name, "x": x}
                if panel.categories and y is not None:
                    row["category"] = panel.categories[round(y)]
                else:
                    row["y"] = y
                for end in ("base", "low", "high", "shade"):
                    if values := getattr(series, end):
                        row[end] = values[place]
                rows.append(row)
    return pd.DataFrame(rows)


def _labelled(source: str) -> tuple[str, Path]:
    """Label and folder; the label is the folder's name if none is given."""
    folder, sign, label = source.rpartition("=")
    if Path(source).is_dir() or not sign:
        folder, label = source, Path(source).name
    if not label:
        raise InputError(source, "has no label", "write DIR=LABEL")
    return label, Path(folder)


def _plot(found: Labelled, folder: Path, kind: str) -> Plot:
    """The figure of some results and their labels; ``folder`` is that of the first."""
    if kind not in (*OF_SEVERAL, *OF_ONE, "front"):
        return _of_metric(found, kind)
    of = dict(found)
    if len(of) < len(found):
        raise InputError(kind, "has two folders of one label", "write DIR=LABEL for each")
    needed = "sweeps or searches" if kind == "front" else "runs"
    for label, each in found:
        if isinstance(each, StoredRun) == (kind == "front"):
            raise InputError(label, "holds other results", f"{kind} needs folders of {needed}")
    if kind == "front":
        return front_plot(of)
    if kind in OF_SEVERAL:
        return OF_SEVERAL[kind](shown_policies(of))
    if len(found) > 1:
        raise InputError(found[1][0], f"{kind} shows one run", "give one folder")
    if kind == "timeline":
        return timeline_plot(folder)
    usage = read_utilisation(folder)
    if usage is None:
        raise InputError(str(folder), f"holds no {UTILISATION}", "run again with `out`")
    return utilisation_plot(found[0][1], usage)


def _of_metric(found: Labelled, what: str) -> Plot:
    """Metrics over an axis that all results have; folders may share a label."""
    runs = [each for _, each in found if isinstance(each, StoredRun)]
    studies = [each for _, each in found if not isinstance(each, StoredRun)]
    for each in studies:
        each.check_whole()
    metrics, *rest = what.split(":")
    if len(rest) > 2 or not metrics:
        raise InputError(what, "is no figure", "write METRIC, METRIC:AXIS or METRIC:AXIS:BY")
    default = ["label", "policy"] if runs else [studies[0].axes[0], "label"]
    if len({label for label, _ in found}) == 1:  # which is then no axis
        default.remove("label")
    axis, by = [*(rest or default), ""][:2]
    frames = [
        run_rows(label, each, own_only="policy" not in (axis, by))
        if isinstance(each, StoredRun)
        else each.counted.assign(label=label)
        for label, each in found
    ]
    rows = pd.concat(frames, ignore_index=True)
    numbers = {each for each in METRICS if each in rows and rows[each].dtype.kind in "bif"}
    of_axes = "take policy, label, an axis of the sweep or a field"
    named = [(each, numbers, "number", "see carsim config metrics") for each in metrics.split(",")]
    named += [(each, {*rows}, "axis", of_axes) for each in (axis, by) if each]
    for name, known, kind, cure in named:
        if name not in known:
            cure = f"{closest(name, known)}{cure}"
            raise InputError(name, f"is no {kind} of these results", cure)
        for (label, _), frame in zip(found, frames, strict=True):
            if name not in frame:
                raise InputError(label, f"has no {name}", "draw it by itself, or over another axis")
    plot = metric_plot(rows, metrics.split(","), axis, by)
    return replace(plot, misfit=not all(run.fits for run in runs))

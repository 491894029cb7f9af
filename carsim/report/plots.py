"""One figure of runs or sweeps as a file, and its numbers as CSV."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from carsim.report.stored_study import StoredStudy

FORMATS = ("pdf", "svg", "png")
"""Suffixes of a figure's file."""

OF_SEVERAL = {"breakdown": breakdown_plot, "roofline": roofline_plot}
OF_RUNS = (*OF_SEVERAL, "utilisation", "timeline")
"""Figures of runs; ``front`` is one of studies, and a metric one of either."""


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
            ``front``, ``breakdown``, ``roofline``, ``utilisation``, or ``timeline[:FROM:TO]``, ms.
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
    found = [(label, results(folder)) for label, folder in labelled]
    for place, (label, each) in enumerate(found):
        if not isinstance(each, StoredRun):
            found[place] = label, each.seen(objectives, constraints)
    plot = on_paper(_plot(found, labelled[0][1], what), width_in)
    table = csv_text(numbers(plot))
    numbers_file = out.with_suffix(".csv")
    write_whole(out, partial(save, plot, file_format=out.suffix[1:]))
    write_whole(numbers_file, table)
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


def _plot(found: "Sequence[tuple[str, StoredRun | StoredStudy]]", folder: Path, what: str) -> Plot:
    """The figure of some results and their labels; ``folder`` is that of the first."""
    kind, _, rest = what.partition(":")
    if kind in (*OF_RUNS, "front"):
        for label, count in Counter(label for label, _ in found).items():
            if count > 1:
                raise InputError(label, f"labels {count} folders", "write DIR=LABEL for each")
    else:
        return _of_metric(found, what)
    runs = {label: each for label, each in found if isinstance(each, StoredRun)}
    studies = {label: each for label, each in found if not isinstance(each, StoredRun)}
    if kind == "front":
        if runs:
            problem = "is a run"
            raise InputError(next(iter(runs)), problem, "front needs folders of sweeps or searches")
        return front_plot(studies)
    if studies:
        raise InputError(next(iter(studies)), "is a study", f"{kind} needs folders of runs")
    if kind in OF_SEVERAL:
        return OF_SEVERAL[kind](shown_policies(runs))
    (label, run), *others = runs.items()
    if others:
        raise InputError(others[0][0], f"{kind} shows one run", "give one folder")
    if kind == "timeline":
        return timeline_plot(folder, _window(rest) if rest else None)
    usage = read_utilisation(folder)
    if usage is None:
        raise InputError(str(folder), f"holds no {UTILISATION}", "run again with `out`")
    return utilisation_plot(run, usage)


def _window(text: str) -> tuple[float, float]:
    try:
        first, last = map(float, text.split(":"))
    except ValueError:
        cure = "write timeline:FROM:TO in ms, such as timeline:0:2.5"
        raise InputError(f"timeline:{text}", "is no window", cure) from None
    return first, last


def _of_metric(found: "Sequence[tuple[str, StoredRun | StoredStudy]]", what: str) -> Plot:
    """Metrics over an axis that all results have; folders may share a label."""
    runs = [each for _, each in found if isinstance(each, StoredRun)]
    studies = [each for _, each in found if not isinstance(each, StoredRun)]
    for each in studies:
        each.check_whole()
    metrics, *rest = what.split(":")
    if len(rest) > 2 or not metrics:
        raise InputError(what, "is no figure", "write METRIC, METRIC:AXIS or METRIC:AXIS:BY")
    several = len({label for label, _ in found}) > 1
    default = ["label", "policy"] if several and runs else ["policy" if runs else "label"]
    if studies and not runs:
        default = [studies[0].axes[0], *(["label"] if several else [])]
    axis, by = [*(rest or default), ""][:2]
    own_only = "policy" not in (axis, by)
    frames = [
        run_rows(label, each, own_only=own_only)
        if isinstance(each, StoredRun)
        else each.counted.assign(label=label)
        for label, each in found
    ]
    rows = pd.concat(frames, ignore_index=True)
    numbers = {each for each in METRICS if each in rows and rows[each].dtype.kind in "bif"}
    axes = {str(each) for each in rows} - METRICS.keys()
    for name in metrics.split(","):
        if name not in numbers:
            cure = f"{closest(name, numbers)}carsim config metrics lists all"
            raise InputError(name, "is no number in these results", cure)
    for name in filter(None, (axis, by)):
        if name not in rows:
            cure = f"{closest(name, axes)}take policy, label, an axis of the sweep or a field"
            raise InputError(name, "is no axis of these results", cure)
        for (label, _), frame in zip(found, frames, strict=True):
            if name not in frame:
                raise InputError(label, f"has no {name}", "draw it by itself, or over another axis")
    strong = runs[0].own.policy if len(runs) == 1 and axis == "policy" else ""
    plot = metric_plot(rows, metrics.split(","), axis, by, strong)
    return replace(plot, misfit=not all(run.fits for run in runs))

"""One figure of runs or sweeps as a file, and its numbers as CSV."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from carsim.base.errors import InputError
from carsim.base.files import write_whole
from carsim.base.text import closest, count
from carsim.explore.pareto import pareto
from carsim.metrics import METRICS
from carsim.metrics.columns import csv_text
from carsim.report.caption import caption_text
from carsim.report.figures import shown_policies
from carsim.report.figures.breakdown import breakdown_plot
from carsim.report.figures.joules import energy_plot
from carsim.report.figures.metric import ALL_POLICIES, metric_plot, run_rows
from carsim.report.figures.pareto import front_plot
from carsim.report.figures.plot import Panel, Plot, Series
from carsim.report.figures.roofline import roofline_plot
from carsim.report.figures.slices import layer_plot, stored_layer
from carsim.report.figures.threshold import TAU, threshold_plot
from carsim.report.figures.utilisation import UTILISATION, read_utilisation, utilisation_plot
from carsim.report.report import results
from carsim.report.stored import StoredRun
from carsim.report.stored_study import StoredStudy

FORMATS = ("pdf", "svg", "png")
"""Suffixes of a figure's file."""

OF_SEVERAL = {"breakdown": breakdown_plot, "energy": energy_plot, "roofline": roofline_plot}
OF_ONE = ("utilisation", "timeline")
OF_TAU = "tau"
"""Figures of a run; ``front`` is one of studies, ``tau`` and a metric are of either."""

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
    look: Literal["usual", "paper"] = "usual",
) -> list[Path]:
    """Draw one figure of some folders of results.

    Args:
        sources: Folders that carsim run, sweep or search wrote, each as ``DIR`` or ``DIR=LABEL``.
        what: ``METRIC[:AXIS[:BY]]``, where METRIC may be several with commas between them;
            ``front``, ``tau``, ``breakdown``, ``energy``, ``roofline``, ``utilisation`` or
            ``timeline``.
        out: The file; its suffix is one of :data:`FORMATS`. An existing one is replaced.
        width_in: Width on paper, inches. The height follows from what is drawn.
        objectives: Of ``front``, metric -> ``min`` or ``max``; the study's if not given.
        constraints: Further conditions that points of studies have to meet.
        look: ``paper``: type of 7 to 8 points, 300 dpi, panels beside each other in a column, and a
            caption with provenance.

    Returns:
        The figure, and its numbers as CSV beside it; for a paper, its caption as ``.txt``, too.

    Raises:
        InputError: A folder without results, an unknown metric or axis, a file that cannot be
            written.
    """
    from carsim.report.figures.draw import on_paper, save

    out = Path(out)
    if out.suffix.removeprefix(".") not in FORMATS:
        raise InputError(str(out), "has no suffix of a figure", f"end it in .{', .'.join(FORMATS)}")
    plot = plot_of(sources, what, objectives=objectives, constraints=constraints)
    sized = on_paper(plot, width_in, look)
    numbers_file = out.with_suffix(".csv")
    write_whole(out, partial(save, sized, file_format=out.suffix[1:]))
    write_whole(numbers_file, csv_text(numbers(sized)))
    if look == "usual":
        return [out, numbers_file]
    caption_file = out.with_suffix(".txt")
    results_by_label = {label: results(folder) for label, folder in map(_labelled, sources)}
    write_whole(caption_file, caption_text(plot, results_by_label))
    return [out, numbers_file, caption_file]


def plot_of(
    sources: Sequence[str],
    what: str,
    *,
    objectives: Mapping[str, str] | None = None,
    constraints: Sequence[str] = (),
) -> Plot:
    """The plot of some folders of results, which no file holds yet.

    Args:
        sources: As of :func:`write_plot`.
        what: As of :func:`write_plot`.
        objectives: As of :func:`write_plot`.
        constraints: As of :func:`write_plot`.

    Raises:
        InputError: A folder without results, or an unknown metric or axis.
    """
    labelled: list[tuple[str, Any]] = []
    folders = []
    for source in sources:
        label, folder = _labelled(source)
        result = results(folder)
        if not isinstance(result, StoredRun):
            result = result.seen(objectives, constraints)
        labelled.append((label, result))
        folders.append(folder)
    return _plot(labelled, folders[0], what)


def numbers(plot: Plot) -> pd.DataFrame:
    """The numbers of a plot, a row each: panel, series, category, x, y and ends of intervals.

    Of a bar that does not begin at zero, such as a part of a stack or a span of time, ``x`` is its
    value, which is its length, and ``base`` where it begins.
    """
    rows = []
    for panel in plot.panels:
        for series in panel.series:
            for number in range(min(len(series.x), len(series.y))):
                row = {"panel": _name(panel, plot), "series": series.name}
                rows.append(row | _row(panel, series, number))
    return pd.DataFrame(rows)


def _row(panel: Panel, series: Series, number: int) -> dict[str, Any]:
    """The numbers of one bar, point or edge of a series.

    Args:
        panel: The panel.
        series: One of its series.
        number: Which of the series' numbers, from 0.
    """
    x = series.x[number]
    y = series.y[number]
    row: dict[str, Any] = {"x": x}
    if series.base and x is not None:
        row["x"] = x - series.base[number]
    if panel.categories and y is not None:
        row["category"] = panel.categories[round(y)]
    else:
        row["y"] = y
    if series.base:
        row["base"] = series.base[number]
    if series.low:
        row["low"] = series.low[number]
    if series.high:
        row["high"] = series.high[number]
    if series.shade:
        row["shade"] = series.shade[number]
    return row


def _name(panel: Panel, plot: Plot) -> str:
    """Label of the horizontal axis, or of the vertical one where panels share the other."""
    if plot.shares == "x" and panel.y_label:
        return panel.y_label
    return panel.x_label or panel.y_label


def _labelled(source: str) -> tuple[str, Path]:
    """Label and folder; the label is the folder's name if none is given."""
    folder, sign, label = source.rpartition("=")
    if Path(source).is_dir() or not sign:
        folder = source
        label = Path(source).name
    if not label:
        raise InputError(source, "has no label", "write DIR=LABEL")
    return label, Path(folder)


def _plot(labelled: Labelled, folder: Path, kind: str) -> Plot:
    """The figure of some results and their labels.

    Args:
        labelled: The results.
        folder: Folder of the first.
        kind: The figure, as of :func:`write_plot`.
    """
    if kind == OF_TAU:
        return _of_tau(labelled)
    if kind not in (*OF_SEVERAL, *OF_ONE, "front"):
        return _of_metric(labelled, kind)
    runs: dict[str, StoredRun] = {}
    studies: dict[str, StoredStudy] = {}
    for label, result in labelled:
        if isinstance(result, StoredRun):
            runs[label] = result
        else:
            studies[label] = result
    if len(runs | studies) < len(labelled):
        raise InputError(kind, "has two folders of one label", "write DIR=LABEL for each")
    if kind == "front":
        for label in runs:
            cure = f"{kind} needs folders of sweeps or searches"
            raise InputError(label, "holds other results", cure)
        for study in studies.values():
            _check_front(study)
        return front_plot(studies)
    for label in studies:
        raise InputError(label, "holds other results", f"{kind} needs folders of runs")
    if kind in OF_SEVERAL:
        return OF_SEVERAL[kind](shown_policies(runs))
    if len(labelled) > 1:
        second_label, _ = labelled[1]
        raise InputError(second_label, f"{kind} shows one run", "give one folder")
    if kind == "timeline":
        return layer_plot(stored_layer(folder))
    usage = read_utilisation(folder)
    if usage is None:
        raise InputError(str(folder), f"holds no {UTILISATION}", "run again with `out`")
    (run,) = runs.values()
    return utilisation_plot(run, usage)


def _check_front(study: StoredStudy) -> None:
    """Refuse to draw the front of a study of which no point that fits has all objectives."""
    if study.fitting[[*study.objectives]].dropna().empty:
        pareto(study.frame, study.objectives, study.constraints)  # says why there is none


def _once_if_equal(rows: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """The rows of a run's policies; one row where all metrics are of the machine alone.

    The cost of a board, say, is the same whatever policy it runs.
    """
    if len(rows) < 2 or (rows[list(metrics)].nunique(dropna=False) > 1).any():
        return rows
    return rows.head(1).assign(policy=ALL_POLICIES)


def _rows(label: str, result: StoredRun | StoredStudy, *, own_only: bool) -> pd.DataFrame:
    """Rows of a run's policies, or of the points of a study, which have a policy, too."""
    if isinstance(result, StoredRun):
        return run_rows(label, result, own_only=own_only)
    frame = result.counted.assign(label=label)
    if "policy" in frame or not result.policies:
        return frame
    return frame.assign(policy=frame["policy_name"])


def _of_tau(labelled: Labelled) -> Plot:
    """Speed-up and replay ratio over tau, by policy, or by label where there are several."""
    frames = []
    has_study = False
    for label, result in labelled:
        if not isinstance(result, StoredRun):
            has_study = True
            result.check_whole()
        rows = _rows(label, result, own_only=False)
        for name in (TAU, "policy"):
            if name not in rows:
                cure = f"sweep over {TAU}, or give runs with different ones"
                raise InputError(label, f"has no {name}", cure)
        frames.append(rows)
    table = pd.concat(frames, ignore_index=True)
    labels = table["label"].astype(str)
    policies = table["policy"].astype(str)
    groups = policies
    if has_study and table["label"].nunique() > 1:
        groups = labels + ": " + policies if table["policy"].nunique() > 1 else labels
    return threshold_plot(table.assign(group=groups))


def _of_metric(labelled: Labelled, what: str) -> Plot:
    """Metrics over an axis that all results have; folders may share a label.

    Args:
        labelled: The results.
        what: ``METRIC``, ``METRIC:AXIS`` or ``METRIC:AXIS:BY``; METRIC may be several with commas
            between them.
    """
    runs = [result for _, result in labelled if isinstance(result, StoredRun)]
    studies = [result for _, result in labelled if not isinstance(result, StoredRun)]
    for study in studies:
        study.check_whole()
    names, *axes = what.split(":")
    if len(axes) > 2 or not names:
        raise InputError(what, "is no figure", "write METRIC, METRIC:AXIS or METRIC:AXIS:BY")
    if not axes:
        axes = ["label", "policy"] if runs else [studies[0].axes[0], "label"]
        if len({label for label, _ in labelled}) == 1:  # which is then no axis
            axes.remove("label")
    axis = axes[0]
    by = axes[1] if len(axes) > 1 else ""
    own_only = "policy" not in (axis, by)
    frames = {}
    for number, (label, result) in enumerate(labelled):
        frames[number, label] = _rows(label, result, own_only=own_only)
    rows = pd.concat(list(frames.values()), ignore_index=True)
    metrics = names.split(",")
    numeric = [name for name in METRICS if name in rows and rows[name].dtype.kind in "bif"]
    for metric in metrics:
        if metric not in numeric:
            cure = f"{closest(metric, set(numeric))}see carsim config metrics"
            raise InputError(metric, "is no number of these results", cure)
        _check_column(metric, rows, frames)
    for name in filter(None, (axis, by)):
        if name not in rows:
            known = closest(name, {str(column) for column in rows})
            cure = f"{known}take policy, label, an axis of the sweep or a field"
            raise InputError(name, "is no axis of these results", cure)
        _check_column(name, rows, frames)
    if axis == "policy" and not by and len(labelled) == 1:
        rows = _once_if_equal(rows, metrics)
    plot = metric_plot(rows, metrics, axis, by)
    return replace(plot, misfit=not all(run.fits for run in runs))


def _check_column(
    name: str, rows: pd.DataFrame, frames: Mapping[tuple[int, str], pd.DataFrame]
) -> None:
    """Refuse a column that one of the results lacks, or that has no value.

    Args:
        name: The column.
        rows: Rows of all results.
        frames: Number and label of a result -> its rows.

    Raises:
        InputError: There is no such column, or no value.
    """
    for (_, label), frame in frames.items():
        if name not in frame:
            raise InputError(label, f"has no {name}", "draw it by itself, or over another axis")
    if rows[name].isna().all():
        problem = f"has no value in any of {count(len(rows), 'row')}"
        raise InputError(name, problem, "take another; 'carsim config metrics' lists them")

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
from carsim.report.figures.plot import Panel, Plot
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
    found = {label: results(folder) for label, folder in map(_labelled, sources)}
    write_whole(caption_file, caption_text(plot, found))
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
    labelled = [_labelled(source) for source in sources]
    found: Labelled = [
        (label, each if isinstance(each, StoredRun) else each.seen(objectives, constraints))
        for label, folder in labelled
        for each in [results(folder)]
    ]
    return _plot(found, labelled[0][1], what)


def numbers(plot: Plot) -> pd.DataFrame:
    """The numbers of a plot, a row each: panel, series, category, x, y and ends of intervals.

    Of a bar that does not begin at zero, such as a part of a stack or a span of time, ``x`` is its
    value, which is its length, and ``base`` where it begins.
    """
    rows = []
    for panel in plot.panels:
        for series in panel.series:
            for place, (x, y) in enumerate(zip(series.x, series.y, strict=False)):
                value = x - series.base[place] if series.base and x is not None else x
                row = {"panel": _name(panel, plot), "series": series.name, "x": value}
                if panel.categories and y is not None:
                    row["category"] = panel.categories[round(y)]
                else:
                    row["y"] = y
                for end in ("base", "low", "high", "shade"):
                    if values := getattr(series, end):
                        row[end] = values[place]
                rows.append(row)
    return pd.DataFrame(rows)


def _name(panel: Panel, plot: Plot) -> str:
    """Label of the horizontal axis, or of the vertical one where panels share the other."""
    if plot.shares == "x" and panel.y_label:
        return panel.y_label
    return panel.x_label or panel.y_label


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
    if kind == OF_TAU:
        return _of_tau(found)
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
        for study in of.values():
            _check_front(study)
        return front_plot(of)
    if kind in OF_SEVERAL:
        return OF_SEVERAL[kind](shown_policies(of))
    if len(found) > 1:
        raise InputError(found[1][0], f"{kind} shows one run", "give one folder")
    if kind == "timeline":
        return layer_plot(stored_layer(folder))
    usage = read_utilisation(folder)
    if usage is None:
        raise InputError(str(folder), f"holds no {UTILISATION}", "run again with `out`")
    return utilisation_plot(found[0][1], usage)


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


def _of_tau(found: Labelled) -> Plot:
    """Speed-up and replay ratio over tau, by policy, or by label where there are several."""
    frames = []
    for label, result in found:
        if not isinstance(result, StoredRun):
            result.check_whole()
        rows = _rows(label, result, own_only=False)
        for name in (TAU, "policy"):
            if name not in rows:
                cure = f"sweep over {TAU}, or give runs with different ones"
                raise InputError(label, f"has no {name}", cure)
        frames.append(rows)
    table = pd.concat(frames, ignore_index=True)
    groups = table["policy"].astype(str)
    if table["label"].nunique() > 1 and any(not isinstance(each, StoredRun) for _, each in found):
        groups = table["label"].astype(str)
        if table["policy"].nunique() > 1:
            groups = groups + ": " + table["policy"].astype(str)
    return threshold_plot(table.assign(group=groups))


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
    own_only = "policy" not in (axis, by)
    frames = [_rows(label, each, own_only=own_only) for label, each in found]
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
        if rows[name].isna().all():
            problem = f"has no value in any of {count(len(rows), 'row')}"
            raise InputError(name, problem, "take another; 'carsim config metrics' lists them")

    if axis == "policy" and not by and len(found) == 1:
        rows = _once_if_equal(rows, metrics.split(","))
    plot = metric_plot(rows, metrics.split(","), axis, by)
    return replace(plot, misfit=not all(run.fits for run in runs))

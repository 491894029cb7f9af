"""Figures of studies: one style, one way to save, one way to show an interval."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from carsim.report.figures import style as plots

DPI = 110


@contextmanager
def drawing(path: Path, width_in: float, height_in: float, title: str) -> Iterator[Figure]:
    """An empty figure to draw into, saved at the end without a date, so that it can be remade."""
    with plots.style():
        figure = plots.new_figure(width_in, height_in, title, misfit=False)
        yield figure
        figure.savefig(path, dpi=DPI, metadata={"Software": None})


def legend_below(figure: Figure, panel: Axes, columns: int, **look: Any) -> None:
    """Name the lines of a panel, which are those of all panels, below the panels."""
    named = panel.get_legend_handles_labels()
    figure.legend(*named, loc="outside lower center", ncols=columns, **look)


def with_intervals(axes: Axes, x: Any, rows: pd.DataFrame, name: str, **look: Any) -> None:
    """A column of means over x, with the intervals in ``name_low`` and ``name_high``."""
    mean = rows[name]
    spread = [mean - rows[f"{name}_low"], rows[f"{name}_high"] - mean]
    axes.errorbar(x, mean, spread, capsize=2, **look)


def with_misfits(axes: Axes, points: pd.DataFrame, x: str, y: str, look: str, color: str) -> None:
    """Results of a column over another, hollow where a design does not fit its board."""
    fits = points["status"] == "ok"
    for shown, fill in ((points[fits], color), (points[~fits], "white")):
        axes.plot(shown[x], shown[y], look, color=color, markerfacecolor=fill)

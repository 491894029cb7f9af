"""Simulate what a state means. Results are kept by what they depend on, and by nothing else."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from carsim.decisions.choose import Sources
from carsim.decisions.trace import Trace, load_trace
from carsim.design import Design
from carsim.design.load import PRESET_PATHS
from carsim.explore.evaluate import Asked, Fitted, Machines
from carsim.metrics import Setting, figures
from carsim.report.stored import StoredRun
from carsim.report.stored import stored as stored_run
from carsim.runs.opening import open_design
from carsim.runs.pipeline import fit_of, sources_of
from carsim.runs.pipeline import run as simulate
from carsim.runs.report import Report
from carsim.studio.reach import Reach
from carsim.studio.state import TabState

KEPT_POINTS = 32
KEPT_FIGURES = 512
KEPT_TRACES = 12
"""Results and traces that are kept; all tabs share them, as equal points have equal results."""

MACHINES = Machines("fluid")
"""Keeps what points of a sweep share."""


class SimulatedPoint(NamedTuple):
    """A simulated design point: its report, and the same as a run that was stored."""

    report: Report
    run: StoredRun

    @property
    def design(self) -> Design:
        """The resolved design."""
        return self.report.design


def point_of(state: TabState, reach: Reach) -> SimulatedPoint:
    """Simulate a state, or find what was found before.

    Args:
        state: The state.
        reach: Files that may be read.

    Raises:
        InputError: A design, a change or a trace that cannot be used.
    """
    return _point(state.point.query, _files(state, reach))


def figures_of(state: TabState, reach: Reach) -> Mapping[str, Any]:
    """All figures of a state's own policy, without its alternatives; and ``fits``.

    Args:
        state: The state.
        reach: Files that may be read.

    Raises:
        InputError: A design, a change or a trace that cannot be used.
    """
    return _figures(state.point.query, _files(state, reach))


def base_of(state: TabState) -> Design:
    """The design of a state without its changes, but for the presets that they name.

    Only for a state that was simulated, and so may be read.

    Raises:
        InputError: It needs the changes.
    """
    presets = (f"{path}={value}" for path, value in state.changes.items() if path in PRESET_PATHS)
    return open_design(state.design, tuple(presets), state.work)


# -------------------------------------------------------------------- private


@lru_cache(maxsize=KEPT_POINTS)
def _point(query: str, files: tuple[tuple[str, int], ...]) -> SimulatedPoint:
    """The point of a query; files with the time of their last change make it a new one."""
    design, sources = _opened(query, files)
    report = simulate(design, tuple(sources.traces), allow_misfit=True, what_if=False)
    return SimulatedPoint(report, stored_run(report))


@lru_cache(maxsize=KEPT_FIGURES)
def _figures(query: str, files: tuple[tuple[str, int], ...]) -> Mapping[str, Any]:
    design, sources = _opened(query, files)
    video = sources.video
    fit = fit_of(design, sources, video)
    point = Fitted(Asked(design, sources, video, sources.replays_any), fit)
    (row,) = MACHINES.rows([point])
    dense_s = MACHINES.dense_latencies_s([point])[0]
    return {**figures(row, Setting(design, fit, dense_s)), "fits": fit.fits}


def _opened(query: str, files: tuple[tuple[str, int], ...]) -> tuple[Design, Sources]:
    """The design of a state, and what it decodes."""
    state = TabState.of_query(query)
    traces = []
    if state.trace:
        path, changed_ns = files[-1]
        traces.append(_trace(path, changed_ns))
    design = open_design(state.design, state.overrides, state.work)
    return design, sources_of(design, traces, state.work)


def _files(state: TabState, reach: Reach) -> tuple[tuple[str, int], ...]:
    """The files of a state with the times of their last changes; a trace comes last."""
    return tuple((str(path), _changed(path)) for path in reach.files(state))


@lru_cache(maxsize=KEPT_TRACES)
def _trace(path: str, changed_ns: int) -> Trace:
    """The trace of a file; it is read again if the file has changed since."""
    return load_trace(path)


def _changed(path: Path) -> int:
    """Time of the last change of a file, nanoseconds; 0 if there is none."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0  # opening it says what is wrong

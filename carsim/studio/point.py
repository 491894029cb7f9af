"""Simulate what a state means. Results are kept by what they depend on, and by nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from carsim.base.errors import InputError
from carsim.decisions.trace import Trace, load_trace
from carsim.decisions.trace.shipped import shipped_traces, trace_path
from carsim.design import Design
from carsim.design.load import PRESET_PATHS
from carsim.explore.evaluate import Machines
from carsim.machine.row import RowResult
from carsim.report.figures.curve import CurvePoint
from carsim.report.stored import StoredRun
from carsim.report.stored import stored as stored_run
from carsim.runs.first import open_design
from carsim.runs.pipeline import fit_of, sources_of
from carsim.runs.pipeline import run as simulate
from carsim.runs.report import Report
from carsim.studio.reach import Reach
from carsim.studio.state import TabState
from carsim.workload.workload import workload_of

KEPT_POINTS = 32
KEPT_TRACES = 12
"""Results and traces that are kept; all tabs share them, as equal points have equal results."""


@dataclass(frozen=True, eq=False)
class SimulatedPoint:
    """A simulated design point.

    Attributes:
        report: What was found.
        traces: What was decoded.
    """

    report: Report
    traces: tuple[Trace, ...]

    @property
    def design(self) -> Design:
        """The resolved design."""
        return self.report.design

    @cached_property
    def run(self) -> StoredRun:
        """The same as a run that was stored."""
        return stored_run(self.report)

    @cached_property
    def curve(self) -> tuple[CurvePoint, ...]:
        """Traces of the same video, captured at other thresholds, on this design."""
        design, own = self.design, self.traces[0].meta
        if own.made_up or own.never_replays:
            return ()
        found = []
        machines = Machines("fluid")
        for trace in _family(self.traces[0]):
            design_of = design.model_copy(
                update={"policy": design.policy.model_copy(update={"tau": "captured"})}
            )
            try:
                row, dense_s = _row(machines, design_of, trace)
            except InputError:  # too few rows for the batch: a point less
                continue
            loss = trace.meta.quality.loss if trace.meta.quality else None
            found.append(
                CurvePoint(
                    name=trace.name.removesuffix(".npz"),
                    tau=min(tau for tau in trace.meta.tau_per_layer if tau is not None),
                    replay=row.replay_eligible,
                    speedup=dense_s / row.latency_s,
                    loss=None if loss is None else (loss.mean, loss.low, loss.high),
                )
            )
        return tuple(sorted(found, key=lambda each: each.tau))


def point_of(state: TabState, reach: Reach) -> SimulatedPoint:
    """Simulate a state, or find what was found before.

    Args:
        state: The state.
        reach: Files that may be read.

    Raises:
        InputError: A design, a change or a trace that cannot be used.
    """
    files = [reach.design(state.design, state.changes)]
    files += [reach.trace(state.trace)] if state.trace else []
    return _point(state.point.query, tuple((str(path), _changed(path)) for path in files))


def value_of(design: Design, path: str) -> Any:
    """The value of a field of a design by its dotted path; None where there is none."""
    found: Any = design
    for part in path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else getattr(found, part, None)
    return found


def base_of(state: TabState) -> Design:
    """The design of a state without its changes, but for the presets that they name.

    Only for a state that was simulated, and so may be read.

    Raises:
        InputError: It needs the changes.
    """
    presets = (f"{path}={value}" for path, value in state.changes.items() if path in PRESET_PATHS)
    work = workload_of(state.work) if state.work else None
    return open_design(state.design, tuple(presets), work)


# -------------------------------------------------------------------- private


@lru_cache(maxsize=KEPT_POINTS)
def _point(query: str, files: tuple[tuple[str, int], ...]) -> SimulatedPoint:
    """The point of a query; files with the time of their last change make it a new one."""
    state = TabState.of_query(query, "")
    given = [_trace(*files[1])] if state.trace else []
    work = workload_of(state.work) if state.work else None
    design = open_design(state.design, state.overrides, work)
    traces = tuple(sources_of(design, given, work).traces)
    report = simulate(design, traces, allow_misfit=True, what_if=False)
    return SimulatedPoint(report, traces)


@lru_cache(maxsize=KEPT_TRACES)
def _trace(path: str, changed: int) -> Trace:
    return load_trace(path)


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0  # opening it says what is wrong


@lru_cache(maxsize=4)
def _family(trace: Trace) -> list[Trace]:
    """Shipped traces that differ from one in nothing but their threshold and number of rows."""
    names = shipped_traces()
    others = (_trace(str(path), _changed(path)) for path in map(trace_path, names))

    def key(of: Trace) -> tuple[Any, ...]:
        meta = of.meta
        shape = meta.n_frames, meta.tokens_per_frame, meta.prompt_tokens, of.n_layers
        return (*shape, meta.attention, meta.rule, meta.decision_scope, meta.weights, meta.mode)

    found = {
        each.sha256: each
        for each in others
        if not each.meta.made_up and not each.meta.never_replays and key(each) == key(trace)
    }
    thresholds: dict[Any, Trace] = {}
    for each in (trace, *found.values()):
        thresholds.setdefault(each.meta.tau_per_layer, each)
    return list(thresholds.values())


def _row(machines: Machines, design: Design, trace: Trace) -> tuple[RowResult, float]:
    """A design's own policy on a trace, and seconds of dense decoding."""
    sources = sources_of(design, [trace])
    video = sources.video
    fit = fit_of(design, sources, video)
    row = machines.row(design, sources, video, fit, replays=True)
    return row, machines.dense_latency_s(design, video, fit)

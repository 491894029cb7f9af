"""A window of a timeline: who works on what, track by track."""

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from carsim.base.errors import InputError
from carsim.base.files import read_json
from carsim.base.text import count
from carsim.report.figures.breakdown import LOOKS
from carsim.report.figures.plot import Panel, Plot, Series
from carsim.runs.timeline import PHASES, STEPS, TrackSlice, record_timeline

if TYPE_CHECKING:
    from carsim.machine.row import RowResult

TIMELINE = "timeline.json"
MAX_BYTES = 500_000_000
LAYERS = ("layer 0:", "layer 1:")
"""Phases that are shown."""


def timeline_plot(folder: Path) -> Plot:
    """Bars of time on every track in the first two layers of a stored timeline.

    Args:
        folder: A run's folder with a timeline.

    Raises:
        InputError: The folder holds no timeline, or a broken one.
    """
    path = folder / TIMELINE
    try:
        cure = "run again with a short timeline, such as --timeline 0:2"
        document = read_json(path, MAX_BYTES, cure)
        events = [event for event in document["traceEvents"] if event["ph"] == "X"]
        spans = [TrackSlice(event["cat"], event["name"], **event["args"]) for event in events]
        per_ms = 1e3 * document["otherData"]["clock_mhz"]
        window = 0.0, _end(spans, LAYERS) / per_ms
        return _drawn(spans, per_ms, "ms", window, str(document["otherData"]["title"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(str(path), "is broken", "run again with `overwrite`") from error


def layer_plot(row: "RowResult", step: int, layer: int) -> Plot:
    """One layer of one step of the first batch, in microseconds from its start.

    Args:
        row: A simulated row of a comparison.
        step: The step.
        layer: The layer.

    Raises:
        InputError: No such step.
    """
    spans = record_timeline(row, step, step + 1).slices
    per_us = float(row.design.board.fabric_clock_mhz)
    start = _end(spans, tuple(f"layer {each}:" for each in range(layer))) if layer else 0
    replaying = row.batches.replay[0, step, layer]
    title = f"step {step}, layer {layer}: {count(int((~replaying).sum()), 'sequence')} compute, "
    title += f"{int(replaying.sum())} replay"
    window = start / per_us, _end(spans, (f"layer {layer}:",)) / per_us
    return _drawn(spans, per_us, "us", window, title)


def mixed_layer(row: "RowResult", step: int) -> int:
    """The layer of a step whose sequences differ most: nearest to half of them replay."""
    return int(np.abs(row.batches.replay[0, step].mean(axis=-1) - 0.5).argmin())


def _end(spans: Sequence[TrackSlice], names: tuple[str, ...]) -> int:
    """End of the first step's phases whose names begin so, cycles; of all if there are none."""
    step_end = min(span.end_cycle for span in spans if span.track == STEPS)
    phases = [s for s in spans if s.track == PHASES and s.end_cycle <= step_end]
    return max((s.end_cycle for s in phases if s.name.startswith(names)), default=step_end)


def _drawn(
    spans: Sequence[TrackSlice], per_unit: float, unit: str, window: tuple[float, float], title: str
) -> Plot:
    """Bars of the spans within a window; tracks that repeat what others do are left out."""
    first, last = window
    shown = [
        (span.track, span.name, max(start, first), min(end, last))
        for span in spans
        for start, end in [(span.start_cycle / per_unit, span.end_cycle / per_unit)]
        if start < last and end > first and span.track not in (STEPS, PHASES)
    ]
    tracks = list(dict.fromkeys(track for track, *_ in shown))
    series = []
    names = dict.fromkeys(name for _, name, *_ in shown)
    for name, (colour, hatch) in zip(names, cycle(LOOKS), strict=False):
        own = [(tracks.index(track), a, b) for track, each, a, b in shown if each == name]
        lines, starts, ends = zip(*own, strict=True)
        hover = [f"{name}: {a:.6g} to {b:.6g} {unit}" for a, b in zip(starts, ends, strict=True)]
        series.append(Series(name, ends, lines, "bar", colour, starts, hover=hover, hatch=hatch))
    panel = Panel(f"time [{unit}]", tuple(series), categories=tuple(tracks), x_range=window)
    height = 1.6 + 0.28 * len(tracks)
    return Plot(title, (panel,), alt="Work over time, by track", size_in=(10.0, height), shares="y")

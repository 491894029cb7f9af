"""A window of a stored timeline: who works on what, track by track."""

import json
from itertools import cycle, takewhile
from pathlib import Path
from typing import Any

from carsim.base.errors import InputError
from carsim.base.files import read_text
from carsim.report.figures.breakdown import LOOKS
from carsim.report.figures.plot import Panel, Plot, Series

TIMELINE = "timeline.json"
MAX_BYTES = 500_000_000
LAYERS = ("layer 0:", "layer 1:")
"""Phases that are shown if no window is given."""
SUMMARIES = ("steps", "phases")
"""Tracks that repeat what others do."""


def timeline_plot(folder: Path, window_ms: tuple[float, float] | None = None) -> Plot:
    """Bars of time on every track.

    Args:
        folder: A run's folder with a timeline.
        window_ms: Ends of the window, milliseconds from the start of the timeline; the first two
            layers if not given.

    Raises:
        InputError: The folder holds no timeline, or a broken one, or nothing is in the window.
    """
    path = folder / TIMELINE
    if not path.exists():
        raise InputError(str(folder), f"holds no {TIMELINE}", "run again with --timeline 0:2")
    try:
        document = json.loads(read_text(path, MAX_BYTES, "take a shorter timeline"))
        slices = [event for event in document["traceEvents"] if event["ph"] == "X"]
        spans = [(event["ts"] / 1e3, (event["ts"] + event["dur"]) / 1e3) for event in slices]
        if window_ms is None:
            phases = [
                (event["name"], end)
                for event, (_, end) in zip(slices, spans, strict=True)
                if event["cat"] == "phases"
            ]
            ends = [end for _, end in takewhile(lambda phase: phase[0].startswith(LAYERS), phases)]
            window_ms = 0.0, max(ends, default=max(end for _, end in spans))
        return _drawn(slices, spans, window_ms, str(document["otherData"]["title"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(str(path), "is broken", "run again with `overwrite`") from error


def _drawn(
    slices: list[dict[str, Any]],
    spans: list[tuple[float, float]],
    window_ms: tuple[float, float],
    title: str,
) -> Plot:
    first, last = window_ms
    shown = [
        (event["cat"], event["name"], max(start, first), min(end, last))
        for event, (start, end) in zip(slices, spans, strict=True)
        if start < last and end > first and event["cat"] not in SUMMARIES
    ]
    if not shown:
        problem = f"holds nothing from {first:g} to {last:g} ms"
        raise InputError(TIMELINE, problem, "take another window")
    tracks = list(dict.fromkeys(track for track, *_ in shown))
    series = []
    names = dict.fromkeys(name for _, name, *_ in shown)
    for name, (colour, hatch) in zip(names, cycle(LOOKS), strict=False):
        own = [(tracks.index(track), a, b) for track, each, a, b in shown if each == name]
        lines, starts, ends = zip(*own, strict=True)
        series.append(Series(name, ends, lines, "bar", colour, starts, hatch=hatch))
    panel = Panel("ms", tuple(series), categories=tuple(tracks), x_range=window_ms)
    height = 1.0 + 0.28 * len(tracks)
    return Plot(title, (panel,), alt="Work over time, by track", size_in=(10.0, height), shares="y")

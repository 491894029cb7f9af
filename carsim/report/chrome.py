"""A timeline as Chrome trace JSON, which https://ui.perfetto.dev and chrome://tracing open.

Format: "Trace Event Format", complete events (``ph`` X) and metadata (M). Times are
microseconds there; every boundary is rounded to a nanosecond once, so that slices that meet in a
cycle still meet. Perfetto truncates to nanoseconds, and most decimal fractions of a microsecond are
not exact in binary: half a nanosecond is added to every start, so that it truncates to what is
meant.
"""

from collections.abc import Mapping
from typing import Any

from carsim.runs.timeline import Timeline

PROCESS = 1
"""Everything is one process; each track is one of its threads."""


def chrome_trace(
    timeline: Timeline, clock_mhz: float, title: str, facts: Mapping[str, Any]
) -> dict[str, Any]:
    """The document to be written as JSON.

    Args:
        timeline: What was recorded.
        clock_mhz: Clock of its cycles.
        title: Name of the process in the viewer.
        facts: What the timeline is of; kept under ``otherData``.

    Returns:
        ``traceEvents`` (metadata first, then slices by start) and ``otherData``.
    """
    tracks = {track: 1 + i for i, track in enumerate(timeline.tracks)}

    def nanoseconds(cycle: int) -> int:
        return round(cycle * 1000 / clock_mhz)

    events = [_event("M", "process_name", {"name": title}, tid=0)]
    for track, thread in tracks.items():
        events.append(_event("M", "thread_name", {"name": track}, tid=thread))
        events.append(_event("M", "thread_sort_index", {"sort_index": thread}, tid=thread))
    for piece in sorted(timeline.slices, key=lambda piece: (piece.start_cycle, -piece.end_cycle)):
        start, end = nanoseconds(piece.start_cycle), nanoseconds(piece.end_cycle)
        cycles = {"start_cycle": piece.start_cycle, "end_cycle": piece.end_cycle}
        times = {"ts": (start + 0.5) / 1000, "dur": (end - start) / 1000}
        where = {"cat": piece.track, "tid": tracks[piece.track]}
        events.append(_event("X", piece.name, cycles, **where, **times))
    return {
        "displayTimeUnit": "ns",
        "otherData": {"title": title, "cycles": timeline.cycles, "clock_mhz": clock_mhz, **facts},
        "traceEvents": events,
    }


def _event(kind: str, name: str, args: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"ph": kind, "name": name, "pid": PROCESS, **more, "args": args}

"""Timelines as Chrome trace JSON, which https://ui.perfetto.dev and chrome://tracing open.

Format: "Trace Event Format", complete events (``ph`` X), flow events (s and f), counters (C) and
metadata (M). Each policy is a process, and each track one of its threads; all begin at time 0.
Times are microseconds there; every boundary is rounded to a nanosecond once, so that slices that
meet in a cycle still meet. Perfetto truncates to nanoseconds, and most decimal fractions of a
microsecond are not exact in binary: half a nanosecond is added to every start, so that it truncates
to what is meant.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from carsim.base.errors import InputError
from carsim.runs.played_phase import Arrow
from carsim.runs.timeline import Timeline, TrackSlice

DETAILS = ("kind", "is_busy", "layer", "sequences", "decision", "operand", "tiles", "note")
"""Fields of a slice that are written if they say something."""

FLOW_ID_STRIDE = 1 << 32
"""Identifiers of the arrows of a policy begin at its number times this."""

Event = dict[str, Any]


def chrome_trace(
    timelines: Mapping[str, Timeline], clock_mhz: float, title: str, facts: Mapping[str, Any]
) -> dict[str, Any]:
    """The document to be written as JSON.

    Args:
        timelines: What was recorded, by the names of the policies.
        clock_mhz: Clock of its cycles.
        title: What the timelines are of.
        facts: More about them; kept under ``otherData``.

    Returns:
        ``traceEvents`` (for each policy metadata first, then slices by start, arrows and counters)
        and ``otherData``.
    """
    events: list[Event] = []
    for number, (policy, timeline) in enumerate(timelines.items(), start=1):
        events += _Process(number, clock_mhz).events(policy, timeline)
    cycles = {policy: timeline.cycles for policy, timeline in timelines.items()}
    return {
        "displayTimeUnit": "ns",
        "otherData": {"title": title, "cycles": cycles, "clock_mhz": clock_mhz, **facts},
        "traceEvents": events,
    }


def read_timelines(document: Mapping[str, Any], place: str) -> dict[str, Timeline]:
    """Slices and arrows of a document, in cycles, by the names of the policies.

    Args:
        document: What :func:`chrome_trace` has returned.
        place: Its name in errors.

    Raises:
        InputError: It is broken.
    """
    try:
        slices: dict[int, list[TrackSlice]] = {}
        arrows: dict[int, list[Arrow]] = {}
        arrow_starts: dict[int, Event] = {}
        names: dict[int, str] = {}
        tracks: dict[int, dict[str, None]] = {}  # in order, each track once
        for event in document["traceEvents"]:
            process = event["pid"]
            match event["ph"]:
                case "M" if event["name"] == "process_name":
                    names[process] = str(event["args"]["name"])
                case "M" if event["name"] == "thread_name":
                    tracks.setdefault(process, {})[str(event["args"]["name"])] = None
                case "X":
                    slices.setdefault(process, []).append(_slice_of(event))
                case "s":
                    arrow_starts[event["id"]] = event
                case "f":
                    arrow = _arrow_of(arrow_starts[event["id"]], event)
                    arrows.setdefault(process, []).append(arrow)
        timelines = {}
        for process, of_process in slices.items():
            timelines[names[process]] = Timeline(
                cycles=max(piece.end_cycle for piece in of_process),
                tracks=tuple(tracks[process]),
                slices=tuple(of_process),
                arrows=tuple(arrows.get(process, ())),
            )
        return timelines
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(place, "is broken", "run again with `overwrite`") from error


class _Process:
    """The events of one policy.

    Args:
        number: Number of the process.
        clock_mhz: Clock of the cycles.
    """

    def __init__(self, number: int, clock_mhz: float) -> None:
        self._number = number
        self._clock_mhz = clock_mhz

    def events(self, policy: str, timeline: Timeline) -> Iterable[Event]:
        """All events of a timeline."""
        thread_of = {track: thread for thread, track in enumerate(timeline.tracks, start=1)}
        yield self._metadata("process_name", {"name": policy}, thread=0)
        yield self._metadata("process_sort_index", {"sort_index": self._number}, thread=0)
        for track, thread in thread_of.items():
            yield self._metadata("thread_name", {"name": track}, thread)
            yield self._metadata("thread_sort_index", {"sort_index": thread}, thread)
        # Of slices that start together, the longest encloses the others, and comes first.
        for piece in sorted(timeline.slices, key=lambda s: (s.start_cycle, -s.end_cycle)):
            yield self._slice(piece, thread_of[piece.track])
        first_id = self._number * FLOW_ID_STRIDE
        for flow_id, arrow in enumerate(timeline.arrows, start=first_id):
            yield self._arrow_start(arrow, flow_id, thread_of[arrow.from_track])
            yield self._arrow_end(arrow, flow_id, thread_of[arrow.to_track])
        for rate in timeline.memory_rates:
            yield self._counter(f"{rate.memory} GB/s", rate.gbps, rate.start_cycle)
        for counted in timeline.counts:
            yield self._counter(counted.name, counted.number, counted.start_cycle)

    def _nanoseconds(self, cycle: int) -> int:
        """Time of a cycle's begin."""
        return round(cycle * 1000 / self._clock_mhz)

    def _us(self, cycle: int) -> float:
        """Time of a cycle's begin in microseconds, which Perfetto truncates to nanoseconds."""
        return (self._nanoseconds(cycle) + 0.5) / 1000

    def _metadata(self, name: str, args: Mapping[str, Any], thread: int) -> Event:
        """A fact about the process or about one of its threads."""
        return {"ph": "M", "name": name, "pid": self._number, "tid": thread, "args": args}

    def _slice(self, piece: TrackSlice, thread: int) -> Event:
        """A slice as a complete event."""
        start_ns = self._nanoseconds(piece.start_cycle)
        end_ns = self._nanoseconds(piece.end_cycle)
        return {
            "ph": "X",
            "name": piece.name,
            "pid": self._number,
            "cat": piece.track,
            "tid": thread,
            "ts": self._us(piece.start_cycle),
            "dur": (end_ns - start_ns) / 1000,
            "args": _details(piece),
        }

    def _arrow_start(self, arrow: Arrow, flow_id: int, thread: int) -> Event:
        """The start of an arrow, on its first track."""
        return {
            "ph": "s",
            "name": arrow.name,
            "pid": self._number,
            "ts": self._us(arrow.from_cycle),
            "tid": thread,
            "args": {"cycle": arrow.from_cycle},
            "id": flow_id,
            "cat": arrow.from_track,
        }

    def _arrow_end(self, arrow: Arrow, flow_id: int, thread: int) -> Event:
        """The end of an arrow, on its second track; it binds to the slice that encloses it."""
        return {
            "ph": "f",
            "name": arrow.name,
            "pid": self._number,
            "ts": self._us(arrow.to_cycle),
            "tid": thread,
            "args": {"cycle": arrow.to_cycle},
            "id": flow_id,
            "cat": arrow.to_track,
            "bp": "e",
        }

    def _counter(self, name: str, value: float, cycle: int) -> Event:
        """A number that holds from a cycle on."""
        return {
            "ph": "C",
            "name": name,
            "pid": self._number,
            "ts": self._us(cycle),
            "args": {"value": value},
        }


def _details(piece: TrackSlice) -> dict[str, Any]:
    """Cycles of a slice, and fields that say something."""
    details: dict[str, Any] = {"start_cycle": piece.start_cycle, "end_cycle": piece.end_cycle}
    for name in DETAILS:
        value = getattr(piece, name)
        if name == "is_busy" and not value:
            continue
        if value not in ("", (), -1):
            details[name] = value
    return details


def _slice_of(event: Event) -> TrackSlice:
    """The slice of a complete event."""
    details = dict(event["args"])
    for name in ("sequences", "tiles"):
        details[name] = tuple(map(int, details.get(name, ())))
    return TrackSlice(track=str(event["cat"]), name=str(event["name"]), **details)


def _arrow_of(start: Event, end: Event) -> Arrow:
    """The arrow between its two events."""
    return Arrow(
        str(end["name"]),
        str(start["cat"]),
        from_cycle=int(start["args"]["cycle"]),
        to_track=str(end["cat"]),
        to_cycle=int(end["args"]["cycle"]),
    )

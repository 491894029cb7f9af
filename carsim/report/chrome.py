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
        begun: dict[int, Event] = {}
        names: dict[int, str] = {}
        tracks: dict[int, dict[str, None]] = {}
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
                    begun[event["id"]] = event
                case "f":
                    arrow = _arrow_of(begun[event["id"]], event)
                    arrows.setdefault(process, []).append(arrow)
        return {
            names[process]: Timeline(
                cycles=max(piece.end_cycle for piece in of_process),
                tracks=tuple(tracks[process]),
                slices=tuple(of_process),
                arrows=tuple(arrows.get(process, ())),
            )
            for process, of_process in slices.items()
        }
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
        threads = {track: 1 + place for place, track in enumerate(timeline.tracks)}
        yield self._event("M", "process_name", {"name": policy}, tid=0)
        yield self._event("M", "process_sort_index", {"sort_index": self._number}, tid=0)
        for track, thread in threads.items():
            yield self._event("M", "thread_name", {"name": track}, tid=thread)
            yield self._event("M", "thread_sort_index", {"sort_index": thread}, tid=thread)
        for piece in sorted(timeline.slices, key=lambda each: (each.start_cycle, -each.end_cycle)):
            start, end = (self._nanoseconds(at) for at in (piece.start_cycle, piece.end_cycle))
            times = {"ts": (start + 0.5) / 1000, "dur": (end - start) / 1000}
            where = {"cat": piece.track, "tid": threads[piece.track]}
            yield self._event("X", piece.name, _details(piece), **where, **times)
        first = self._number * FLOW_ID_STRIDE
        for number, arrow in enumerate(timeline.arrows, start=first):
            yield self._flow("s", arrow, number, threads[arrow.from_track], arrow.from_cycle)
            yield self._flow("f", arrow, number, threads[arrow.to_track], arrow.to_cycle)
        for rate in timeline.memory_rates:
            name = f"{rate.memory} GB/s"
            yield self._event("C", name, {"value": rate.gbps}, ts=self._us(rate.start_cycle))
        for counted in timeline.counts:
            value = {"value": counted.number}
            yield self._event("C", counted.name, value, ts=self._us(counted.start_cycle))

    def _nanoseconds(self, cycle: int) -> int:
        return round(cycle * 1000 / self._clock_mhz)

    def _us(self, cycle: int) -> float:
        return (self._nanoseconds(cycle) + 0.5) / 1000

    def _flow(self, kind: str, arrow: Arrow, number: int, thread: int, cycle: int) -> Event:
        event = self._event(kind, arrow.name, {"cycle": cycle}, ts=self._us(cycle), tid=thread)
        track = arrow.from_track if kind == "s" else arrow.to_track
        event |= {"id": number, "cat": track}
        return event | ({"bp": "e"} if kind == "f" else {})

    def _event(self, kind: str, name: str, args: Mapping[str, Any], **more: Any) -> Event:
        return {"ph": kind, "name": name, "pid": self._number, **more, "args": args}


def _details(piece: TrackSlice) -> dict[str, Any]:
    """Cycles of a slice, and fields that say something."""
    told = {name: getattr(piece, name) for name in DETAILS}
    said = {name: value for name, value in told.items() if value not in ("", (), -1)}
    if not piece.is_busy:
        del said["is_busy"]
    return {"start_cycle": piece.start_cycle, "end_cycle": piece.end_cycle, **said}


def _slice_of(event: Event) -> TrackSlice:
    given = dict(event["args"])
    for name in ("sequences", "tiles"):
        given[name] = tuple(map(int, given.get(name, ())))
    return TrackSlice(str(event["cat"]), str(event["name"]), **given)


def _arrow_of(start: Event, end: Event) -> Arrow:
    return Arrow(
        str(end["name"]),
        str(start["cat"]),
        from_cycle=int(start["args"]["cycle"]),
        to_track=str(end["cat"]),
        to_cycle=int(end["args"]["cycle"]),
    )

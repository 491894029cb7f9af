"""One layer-step as a picture: who works on what, who waits for whom, policies above each other."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from carsim.base.errors import InputError
from carsim.base.files import read_json
from carsim.base.text import Figure, Table, count
from carsim.report.chrome import read_timelines
from carsim.report.figures import style
from carsim.report.figures.looks import LOOKS, category_of, look_of
from carsim.report.figures.plot import Panel, Plot, Series
from carsim.runs.played_phase import Arrow
from carsim.runs.timeline import (
    PHASES,
    STEPS,
    Timeline,
    TrackSlice,
    mixed_layer_step,
    record_layer_step,
)

if TYPE_CHECKING:
    from carsim.account.row import RowResult
    from carsim.runs.report import Report

TIMELINE = "timeline.json"
MAX_BYTES = 500_000_000

LEFT_OUT = (STEPS, PHASES, "DMA")
"""Beginnings of tracks that repeat what others show."""

LINE_IN = 0.28
"""Height of a track."""

LEAST_LABELLED = 0.03
"""Share of the picture that a slice must have for the numbers of its sequences."""

LEAST_ARROW = 0.02
"""Share of the picture that a wait must have for an arrow to what it waits for."""

MOST_WAITS = 8
"""Waits that the table lists."""

HINT = "A click on a slice explains it."


class LayerStep(NamedTuple):
    """One layer of one step under some policies, each from cycle 0.

    Attributes:
        step: The step.
        layer: The layer.
        timelines: By the names of the policies, the run's own first.
        clock_mhz: Clock of the cycles.
        source: The design, and what decided.
    """

    step: int
    layer: int
    timelines: Mapping[str, Timeline]
    clock_mhz: float
    source: str = ""


def compared_rows(report: "Report", names: Sequence[str] = ()) -> list["RowResult"]:
    """Rows whose timelines stand beside each other, the design's own first.

    Args:
        report: A run.
        names: Keys of rows, such as ``replay/static``, or schedules of the own policy, such as
            ``static``; empty for the own policy under every schedule that was simulated.

    Raises:
        InputError: No such row.
    """
    own = report.chosen
    simulated = [row for row in report.rows if not row.is_bound]
    siblings = {
        row.variant.schedule: row
        for row in simulated
        if row.variant.is_same(replace(own.variant, schedule=row.variant.schedule))
    }
    if not names:
        others = [row for row in siblings.values() if row is not own and own.variant.replays]
        return [own, *others]
    by_name = {row.variant.key: row for row in simulated} | siblings
    for name in names:
        if name not in by_name:
            cure = f"take {', '.join(by_name)}"
            raise InputError(f"`timeline` {name}", "is no policy of this run", cure)
    return [by_name[name] for name in dict.fromkeys(names)]


def record_layer(report: "Report", step: int | None = None, layer: int | None = None) -> LayerStep:
    """A layer-step of a run under its own policy, and under the other schedules of it.

    Args:
        report: A run.
        step: The step; None for one that replays, if any does.
        layer: The layer; None for that whose sequences differ most.

    Raises:
        InputError: No such step.
    """
    own = report.chosen
    if step is None:
        step, mixed = mixed_layer_step(own)
    else:
        _, mixed = mixed_layer_step(own, step, step + 1)
    layer = mixed if layer is None else layer
    timelines = {
        row.variant.name: record_layer_step(row, step, layer) for row in compared_rows(report)
    }
    clock_mhz = float(report.design.board.fabric_clock_mhz)
    return LayerStep(step, layer, timelines, clock_mhz=clock_mhz)


def stored_layer(folder: Path) -> LayerStep:
    """The layer-step of a stored timeline whose sequences differ most.

    Args:
        folder: A run's folder with a timeline.

    Raises:
        InputError: The folder holds no timeline, or a broken one.
    """
    path = folder / TIMELINE
    cure = "run again with a short timeline, such as --timeline 0:2"
    document = read_json(path, MAX_BYTES, cure)
    try:
        about = document["otherData"]
        clock_mhz = float(about["clock_mhz"])
        first_step = int(about["first_step"])
        source = str(about["title"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(str(path), "is broken", "run again with `overwrite`") from error
    timelines = read_timelines(document, str(path))
    own = next(iter(timelines.values()))
    sequences = {number for piece in own.slices for number in piece.sequences}

    places = [_phases_by_layer_step(timeline) for timeline in timelines.values()]
    if not places[0]:
        raise InputError(str(path), "is broken", "run again with `overwrite`")

    def interest(key: tuple[int, int]) -> tuple[int, float]:
        """Cycles between the policies, then how mixed the decisions are."""
        cycles = [sum(p.end_cycle - p.start_cycle for p in phases[key]) for phases in places]
        replaying = max(len(phase.sequences) for phase in places[0][key])
        return max(cycles) - min(cycles), -abs(replaying / max(1, len(sequences)) - 0.5)

    place, layer = max(places[0], key=interest)
    cut = {
        name: _cut(timeline, phases[place, layer])
        for (name, timeline), phases in zip(timelines.items(), places, strict=True)
    }
    return LayerStep(first_step + place, layer, cut, clock_mhz=clock_mhz, source=source)


def _phases_by_layer_step(timeline: Timeline) -> dict[tuple[int, int], list[TrackSlice]]:
    """Phases of each layer-step, by the number of the step in the timeline and the layer."""
    found: dict[tuple[int, int], list[TrackSlice]] = {}
    ends = [piece.end_cycle for piece in timeline.slices if piece.track == STEPS]
    for piece in timeline.slices:
        if piece.track == PHASES and piece.layer >= 0:
            place = bisect_left(ends, piece.end_cycle)
            found.setdefault((place, piece.layer), []).append(piece)
    return found


def _cut(timeline: Timeline, phases: Sequence[TrackSlice]) -> Timeline:
    """One layer-step of a timeline, from cycle 0.

    Args:
        timeline: The timeline.
        phases: The phases of the layer-step.
    """
    start = phases[0].start_cycle
    end = phases[-1].end_cycle
    slices = [
        piece._replace(
            start_cycle=max(0, piece.start_cycle - start), end_cycle=piece.end_cycle - start
        )
        for piece in timeline.slices
        if piece.start_cycle < end and piece.end_cycle > start
        if not piece.track.startswith(LEFT_OUT)
    ]
    arrows = [
        arrow._replace(from_cycle=arrow.from_cycle - start, to_cycle=arrow.to_cycle - start)
        for arrow in timeline.arrows
        if start <= arrow.from_cycle and arrow.to_cycle < end
    ]
    tracks = tuple(track for track in timeline.tracks if not track.startswith(LEFT_OUT))
    return Timeline(end - start, tracks, tuple(slices), arrows=tuple(arrows))


def layer_plot(step: LayerStep) -> Plot:
    """Bars of time on every track, a panel per policy on one time axis, and arrows."""
    window = 0.0, max(each.cycles for each in step.timelines.values()) / step.clock_mhz
    panels = []
    for policy, timeline in step.timelines.items():
        used = {piece.track for piece in timeline.slices}
        tracks = [
            track
            for track in timeline.tracks
            if not track.startswith(LEFT_OUT) and (track in used or track.startswith("core"))
        ]
        series = [*_bars(timeline, tracks, step.clock_mhz)]
        series += _arrows(timeline, tracks, step.clock_mhz)
        panels.append(
            Panel(
                "time [us]",
                tuple(series),
                policy,
                categories=tuple(tracks),
                x_range=window,
                share=float(len(tracks)),
            )
        )
    lines = sum(len(panel.categories) for panel in panels)
    return Plot(
        _title(step),
        tuple(panels),
        alt="Work and waits over time, by policy and track",
        caption=f"{_durations(step)} Grey: waits. Numbers: the sequences that a core computes."
        f"{_unplayed(step)}",
        hint=HINT,
        keeps_title=True,
        size_in=(10.0, 1.8 + LINE_IN * lines),
        shares="x",
    )


def _durations(step: LayerStep) -> str:
    """What the layer-step takes under each policy, in a sentence."""
    own_cycles = next(iter(step.timelines.values())).cycles
    texts = []
    for policy, timeline in step.timelines.items():
        time_us = timeline.cycles / step.clock_mhz
        change = timeline.cycles / own_cycles - 1
        more = f" ({100 * change:+.1f} %)" if timeline.cycles != own_cycles else ""
        texts.append(f"{time_us:,.4g} us under {policy}{more}")
    return f"The layer-step takes {' and '.join(texts)}."


def _unplayed(step: LayerStep) -> str:
    """A sentence on blocks whose tiles are too many; empty if there are none."""
    titles = [title for timeline in step.timelines.values() for title in timeline.unplayed]
    if not titles:
        return ""
    names = ", ".join(dict.fromkeys(titles))
    return f" Too many tiles to be shown one by one, at fidelity fluid: {names}."


def _title(step: LayerStep) -> str:
    own = next(iter(step.timelines.values()))
    decided = {"computes": set[int](), "replays": set[int]()}
    for piece in own.slices:
        if piece.decision:
            decided[piece.decision].update(piece.sequences)
    replaying = decided["replays"] - decided["computes"]
    title = f"step {step.step}, layer {step.layer}"
    if not decided["computes"] and not replaying:
        return f"{title}: no sequence replays"
    computing = count(len(decided["computes"]), "sequence computes", "sequences compute")
    return f"{title}: {computing}, {len(replaying)} replay"


def _leaves(timeline: Timeline) -> Iterator[TrackSlice]:
    """Slices that enclose no others."""
    return (piece for piece in timeline.slices if piece.kind)


def _bars(timeline: Timeline, tracks: Sequence[str], per_us: float) -> Iterator[Series]:
    """A series of bars for each category.

    Args:
        timeline: The timeline of a policy.
        tracks: Tracks that are shown, from the top down.
        per_us: Cycles per microsecond.
    """
    place_of = {track: place for place, track in enumerate(tracks)}
    labels = _labels(timeline)
    shown = [
        piece for piece in _leaves(timeline) if piece.track in place_of and piece.end_cycle > 0
    ]
    categories = {category_of(piece.kind) for piece in shown}
    for category in filter(categories.__contains__, [*LOOKS, *sorted(categories - {*LOOKS})]):
        bars = [piece for piece in shown if category_of(piece.kind) == category]
        look = look_of(category)
        yield Series(
            category,
            [piece.end_cycle / per_us for piece in bars],
            [place_of[piece.track] for piece in bars],
            "bar",
            look.colour,
            base=[max(0, piece.start_cycle) / per_us for piece in bars],
            text=[labels.get(piece, "") for piece in bars],
            hover=[told(piece, per_us) for piece in bars],
            hatch=look.hatch,
            inside=True,
        )


def _labels(timeline: Timeline) -> dict[TrackSlice, str]:
    """Sequences that a core computes, at the longest slice of each choice of them.

    They stand in blocks that replaying sequences skip: in all others, each sequence computes.
    """
    longest: dict[tuple[str, tuple[int, ...]], TrackSlice] = {}
    for piece in _leaves(timeline):
        if not (piece.is_busy and piece.decision and piece.track.startswith("core")):
            continue
        key = piece.track, tuple(piece.sequences)
        known = longest.get(key)
        if known is None or _cycles(piece) > _cycles(known):
            longest[key] = piece
    least = LEAST_LABELLED * timeline.cycles
    return {
        piece: ", ".join(map(str, piece.sequences))
        for piece in longest.values()
        if _cycles(piece) >= least
    }


def _cycles(piece: TrackSlice) -> int:
    return piece.end_cycle - piece.start_cycle


def told(piece: TrackSlice, per_us: float) -> str:
    """What a slice is, in words."""
    cycles = piece.end_cycle - piece.start_cycle
    start_us = piece.start_cycle / per_us
    when = f"{start_us:.6g} to {piece.end_cycle / per_us:.6g} us"
    if piece.note and not piece.is_busy:
        return f"{piece.note} ({when})"
    of = [f"layer {piece.layer}"] if piece.layer >= 0 else []
    if piece.sequences:
        of.insert(0, f"sequence {', '.join(map(str, piece.sequences))} {piece.decision}".strip())
    about = f" ({', '.join(of)})" if of else ""
    note = f"; {piece.note}" if piece.note else ""
    return f"{piece.track}: {piece.name}{about}, {cycles:,} cycles, {when}{note}"


def _arrows(timeline: Timeline, tracks: Sequence[str], per_us: float) -> Iterator[Series]:
    """A series of arrows for instructions, and one for long waits.

    Args:
        timeline: The timeline of a policy.
        tracks: Tracks that are shown, from the top down.
        per_us: Cycles per microsecond.
    """
    place_of = {track: place for place, track in enumerate(tracks)}
    for name, label, colour in (
        ("instructions", "instructions to a core", style.PURPLE),
        ("waits for", "to what is waited for", style.BLACK),
    ):
        x: list[float | None] = []
        y: list[float | None] = []
        hover: list[str] = []
        for arrow in _long(timeline, name):
            if arrow.from_track not in place_of or arrow.to_track not in place_of:
                continue
            x += [arrow.from_cycle / per_us, arrow.to_cycle / per_us, None]
            y += [place_of[arrow.from_track], place_of[arrow.to_track], None]
            hover += [f"{arrow.from_track}: {name} {arrow.to_track}"] * 3
        if x:
            yield Series(label, x, y, "arrows", colour, hover=hover)


def _long(timeline: Timeline, name: str) -> Iterator[Arrow]:
    """Arrows of a name, but for those from short waits."""
    ends = {
        (piece.track, piece.start_cycle): piece.end_cycle
        for piece in _leaves(timeline)
        if not piece.is_busy
    }
    for arrow in timeline.arrows:
        if arrow.name != name:
            continue
        end = ends.get((arrow.from_track, arrow.from_cycle), arrow.from_cycle)
        cycles = end - arrow.from_cycle
        if name == "instructions" or cycles >= LEAST_ARROW * timeline.cycles:
            yield arrow


def waits_table(step: LayerStep) -> Table:
    """The longest waits of cores, by policy: for what, microseconds and cycles.

    Waits of a core for the same, such as for another core at each group of tiles, are added up.
    """
    cycles_of: Counter[tuple[str, str]] = Counter()
    for policy, timeline in step.timelines.items():
        for piece in _leaves(timeline):
            is_wait = piece.note and not piece.is_busy and piece.kind != "exchange"
            if is_wait and piece.track.startswith("core"):
                cycles = piece.end_cycle - piece.start_cycle
                what = piece.note.replace(f" {cycles:,} cycles", "", 1)
                cycles_of[policy, what] += cycles
    rows = [
        (policy, what, *_time_of(cycles, step.clock_mhz))
        for (policy, what), cycles in cycles_of.most_common(MOST_WAITS)
    ]
    title = f"The longest waits, step {step.step}, layer {step.layer}"
    headings = ("policy", "what happens", "time [us]", "cycles")
    return Table(headings, tuple(rows), title=title, text_columns=2)


def _time_of(cycles: int, per_us: float) -> tuple[Figure, Figure]:
    """A time as two figures of a table: in microseconds, as on the axis of the figure, and cycles.

    Args:
        cycles: The time.
        per_us: Cycles per microsecond.
    """
    time_us = cycles / per_us
    return Figure(f"{time_us:,.4g}", time_us), Figure(f"{cycles:,}", float(cycles))

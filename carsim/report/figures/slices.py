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

Phases = dict[tuple[int, int], list[TrackSlice]]
"""Step, counted from the first of a timeline, and layer -> slices of the phases."""

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
    chosen = report.chosen
    simulated = [row for row in report.rows if not row.is_bound]
    row_of_schedule: dict[str, RowResult] = {}
    for row in simulated:
        rescheduled = replace(chosen.variant, schedule=row.variant.schedule)
        if row.variant.is_same(rescheduled):
            row_of_schedule[row.variant.schedule] = row
    if not names:
        rows = [chosen]
        if chosen.variant.replays:
            rows += [row for row in row_of_schedule.values() if row is not chosen]
        return rows
    by_name = {row.variant.key: row for row in simulated} | row_of_schedule
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
    if step is None:
        step, mixed_layer = mixed_layer_step(report.chosen)
    else:
        _, mixed_layer = mixed_layer_step(report.chosen, step, step + 1)
    if layer is None:
        layer = mixed_layer
    timelines = {}
    for row in compared_rows(report):
        timelines[row.variant.name] = record_layer_step(row, step, layer)
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
    phases_of_policy = {}
    for policy, timeline in timelines.items():
        phases_of_policy[policy] = _phases_by_layer_step(timeline)
    own = next(iter(timelines))
    if not phases_of_policy[own]:
        raise InputError(str(path), "is broken", "run again with `overwrite`")
    sequences = {number for piece in timelines[own].slices for number in piece.sequences}
    step, layer = _most_different(list(phases_of_policy.values()), len(sequences))
    cut = {}
    for policy, timeline in timelines.items():
        cut[policy] = _cut(timeline, phases_of_policy[policy][step, layer])
    return LayerStep(first_step + step, layer, cut, clock_mhz=clock_mhz, source=source)


def _most_different(phases_of_policies: Sequence[Phases], sequences: int) -> tuple[int, int]:
    """Step and layer whose cycles differ most between policies.

    Of equal ones, that in which most nearly half of the sequences replay.

    Args:
        phases_of_policies: Phases of each policy, the run's own first.
        sequences: Sequences of the batch.
    """

    def rank(layer_step: tuple[int, int]) -> tuple[int, float]:
        """Cycles between the policies, then how mixed the decisions are."""
        cycles = [sum(map(_cycles, phases[layer_step])) for phases in phases_of_policies]
        replaying = max(len(phase.sequences) for phase in phases_of_policies[0][layer_step])
        replaying_share = replaying / max(1, sequences)
        return max(cycles) - min(cycles), -abs(replaying_share - 0.5)

    return max(phases_of_policies[0], key=rank)


def _phases_by_layer_step(timeline: Timeline) -> Phases:
    """Phases of each layer-step, by the number of the step in the timeline and the layer."""
    phases: Phases = {}
    step_ends = [piece.end_cycle for piece in timeline.slices if piece.track == STEPS]
    for piece in timeline.slices:
        if piece.track == PHASES and piece.layer >= 0:
            step = bisect_left(step_ends, piece.end_cycle)
            phases.setdefault((step, piece.layer), []).append(piece)
    return phases


def _cut(timeline: Timeline, phases: Sequence[TrackSlice]) -> Timeline:
    """One layer-step of a timeline, from cycle 0.

    Args:
        timeline: The timeline.
        phases: The phases of the layer-step.
    """
    start = phases[0].start_cycle
    end = phases[-1].end_cycle
    slices = []
    for piece in timeline.slices:
        is_within = piece.start_cycle < end and piece.end_cycle > start
        if not is_within or piece.track.startswith(LEFT_OUT):
            continue
        start_cycle = max(0, piece.start_cycle - start)
        slices.append(piece._replace(start_cycle=start_cycle, end_cycle=piece.end_cycle - start))
    arrows = []
    for arrow in timeline.arrows:
        if start <= arrow.from_cycle and arrow.to_cycle < end:
            from_cycle = arrow.from_cycle - start
            arrows.append(arrow._replace(from_cycle=from_cycle, to_cycle=arrow.to_cycle - start))
    tracks = tuple(track for track in timeline.tracks if not track.startswith(LEFT_OUT))
    return Timeline(end - start, tracks, tuple(slices), arrows=tuple(arrows))


def layer_plot(step: LayerStep) -> Plot:
    """Bars of time on every track, a panel per policy on one time axis, and arrows."""
    longest_cycles = max(timeline.cycles for timeline in step.timelines.values())
    window_us = (0.0, longest_cycles / step.clock_mhz)
    panels = []
    for policy, timeline in step.timelines.items():
        tracks = _shown_tracks(timeline)
        series = [*_bars(timeline, tracks, step.clock_mhz)]
        series += _arrows(timeline, tracks, step.clock_mhz)
        panel = Panel(
            "time [us]",
            tuple(series),
            policy,
            categories=tuple(tracks),
            x_range=window_us,
            share=float(len(tracks)),
        )
        panels.append(panel)
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


def _shown_tracks(timeline: Timeline) -> list[str]:
    """Tracks of a panel, from the top down: all cores, and all others that have a slice."""
    with_slices = {piece.track for piece in timeline.slices}
    tracks = []
    for track in timeline.tracks:
        if track.startswith(LEFT_OUT):
            continue
        if track in with_slices or track.startswith("core"):
            tracks.append(track)
    return tracks


def _durations(step: LayerStep) -> str:
    """What the layer-step takes under each policy, in a sentence."""
    own_cycles = next(iter(step.timelines.values())).cycles
    texts = []
    for policy, timeline in step.timelines.items():
        time_us = timeline.cycles / step.clock_mhz
        text = f"{time_us:,.4g} us under {policy}"
        if timeline.cycles != own_cycles:
            change = timeline.cycles / own_cycles - 1
            text += f" ({100 * change:+.1f} %)"
        texts.append(text)
    return f"The layer-step takes {' and '.join(texts)}."


def _unplayed(step: LayerStep) -> str:
    """A sentence on blocks whose tiles are too many; empty if there are none."""
    titles = [title for timeline in step.timelines.values() for title in timeline.unplayed]
    if not titles:
        return ""
    names = ", ".join(dict.fromkeys(titles))
    return f" Too many tiles to be shown one by one, at fidelity fluid: {names}."


def _title(step: LayerStep) -> str:
    """Step and layer, and how many sequences compute and replay there."""
    own = next(iter(step.timelines.values()))
    computing: set[int] = set()
    replaying: set[int] = set()
    for piece in own.slices:
        if piece.decision == "computes":
            computing.update(piece.sequences)
        elif piece.decision == "replays":
            replaying.update(piece.sequences)
    replaying -= computing
    title = f"step {step.step}, layer {step.layer}"
    if not computing and not replaying:
        return f"{title}: no sequence replays"
    who_computes = count(len(computing), "sequence computes", "sequences compute")
    return f"{title}: {who_computes}, {len(replaying)} replay"


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
    line_of = {track: line for line, track in enumerate(tracks)}
    labels = _labels(timeline)
    bars_of: dict[str, list[TrackSlice]] = {}
    for piece in _leaves(timeline):
        if piece.track in line_of and piece.end_cycle > 0:
            bars_of.setdefault(category_of(piece.kind), []).append(piece)
    with_look = [category for category in LOOKS if category in bars_of]
    without_look = sorted(category for category in bars_of if category not in LOOKS)
    for category in with_look + without_look:
        bars = bars_of[category]
        look = look_of(category)
        yield Series(
            category,
            x=[piece.end_cycle / per_us for piece in bars],
            y=[line_of[piece.track] for piece in bars],
            mark="bar",
            colour=look.colour,
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
        is_decided = piece.is_busy and piece.decision
        if not is_decided or not piece.track.startswith("core"):
            continue
        key = (piece.track, tuple(piece.sequences))
        if key not in longest or _cycles(piece) > _cycles(longest[key]):
            longest[key] = piece
    least_cycles = LEAST_LABELLED * timeline.cycles
    labels = {}
    for piece in longest.values():
        if _cycles(piece) >= least_cycles:
            labels[piece] = ", ".join(str(sequence) for sequence in piece.sequences)
    return labels


def _cycles(piece: TrackSlice) -> int:
    """Length of a slice."""
    return piece.end_cycle - piece.start_cycle


def told(piece: TrackSlice, per_us: float) -> str:
    """What a slice is, in words.

    Args:
        piece: The slice.
        per_us: Cycles per microsecond.
    """
    start_us = piece.start_cycle / per_us
    end_us = piece.end_cycle / per_us
    when = f"{start_us:.6g} to {end_us:.6g} us"
    if piece.note and not piece.is_busy:
        return f"{piece.note} ({when})"
    details = []
    if piece.sequences:
        numbers = ", ".join(map(str, piece.sequences))
        details.append(f"sequence {numbers} {piece.decision}".strip())
    if piece.layer >= 0:
        details.append(f"layer {piece.layer}")
    work = piece.name
    if details:
        work += f" ({', '.join(details)})"
    text = f"{piece.track}: {work}, {_cycles(piece):,} cycles, {when}"
    if piece.note:
        text += f"; {piece.note}"
    return text


def _arrows(timeline: Timeline, tracks: Sequence[str], per_us: float) -> Iterator[Series]:
    """A series of arrows for instructions, and one for long waits.

    Args:
        timeline: The timeline of a policy.
        tracks: Tracks that are shown, from the top down.
        per_us: Cycles per microsecond.
    """
    line_of = {track: line for line, track in enumerate(tracks)}
    for name, label, colour in (
        ("instructions", "instructions to a core", style.PURPLE),
        ("waits for", "to what is waited for", style.BLACK),
    ):
        # Start, end and a gap for each arrow.
        x: list[float | None] = []
        y: list[float | None] = []
        hover: list[str] = []
        for arrow in _long(timeline, name):
            if arrow.from_track not in line_of or arrow.to_track not in line_of:
                continue
            x += [arrow.from_cycle / per_us, arrow.to_cycle / per_us, None]
            y += [line_of[arrow.from_track], line_of[arrow.to_track], None]
            hover += [f"{arrow.from_track}: {name} {arrow.to_track}"] * 3
        if x:
            yield Series(label, x, y, "arrows", colour, hover=hover)


def _long(timeline: Timeline, name: str) -> Iterator[Arrow]:
    """Arrows of a name, but for those from short waits."""
    wait_cycles = {}
    for piece in _leaves(timeline):
        if not piece.is_busy:
            wait_cycles[piece.track, piece.start_cycle] = _cycles(piece)
    least_cycles = LEAST_ARROW * timeline.cycles
    for arrow in timeline.arrows:
        if arrow.name != name:
            continue
        cycles = wait_cycles.get((arrow.from_track, arrow.from_cycle), 0)
        if name == "instructions" or cycles >= least_cycles:
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
                cycles = _cycles(piece)
                reason = piece.note.replace(f" {cycles:,} cycles", "", 1)
                cycles_of[policy, reason] += cycles
    rows = []
    for (policy, reason), cycles in cycles_of.most_common(MOST_WAITS):
        time_us, count_of_cycles = _time_of(cycles, step.clock_mhz)
        rows.append((policy, reason, time_us, count_of_cycles))
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

"""One layer of one step on the cores: who computes, who replays, who waits.

Numbers come from the recorded timeline (:func:`carsim.runs.timeline.record_timeline`) and from
the schedule's own assignment of sequences to cores.

Simplification: cores that run in lockstep are one lane of the timeline, paced by the core that has
most to do. A core with fewer sequences is drawn to compute for its share of that time, sequence
after sequence, and to wait for the rest.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from carsim.base.errors import InputError
from carsim.base.text import count, number
from carsim.hardware.schedule import BASELINE, SCHEDULES
from carsim.hardware.schedule.base import REPLAYS
from carsim.report.figures import style
from carsim.report.figures.plot import Panel, Plot, Series
from carsim.runs.timeline import PHASES, record_timeline

if TYPE_CHECKING:
    from carsim.machine.recording import Span
    from carsim.machine.row import RowResult

KINDS = {
    "computes": (style.BLUE, ""),
    "replays": (style.GREEN, "\\"),
    "fetches": (style.SKY, "/"),
    "dispatches": (style.VERMILION, "x"),
    "waits": (style.LIGHT_GREY, "."),
}
"""What takes time, with its colour and hatch."""

MLP = "MLP"
MOST_CORES = 32
"""More cores than this are not told apart in a figure."""


@dataclass(frozen=True)
class Piece:
    """A stretch of time on a line of the figure: cycles since the layer began."""

    line: str
    kind: str
    what: str
    start_cycle: int
    end_cycle: int


@dataclass(frozen=True)
class LayerStep:
    """One layer of one step of the first batch.

    Attributes:
        step: The step.
        layer: The layer.
        cycles: Its length.
        lines: Names of what is drawn, from the top down: cores first.
        pieces: What they do.
        computing: Sequences that compute their MLP.
        replaying: Sequences that replay it.
        phases: Start and end of each phase by its name, in cycles.
    """

    step: int
    layer: int
    cycles: int
    lines: tuple[str, ...]
    pieces: tuple[Piece, ...]
    computing: tuple[int, ...]
    replaying: tuple[int, ...]
    phases: dict[str, tuple[int, int]]


def mixed_layer(row: "RowResult", step: int) -> int:
    """The layer of a step whose sequences differ most: nearest to half of them replay."""
    replaying = row.batches.replay[0, step].mean(axis=-1)
    return int(np.abs(replaying - 0.5).argmin())


def layer_step(row: "RowResult", step: int, layer: int | None = None) -> LayerStep:
    """The numbers of the figure.

    Args:
        row: A simulated row of a comparison.
        step: The step, of the first batch.
        layer: The layer; that of :func:`mixed_layer` if not given.

    Raises:
        InputError: No such step or layer.
    """
    design, plan = row.design, row.simulation.plan
    n_layers = design.model.body.n_layers
    layer = mixed_layer(row, step) if layer is None and 0 <= step < plan.n_steps else layer
    if layer is None or not 0 <= layer < n_layers:
        raise InputError("layer", f"{layer} is none of {n_layers}", f"give 0 to {n_layers - 1}")
    timeline = record_timeline(row, step, step + 1)
    prefix = f"layer {layer}: "
    spans = [s for s in timeline.slices if s.track == PHASES and s.name.startswith(prefix)]
    begin, end = min(s.start_cycle for s in spans), max(s.end_cycle for s in spans)
    within = [
        s
        for s in timeline.slices
        if s.track != PHASES and begin <= s.start_cycle < end and s.end_cycle <= end
    ]
    replaying = row.batches.replay[0, step, layer]
    batch, cores = len(replaying), min(design.machine.cores, MOST_CORES)
    lanes = sorted({s.track for s in within if s.track.startswith("lane ")}, key=_lane)
    lanes = [lane for lane in lanes if not lane.endswith(" fetch")]
    dealt = _assigned(row, np.zeros(batch, np.bool_), BASELINE.kind)
    assigned = _assigned(row, replaying, row.variant.schedule)
    pieces: list[Piece] = []
    phases = {}
    for span in spans:
        name = span.name.removeprefix(prefix)
        phases[name] = span.start_cycle - begin, span.end_cycle - begin
        is_mlp = name == MLP
        split = design.machine.splits_mlp if is_mlp else design.machine.splits_attention
        of_cores = [
            []
            if split
            else [int(s) for s in np.flatnonzero((assigned if is_mlp else dealt) == core)]
            for core in range(design.machine.cores)
        ]
        own = [s for s in within if span.start_cycle <= s.start_cycle < span.end_cycle]
        pieces += _of_phase(name, own, lanes, of_cores[:cores], of_cores, split, begin)
    pieces = [
        *_with_waits(pieces, [f"core {core}" for core in range(cores)], phases),
        *_beside(within, begin),
    ]
    lines = dict.fromkeys([*(f"core {core}" for core in range(cores)), *(p.line for p in pieces)])
    return LayerStep(
        step,
        layer,
        end - begin,
        tuple(lines),
        tuple(pieces),
        tuple(map(int, np.flatnonzero(~replaying))),
        tuple(map(int, np.flatnonzero(replaying))),
        phases,
    )


def layer_step_plot(found: LayerStep, clock_mhz: float, *, misfit: bool = False) -> Plot:
    """A line per core, and lines for memory, dispatcher and replay cache."""
    to_us = 1 / clock_mhz
    place = {line: index for index, line in enumerate(found.lines)}
    series = []
    for kind, (colour, hatch) in KINDS.items():
        own = [piece for piece in found.pieces if piece.kind == kind]
        if own:
            series.append(
                Series(
                    kind,
                    [piece.end_cycle * to_us for piece in own],
                    [place[piece.line] for piece in own],
                    "bar",
                    colour,
                    [piece.start_cycle * to_us for piece in own],
                    hover=[
                        f"{piece.line} {piece.kind}{piece.what and ': '}{piece.what}, "
                        f"{number((piece.end_cycle - piece.start_cycle) * to_us)} us"
                        for piece in own
                    ],
                    hatch=hatch,
                )
            )
    starts = [start * to_us for start, _ in found.phases.values()]
    return Plot(
        f"step {found.step}, layer {found.layer}: {count(len(found.computing), 'sequence')} "
        f"compute, {len(found.replaying)} replay",
        (
            Panel(
                "microseconds",
                tuple(series),
                categories=found.lines,
                x_range=(0.0, found.cycles * to_us),
                verticals=starts[1:],
            ),
        ),
        alt="One layer of one step: what each core does when",
        caption=f"Vertical lines: {', '.join(list(found.phases)[1:])} begin. Cores in lockstep are "
        "drawn sequence after sequence, an even share of the slowest core's time each.",
        size_in=(10, 1.5 + 0.26 * len(found.lines)),
        shares="y",
        misfit=misfit,
    )


# -------------------------------------------------------------------- private


def _lane(track: str) -> int:
    return int(track.split()[1])


def _assigned(row: "RowResult", replaying: "np.ndarray", schedule: str) -> "np.ndarray":
    """The core of each sequence, int[B]; those beyond the Index Register come in groups."""
    machine, kind = row.design.machine, SCHEDULES[schedule]
    batch = len(replaying)
    width = machine.drs.index_register_bits if kind.central else batch
    groups = [slice(at, at + width) for at in range(0, batch, width)]
    return (
        np.concatenate([kind.assign(~replaying[None, group], machine.cores)[0] for group in groups])
        if batch
        else np.full(0, REPLAYS)
    )


def _of_phase(
    name: str,
    slices: "list[Span]",
    lanes: list[str],
    shown: list[list[int]],
    of_cores: list[list[int]],
    split: bool,
    begin: int,
) -> list[Piece]:
    """What the cores do in a phase."""
    pieces = []
    ranked = sorted(range(len(of_cores)), key=lambda core: -len(of_cores[core]))
    most = max(1, *(len(each) for each in of_cores))
    for core, sequences in enumerate(shown):
        lane = lanes[0] if len(lanes) == 1 else f"lane {ranked.index(core)}"
        for piece in slices:
            if piece.track != lane:
                continue
            start, length = piece.start_cycle - begin, piece.end_cycle - piece.start_cycle
            if split:
                what = f"{name} of all, its share of the columns"
                pieces.append(Piece(f"core {core}", "computes", what, start, start + length))
                continue
            of = most if len(lanes) == 1 else max(1, len(sequences))
            for (first, last), sequence in zip(
                pairwise([start + length * at // of for at in range(of + 1)]),
                sequences,
                strict=False,
            ):
                what = f"{name} of sequence {sequence}"
                pieces.append(Piece(f"core {core}", "computes", what, first, last))
    return pieces


def _with_waits(
    pieces: list[Piece], lines: list[str], phases: dict[str, tuple[int, int]]
) -> list[Piece]:
    """The pieces, and what is left between them on the lines of cores."""
    found = list(pieces)
    for line in lines:
        own = sorted((p.start_cycle, p.end_cycle) for p in pieces if p.line == line)
        for name, (start, end) in phases.items():
            at = start
            for first, last in [*(each for each in own if start <= each[0] < end), (end, end)]:
                if first > at:
                    found.append(Piece(line, "waits", name, at, first))
                at = max(at, last)
    return found


def _beside(slices: "list[Span]", begin: int) -> list[Piece]:
    """What memory, dispatcher and replay cache do beside the cores."""
    found = []
    for piece in slices:
        start, end = piece.start_cycle - begin, piece.end_cycle - begin
        if piece.track.endswith(" fetch"):
            lane = piece.track.removesuffix(" fetch")
            line = "memory" if lane == "lane 0" else f"memory, {lane}"
            found.append(Piece(line, "fetches", piece.name, start, end))
        elif piece.track == "replay":
            found.append(Piece("replay cache", "replays", "", start, end))
        elif not piece.track.startswith("lane ") and piece.name == "dispatch":
            found.append(Piece(piece.track, "dispatches", "", start, end))
    return found

"""A window of steps, core by core: a timeline; and utilisation over all steps.

A timeline takes the phases of the layer-steps in their order, plays each tile by tile, and shows
the spans of :mod:`carsim.account.booking`. They sum to what a run at fidelity ``tile`` has booked,
to the cycle. A phase of very many tiles is not played, and its spans are those of ``fluid``. The
window is of the first batch; the prompt, which precedes its first step, is left out.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.account.row import RowResult
from carsim.account.simulation import simulate_policy
from carsim.base.errors import InputError
from carsim.base.units import GB
from carsim.hardware.schedule import Schedule
from carsim.machine.cases import Cases
from carsim.machine.layer_step import take_layer_step
from carsim.machine.phase import Outcome
from carsim.machine.phases import Phases, identity
from carsim.metrics import PHASES as PHASE_NAMES
from carsim.program.block import Block
from carsim.program.head import Head
from carsim.runs.played_phase import (
    DECIDED_REPLAY,
    REPLAYS_TRACK,
    Arrow,
    Piece,
    PlayedPhase,
    tiles_text,
)

MAX_LAYER_STEPS = 4096
"""Longest timeline: half a frame of VILA-U-7B."""

DETAILED_LAYER_STEPS = 256
MOST_GROUPS = 12
"""Up to so many layer-steps, an operand is cut into several groups of tiles, at most so many."""

STEPS, PHASES = "steps", "phases"
"""Tracks above those of the hardware."""

BUSY_CORES, FULL_SLOTS = "busy cores", "full slots"
"""Counters."""


class TrackSlice(NamedTuple):
    """Something that took time on a track, from its start cycle up to its end cycle.

    Attributes:
        track: The track.
        name: Sequences, layer, block and decision; or operand and tiles; or what is waited for.
        start_cycle: First cycle.
        end_cycle: Cycle after the last.
        kind: Kind of work or wait, which has a look of its own; empty where slices lie within.
        is_busy: The track works.
        layer: Layer; -1 outside of layers.
        sequences: Sequences of the batch that it is about.
        decision: ``computes``, ``replays``, or empty where nothing is decided.
        operand: Operand that it is about.
        tiles: First and last tile of the operand, from 1.
        note: What happens, in a sentence.
    """

    track: str
    name: str
    start_cycle: int
    end_cycle: int
    kind: str = ""
    is_busy: bool = False
    layer: int = -1
    sequences: tuple[int, ...] = ()
    decision: str = ""
    operand: str = ""
    tiles: tuple[int, ...] = ()
    note: str = ""


class Window(NamedTuple):
    """Steps of a timeline, and its policies.

    Attributes:
        first: First step.
        stop: Step after the last.
        policies: Keys of rows, or schedules of the own policy; empty for the own policy under every
            schedule that was simulated.
    """

    first: int
    stop: int
    policies: tuple[str, ...] = ()

    @classmethod
    def of(cls, window: "tuple[int, int] | Window") -> "Window":
        """A window, or the steps of one."""
        return window if isinstance(window, Window) else cls(first=window[0], stop=window[1])


class Counted(NamedTuple):
    """A number that holds from a cycle until the next one of its name."""

    name: str
    start_cycle: int
    number: int


class MemoryRate(NamedTuple):
    """The mean rate of a memory in a phase.

    Attributes:
        memory: Name of the memory.
        start_cycle: Cycle at which the phase begins; the rate holds until the next one.
        gbps: Bytes moved over the length of the phase, in 1e9 bytes per second.
    """

    memory: str
    start_cycle: int
    gbps: float


@dataclass(frozen=True)
class Timeline:
    """Slices of the phases of a window, arrows between them, and counters.

    Attributes:
        cycles: Length.
        tracks: Tracks in the order in which to show them.
        slices: All slices, phase by phase.
        memory_rates: Mean rates of memories that move bytes, phase by phase.
        arrows: From instructions to cores, and from waits to what they wait for.
        counts: Cores that are busy, and tiles that buffers hold.
        unplayed: Titles of blocks with too many tiles to be played one by one.
    """

    cycles: int
    tracks: tuple[str, ...]
    slices: tuple[TrackSlice, ...]
    memory_rates: tuple[MemoryRate, ...] = ()
    arrows: tuple[Arrow, ...] = ()
    counts: tuple[Counted, ...] = ()
    unplayed: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Usage:
    """Use of cores and memories in each step of the first batch. S steps.

    Attributes:
        clock_mhz: Clock of the cycles.
        cycles: Length of each step, int64[S].
        core_busy: Share of core cycles in which cores compute, float64[S].
        memory_utilisation: Bytes moved over bytes at the peak rate, float64[S], of each memory
            that moves any.
        replay_ratio: Share of the decisions of a step that replay, float64[S].
    """

    clock_mhz: float
    cycles: NDArray[np.int64]
    core_busy: NDArray[np.float64]
    memory_utilisation: Mapping[str, NDArray[np.float64]]
    replay_ratio: NDArray[np.float64]


def check_window(first: int, stop: int, n_steps: int, n_layers: int) -> None:
    """Refuse a window that is empty, beyond the video, or too large to look at.

    Raises:
        InputError: It is.
    """
    place = f"`timeline` {first}:{stop}"
    if not 0 <= first < stop <= n_steps:
        problem = f"is no range of the {n_steps} steps of the video"
        cure = f"give first step and the step after the last one, such as 0:{min(4, n_steps)}"
        raise InputError(place, problem, cure)
    if (stop - first) * n_layers > MAX_LAYER_STEPS:
        problem = f"is more than the limit of {MAX_LAYER_STEPS:,} layer-steps"
        cure = f"take at most {max(1, MAX_LAYER_STEPS // n_layers)} steps"
        raise InputError(place, problem, cure)


def record_timeline(row: RowResult, first: int, stop: int) -> Timeline:
    """The timeline of steps ``first`` to ``stop - 1`` of the first batch, from cycle 0.

    Tracks: steps; phases; the dispatcher, replays, every core, DMA and port. Counters: the rate of
    each memory in use by phase, busy cores, and tiles that buffers hold.

    Every phase is played tile by tile, whatever fidelity the run has, unless it has too many
    tiles; see :mod:`carsim.runs.played_phase`. The core of each sequence is the one that the
    schedule names, while the accounts of a run call the fullest core of each phase core 0.

    Args:
        row: A simulated row of a comparison.
        first: First step.
        stop: Step after the last one.

    Raises:
        InputError: The window is empty, beyond the video, or too large.
    """
    plan = row.simulation.plan
    n_layers = plan.hw.design.model.body.n_layers
    check_window(first, stop, plan.n_steps, n_layers)
    few = (stop - first) * n_layers <= DETAILED_LAYER_STEPS
    recorder = _Recorder(row, most_groups=MOST_GROUPS if few else 1)
    for step in range(first, stop):
        recorder.step(step)
    return recorder.timeline()


def record_layer_step(row: RowResult, step: int, layer: int) -> Timeline:
    """The timeline of one layer of one step of the first batch, from cycle 0.

    Args:
        row: A simulated row of a comparison.
        step: The step.
        layer: The layer.

    Raises:
        InputError: No such step.
    """
    check_window(step, step + 1, row.simulation.plan.n_steps, 1)
    recorder = _Recorder(row, most_groups=MOST_GROUPS)
    recorder.layer_step(step, layer)
    return recorder.timeline()


def mixed_layer_step(row: RowResult, first: int = 0, stop: int | None = None) -> tuple[int, int]:
    """Step and layer in which scheduling has most to do.

    The fullest core of a static schedule has most sequences beyond an even share there. Of equal
    ones, that in which most nearly half of the sequences replay.

    Args:
        row: A simulated row of a comparison.
        first: First step that is looked at.
        stop: Step after the last one; None: the last of the video.
    """
    replaying = row.batches.replay[0, first:stop]
    machine = row.simulation.plan.machine
    home = np.asarray(machine.home_of(np.arange(replaying.shape[-1])))
    of_cores = np.stack(
        [(~replaying[..., home == core]).sum(axis=-1) for core in range(machine.cores)]
    )
    even_share = -(-of_cores.sum(axis=0) // machine.cores)
    unevenness = of_cores.max(axis=0) - even_share
    mixture = 0.5 - np.abs(replaying.mean(axis=-1) - 0.5)
    step, layer = np.unravel_index((unevenness + mixture).argmax(), mixture.shape)
    return first + int(step), int(layer)


class _Recorder(Phases):
    """The phases of a row, each played by itself, once, and recorded behind the one before.

    Args:
        row: The row.
        most_groups: Groups of tiles that an operand is shown in at most.

    Attributes:
        now: Cycle at which the next phase begins.
    """

    def __init__(self, row: RowResult, *, most_groups: int) -> None:
        plan = row.simulation.plan
        super().__init__(plan.machine, plan.phases.fidelity)
        self._plan, self._batches = plan, row.batches
        self._most_groups = most_groups
        self._seen: dict[Hashable, PlayedPhase] = {}
        self._layer = -1
        self._rows_taken: Counter[Block] = Counter()
        self.now = 0
        self._slices: list[TrackSlice] = []
        self._memory_rates: list[MemoryRate] = []
        self._arrows: list[Arrow] = []
        self._full_slots: list[Counted] = []
        self._unplayed: dict[str, None] = {}  # in the order of the phases
        self._memories_in_use = {name for name, nbytes in row.dram_bytes.items() if nbytes}

    def step(self, step: int) -> None:
        """Take a step of the first batch."""
        begun = self.now
        for layer in range(self.machine.model.body.n_layers):
            self.layer_step(step, layer)
        self._layer = -1
        if self.machine.include_head:
            for steps, codes in self.head_passes:
                self.head_pass(steps, [codes])
        idle_layers = self._plan.idle_layers(self._batches)
        self._advance("host", self.host(idle_layers[0, step : step + 1]))
        self._slices.append(TrackSlice(STEPS, f"step {step}", begun, self.now))

    def layer_step(self, step: int, layer: int) -> None:
        """Take a layer of a step of the first batch."""
        self._layer = layer
        self._rows_taken.clear()
        take_layer_step(self._plan, self._batches, (0, step, layer), self.of)

    def timeline(self) -> Timeline:
        """What was recorded."""
        used = {each.track for each in self._slices}
        cores = self._plan.machine.core_names
        dmas = ("DMA", *(name.replace("core", "DMA") for name in cores))
        ports = (f"port {path.name}" for path in self._plan.hw.paths)
        dispatcher = self._plan.schedule_of(True).label
        tracks = [each for each in (STEPS, PHASES, dispatcher, REPLAYS_TRACK) if each in used]
        tracks += cores  # idle ones, too
        tracks += [each for each in (*dmas, *ports) if each in used]
        return Timeline(
            cycles=self.now,
            tracks=tuple(tracks),
            slices=tuple(self._slices),
            memory_rates=tuple(self._memory_rates),
            arrows=tuple(self._arrows),
            counts=(*busy_cores(self._slices, cores), *self._full_slots),
            unplayed=tuple(self._unplayed),
        )

    def _take(self, block: Block, schedule: Schedule | None, cases: Cases) -> Outcome:
        key = block, schedule, identity(cases)
        if key not in self._seen:
            self._seen[key] = PlayedPhase(
                self.machine, block, schedule, cases, most_groups=self._most_groups
            )
        played = self._seen[key]
        first_row = self._rows_taken[block]
        if cases.rows is not None:
            self._rows_taken[block] += cases.rows.computing.shape[1]
        is_head = isinstance(block, Head)
        title = block.name if is_head else PHASE_NAMES[block.name]
        if not played.is_played:
            self._unplayed[title] = None
        self._slices += [self._slice(piece, title, first_row) for piece in played.pieces]
        self._arrows += [
            arrow._replace(
                from_cycle=self.now + arrow.from_cycle, to_cycle=self.now + arrow.to_cycle
            )
            for arrow in played.arrows
        ]
        self._full_slots += [
            Counted(FULL_SLOTS, self.now + cycle, count) for cycle, count in played.full_slots
        ]
        name = title if self._layer < 0 else f"layer {self._layer}: {title}"
        self._advance(name, played.outcome, self._sequences(played.replaying, first_row))
        return played.outcome

    def _sequences(self, rows: Iterable[int], first_row: int) -> tuple[int, ...]:
        """Sequences of the rows of a phase; of a set of tokens, a sequence has several rows."""
        return tuple(sorted({(first_row + row) % self.machine.batch for row in rows}))

    def _slice(self, piece: Piece, title: str, first_row: int) -> TrackSlice:
        sequences = self._sequences(piece.rows, first_row)
        others = self._sequences(piece.others, first_row)
        computed = f", which computes {sequences_text(others)}" if others else ""
        return TrackSlice(
            piece.track,
            self._name_of(piece, title, sequences),
            self.now + piece.start,
            self.now + piece.end,
            kind=piece.kind,
            is_busy=piece.is_busy,
            layer=self._layer,
            sequences=sequences,
            decision=piece.decision,
            operand=piece.operand,
            tiles=piece.tiles,
            note=piece.note + computed,
        )

    def _name_of(self, piece: Piece, title: str, sequences: tuple[int, ...]) -> str:
        """A name: of whole blocks and of decisions with sequences, of others with operands."""
        if piece.tiles and not piece.is_busy:
            return f"waits for {tiles_text(piece.tiles)} of {piece.operand}"
        is_decided = piece.track == REPLAYS_TRACK or piece.kind == "dispatch"
        if not piece.kind or (is_decided and sequences):
            where = f"layer {self._layer}" if self._layer >= 0 else ""
            block = piece.kind or title
            parts = [sequences_text(sequences), where, block, piece.decision]
            return " · ".join(filter(None, parts))
        if piece.tiles:
            return f"{piece.operand}, {tiles_text(piece.tiles)}"
        return piece.operand if piece.is_busy and piece.operand else piece.kind

    def _advance(self, name: str, found: Outcome, replaying: tuple[int, ...] = ()) -> None:
        """Add a phase as a whole."""
        cycles = int(found.cycles[0])
        if not cycles:
            return
        end = self.now + cycles
        decision = DECIDED_REPLAY if replaying else ""
        self._slices.append(
            TrackSlice(
                PHASES,
                name,
                self.now,
                end,
                layer=self._layer,
                sequences=replaying,
                decision=decision,
            )
        )
        plan = self._plan
        seconds = cycles / (plan.hw.design.board.fabric_clock_mhz * 1e6)
        for path, nbytes in zip(plan.hw.paths, found.dram_bytes[0].tolist(), strict=True):
            if path.name in self._memories_in_use:
                gbps = nbytes / GB / seconds
                self._memory_rates.append(MemoryRate(path.name, self.now, gbps=gbps))
        self.now = end


def sequences_text(sequences: Sequence[int]) -> str:
    """Sequences of a batch in words.

    >>> sequences_text([]), sequences_text([3]), sequences_text([1, 5])
    ('', 'sequence 3', 'sequences 1, 5')
    """
    if not sequences:
        return ""
    return f"sequence{'s' * (len(sequences) > 1)} {', '.join(map(str, sequences))}"


def busy_cores(slices: Iterable[TrackSlice], cores: Collection[str]) -> list[Counted]:
    """Cores that work, whenever their number changes."""
    changes: Counter[int] = Counter()
    for piece in slices:
        if piece.is_busy and piece.track in cores:
            changes[piece.start_cycle] += 1
            changes[piece.end_cycle] -= 1
    counted = []
    busy = 0
    for cycle, change in sorted(changes.items()):
        busy += change
        if change:
            counted.append(Counted(BUSY_CORES, cycle, busy))
    return counted


def usage_by_step(row: RowResult) -> Usage:
    """Utilisation over the steps of the first batch of a simulated row."""
    plan = row.simulation.plan
    first_batch = row.batches.at_steps(np.arange(len(plan.steps)), n_batches=1)
    simulation = simulate_policy(plan, first_batch, detail=True)

    def by_step(figure: str) -> NDArray[np.int64]:
        """A figure of all phases, [S] or [S, memories]."""
        each = (visits.spread(getattr(visits.outcome, figure)) for visits in simulation.visits)
        return sum((of_layers[0].sum(axis=1) for of_layers in each), np.zeros((), np.int64))

    cycles, clock_mhz = by_step("cycles"), plan.hw.design.board.fabric_clock_mhz
    used = {
        path.name: moved / (path.peak_gbps * GB * cycles / (clock_mhz * 1e6))
        for path, moved in zip(plan.hw.paths, by_step("dram_bytes").T, strict=True)
        if moved.any()
    }
    return Usage(
        clock_mhz=clock_mhz,
        cycles=cycles,
        core_busy=by_step("busy_cycles") / plan.machine.core_cycles(cycles),
        memory_utilisation=used,
        replay_ratio=row.batches.replay[0].mean(axis=(1, 2)),
    )

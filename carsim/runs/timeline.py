"""A window of steps, core by core: a timeline; and utilisation over all steps.

A timeline takes the phases of the layer-steps in their order, and shows the spans of
:mod:`carsim.machine.booking`. They sum to what the run has booked, to the cycle. The window is of
the first batch; the prompt, which precedes its first step, is left out.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.base.errors import InputError
from carsim.base.units import GB
from carsim.machine.booking import spans
from carsim.machine.builders import BUILDERS
from carsim.machine.cases import MlpCases
from carsim.machine.phase import Outcome, outcome
from carsim.machine.phases import FIDELITIES, Phases, identity
from carsim.machine.row import RowResult
from carsim.machine.simulate import simulate
from carsim.metrics import PHASES as PHASE_NAMES

MAX_LAYER_STEPS = 4096
"""Longest timeline: half a frame of VILA-U-7B, on four cores 400,000 slices and 70 MB of JSON."""

STEPS, PHASES = "steps", "phases"
"""Tracks above those of the hardware."""


class TrackSlice(NamedTuple):
    """Something that took time on a track, from its start cycle up to its end cycle."""

    track: str
    name: str
    start_cycle: int
    end_cycle: int


@dataclass(frozen=True)
class Timeline:
    """Slices of the phases of a window.

    Attributes:
        cycles: Length.
        tracks: Tracks in the order in which to show them.
        slices: All slices, phase by phase.
    """

    cycles: int
    tracks: tuple[str, ...]
    slices: tuple[TrackSlice, ...]


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

    Tracks: steps; phases; the dispatcher, every core, DMA and port.

    Args:
        row: A simulated row of a comparison.
        first: First step.
        stop: Step after the last one.

    Raises:
        InputError: The window is empty, beyond the video, or too large.
    """
    plan = row.simulation.plan
    check_window(first, stop, plan.n_steps, plan.hw.design.model.body.n_layers)
    recorder = _Recorder(row)
    for step in range(first, stop):
        recorder.step(step)
    used, cores = {each.track for each in recorder.slices}, plan.hw.core_names
    dmas = ("DMA", *(name.replace("core", "DMA") for name in cores))
    ports = (f"port {path.name}" for path in plan.hw.paths)
    dispatcher = plan.schedule_of(True).label
    tracks = [dispatcher] * (dispatcher in used) + cores  # idle ones, too
    tracks += [each for each in (*dmas, *ports) if each in used]
    return Timeline(recorder.now, (STEPS, PHASES, *tracks), tuple(recorder.slices))


class _Recorder(Phases):
    """The phases of a row, each taken by itself, once, and recorded behind the one before.

    Args:
        row: The row.

    Attributes:
        now: Cycle at which the next phase begins.
        slices: So far.
    """

    def __init__(self, row: RowResult) -> None:
        plan = row.simulation.plan
        super().__init__(plan.hw, plan.phases.fidelity)
        self._plan, self._batches = plan, row.batches
        self._seen: dict[Hashable, tuple[Outcome, list[tuple[str, str, int, int]]]] = {}
        self._layer = 0
        self.now = 0
        self.slices: list[TrackSlice] = []

    def step(self, step: int) -> None:
        """Take a step of the first batch."""
        begun = self.now
        for layer in range(self.hw.design.model.body.n_layers):
            self._layer_step(step, layer)
        if self.hw.design.machine.include_head:
            for steps, codes in self.head_passes:
                self.head_pass(steps, np.array([codes]))
        self._advance("host", self.host())
        self.slices.append(TrackSlice(STEPS, f"step {step}", begun, self.now))

    def _layer_step(self, step: int, layer: int) -> None:
        self._layer, plan, at = layer, self._plan, (0, step, layer)
        scored, body = bool(plan.scored[step]), self.hw.design.model.body
        rule, window = plan.rule if scored else None, body.window_of(layer)
        self.qkv(rule)
        cases = plan.reads[window].take([step])
        if self._batches.reads is not None and plan.attention.records:
            attended, runs = (each[at][None] for each in self._batches.reads)
            cases = cases._replace(attended=attended, runs=runs)
        known = plan.known_cycles(self.attention(rule, cases).cycles, self.output(rule).cycles)
        for number, (group, home) in enumerate(plan.groups(scored)):
            start = known * (number == 0) if scored else None
            computing = ~self._batches.replay[at][None, group]
            cases_of = MlpCases(computing, start, home, body.is_dense(layer))
            self.mlp(plan.schedule_of(scored), cases_of, plan.rule)

    def _take(self, kind: str, *given: Any) -> Outcome:
        key = kind, identity(given)
        if key not in self._seen:
            phase = BUILDERS[kind](self.hw, *given)
            timing = FIDELITIES[self.fidelity](phase)
            found = outcome(phase, timing)
            every = spans(self.hw, phase, timing, found.cycles)
            pieces = [(t, name, int(start[0]), int(end[0])) for t, _, name, start, end in every]
            self._seen[key] = found, [each for each in pieces if each[3] > each[2]]
        found, pieces = self._seen[key]
        now = self.now
        self.slices += [TrackSlice(t, of, now + start, now + end) for t, of, start, end in pieces]
        name = kind if kind == "head" else f"layer {self._layer}: {PHASE_NAMES[kind]}"
        self._advance(name, found)
        return found

    def _advance(self, name: str, found: Outcome) -> None:
        """Add a phase as a whole."""
        if cycles := int(found.cycles[0]):
            self.slices.append(TrackSlice(PHASES, name, self.now, self.now + cycles))
            self.now += cycles


def usage_by_step(row: RowResult) -> Usage:
    """Utilisation over the steps of the first batch of a simulated row."""
    plan = row.simulation.plan
    simulation = simulate(plan, row.batches.part(np.arange(len(plan.steps)), most=1), detail=True)

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
        core_busy=plan.hw.busy_share(by_step("busy_cycles"), cycles),
        memory_utilisation=used,
        replay_ratio=row.batches.replay[0].mean(axis=(1, 2)),
    )

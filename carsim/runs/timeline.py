"""A window of steps once more, with observers: a timeline; and utilisation over all steps.

A timeline walks the layer-steps in order (:func:`~carsim.machine.plainly.simulate_plainly`) and
records every phase. What it shows sums to the cycles of the run itself, to the bit.
The window is of the first batch; the prompt's prefill, which precedes its first step, is left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from carsim.base.errors import InputError
from carsim.base.units import GB
from carsim.decisions.attention import AttentionPolicy
from carsim.decisions.replay import ReplayRule
from carsim.hardware.schedule import Schedule
from carsim.machine.cases import AttendCases, MlpCases
from carsim.machine.phase import Outcome
from carsim.machine.phases import Phases
from carsim.machine.plainly import simulate_plainly
from carsim.machine.recording import Timeline
from carsim.machine.row import RowResult
from carsim.machine.simulate import simulate

MAX_LAYER_STEPS = 8192
"""Longest timeline: one frame of VILA-U-7B, up to 250,000 slices and 40 MB of JSON."""

STEPS, PHASES = "steps", "phases"
"""Tracks above those of the hardware."""


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
        raise InputError(
            place,
            f"is no range of the {n_steps} steps of the video",
            f"give first step and the step after the last one, such as 0:{min(4, n_steps)}",
        )
    if (stop - first) * n_layers > MAX_LAYER_STEPS:
        raise InputError(
            place,
            f"has {stop - first} steps of {n_layers} layers, more than the limit of "
            f"{MAX_LAYER_STEPS:,} layer-steps",
            f"take at most {max(1, MAX_LAYER_STEPS // n_layers)} steps",
        )


def record_timeline(row: RowResult, first: int, stop: int) -> Timeline:
    """The timeline of steps ``first`` to ``stop - 1`` of the first batch, from cycle 0.

    Tracks: steps; phases; and what each lane of cores computes and fetches, DRS and replay, as the
    hardware emits them. Samples, one per phase: the mean rate of each memory and the share of the
    cores that is busy.

    Args:
        row: A simulated row of a comparison.
        first: First step.
        stop: Step after the last one.

    Raises:
        InputError: The window is empty, beyond the video, or too large.
    """
    plan = row.simulation.plan
    check_window(first, stop, plan.n_steps, plan.hw.design.model.body.n_layers)
    timeline = Timeline(first_tracks=(STEPS, PHASES))
    moving = [name for name, nbytes in row.dram_bytes.items() if nbytes]
    phases = _Observed(plan.phases, timeline, moving)
    for step in range(first, stop):
        begun, phases.layer = timeline.cycles, -1
        # A step at a time, since the head, booked after all layers, closes each of them.
        batch = row.batches.part(np.array([step]), most=1)
        simulate_plainly(replace(plan, phases=phases, steps=(step,)), batch)
        timeline.emit(STEPS, f"step {step}", begun - timeline.cycles, 0)
    return timeline


def usage_by_step(row: RowResult) -> Usage:
    """Utilisation over the steps of the first batch of a simulated row."""
    plan = row.simulation.plan
    hw, design = plan.hw, plan.hw.design
    first = row.batches.part(np.arange(len(plan.steps)), most=1)
    simulation = simulate(plan, first, detail=True)
    work = simulation.work
    assert work is not None
    cycles = sum(taken[0].sum(axis=-1) for taken in simulation.phase_cycles.values())
    busy_cycles, dram_bytes = work.busy_cycles, work.dram_bytes
    if design.machine.include_head:
        head = plan.phases.head()
        cycles = cycles + head.cycles
        busy_cycles = busy_cycles + head.busy_cycles
        dram_bytes = dram_bytes + head.dram_bytes.T
    cycles = cycles + plan.hw.host_cycles
    clock_mhz = design.board.fabric_clock_mhz
    used = {
        path.name: moved / (path.peak_gbps * GB * cycles / (clock_mhz * 1e6))
        for path, moved in zip(hw.paths, dram_bytes, strict=True)
        if moved.any()
    }
    return Usage(
        clock_mhz=clock_mhz,
        cycles=cycles,
        core_busy=busy_cycles / (cycles * design.machine.cores),
        memory_utilisation=used,
        replay_ratio=row.batches.replay[0].mean(axis=(1, 2)),
    )


class _Observed(Phases):
    """Phases of the plain walk, one after the other, on a timeline.

    Args:
        phases: The phases of a run.
        timeline: Timeline to record to.
        memories: Memories whose rate is sampled.

    Attributes:
        layer: The layer under way.
    """

    def __init__(self, phases: Phases, timeline: Timeline, memories: Sequence[str]) -> None:
        super().__init__(phases.hw, phases.fidelity, timeline.emit)
        self.layer = -1
        self._memories = memories
        self._timeline = timeline

    def qkv(self, rule: ReplayRule | None) -> Outcome:
        """The first phase of a layer."""
        self.layer += 1
        return self._record("QKV projection", super().qkv(rule))

    def attention(
        self,
        rule: ReplayRule | None,
        cases: AttendCases,
        policy: AttentionPolicy,
        aligned_outside: bool,
        frame_steps: int = 0,
    ) -> Outcome:
        """The second."""
        found = super().attention(rule, cases, policy, aligned_outside, frame_steps)
        return self._record("attention", found)

    def output(self, rule: ReplayRule | None = None) -> Outcome:
        """The third."""
        return self._record("output projection", super().output(rule))

    def mlp(self, schedule: Schedule, cases: MlpCases, rule: ReplayRule | None = None) -> Outcome:
        """The last."""
        return self._record("MLP", super().mlp(schedule, cases, rule))

    def head(self) -> Outcome:
        """After all layers, pass by pass."""
        codes = [(steps, np.array([codes])) for steps, codes in self.head_passes]
        found = [self._record("", self.head_pass(*each)) for each in codes]
        return Outcome.join(found).summed(np.ones(len(found), np.int64))

    def host(self) -> Outcome:
        """After the head."""
        return self._record("", super().host(), "host")

    def prefill_layer(self, tokens: int, window: int | None = None, dense: bool = False) -> Outcome:
        """Before the window: not recorded."""
        emit, self._emit = self._emit, None
        try:
            return super().prefill_layer(tokens, window, dense)
        finally:
            self._emit = emit

    def _record(self, phase: str, outcome: Outcome, alone: str = "head") -> Outcome:
        design, cycles = self.hw.design, int(outcome.cycles[0])
        if cycles:
            name = f"layer {self.layer}: {phase}" if phase else alone
            self._timeline.emit(PHASES, name, 0, cycles)
            seconds = cycles / (design.board.fabric_clock_mhz * 1e6)
            for path, nbytes in zip(self.hw.paths, outcome.dram_bytes[0].tolist(), strict=True):
                if path.name in self._memories:
                    self._timeline.sample(f"{path.name} GB/s", nbytes / GB / seconds)
            busy = int(outcome.busy_cycles[0]) / (cycles * design.machine.cores)
            self._timeline.sample("cores busy", busy)
        self._timeline.advance(cycles)
        return outcome

"""One kind of phase, n times: the work that both fidelities execute, its outcome, sums of outcomes.

A phase begins with its operands in memory and ends when its last core, its last replay and its last
write are done. Nothing crosses that boundary, so that a phase is a pure function of a handful of
whole numbers, and a run is a sum over its distinct phases, each times how often it occurs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.hardware.schedule import Schedule
from carsim.machine.across import sum_across
from carsim.machine.arrays import MachineArrays
from carsim.machine.cases import RowCases
from carsim.machine.hardware import Rate
from carsim.machine.lanes import Ints, LaneOp
from carsim.machine.numbering import Index
from carsim.machine.solve.instruction_queues import Queues
from carsim.workload.ops import CATEGORY_LABELS, Category

N_CATEGORIES = len(CATEGORY_LABELS)

MOST_PLAYED = 2048
"""Phases that the SimPy machine plays of those that differ in their length alone: all that a video
of 8 frames of 256 tokens has."""

REPLAYER = 0
"""Number of the replaying sequences among the requesters of memories; cores come after them."""


@dataclass(frozen=True, eq=False)
class ReplayWork:
    """The sequences of n phases that replay, beside those that compute. Shapes: [n].

    Attributes:
        path: Index of the memory that holds the replay cache.
        rate: Its bytes per cycle.
        nbytes: Cached outputs read.
        add_cycles: Cycles to add them to the residual, after their last byte.
        busy_cycles: Cycles in which cores that compute nothing else add, summed over cores.
        vector_ops: Element operations, summed over cores.
    """

    path: int
    rate: Rate
    nbytes: Ints
    add_cycles: Ints
    busy_cycles: Ints
    vector_ops: Ints

    def take(self, index: Index) -> "ReplayWork":
        """The replays of some of the phases of one design, or of some of them several times."""
        return replace(
            self,
            nbytes=self.nbytes[index],
            add_cycles=self.add_cycles[index],
            busy_cycles=self.busy_cycles[index],
            vector_ops=self.vector_ops[index],
        )


@dataclass(frozen=True, eq=False)
class Dispatch:
    """The dispatcher of n phases that rows skip, which starts before they do.

    Attributes:
        machine: The numbers of D designs.
        schedule: Assignment of sequences to cores, and its dispatch.
        cases: Who computes, of the sequences that the register holds.
        known_cycles: Cycles for which decisions have been known when the phase begins, [n].
    """

    machine: MachineArrays
    schedule: Schedule
    cases: RowCases
    known_cycles: Ints

    @cached_property
    def queues(self) -> Queues | None:
        """Queues of cores whose depth is limited; None if no instruction ever waits."""
        depth = self.machine.queue_depth(self.schedule)
        if depth is None:
            return None
        assigned = self.machine.assign(self.schedule, self.cases.computing)
        lanes = self.cases.lanes(self.machine, self.schedule)
        return Queues(self.machine.registers, depth, assigned, lanes, self.cycles)

    @property
    def exposed_cycles(self) -> Ints:
        """Cycles from the beginning of the phase until cores may begin, [n]."""
        cores_start = self.cycles if self.queues is None else self.queues.cores_start
        return np.maximum(0, cores_start - self.known_cycles)

    @property
    def cycles(self) -> int:
        """From the decisions to the last instruction."""
        return self.machine.dispatch_cycles(self.schedule, self.cases.computing.shape[-1])


class UntimedWork(NamedTuple):
    """Work of n phases whose time is that of a table, and not that of its units.

    Attributes:
        dram_bytes: Bytes moved by memory, [n, memories].
        vector_ops: Element operations of rows that replay, [n].
        sram_bytes: On-chip bytes of rows that replay, [n].
    """

    dram_bytes: Ints
    vector_ops: Ints
    sram_bytes: Ints

    def take(self, index: Index) -> "UntimedWork":
        """The work of some of the phases, or of some of them several times."""
        return UntimedWork(
            dram_bytes=self.dram_bytes[index],
            vector_ops=self.vector_ops[index],
            sram_bytes=self.sram_bytes[index],
        )


@dataclass(frozen=True, eq=False)
class Phase:
    """A batch of n phases of one kind, not a single phase. Shapes: [n] unless said otherwise.

    In a phase, each operation of a lane is a *step*; a step of decoding is not meant.

    Attributes:
        steps: Operations of the K lanes, in order.
        latencies: Cycles from request to first byte, by memory; one, or [n, 1].
        bound_cycles: No assignment of whole sequences to these cores takes less.
        bound_dram_bytes: Bytes that the assignment of the bound moves, [n, memories].
        replay: Sequences that replay, if any do in one of the phases.
        dispatch: The dispatcher that the phase waits for, if decisions were taken.
        early_fetch: Operands may be fetched before dispatch is over, as their core is known.
        untimed: Work whose time is that of a table; its steps have no operands.
    """

    steps: tuple[LaneOp, ...]
    latencies: tuple[Any, ...]
    bound_cycles: Ints
    bound_dram_bytes: Ints
    replay: ReplayWork | None = None
    dispatch: Dispatch | None = None
    early_fetch: bool = True
    untimed: UntimedWork | None = None

    @property
    def n(self) -> int:
        """Number of phases."""
        return len(self.bound_cycles)

    @property
    def exposed_cycles(self) -> Ints:
        """Cycles of dispatch still to go when each phase begins, [n]."""
        return np.zeros(self.n, np.int64) if self.dispatch is None else self.dispatch.exposed_cycles

    def take(self, index: Index) -> "Phase":
        """Some of the phases of one design, or some of them several times; none is dispatched."""
        assert self.dispatch is None
        return replace(
            self,
            steps=tuple(step.take(index) for step in self.steps),
            bound_cycles=self.bound_cycles[index],
            bound_dram_bytes=self.bound_dram_bytes[index],
            replay=None if self.replay is None else self.replay.take(index),
            untimed=None if self.untimed is None else self.untimed.take(index),
        )

    @property
    def lanes(self) -> int:
        """K."""
        return max((step.cycles.shape[1] for step in self.steps), default=1)


@dataclass(frozen=True, eq=False)
class Outcome:
    """Time and work of n phases. Shapes: [n] unless said otherwise.

    Attributes:
        cycles: Length.
        times: Cycles by category along the lane that ended last, [n, categories].
        compute_cycles: Compute cycles of that lane.
        busy_cycles: Cycles in which cores compute, summed over cores.
        macs: Multiply-accumulates.
        vector_ops: Element operations.
        sram_bytes: On-chip bytes written and read.
        dram_bytes: Bytes moved by memory, [n, memories].
        bound_cycles: As in :class:`Phase`.
        bound_dram_bytes: As in :class:`Phase`, [n, memories].
        booked: Cycles of each state of each core and port, :func:`carsim.account.booking.booked`,
            [n, tracks * states]; [n, 0] if nobody asked.
        buffer_traffic: Traffic through buffers, :func:`carsim.explore.unhindered.buffer_traffic`,
            [n, figures]; [n, 0] if nobody asked.
    """

    cycles: Ints
    times: Ints
    compute_cycles: Ints
    busy_cycles: Ints
    macs: Ints
    vector_ops: Ints
    sram_bytes: Ints
    dram_bytes: Ints
    bound_cycles: Ints
    bound_dram_bytes: Ints
    booked: Ints
    buffer_traffic: Ints

    def take(self, index: NDArray[np.intp]) -> "Outcome":
        """Some of the phases, or some of them several times."""
        return Outcome(
            cycles=self.cycles[index],
            times=self.times[index],
            compute_cycles=self.compute_cycles[index],
            busy_cycles=self.busy_cycles[index],
            macs=self.macs[index],
            vector_ops=self.vector_ops[index],
            sram_bytes=self.sram_bytes[index],
            dram_bytes=self.dram_bytes[index],
            bound_cycles=self.bound_cycles[index],
            bound_dram_bytes=self.bound_dram_bytes[index],
            booked=self.booked[index],
            buffer_traffic=self.buffer_traffic[index],
        )

    def summed(self, counts: Ints, designs: int = 1) -> "Outcome":
        """Sum the phases of each of D designs.

        Args:
            counts: How often each of the n / D phases of a design occurs, int64[n / D].
            designs: D.

        Returns:
            One sum per design: n = D.
        """

        def weighted_sum(figure: Ints) -> Ints:
            return np.tensordot(by_design(figure, designs), counts, ([1], [0]))

        return Outcome(
            cycles=weighted_sum(self.cycles),
            times=weighted_sum(self.times),
            compute_cycles=weighted_sum(self.compute_cycles),
            busy_cycles=weighted_sum(self.busy_cycles),
            macs=weighted_sum(self.macs),
            vector_ops=weighted_sum(self.vector_ops),
            sram_bytes=weighted_sum(self.sram_bytes),
            dram_bytes=weighted_sum(self.dram_bytes),
            bound_cycles=weighted_sum(self.bound_cycles),
            bound_dram_bytes=weighted_sum(self.bound_dram_bytes),
            booked=weighted_sum(self.booked),
            buffer_traffic=weighted_sum(self.buffer_traffic),
        )

    @staticmethod
    def join(parts: Sequence["Outcome"], designs: int = 1) -> "Outcome":
        """The phases of several outcomes of D designs, for each design one after the other."""
        joined = []
        for field in fields(Outcome):
            figures = [by_design(getattr(outcome, field.name), designs) for outcome in parts]
            figure = np.concatenate(figures, axis=1)
            joined.append(figure.reshape(designs * figure.shape[1], *figure.shape[2:]))
        return Outcome(*joined)


def by_design(figure: Ints, designs: int) -> Ints:
    """A figure of n phases of each of D designs, [D n, ...] -> [D, n, ...]."""
    return figure.reshape(designs, len(figure) // designs, *figure.shape[1:])


class Timing(NamedTuple):
    """Start and end of everything in n phases, as one fidelity finds them.

    Attributes:
        step_start: When the lanes came to each step, [steps, n, K].
        fetch_start: When its operand was first asked for, [steps, n, K].
        array_start: When the array began on it, [steps, n, K].
        fetch_end: When the last of its operand had arrived, [steps, n, K].
        step_end: When it was computed, [steps, n, K].
        sides_end: When the last transfer beside the streams was over, [n].
        replay_end: When the last replay was over, 0 without one, [n].
        interpolated: Some phases were not taken: their moments lie between those of others.
    """

    step_start: Ints
    fetch_start: Ints
    array_start: Ints
    fetch_end: Ints
    step_end: Ints
    sides_end: Ints
    replay_end: Ints
    interpolated: bool = False

    @classmethod
    def of(cls, times: Ints, sides_end: Ints, replay_end: Ints) -> "Timing":
        """The five times of all steps in one array, [5, steps, n, K], and the others."""
        step_start, fetch_start, array_start, fetch_end, step_end = times
        return cls(
            step_start=step_start,
            fetch_start=fetch_start,
            array_start=array_start,
            fetch_end=fetch_end,
            step_end=step_end,
            sides_end=sides_end,
            replay_end=replay_end,
        )


def moved_bytes(
    steps: Sequence[LaneOp], n: int, memories: int, cores_per_lane: Ints | int = 1
) -> Ints:
    """Bytes that the steps of n phases move, by memory, [n, memories].

    Args:
        steps: The steps.
        n: Phases.
        memories: Memories.
        cores_per_lane: Cores that each lane stands for, [K].
    """
    moved = np.zeros((n, memories), np.int64)
    for step in steps:
        if step.path >= 0:
            moved[:, step.path] += sum_across(cores_per_lane * step.stream_bytes)
        for path, _, nbytes in step.sides:
            moved[:, path] += sum_across(cores_per_lane * nbytes)
    return moved


def outcome(phase: Phase, timing: Timing) -> Outcome:
    """Time and work of n phases from their timing, at either fidelity."""
    n = phase.n
    exposed = phase.exposed_cycles
    ends = np.zeros((n, phase.lanes), np.int64) + exposed[:, None]
    if phase.steps:
        ends = np.maximum(ends, timing.step_end[-1])
    last = ends.argmax(axis=1)
    times, compute = _booked(phase.steps, timing, last)
    end = np.maximum(of_lane(ends, last), np.maximum(timing.sides_end, timing.replay_end))
    times[:, Category.DRS] += of_lane(timing.step_start[0], last) if phase.steps else exposed
    # What is left after the last core: a replay that took longer, or writes that drain.
    tail_cycles = end - sum_across(times)
    is_replay_last = timing.replay_end == end
    times[:, Category.REPLAY] += tail_cycles * is_replay_last
    times[:, Category.WAIT_DDR] += tail_cycles * ~is_replay_last
    work = _work(phase)
    return Outcome(
        cycles=end,
        times=times,
        compute_cycles=compute,
        bound_cycles=phase.bound_cycles,
        bound_dram_bytes=phase.bound_dram_bytes,
        busy_cycles=work.busy_cycles,
        macs=work.macs,
        vector_ops=work.vector_ops,
        sram_bytes=work.sram_bytes,
        dram_bytes=work.dram_bytes,
        booked=np.zeros((n, 0), np.int64),
        buffer_traffic=np.zeros((n, 0), np.int64),
    )


class _Work(NamedTuple):
    """Work of n phases. Shapes: [n] unless said otherwise.

    Attributes:
        busy_cycles: Cycles in which cores compute, summed over cores.
        macs: Multiply-accumulates.
        vector_ops: Element operations.
        sram_bytes: On-chip bytes written and read.
        dram_bytes: Bytes moved by memory, [n, memories].
    """

    busy_cycles: Ints
    macs: Ints
    vector_ops: Ints
    sram_bytes: Ints
    dram_bytes: Ints


def _work(phase: Phase) -> _Work:
    """Work of n phases; it does not depend on their timing."""
    n = phase.n
    busy_cycles = np.zeros(n, np.int64)
    macs = np.zeros(n, np.int64)
    vector_ops = np.zeros(n, np.int64)
    sram_bytes = np.zeros(n, np.int64)
    for step in phase.steps:
        busy_cycles += sum_across(step.busy_cycles)
        macs += sum_across(step.macs)
        vector_ops += sum_across(step.vector_ops)
        sram_bytes += sum_across(step.sram_bytes)
    dram_bytes = moved_bytes(phase.steps, n, len(phase.latencies))
    replay = phase.replay
    if replay is not None:
        busy_cycles += replay.busy_cycles
        vector_ops += replay.vector_ops
        sram_bytes += 2 * replay.nbytes  # into a buffer, and out of it
        dram_bytes[:, replay.path] += replay.nbytes
    if phase.untimed is not None:
        vector_ops += phase.untimed.vector_ops
        sram_bytes += phase.untimed.sram_bytes
        dram_bytes += phase.untimed.dram_bytes
    return _Work(
        busy_cycles=busy_cycles,
        macs=macs,
        vector_ops=vector_ops,
        sram_bytes=sram_bytes,
        dram_bytes=dram_bytes,
    )


def of_lane(figure: Ints, lane: NDArray[np.intp]) -> Ints:
    """A figure of one lane of each of n phases, [n]; [1] where one stands for all phases.

    Args:
        figure: The figure of all lanes, [n, K]; an axis of 1 where all are equal.
        lane: The lane of each phase, [n].
    """
    phases, lanes = figure.shape
    if lanes == 1:
        return figure[:, 0]  # a view; an index would take as long as twenty sums
    return figure[np.arange(len(lane)) if phases > 1 else 0, lane]


def _booked(steps: Sequence[LaneOp], timing: Timing, last: NDArray[np.intp]) -> tuple[Ints, Ints]:
    """Cycles by category of one lane of each phase, [n, categories], and its compute cycles, [n].

    Args:
        steps: The steps of n phases.
        timing: When they took place.
        last: The lane of each, [n].
    """
    compute = np.zeros(len(last), np.int64)
    times = np.zeros((len(last), N_CATEGORIES), np.int64)
    for number, step in enumerate(steps):
        start = of_lane(timing.step_start[number], last)
        array_start = of_lane(timing.array_start[number], last)
        end = of_lane(timing.step_end[number], last)
        step_cycles = of_lane(step.pre_cycles + step.cycles, last)
        array_cycles = of_lane(step.cycles, last)
        balanced = of_lane(step.balanced_cycles, last)
        # Where the array never waits once it has begun, what the fullest core takes beyond an even
        # share is time spent queueing for that core; where memory sets the pace, an even share
        # gains nothing.
        computes = end > start
        never_stalls = end <= array_start + array_cycles
        barrier_cycles = (step_cycles - balanced) * (computes & never_stalls)
        compute_cycles = step_cycles * computes
        times[:, Category.WAIT_DDR] += end - start - compute_cycles
        times[:, Category.WAIT_CORE] += barrier_cycles
        times[:, step.category] += compute_cycles - barrier_cycles
        compute += compute_cycles
    return times, compute

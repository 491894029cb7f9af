"""One kind of phase, n times: the work that both rungs execute, the outcome, and sums of outcomes.

A phase begins with its operands in memory and ends when its last core, its last replay and its last
write are done. Nothing crosses that boundary, so that a phase is a pure function of a handful of
whole numbers, and a run is a sum over its distinct phases, each times how often it occurs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.hardware.schedule import Schedule
from carsim.machine.cases import MlpCases
from carsim.machine.hardware import Hardware, Rate
from carsim.machine.lanes import Ints, Step
from carsim.machine.queues import Queues
from carsim.workload.ops import CATEGORY_LABELS, Category

N_CATEGORIES = len(CATEGORY_LABELS)

MOST_PLAYED = 2048
"""Phases that the SimPy machine plays of those that differ in their length alone: all that a video
of 8 frames of 256 tokens has."""


@dataclass(frozen=True, eq=False)
class ReplayWork:
    """The sequences of n phases that replay, beside those that compute. Shapes: [n].

    Attributes:
        path: Index of the memory that holds the replay cache.
        rate: Its bytes per cycle.
        nbytes: Cached outputs read.
        cycles: To add them to the residual.
        busy_cycles: Cycles in which cores that compute nothing else add, summed over cores.
        vector_ops: Element operations, summed over cores.
    """

    path: int
    rate: Rate
    nbytes: Ints
    cycles: Ints
    busy_cycles: Ints
    vector_ops: Ints


@dataclass(frozen=True, eq=False)
class Dispatch:
    """The dispatcher of n MLP phases, which starts before they do.

    Attributes:
        hw: The hardware.
        schedule: Assignment of sequences to cores, and its dispatch.
        cases: Who computes, of the sequences that the register holds.
        known_cycles: Cycles for which decisions have been known when the phase begins, [n].
    """

    hw: Hardware
    schedule: Schedule
    cases: MlpCases
    known_cycles: Ints

    @cached_property
    def queues(self) -> Queues | None:
        """Queues of cores whose depth is limited; None if no instruction ever waits."""
        depth = self.hw.queue_depth(self.schedule)
        if depth is None:
            return None
        assigned = self.hw.assign(self.schedule, self.cases.computing)
        lanes = self.cases.lanes(self.hw, self.schedule)
        return Queues(self.hw.design.machine.drs, depth, assigned, lanes, self.cycles)

    @property
    def exposed_cycles(self) -> Ints:
        """Cycles from the beginning of the phase until cores may begin, [n]."""
        begun = self.cycles if self.queues is None else self.queues.begun
        return np.maximum(0, begun - self.known_cycles)

    @property
    def cycles(self) -> int:
        """From the decisions to the last instruction."""
        return self.hw.dispatch_cycles(self.schedule, self.cases.computing.shape[-1])


@dataclass(frozen=True, eq=False)
class Phase:
    """n phases of one kind. Shapes: [n] unless said otherwise.

    Attributes:
        steps: Work of the K lanes, in order.
        latencies: Cycles from request to first byte, by memory; one, or [n, 1].
        bound_cycles: No assignment of whole sequences to these cores takes less.
        bound_dram_bytes: Bytes that the assignment of the bound moves, [n, memories].
        replay: Sequences that replay, if any do in one of the phases.
        dispatch: The dispatcher that the phase waits for, if decisions were taken.
        early_fetch: Operands may be fetched before dispatch is over, as their core is known.
    """

    steps: tuple[Step, ...]
    latencies: tuple[Any, ...]
    bound_cycles: Ints
    bound_dram_bytes: Ints
    replay: ReplayWork | None = None
    dispatch: Dispatch | None = None
    early_fetch: bool = True

    @property
    def n(self) -> int:
        """Number of phases."""
        return len(self.bound_cycles)

    @property
    def exposed_cycles(self) -> Ints:
        """Cycles of dispatch still to go when each phase begins, [n]."""
        return np.zeros(self.n, np.int64) if self.dispatch is None else self.dispatch.exposed_cycles

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
        booked: Cycles of each state of each core and port, :func:`carsim.machine.booking.booked`,
            [n, tracks * states]; [n, 0] if nobody asked.
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

    def take(self, index: NDArray[np.intp]) -> "Outcome":
        """Some of the phases, or some of them several times."""
        return Outcome(*(getattr(self, each.name)[index] for each in fields(self)))

    def summed(self, counts: Ints, designs: int = 1) -> "Outcome":
        """The phases of each of D designs one after the other, each so often: n = D."""
        every = (by_design(getattr(self, each.name), designs) for each in fields(self))
        return Outcome(*(np.tensordot(figure, counts, ([1], [0])) for figure in every))

    @staticmethod
    def join(parts: Sequence["Outcome"], designs: int = 1) -> "Outcome":
        """The phases of several outcomes of D designs, for each design one after the other."""
        joined = []
        for each in fields(Outcome):
            figures = [by_design(getattr(part, each.name), designs) for part in parts]
            whole = np.concatenate(figures, axis=1)
            joined.append(whole.reshape(designs * whole.shape[1], *whole.shape[2:]))
        return Outcome(*joined)


def by_design(figure: Ints, designs: int) -> Ints:
    """A figure of n phases of each of D designs, [D n, ...] -> [D, n, ...]."""
    return figure.reshape(designs, len(figure) // designs, *figure.shape[1:])


class Timing(NamedTuple):
    """Start and end of everything in n phases, as a rung of the ladder finds them.

    Attributes:
        begun: When the lanes came to each step, [steps, n, K].
        fetch_begun: When its operand was first asked for, likewise.
        array_begun: When the array began on it, likewise.
        fetched: When the last of its operand had arrived, likewise.
        ended: When it was computed, likewise.
        sides_end: When the last transfer beside the streams was over, [n].
        replay_end: When the last replay was over, 0 without one, [n].
        interpolated: Some phases were not taken: their moments lie between those of others.
    """

    begun: Ints
    fetch_begun: Ints
    array_begun: Ints
    fetched: Ints
    ended: Ints
    sides_end: Ints
    replay_end: Ints
    interpolated: bool = False

    @classmethod
    def of(cls, times: Ints, sides_end: Ints, replay_end: Ints) -> "Timing":
        """The five times of all steps in one array, [5, steps, n, K], and the others."""
        begun, fetch_begun, array_begun, fetched, ended = times
        return cls(begun, fetch_begun, array_begun, fetched, ended, sides_end, replay_end)


def moved_bytes(steps: Sequence[Step], n: int, memories: int, alike: Ints | int = 1) -> Ints:
    """Bytes that the steps of n phases move, by memory, [n, memories].

    Args:
        steps: The steps.
        n: Phases.
        memories: Memories.
        alike: Cores that each lane stands for, [K].
    """
    moved = np.zeros((n, memories), np.int64)
    for step in steps:
        if step.path >= 0:
            moved[:, step.path] += (alike * step.stream_bytes).sum(axis=-1)
        for path, _, nbytes in step.sides:
            moved[:, path] += (alike * nbytes).sum(axis=-1)
    return moved


def outcome(phase: Phase, timing: Timing) -> Outcome:
    """Time and work of n phases from their timing, which either rung found."""
    n, rows, exposed = phase.n, np.arange(phase.n), phase.exposed_cycles
    ends = np.zeros((n, phase.lanes), np.int64) + exposed[:, None]
    if phase.steps:
        ends = np.maximum(ends, timing.ended[-1])
    last = ends.argmax(axis=1)
    times, compute = _booked(phase.steps, timing, last)
    end = np.maximum(ends[rows, last], np.maximum(timing.sides_end, timing.replay_end))
    times[:, Category.DRS] += timing.begun[0][rows, last] if phase.steps else exposed
    # What is left after the last core: a replay that took longer, or writes that drain.
    left, late = end - times.sum(axis=1), timing.replay_end == end
    times[:, Category.REPLAY] += left * late
    times[:, Category.WAIT_DDR] += left * ~late
    return Outcome(
        cycles=end,
        times=times,
        compute_cycles=compute,
        bound_cycles=phase.bound_cycles,
        bound_dram_bytes=phase.bound_dram_bytes,
        booked=np.zeros((n, 0), np.int64),
        **_work(phase),
    )


def _work(phase: Phase) -> dict[str, Ints]:
    """Work of n phases; it does not depend on their timing."""
    n, replay = phase.n, phase.replay
    dram = moved_bytes(phase.steps, n, len(phase.latencies))
    names = ("busy_cycles", "macs", "vector_ops", "sram_bytes")
    sums = {name: np.zeros(n, np.int64) for name in names}
    for step in phase.steps:
        for name, total in sums.items():
            total += getattr(step, name).sum(axis=-1)
    if replay is not None:
        dram[:, replay.path] += replay.nbytes
        sums["busy_cycles"] += replay.busy_cycles
        sums["vector_ops"] += replay.vector_ops
        sums["sram_bytes"] += 2 * replay.nbytes  # into a buffer, and out of it
    return {"dram_bytes": dram, **sums}


def _booked(steps: Sequence[Step], timing: Timing, last: NDArray[np.intp]) -> tuple[Ints, Ints]:
    """Cycles by category of one lane of each phase, [n, categories], and its compute cycles, [n].

    Args:
        steps: The steps of n phases.
        timing: When they took place.
        last: The lane of each, [n].
    """
    rows, compute = np.arange(len(last)), np.zeros(len(last), np.int64)
    times = np.zeros((len(last), N_CATEGORIES), np.int64)

    def of_lane(figure: Ints) -> Ints:
        phases, lanes = figure.shape
        return figure[rows if phases > 1 else 0, last if lanes > 1 else 0]

    for step, *moments in zip(steps, timing.begun, timing.array_begun, timing.ended, strict=True):
        begun, array_begun, ended = (at[rows, last] for at in moments)
        own, cycles = of_lane(step.pre_cycles + step.cycles), of_lane(step.cycles)
        balanced = of_lane(step.balanced_cycles)
        # Where the array never waits once it has begun, what the fullest core takes beyond an even
        # share is time spent queueing for that core; where memory sets the pace, an even share
        # gains nothing.
        worked = ended > begun
        queued = (own - balanced) * (worked & (ended <= array_begun + cycles))
        own = own * worked
        times[:, Category.WAIT_DDR] += ended - begun - own
        times[:, Category.WAIT_CORE] += queued
        times[:, step.category] += own - queued
        compute += own
    return times, compute


@dataclass(frozen=True, slots=True)
class PhaseTotals:
    """Time and work of all phases of a kind; fields as in :class:`Outcome`.

    Attributes:
        count: Phases summed.
    """

    count: int
    cycles: int
    times: tuple[int, ...]
    compute_cycles: int
    busy_cycles: int
    macs: int
    vector_ops: int
    sram_bytes: int
    dram_bytes: tuple[int, ...]
    bound_cycles: int
    bound_dram_bytes: tuple[int, ...]
    booked: tuple[int, ...]


def exactly(counts: Ints, figures: Ints) -> NDArray[Any]:
    """Sums of figures [D, n, k], each so often, [D or 1, P, n]: Python's integers, [D, P, k].

    They are right whatever their size.
    """
    if int(counts.sum(axis=-1).max()) * int(figures.max(initial=0)) >= 1 << 62:
        counts = counts.astype(object)
    return (counts @ figures).astype(object)


def totals_of(
    weighted: Sequence[tuple[Outcome, Ints]], designs: int = 1
) -> list[list[PhaseTotals]]:
    """Sums of outcomes on each of D designs, for each of P parts of the batches.

    Args:
        weighted: Outcomes, and how often their phases occur in each part, [D or 1, P or 1, n].
        designs: D.
    """
    sums: Any = 0
    for outcome, counts in weighted:
        every = [getattr(outcome, each.name) for each in fields(Outcome)]
        figures = np.column_stack([np.ones_like(outcome.cycles), *every])
        sums = sums + exactly(counts, by_design(figures, designs))
    widths = [None, *(None if each.ndim == 1 else each.shape[1] for each in every)]

    def total(figures: Iterator[Any]) -> PhaseTotals:
        parts: Any = (next(figures) if k is None else tuple(islice(figures, k)) for k in widths)
        return PhaseTotals(*parts)

    return [[total(iter(figures)) for figures in of_design] for of_design in sums.tolist()]

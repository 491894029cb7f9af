"""What every model of a lane of cores has: steps in, books out.

Two processes work through the steps of a phase. *Fetch* brings the operands of the steps in from
memory, in order; *compute* executes the steps, in order: its side transfers start, then come the
element operations that must precede the array, then the array with the rest of the vector unit
beside it. How operands and array meet is what :class:`~carsim.machine.core.Core` (fluid) and
:class:`~carsim.machine.tile.TileCore` differ in.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import simpy

from carsim.machine.buffer import StreamBuffer
from carsim.machine.clock import Clock
from carsim.workload.ops import CATEGORY_LABELS, Category

Emit = Callable[[str, str, int, int], None]
"""What hardware tells an observer: (track, name, start cycle, end cycle) of a slice of time."""

Process = Generator[simpy.Event, Any, None]


class Step(NamedTuple):
    """An op as one lane of cores executes it; figures are those of one core unless said otherwise.

    Attributes:
        category: Where its time is booked.
        pre_cycles: Exchange and element operations before the array may start.
        exchange_cycles: Of these, the exchange of activations between cores.
        cycles: Compute cycles of the slowest core of the lane.
        balanced_cycles: The same, were the sequences spread evenly over all cores.
        path: Index of the memory that the operand streams from; -1 for none.
        stream_bytes: Bytes of the operand.
        tile_bytes: What must be in before the array starts, and what it reads at once.
        buffer_bytes: What may be fetched ahead of the array.
        is_kv: The operand goes to the KV buffer instead of the weight buffer.
        sides: Further flows: (memory index, bytes).
        busy_cycles: Cycles in which cores of the lane compute, summed over its cores.
        macs: Multiply-accumulates, summed over the lane.
        vector_ops: Element operations, summed over the lane.
        sram_bytes: On-chip bytes read and written, summed over the lane.
    """

    category: Category
    pre_cycles: int
    exchange_cycles: int
    cycles: int
    balanced_cycles: int
    path: int
    stream_bytes: int
    tile_bytes: int
    buffer_bytes: int
    is_kv: bool
    sides: tuple[tuple[int, int], ...]
    busy_cycles: int
    macs: int
    vector_ops: int
    sram_bytes: int


def book(times: list[int], step: Step, begun: int, array_begun: int, ended: int) -> None:
    """Add the cycles that a step took to the categories they belong to.

    Args:
        times: Cycles by category.
        step: The step.
        begun: When the lane came to it.
        array_begun: When the array began it, if its operand streams in.
        ended: When it ended.
    """
    own = step.pre_cycles + step.cycles
    # Where the array never waits once it has begun, what the fullest core takes beyond an even
    # share is time spent queueing for that core; where memory sets the pace, an even share gains
    # nothing.
    is_unpaced = step.path < 0 or ended <= array_begun + step.cycles
    queued = is_unpaced * (own - step.balanced_cycles)
    times[Category.WAIT_DDR] += ended - begun - own
    times[Category.WAIT_CORE] += queued
    times[step.category] += own - queued


@dataclass(frozen=True, slots=True)
class Lead:
    """A fetch for the phase that follows, which may start before this one is over.

    Attributes:
        path: Index of the memory.
        nbytes: As much of the first operand as its buffer holds.
        is_kv: It goes to the KV buffer instead of the weight buffer.
        tile_bytes: What is requested at once.
        buffer_bytes: What the buffer holds.
    """

    path: int
    nbytes: int
    is_kv: bool
    tile_bytes: int
    buffer_bytes: int


class Transfer(Protocol):
    """Bytes on their way; ``done`` triggers when the last one has arrived."""

    done: simpy.Event


class MemoryModel(Protocol):
    """One path to memory, whatever its fidelity."""

    moved_bytes: int

    def start(self, nbytes: int, *, weight: int = 1) -> Transfer:
        """Move ``nbytes`` for each of ``weight`` identical consumers."""


class LaneModel(ABC):
    """One lane: ``cores`` identical cores, or all cores in lockstep on shared operands.

    Args:
        env: Event loop.
        name: What observers call it.
        steps: The work, in order.
        cores: Identical cores that this lane stands for, each with operands of its own.
        memories: Paths to memory, indexed by the steps.
        latencies: Cycles from request to first byte, by memory.
        lead_in_bytes: Bytes of the first streamed step that the phase before has fetched.
        is_streaming: More of them are on their way: the first request need not wait for latency.
        lead_out: What to fetch for the next phase once all own operands are in.
        fetch_gate: Event before which nothing may be fetched.
        start_gate: Event before which nothing may be computed.
        emit: Observer, or None.

    Attributes:
        done: Triggers when the last step has been executed.
        sides: The side transfers started so far.
        lead_begun: The cycle in which the fetch for the next phase began, -1 before.
        times: Cycles by category; they sum to the time from the start gate to the last step's end.
        executed: Steps executed so far, and in ``step_ends`` when each ended.
    """

    def __init__(
        self,
        env: Clock,
        name: str,
        steps: Sequence[Step],
        cores: int,
        memories: Sequence[MemoryModel],
        latencies: Sequence[int],
        *,
        lead_in_bytes: int = 0,
        is_streaming: bool = False,
        lead_out: Lead | None = None,
        fetch_gate: simpy.Event | None = None,
        start_gate: simpy.Event | None = None,
        emit: Emit | None = None,
    ) -> None:
        self.name = name
        self.cores = cores
        self.times = [0] * len(CATEGORY_LABELS)
        self.executed: list[Step] = []
        self.step_ends: list[int] = []
        self.weight_buffer = StreamBuffer()
        self.kv_buffer = StreamBuffer()
        self.lead_out = lead_out
        self.sides: list[simpy.Event] = []
        self.lead_begun = -1
        self._env = env
        self._steps = steps
        self._memories = memories
        self._latencies = latencies
        self._lead_in_bytes = lead_in_bytes
        self._is_streaming = is_streaming
        self._fetch_gate = fetch_gate
        self._start_gate = start_gate
        self._emit = emit
        self._array_begun = 0  # when the array began the step under way
        self._prepare()
        env.process(self._fetch())
        self.done: simpy.Event = env.process(self._compute())

    @abstractmethod
    def lead_out_bytes(self) -> tuple[int, int]:
        """Bytes per core fetched by now for the phase that follows, and bytes wanted."""

    @abstractmethod
    def unfetched_lead(self, kept_bytes: int) -> list[tuple[int, int]]:
        """(Memory, bytes) booked for the next phase beyond the bytes that are kept of it."""

    @abstractmethod
    def _prepare(self) -> None:
        """Set up private state before the processes start."""

    @abstractmethod
    def _fetch(self) -> Process:
        """Process: bring the operands of all steps in, then the lead of the next phase."""

    @abstractmethod
    def _compute_streamed(self, index: int, step: Step) -> Process:
        """Process: execute one step whose operand streams in; note when the array begins it."""

    def _compute(self) -> Process:
        env = self._env
        if self._start_gate is not None and not self._start_gate.processed:
            yield self._start_gate
        for index, step in enumerate(self._steps):
            begun = env.cycle
            for path, nbytes in step.sides:
                self.sides.append(self._memories[path].start(nbytes, weight=self.cores).done)
            if step.pre_cycles:
                yield env.timeout(step.pre_cycles)
            if step.path < 0:
                if step.cycles:
                    yield env.timeout(step.cycles)
            else:
                yield from self._compute_streamed(index, step)
            self._book(step, begun)

    def _buffer(self, step: Step) -> StreamBuffer:
        return self.kv_buffer if step.is_kv else self.weight_buffer

    def _book(self, step: Step, begun: int) -> None:
        now = self._env.cycle
        book(self.times, step, begun, self._array_begun, now)
        self.executed.append(step)
        self.step_ends.append(now)
        if self._emit is not None:
            self._emit(self.name, CATEGORY_LABELS[step.category], begun, now)

"""A compute core in SimPy: a DMA fills double buffers, a vector unit and an array empty them.

A core stalls in :meth:`Core._compute_operand`, where the array waits until the next tile is
complete.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import NamedTuple

import simpy

from carsim.machine.play.port import MemoryPort, Process


class SideWrite(NamedTuple):
    """A write beside the operands, which only the end of the phase waits for.

    Attributes:
        memory: Index of the memory.
        rate: Bytes per cycle that the memory sustains for it.
        nbytes: Its bytes.
    """

    memory: int
    rate: Fraction
    nbytes: int


class Task(NamedTuple):
    """A step of one core in one phase: :class:`carsim.machine.lanes.LaneOp` in plain numbers.

    Attributes:
        pre_cycles: Exchange and element operations before the array may start.
        cycles: Compute cycles of the array.
        memory: Index of the memory that the operand streams from; None without an operand.
        rate: Bytes per cycle that this memory sustains for the operand.
        operand_bytes: Bytes of the operand.
        tile_bytes: Bytes of one request, all of which must have arrived before the array reads it.
        is_kv: The operand goes to the KV buffer instead of the weight buffer.
        writes: Writes that begin with the task.
        held_back: The operand is requested after ``pre_cycles``, and not before.
    """

    pre_cycles: int
    cycles: int
    memory: int | None
    rate: Fraction
    operand_bytes: int
    tile_bytes: int
    is_kv: bool
    writes: tuple[SideWrite, ...]
    held_back: bool


class TileTimes(NamedTuple):
    """Times of one tile of an operand, in cycles of the phase.

    Attributes:
        arrived: The tile was complete in the buffer.
        begun: The array began on it.
        ended: The array was done with it, which frees its slot.
        cycles: Compute cycles of the array; work beyond them waits for instructions.
    """

    arrived: int
    begun: int
    ended: int
    cycles: int


class Tile(NamedTuple):
    """A part of an operand, which one request brings."""

    nbytes: int
    cycles: int


def tiles_of(task: Task) -> list[Tile]:
    """Cut the operand of a task into tiles; the last may be smaller.

    Compute cycles are shared by bytes. Their sum over the first tiles is rounded up.
    """
    tiles = []
    cycles_before = 0
    for first_byte in range(0, task.operand_bytes, task.tile_bytes):
        end_byte = min(first_byte + task.tile_bytes, task.operand_bytes)
        cycles_so_far = -(-task.cycles * end_byte // task.operand_bytes)
        tiles.append(Tile(end_byte - first_byte, cycles_so_far - cycles_before))
        cycles_before = cycles_so_far
    return tiles


class InstructionQueue:
    """The instructions that wait at a core; it takes the next one when the one before is done.

    Args:
        env: The event loop.
        depth: Instructions that the queue holds.
        instructions: Instructions of all sequences of the core.
        cycles: Cycles of the core, of which each instruction has an equal part.

    Attributes:
        sent: The queue, which the dispatcher fills.
    """

    def __init__(
        self, env: simpy.Environment, *, depth: int, instructions: int, cycles: int
    ) -> None:
        self.sent: simpy.Store = simpy.Store(env, depth)
        self._env = env
        self._instructions = instructions
        self._cycles = cycles
        self._cycles_done = 0
        self._taken = 0

    def begin(self) -> Process:
        """Take the first instruction."""
        yield self.sent.get()
        self._taken = 1

    def execute(self, cycles: int) -> Process:
        """Work for ``cycles`` cycles, and take each instruction when its work begins."""
        end = self._cycles_done + cycles
        while self._cycles_done < end:
            pause = end
            if self._taken < self._instructions:
                next_begins = self._taken * self._cycles // self._instructions
                if self._cycles_done == next_begins:
                    yield self.sent.get()
                    self._taken += 1
                    continue
                pause = min(end, next_begins)
            yield self._env.timeout(pause - self._cycles_done)
            self._cycles_done = pause


class DoubleBuffer:
    """Slots for whole tiles: some fill while the array reads another.

    Args:
        env: The event loop.
        slots: Number of tiles that it holds.

    Attributes:
        free: Slots without a tile, and not reserved for a tile on its way.
    """

    def __init__(self, env: simpy.Environment, slots: int) -> None:
        self.free = simpy.Store(env)
        self.free.items += [None] * slots


@dataclass(slots=True)
class TaskTimes:
    """Times of a core in one task, in cycles of the phase.

    Attributes:
        step_start: The core came to the task.
        fetch_start: It first requested the operand.
        array_start: The array began.
        fetch_end: The last tile of the operand arrived.
        step_end: The array was done.
        arrivals: When each tile arrived, if somebody watches.
        tiles: All tiles of the operand in order, if somebody watches.
    """

    step_start: int = 0
    fetch_start: int = 0
    array_start: int = 0
    fetch_end: int = 0
    step_end: int = 0
    arrivals: list[int] = field(default_factory=list)
    tiles: list[TileTimes] = field(default_factory=list)


class BufferSlots(NamedTuple):
    """Tiles that the buffers of a core hold."""

    weights: int
    kv: int


class Core:
    """A core that requests its operands by itself.

    Args:
        env: The event loop.
        number: Its number among the requesters of memories, which serve them by number.
        ports: Ports to the memories.
        slots: Tiles that its buffers hold.
        tasks: Its work, in order.

    Attributes:
        tasks: Its work, in order.
        times: Times of each task; empty before the core runs.
        queue: Its instructions; None if all are there when it begins.
        watched: Keep the times of each tile.
    """

    def __init__(
        self,
        env: simpy.Environment,
        number: int,
        *,
        ports: Sequence[MemoryPort],
        slots: BufferSlots,
        tasks: Sequence[Task],
    ) -> None:
        self._env = env
        self._number = number
        self._ports = ports
        self._slots = slots
        self.tasks = tasks
        self.times: list[TaskTimes] = []
        self.queue: InstructionQueue | None = None
        self.watched = False

    def run(self, fetch_gate: simpy.Event, start_gate: simpy.Event) -> Process:
        """Process: execute all tasks; ends when all their writes are over.

        Args:
            fetch_gate: Nothing is fetched before it.
            start_gate: Nothing is computed before it.
        """
        env = self._env
        self._weight_buffer = DoubleBuffer(env, self._slots.weights)
        self._kv_buffer = DoubleBuffer(env, self._slots.kv)
        self.times = [TaskTimes() for _ in self.tasks]
        # For each task: compute cycles of the tiles that have arrived, in order. Operands of two
        # tasks may come from two memories, of which the later one may be faster.
        self._arrived = [simpy.Store(env) for _ in self.tasks]
        # For each task: its ``pre_cycles`` are over, so that a held-back operand may be fetched.
        self._array_ready = [env.event() for _ in self.tasks]
        env.process(self._fetch(fetch_gate))
        yield env.process(self._compute(start_gate))

    def _buffer(self, task: Task) -> DoubleBuffer:
        """The buffer that the operand of a task goes to."""
        return self._kv_buffer if task.is_kv else self._weight_buffer

    def _fetch(self, gate: simpy.Event) -> Process:
        """The DMA: request tile after tile, each once a slot is free for it."""
        yield gate
        for number, task in enumerate(self.tasks):
            times = self.times[number]
            if task.memory is None:
                continue
            if task.held_back:
                yield self._array_ready[number]
            buffer = self._buffer(task)
            port = self._ports[task.memory]
            for index, tile in enumerate(tiles_of(task)):
                yield buffer.free.get()
                if index == 0:
                    times.fetch_start = int(self._env.now)
                arrive = partial(self._arrive, tile, self._arrived[number], times)
                port.read(self._number, tile.nbytes, rate=task.rate, then=arrive)

    def _arrive(self, tile: Tile, arrived: simpy.Store, times: TaskTimes) -> None:
        """Note that a tile is complete in its buffer."""
        times.fetch_end = int(self._env.now)
        if self.watched:
            times.arrivals.append(times.fetch_end)
        arrived.put(tile.cycles)

    def _compute(self, gate: simpy.Event) -> Process:
        """The vector unit, then the array, task after task."""
        env = self._env
        written = []
        yield gate
        if self.queue is not None:
            yield from self.queue.begin()
        for number, task in enumerate(self.tasks):
            times = self.times[number]
            times.step_start = int(env.now)
            written += [self._write(write) for write in task.writes]
            if task.pre_cycles:
                yield from self._work(task.pre_cycles)
            self._array_ready[number].succeed()
            times.array_start = int(env.now)
            if task.memory is None:
                yield from self._work(task.cycles)
            else:
                yield from self._compute_operand(number)
            times.step_end = int(env.now)
        yield env.all_of(written)

    def _compute_operand(self, number: int) -> Process:
        """The array: compute the operand of a task tile after tile, as tiles arrive."""
        task = self.tasks[number]
        times = self.times[number]
        arrived = self._arrived[number]
        buffer = self._buffer(task)
        tile_count = -(-task.operand_bytes // task.tile_bytes)
        for index in range(tile_count):
            # The array stalls here until the next tile is complete.
            cycles = yield arrived.get()
            begun = int(self._env.now)
            if index == 0:
                times.array_start = begun
            yield from self._work(cycles)
            if self.watched:
                ended = int(self._env.now)
                tile = TileTimes(times.arrivals[index], begun, ended=ended, cycles=cycles)
                times.tiles.append(tile)
            buffer.free.put(None)

    def _work(self, cycles: int) -> Process:
        """Work for ``cycles`` cycles, as far as instructions have arrived."""
        if self.queue is None:
            yield self._env.timeout(cycles)
        else:
            yield from self.queue.execute(cycles)

    def _write(self, write: SideWrite) -> simpy.Event:
        """Post a write; returns the event of its end."""
        written = self._env.event()
        port = self._ports[write.memory]
        port.write(self._number, write.nbytes, rate=write.rate, then=written.succeed)
        return written

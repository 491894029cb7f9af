"""A compute core: a DMA fills double buffers, a vector unit and an array empty them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import simpy

from carsim.machine.lanes import Step
from carsim.machine.parts.port import MemoryPort, Process


def tiles_of(task: Step) -> list[tuple[int, int]]:
    """(Bytes, compute cycles) of each tile of a lane's operand; the last may be smaller."""
    nbytes, cycles, tile_bytes = int(task.stream_bytes), int(task.cycles), int(task.tile_bytes)
    ends = [*range(tile_bytes, nbytes, tile_bytes), nbytes]
    done = [(0, 0), *((end, -(-cycles * end // nbytes)) for end in ends)]
    return [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(done)]


class InstructionQueue:
    """Instructions that wait at a core, which takes the next one when that before it is done.

    Args:
        env: The event loop.
        depth: Instructions that it holds.
        instructions: Instructions of all sequences of the core.
        cycles: Cycles of the core, of which each instruction has an equal part.
    """

    def __init__(self, env: simpy.Environment, depth: int, instructions: int, cycles: int) -> None:
        self.sent: simpy.Store = simpy.Store(env, depth)
        self._env, self._instructions, self._cycles = env, instructions, cycles
        self._done = self._taken = 0

    def begin(self) -> Process:
        """Take the first instruction."""
        yield self.sent.get()
        self._taken = 1

    def execute(self, cycles: int) -> Process:
        """Work for so many cycles, and take each instruction at its beginning."""
        end = self._done + cycles
        while self._done < end:
            following = self._taken * self._cycles // self._instructions
            if self._done == following and self._taken < self._instructions:
                yield self.sent.get()
                self._taken += 1
                continue
            upto = min(end, following) if self._taken < self._instructions else end
            yield self._env.timeout(upto - self._done)
            self._done = upto


class DoubleBuffer:
    """Slots for whole tiles: some fill while one is read.

    Attributes:
        free: Slots without a tile, and not reserved for one on its way.
        tiles: Compute cycles of the tiles that have arrived, in order.
    """

    def __init__(self, env: simpy.Environment, slots: int) -> None:
        self.free, self.tiles = simpy.Store(env), simpy.Store(env)
        self.free.items += [None] * slots


@dataclass(slots=True)
class Record:
    """When a core did what in one step, in cycles of the phase."""

    begun: int = 0
    fetch_begun: int = 0
    array_begun: int = 0
    fetched: int = 0
    ended: int = 0


@dataclass(slots=True)
class Core:
    """A core, which requests by itself.

    Args:
        env: The event loop.
        number: Its number among those who ask memories, by which they serve in turn.
        ports: Ports to the memories.
        slots: Tiles that the (weight, KV) buffer holds.
        tasks: Steps of its lane, in order: whole numbers instead of arrays.
        queue: Its instructions; None if they are all there when it begins.

    Attributes:
        records: Times of each task.
    """

    env: simpy.Environment
    number: int
    ports: Sequence[MemoryPort]
    slots: Sequence[int]
    tasks: Sequence[Step]
    queue: InstructionQueue | None = None
    records: list[Record] = field(default_factory=list)

    def run(self, fetch_gate: simpy.Event, start_gate: simpy.Event) -> Process:
        """Process: execute all tasks; ends when all their side transfers are over.

        Args:
            fetch_gate: Nothing is fetched before it.
            start_gate: Nothing is computed before it.
        """
        buffers = [DoubleBuffer(self.env, slots) for slots in self.slots]
        self.records = [Record() for _ in self.tasks]
        known = [self.env.event() for _ in self.tasks]
        self.env.process(self._dma(buffers, fetch_gate, known))
        yield self.env.process(self._compute(buffers, start_gate, known))

    def _dma(
        self, buffers: Sequence[DoubleBuffer], gate: simpy.Event, known: Sequence[simpy.Event]
    ) -> Process:
        """Request tile after tile, each once its slot is free and it is known what to fetch."""
        yield gate
        for task, record, ready in zip(self.tasks, self.records, known, strict=True):
            if task.path < 0:
                continue
            if task.held_back:
                yield ready
            buffer, port = buffers[task.is_kv], self.ports[task.path]
            for index, (nbytes, cycles) in enumerate(tiles_of(task)):
                yield buffer.free.get()
                if index == 0:
                    record.fetch_begun = int(self.env.now)
                arrive = partial(self._arrive, cycles, buffer, record)
                port.read(self.number, nbytes, task.rate, arrive)

    def _arrive(self, cycles: int, buffer: DoubleBuffer, record: Record) -> None:
        """A tile is whole."""
        record.fetched = int(self.env.now)
        buffer.tiles.put(cycles)

    def _execute(self, cycles: int) -> Process:
        """Work for so many cycles, as far as instructions are there."""
        if self.queue is None:
            yield self.env.timeout(cycles)
        else:
            yield from self.queue.execute(cycles)

    def _compute(
        self, buffers: Sequence[DoubleBuffer], gate: simpy.Event, known: Sequence[simpy.Event]
    ) -> Process:
        """Vector unit, then array, task after task."""
        env = self.env
        sides: list[simpy.Event] = []
        yield gate
        if self.queue is not None:
            yield from self.queue.begin()
        for task, record, ready in zip(self.tasks, self.records, known, strict=True):
            record.begun = int(env.now)
            for path, rate, nbytes in task.sides:
                written = env.event()
                sides.append(written)
                self.ports[path].write(self.number, int(nbytes), rate, written.succeed)
            if task.pre_cycles:
                yield from self._execute(int(task.pre_cycles))
            ready.succeed()
            record.array_begun = int(env.now)
            if task.path < 0:
                yield from self._execute(int(task.cycles))
            else:
                buffer = buffers[task.is_kv]
                for index in range(-(-int(task.stream_bytes) // int(task.tile_bytes))):
                    cycles = yield buffer.tiles.get()
                    if index == 0:
                        record.array_begun = int(env.now)
                    yield from self._execute(cycles)
                    buffer.free.put(None)
            record.ended = int(env.now)
        yield env.all_of(sides)

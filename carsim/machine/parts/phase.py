"""Run phases on the SimPy machine, one after the other."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import simpy

from carsim.machine.lanes import Ints
from carsim.machine.parts.core import Core, Record, Task
from carsim.machine.parts.port import MemoryPort, Process
from carsim.machine.phase import Phase, Timing


def simulate(phase: Phase) -> Timing:
    """When each step of each lane of n phases took place, each phase simulated by itself."""
    runs = [_Run(phase, index) for index in range(phase.n)]
    steps = range(len(phase.steps))
    found = np.array([[run.figures(step) for run in runs] for step in steps], np.int64)
    return Timing.of(
        np.moveaxis(found, -1, 0),
        np.array([run.end for run in runs], np.int64),
        np.array([run.replay_end for run in runs], np.int64),
    )


class _Run:
    """One phase, simulated to its end.

    Attributes:
        sent: Every instruction sent to a core: (cycle, sequence, instruction, core).
        dispatched_at: When the dispatcher was done, before 0 if beside the phase before.
        end: When cores and side transfers were done.
        replay_end: When the replay was done; 0 without one.
    """

    def __init__(self, phase: Phase, index: int) -> None:
        self._phase, self._index = phase, index
        known = 0 if phase.dispatch is None else int(phase.dispatch.known_cycles[index])
        # The dispatcher has been at work for as long as the decisions are known.
        self._env = env = simpy.Environment(initial_time=-known)
        self._ports = [MemoryPort(env, cycles) for cycles in phase.latencies]
        self.sent: list[tuple[int, int, int, int]] = []
        self.replay_end = 0
        begin = env.timeout(known)
        dispatched = env.process(self._dispatch(begin))
        lanes = [self._tasks(lane) for lane in range(phase.lanes)]
        cores = {
            tasks: Core(env, self._ports, self._slots(), tasks, count)
            for tasks, count in Counter(lanes).items()
        }
        fetch_gate = begin if phase.early_fetch and self.exposed else dispatched
        running = [
            env.process(core.run(fetch_gate, dispatched)) for core in cores.values() if core.tasks
        ]
        self.lanes = [cores[tasks] for tasks in lanes]
        env.run(env.all_of([*running, dispatched]))
        self.end = int(env.now)
        env.run()

    def figures(self, step: int) -> list[list[int]]:
        """When each lane did what in a step; lanes without work stand still."""
        idle = Record(*[self.exposed] * 5)
        records = [core.records[step] if core.records else idle for core in self.lanes]
        return [[getattr(record, name) for name in Timing._fields[:5]] for record in records]

    @property
    def exposed(self) -> int:
        """Cycles of dispatch still to go when the phase began."""
        return int(self._phase.exposed_cycles[self._index])

    def _dispatch(self, begin: simpy.Event) -> Process:
        """The dispatcher, which the phase waits for if it is not over before it."""
        dispatch = self._phase.dispatch
        if dispatch is not None:
            yield from dispatch.schedule.dispatch(
                self._env,
                dispatch.registers,
                dispatch.computing[self._index].tolist(),
                dispatch.cores,
                lambda *sent: self.sent.append((int(self._env.now), *sent)),
            )
        self.dispatched_at = int(self._env.now)
        yield begin
        # Before any core, so that replays are the first to ask for their memory.
        self._env.process(self._replay())

    def _replay(self) -> Process:
        """The replaying sequences: read their cached outputs, add them."""
        replay, index = self._phase.replay, self._index
        if replay is not None and replay.nbytes[index]:
            read = self._env.event()
            self._ports[replay.path].read(int(replay.nbytes[index]), replay.rate, read.succeed)
            yield read
            yield self._env.timeout(int(replay.cycles[index]))
            self.replay_end = int(self._env.now)

    def _tasks(self, lane: int) -> tuple[Task, ...]:
        """The steps of one lane; none if it has nothing to do."""

        def figure(values: Ints) -> int:
            column = values[:, lane] if values.shape[1] > 1 else values[:, 0]
            return int(column[self._index] if len(column) > 1 else column[0])

        tasks = tuple(
            Task(
                pre_cycles=figure(step.pre_cycles),
                cycles=figure(step.cycles),
                path=step.path if figure(step.stream_bytes) else -1,
                rate=step.rate,
                stream_bytes=figure(step.stream_bytes),
                tile_bytes=figure(step.tile_bytes),
                is_kv=step.is_kv,
                sides=tuple(
                    (path, rate, figure(nbytes))
                    for path, rate, nbytes in step.sides
                    if figure(nbytes)
                ),
                held_back=step.held_back,
            )
            for step in self._phase.steps
        )
        return tasks if any(task.cycles or task.stream_bytes for task in tasks) else ()

    def _slots(self) -> tuple[int, int]:
        def most(is_kv: bool) -> int:
            found: Sequence[int] = [
                step.slots for step in self._phase.steps if step.path >= 0 and step.is_kv == is_kv
            ]
            return max(found, default=1)

        return most(False), most(True)

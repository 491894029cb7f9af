"""Play phases on the SimPy machine, one after the other."""

from collections.abc import Iterator, Sequence

import numpy as np
import simpy
from numpy.typing import NDArray

from carsim.machine.hardware import of_one_design
from carsim.machine.lanes import Ints, LaneOp
from carsim.machine.phase import MOST_PLAYED, REPLAYER, Phase, Timing, moved_bytes
from carsim.machine.play.core import (
    BufferSlots,
    Core,
    InstructionQueue,
    SideWrite,
    Task,
    TaskTimes,
    TileTimes,
)
from carsim.machine.play.port import MemoryPort, Process, Service


def play_phases(phase: Phase) -> Timing:
    """Times of each step of each lane of n phases: each is played by itself, or interpolated.

    Interpolated are only phases beyond 2,048 that differ in their length alone.

    Simplification: phases without dispatch and replays differ only in their length. If there are
    more than :data:`~carsim.machine.phase.MOST_PLAYED` of them, that many are played, from the
    phases that move fewest bytes to those that move most. In the others, the waits before each time
    are interpolated between the neighbours, linearly in bytes, to whole cycles. No phase is shorter
    than its bound. In five shipped designs at 16 frames, and in 250 phases of two of them at 64
    frames, attention is within 0.001 % of playing all phases. A single phase is within 0.2 %,
    because the last tile may not be full.
    """
    if phase.n <= MOST_PLAYED or phase.dispatch is not None or phase.replay is not None:
        return _play(phase, range(phase.n))
    lengths = moved_bytes(phase.steps, phase.n, len(phase.latencies)).sum(axis=1)
    _, distinct = np.unique(lengths, return_index=True)
    count = min(MOST_PLAYED, len(distinct))
    evenly = np.linspace(0, len(distinct) - 1, count).round().astype(np.intp)
    played = distinct[evenly]
    return _interpolate(phase, lengths, played=played, timing=_play(phase, played.tolist()))


def _interpolate(
    phase: Phase, lengths: Ints, *, played: NDArray[np.intp], timing: Timing
) -> Timing:
    """The timing of all n phases.

    Args:
        phase: The n phases.
        lengths: Bytes that each moves, [n].
        played: Indices of the phases that were played.
        timing: Timing of the played phases.
    """

    def time_of_all(time: Ints, work: Ints) -> Ints:
        """A time of all phases, [n, K].

        Args:
            time: The time in the phases that were played.
            work: The earliest it can be if nothing waits, [n, K] or [1, 1].
        """
        work = np.broadcast_to(work, (phase.n, time.shape[1]))
        waits = time - work[played]
        waits_of_all = [np.interp(lengths, lengths[played], of_lane) for of_lane in waits.T]
        return work + np.rint(waits_of_all).astype(np.int64).T

    times = np.empty((5, len(phase.steps), phase.n, phase.lanes), np.int64)
    step_start = np.zeros((1, 1), np.int64)
    for number, step in enumerate(phase.steps):
        array_start = step_start + step.pre_cycles
        step_end = array_start + step.cycles
        times[0, number] = time_of_all(timing.step_start[number], step_start)
        times[1, number] = time_of_all(timing.fetch_start[number], step_start)
        times[2, number] = time_of_all(timing.array_start[number], array_start)
        times[3, number] = time_of_all(timing.fetch_end[number], step_end)
        times[4, number] = time_of_all(timing.step_end[number], step_end)
        step_start = step_end
    last_lane = step_start.max(axis=1, keepdims=True)
    sides_end = time_of_all(timing.sides_end[:, None], last_lane)[:, 0]
    sides_end = np.maximum(sides_end, phase.bound_cycles)
    replay_end = np.zeros(phase.n, np.int64)
    return Timing.of(times, sides_end, replay_end)._replace(interpolated=True)


def _play(phase: Phase, played: Sequence[int]) -> Timing:
    """The timing of some of n phases, by their indices."""
    return timing_of(phase, [PhaseRun(phase, index) for index in played])


def timing_of(phase: Phase, runs: "Sequence[PhaseRun]") -> Timing:
    """The timing of phases that were played, in their order."""
    # By step, phase, lane, and time of the step.
    times = np.array(
        [[run.times_of(step) for run in runs] for step in range(len(phase.steps))], np.int64
    )
    ends = np.array([run.end for run in runs], np.int64)
    replay_ends = np.array([run.replay_end for run in runs], np.int64)
    return Timing.of(np.moveaxis(times, -1, 0), ends, replay_ends)


class PhaseRun:
    """One phase, simulated to its end: dispatcher, cores and memory ports in one event loop.

    Args:
        phase: n phases.
        index: The one that is simulated.
        watched: Keep the times of each tile and what each port serves.

    Attributes:
        sent: All instructions sent to cores: (cycle, sequence, instruction, core).
        dispatched_at: Cycle at which the dispatcher was done; below 0 if it was done during the
            phase before.
        end: Cycle at which cores and their writes were done.
        replay_end: Cycle at which the replay was done; 0 without one.
    """

    def __init__(self, phase: Phase, index: int, *, watched: bool = False) -> None:
        self._watched = watched
        self._phase = phase
        self._index = index
        known_cycles = 0
        if phase.dispatch is not None:
            known_cycles = int(phase.dispatch.known_cycles[index])
        # The phase begins at cycle 0. Until then, the dispatcher has worked for as long as the
        # decisions have been known.
        self._env = simpy.Environment(initial_time=-known_cycles)
        env = self._env
        self._ports = [MemoryPort(env, cycles, watched=watched) for cycles in phase.latencies]
        self.sent: list[tuple[int, int, int, int]] = []
        self.replay_end = 0
        begin = env.timeout(known_cycles)
        # An instruction waits for a full queue.
        self._dispatcher_waits = env.event()
        self._queues: dict[int, InstructionQueue] = {}  # by core
        self._cores = [self._make_core(lane) for lane in range(phase.lanes)]
        dispatched = env.process(self._dispatch())
        started = env.process(self._start(begin, dispatched))
        fetch_gate = begin if phase.early_fetch and self.exposed_cycles else started
        running = [env.process(core.run(fetch_gate, started)) for core in self._cores if core.tasks]
        env.run(env.all_of([*running, started]))
        self.end = int(env.now)
        # The replay and the dispatcher may go on after the cores.
        env.run()

    def times_of(self, step: int) -> list[list[int]]:
        """Times of each lane in a step, in the order of :class:`~carsim.machine.phase.Timing`.

        Lanes without work stand still.
        """
        return [self._lane_times(core, step) for core in self._cores]

    def served(self, memory: int) -> list[Service]:
        """Requests that the port of a memory has served, in order; for a watched phase."""
        return self._ports[memory].served or []

    def tiles_of(self, lane: int, step: int) -> list[TileTimes]:
        """Tiles of the operand of a lane in a step, in order; for a watched phase."""
        times = self._cores[lane].times
        return times[step].tiles if times else []

    def _lane_times(self, core: Core, step: int) -> list[int]:
        """The five times of a step on a core; a core without tasks is idle."""
        idle = self.exposed_cycles
        times = core.times[step] if core.times else TaskTimes(idle, idle, idle, idle, idle)
        return [
            times.step_start,
            times.fetch_start,
            times.array_start,
            times.fetch_end,
            times.step_end,
        ]

    @property
    def exposed_cycles(self) -> int:
        """Cycles of dispatch still to go when the phase began."""
        return int(self._phase.exposed_cycles[self._index])

    def _dispatch(self) -> Process:
        """Process: the dispatcher."""
        dispatch = self._phase.dispatch
        if dispatch is not None:
            computing = dispatch.cases.computing[self._index].tolist()
            machine = dispatch.machine
            yield from dispatch.schedule.dispatch(
                self._env,
                machine.registers,
                computing,
                cores=len(machine.core_names),
                send=self._send,
            )
        self.dispatched_at = int(self._env.now)

    def _send(self, sequence: int, instruction: int, core: int) -> simpy.Event | None:
        """Send an instruction to a core.

        Returns:
            The event that its queue has room; None for a queue without limit.
        """
        self.sent.append((int(self._env.now), sequence, instruction, core))
        if core not in self._queues:
            return None
        queued = self._queues[core].sent.put(instruction)
        if not (queued.triggered or self._dispatcher_waits.triggered):
            self._dispatcher_waits.succeed()
        return queued

    def _start(self, begin: simpy.Event, dispatched: simpy.Event) -> Process:
        """Process: wait until all is dispatched, or until an instruction waits; start replays."""
        yield dispatched | self._dispatcher_waits
        yield begin
        # Before all cores, so that replays are the first to request from their memory.
        self._env.process(self._replay())

    def _replay(self) -> Process:
        """Process: the replaying sequences read their cached outputs, and add them."""
        replay = self._phase.replay
        if replay is None or not replay.nbytes[self._index]:
            return
        nbytes = int(replay.nbytes[self._index])
        read = self._env.event()
        port = self._ports[replay.path]
        port.read(REPLAYER, nbytes, rate=of_one_design(replay.rate), then=read.succeed)
        yield read
        yield self._env.timeout(int(replay.add_cycles[self._index]))
        self.replay_end = int(self._env.now)

    def _make_core(self, lane: int) -> Core:
        """The core of a lane, or the cores that work in lockstep, with a queue of limited depth."""
        tasks = tuple(self._tasks(lane))
        has_work = any(task.cycles or task.operand_bytes for task in tasks)
        core = Core(
            self._env,
            REPLAYER + 1 + lane,
            ports=self._ports,
            slots=BufferSlots(weights=self._slots(is_kv=False), kv=self._slots(is_kv=True)),
            tasks=tasks if has_work else (),
        )
        core.watched = self._watched
        dispatch = self._phase.dispatch
        queues = None if dispatch is None else dispatch.queues
        if queues is not None and has_work:
            number = int(np.flatnonzero(queues.lanes[self._index] == lane)[0])
            sequences = int((queues.assigned[self._index] == number).sum())
            core.queue = InstructionQueue(
                self._env,
                depth=queues.depth,
                instructions=sequences * queues.registers.instructions_per_sequence,
                cycles=sum(task.pre_cycles + task.cycles for task in tasks),
            )
            self._queues[number] = core.queue
        return core

    def _slots(self, *, is_kv: bool) -> int:
        """Tiles that one of the buffers holds."""
        slots = [step.slots for step in self._phase.steps if step.is_kv == is_kv]
        return max(slots, default=1)

    def _tasks(self, lane: int) -> Iterator[Task]:
        """The steps of one lane in plain numbers."""
        for step in self._phase.steps:
            operand_bytes = self._figure(step.stream_bytes, lane)
            yield Task(
                pre_cycles=self._figure(step.pre_cycles, lane),
                cycles=self._figure(step.cycles, lane),
                memory=step.path if operand_bytes and step.path >= 0 else None,
                rate=of_one_design(step.rate),
                operand_bytes=operand_bytes,
                tile_bytes=self._figure(step.tile_bytes, lane),
                is_kv=step.is_kv,
                writes=tuple(self._writes(step, lane)),
                held_back=step.held_back,
            )

    def _writes(self, step: LaneOp, lane: int) -> Iterator[SideWrite]:
        """Transfers of one lane beside the operand of a step."""
        for memory, rate, nbytes_of_lanes in step.sides:
            nbytes = self._figure(nbytes_of_lanes, lane)
            if nbytes:
                yield SideWrite(memory, of_one_design(rate), nbytes=nbytes)

    def _figure(self, figures: Ints, lane: int) -> int:
        """The figure of one lane in this phase, from figures [n, K], [n, 1], [1, K] or [1, 1]."""
        of_lane = figures[:, lane] if figures.shape[1] > 1 else figures[:, 0]
        return int(of_lane[self._index] if len(of_lane) > 1 else of_lane[0])

"""Cycles of each core, DMA and memory port in a phase: at work, waiting on somebody, or idle.

Model: the moments of both fidelities (:class:`~carsim.machine.phase.Timing`) cut the phase of each
track into spans that never overlap; between them, the track is idle. A core that has finished waits
for the one that ends last, then for replays or writes.

Simplifications: core 0 is the one with most sequences; what a core waits for the tiles of an
operand stands in front of its work on them, and so do the waits of a DMA or port within a
transfer; a transfer is booked behind the one before it on the same port, though the port serves
them in turn; every core is charged with as many columns of a split matrix as the fullest.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.machine.arrays import MachineArrays
from carsim.machine.hardware import served
from carsim.machine.lanes import Ints
from carsim.machine.phase import Phase, Timing, moved_bytes
from carsim.workload.ops import CATEGORY_LABELS, Category

BUSY = "busy"
EXCHANGE = "exchange"
DISPATCHER = "dispatcher"
CORE = "core"
REPLAY = "replay"
STATES = (BUSY, EXCHANGE, DISPATCHER, CORE, REPLAY)
"""At work, or waiting: for activations on their way, an instruction, another core, a replay. The
name of a memory is a state, too."""


class Span(NamedTuple):
    """A state of a track from its start up to its end, in n phases; nothing where these are equal.

    Attributes:
        track: A core, a DMA, a port, or the dispatcher.
        state: One of :data:`STATES`, or a memory.
        name: The work, or what is waited for.
        start: First cycle, [n].
        end: Cycle after the last, [n].
        step: Number of the step of the phase that it belongs to; -1 for none.
        cause: Core or lane, by its place among the loads, that is waited for; -1 for none.
    """

    track: str
    state: str
    name: str
    start: Ints
    end: Ints
    step: int = -1
    cause: int = -1


class Transfer(NamedTuple):
    """Bytes of n phases that cross a port or a DMA. Shapes: [n].

    Attributes:
        name: Kind of bytes.
        path: Index of the memory.
        requested: When they are asked for.
        service: Cycles of the bytes alone.
        last_byte: Cycle at which the last of them is there; 0 if that is not known.
        starved: A core waits for them, so that a pause is the memory's.
        step: Number of the step of the phase whose operand they are; -1 for others.
    """

    name: str
    path: int
    requested: Ints
    service: Ints
    last_byte: Ints
    starved: NDArray[np.bool_]
    step: int = -1


def tracks_of(machine: MachineArrays) -> list[str]:
    """Tracks whose cycles are summed up: cores, then ports."""
    return [*machine.core_names, *(f"port {name}" for name in machine.memories)]


def states_of(machine: MachineArrays) -> list[str]:
    """All states of a track but idle."""
    return [*STATES, *machine.memories]


def booked(machine: MachineArrays, phase: Phase, timing: Timing, cycles: Ints) -> Ints:
    """Cycles of each state of each track, [n, tracks * states]; the rest of a track is idle."""
    columns = list(product(tracks_of(machine), states_of(machine)))
    column_of = {track_state: column for column, track_state in enumerate(columns)}
    cycles_in_state = np.zeros((phase.n, len(columns)), np.int64)
    for span in spans(machine, phase, timing, cycles):
        # DMAs and the dispatcher have spans, but no account.
        column = column_of.get((span.track, span.state))
        if column is not None:
            cycles_in_state[:, column] += span.end - span.start
    return cycles_in_state


def accounts(machine: MachineArrays, sums: Sequence[int], cycles: int) -> dict[str, dict[str, int]]:
    """Track -> state -> cycles, those idle included: each track has the latency in all.

    Args:
        machine: The numbers of D designs.
        sums: Sums of :func:`booked` over phases.
        cycles: Their latency.
    """
    states = states_of(machine)
    account_of = {}
    for number, track in enumerate(tracks_of(machine)):
        column = number * len(states)
        # Without accounts, nothing is booked and the track is idle.
        state_cycles = sums[column : column + len(states)] or [0] * len(states)
        account = dict(zip(states, state_cycles, strict=True))
        account["idle"] = cycles - sum(state_cycles)
        account_of[track] = account
    return account_of


def spans(machine: MachineArrays, phase: Phase, timing: Timing, cycles: Ints) -> Iterator[Span]:
    """All spans of n phases that take so many cycles; those of a track are in their order."""
    if phase.dispatch is not None:
        dispatch_start = -phase.dispatch.known_cycles
        yield Span(
            track=phase.dispatch.schedule.label,
            state=BUSY,
            name="dispatch",
            start=dispatch_start,
            end=dispatch_start + phase.dispatch.cycles,
        )
    names = list(machine.memories)
    cores = _Cores(phase, timing, cycles, names)
    for core, name in enumerate(machine.core_names):
        yield from cores.spans(core, name)
    for lane in range(phase.lanes):
        track = f"DMA {lane}" if phase.lanes > 1 else "DMA"
        streams = list(_streams(phase, timing, lanes=slice(lane, lane + 1)))
        yield from _in_turn(phase, track, streams, cycles, names)
    transfers = list(_transfers(phase, timing))
    for path, name in enumerate(names):
        port_transfers = [transfer for transfer in transfers if transfer.path == path]
        yield from _in_turn(phase, f"port {name}", port_transfers, cycles, names)


class _Cores:
    """The cores of n phases.

    Args:
        phase: The phases.
        timing: Their moments.
        cycles: Their length, [n].
        names: Memories.
    """

    def __init__(self, phase: Phase, timing: Timing, cycles: Ints, names: Sequence[str]) -> None:
        self._phase = phase
        self._timing = timing
        self._cycles = cycles
        self._names = names
        ends = np.zeros((phase.n, phase.lanes), np.int64) + phase.exposed_cycles[:, None]
        self._ends = np.maximum(ends, timing.step_end[-1]) if phase.steps else ends
        self._last = self._ends.argmax(axis=1)
        # Whom the end of the phase waits for: a replay, or the memory that has most to move.
        self._replay = timing.replay_end == cycles
        self._drains = moved_bytes(phase.steps, phase.n, len(names)).argmax(axis=1)
        self._work = sum((s.busy_cycles for s in phase.steps), np.zeros((phase.n, 1), np.int64))

    def spans(self, core: int, track: str) -> Iterator[Span]:
        """The spans of one core."""
        phase = self._phase
        timing = self._timing
        lane = core if phase.lanes > 1 else 0
        works = _of(self._work, core) > 0
        now = np.zeros(phase.n, np.int64)

        def until(
            state: str, name: str, end: Ints, where: NDArray[np.bool_], cause: int = -1
        ) -> Span:
            nonlocal now
            start = now
            now = np.where(where, np.maximum(now, end), now)
            return Span(
                track=track, state=state, name=name, start=start, end=now, step=at, cause=cause
            )

        at = -1  # the step that spans belong to

        adds, replayed = self._adds(core, works)
        issue = timing.step_start[0][:, lane] if phase.steps else phase.exposed_cycles
        yield until(DISPATCHER, "waits for instructions", issue, works | adds)
        for at, step in enumerate(phase.steps):
            busy = _of(step.busy_cycles, core)
            exchange = _of(step.exchange_cycles, lane)
            lane_cycles = _of(step.pre_cycles + step.cycles, lane)
            is_busy = busy > 0
            begin = timing.step_start[at][:, lane]
            end = timing.step_end[at][:, lane]
            now = np.where(is_busy, begin, now)
            yield until(EXCHANGE, "exchange", begin + exchange, is_busy)
            if step.path >= 0:
                name = self._names[step.path]
                # All stalls on tiles of the operand stand in front of the work on them.
                yield until(name, f"waits for {name}", end - lane_cycles + exchange, is_busy)
            yield until(BUSY, CATEGORY_LABELS[step.category], now + busy, is_busy)
            yield until(CORE, "waits for core 0", end, is_busy, 0)
        at = -1
        if phase.replay is not None and adds.any():
            name = self._names[phase.replay.path]
            yield until(name, f"waits for {name}", replayed - phase.replay.add_cycles, adds)
            yield until(BUSY, CATEGORY_LABELS[Category.REPLAY], replayed, adds)
        done = works | adds
        for last in range(phase.lanes):
            waits = done & (self._last == last)
            yield until(CORE, f"waits for core {last}", self._ends[:, last], waits, last)
        yield until(REPLAY, "waits for a replay", self._cycles, done & self._replay)
        for path, name in enumerate(self._names):
            drains = done & ~self._replay & (self._drains == path)
            yield until(name, f"waits for {name}", self._cycles, drains)

    def _adds(self, core: int, works: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], Ints]:
        """Phases in which a core that computes nothing adds what is replayed, and when it ends."""
        replay = self._phase.replay
        if replay is None:
            return np.zeros_like(works), self._timing.replay_end
        at_work = (self._work > 0).sum(axis=1)
        adding = replay.busy_cycles // np.maximum(1, replay.add_cycles)
        return ~works & (core < at_work + adding), self._timing.replay_end


def _streams(phase: Phase, timing: Timing, *, lanes: slice) -> Iterator[Transfer]:
    """The operands of some lanes."""
    for number, step in enumerate(phase.steps):
        if step.path < 0:
            continue
        requested = timing.fetch_start[number]
        nbytes = np.broadcast_to(step.stream_bytes, requested.shape)[:, lanes]
        has_bytes = nbytes > 0
        # A lane stalls if it takes longer than its array alone does.
        stalls = timing.step_end[number] - timing.array_start[number] > step.cycles
        starved = stalls[:, lanes] & has_bytes
        yield Transfer(
            name="KV" if step.is_kv else "weights",
            path=step.path,
            requested=_first(requested[:, lanes], nbytes),
            service=served(step.rate, nbytes.sum(axis=1)),
            last_byte=(timing.fetch_end[number][:, lanes] * has_bytes).max(axis=1),
            starved=starved.any(axis=1),
            step=number,
        )


def _transfers(phase: Phase, timing: Timing) -> Iterator[Transfer]:
    """All that crosses ports: replays, then each step's operands and what is beside them."""
    never = np.zeros(phase.n, np.bool_)
    unknown = np.zeros(phase.n, np.int64)
    replay = phase.replay
    if replay is not None:
        yield Transfer(
            name=CATEGORY_LABELS[Category.REPLAY],
            path=replay.path,
            requested=phase.exposed_cycles,
            service=served(replay.rate, replay.nbytes),
            last_byte=timing.replay_end - replay.add_cycles,
            starved=~never,
        )
    streams = _streams(phase, timing, lanes=slice(None))
    for step, step_start in zip(phase.steps, timing.step_start, strict=True):
        if step.path >= 0:
            yield next(streams)
        for path, rate, side_bytes in step.sides:
            nbytes = np.broadcast_to(side_bytes, step_start.shape)
            yield Transfer(
                name="writes",
                path=path,
                requested=_first(step_start, nbytes),
                service=served(rate, nbytes.sum(axis=1)),
                last_byte=unknown,
                starved=never,
            )


def _first(moments: Ints, nbytes: Ints) -> Ints:
    """The first moment of the lanes that have bytes, [n]; 0 without one."""
    return np.where(nbytes > 0, moments, moments.max(axis=1, keepdims=True)).min(axis=1)


def _in_turn(
    phase: Phase, track: str, transfers: Sequence[Transfer], cycles: Ints, names: Sequence[str]
) -> Iterator[Span]:
    """The spans of transfers, one behind the other: what each waits for, then its bytes."""
    now = np.zeros(phase.n, np.int64)
    # The latest start that leaves room for this transfer and all after it.
    latest = cycles - sum((transfer.service for transfer in transfers), now)
    for transfer in transfers:
        start = np.clip(transfer.requested, now, np.maximum(now, latest))
        latest = latest + transfer.service
        earliest_end = start + transfer.service
        end = np.clip(transfer.last_byte, earliest_end, np.maximum(earliest_end, latest))
        end = np.minimum(end, cycles)
        flows = np.maximum(start, end - transfer.service)
        first_byte = np.minimum(start + np.ravel(phase.latencies[transfer.path]), flows)
        # The memory is to blame for the pause if a core starves, and only for its latency if not.
        memory_end = np.where(transfer.starved, flows, first_byte)
        # A phase without bytes of this transfer has spans of no length.
        has_bytes = transfer.service > 0
        start = np.where(has_bytes, start, now)
        memory_end = np.where(has_bytes, memory_end, now)
        flows = np.where(has_bytes, flows, now)
        end = np.where(has_bytes, end, now)
        memory = names[transfer.path]
        for state, name, first, last in (
            (memory, f"waits for {memory}", start, memory_end),
            (CORE, "waits for cores", memory_end, flows),
            (BUSY, transfer.name, flows, end),
        ):
            yield Span(
                track=track, state=state, name=name, start=first, end=last, step=transfer.step
            )
        now = end


def _of(figure: Ints, column: int) -> Ints:
    """A column of [n, K], or what is the same for all."""
    return figure[:, column if figure.shape[1] > 1 else 0]

"""Cycles of each core, DMA and memory port in a phase: at work, waiting on somebody, or idle.

Model: the moments of both rungs (:class:`~carsim.machine.phase.Timing`) cut the phase of each track
into spans that never overlap; between them, the track is idle. A core that has finished waits for
the one that ends last, then for replays or writes.

Simplifications: core 0 is the one with most sequences; what a core waits for the tiles of an
operand stands in front of its work on them, and so do the waits of a DMA or port within a
transfer; a transfer is booked behind the one before it on the same port, though the port serves
them in turn; every core is charged with as many columns of a split matrix as the fullest.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.machine.hardware import Hardware, served
from carsim.machine.lanes import Ints
from carsim.machine.phase import Phase, Timing, moved_bytes
from carsim.workload.ops import CATEGORY_LABELS, Category

BUSY, EXCHANGE, DISPATCHER, CORE, REPLAY = "busy", "exchange", "dispatcher", "core", "replay"
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
    """

    track: str
    state: str
    name: str
    start: Ints
    end: Ints


class Transfer(NamedTuple):
    """Bytes of n phases that cross a port or a DMA. Shapes: [n].

    Attributes:
        name: Kind of bytes.
        path: Index of the memory.
        begun: When they are asked for.
        service: Cycles of the bytes alone.
        until: When the last of them is there; 0 if that is not known.
        starved: A core waits for them, so that a pause is the memory's.
    """

    name: str
    path: int
    begun: Ints
    service: Ints
    until: Ints
    starved: NDArray[np.bool_]


def tracks_of(hw: Hardware) -> list[str]:
    """Tracks whose cycles are summed up: cores, then ports."""
    return [*hw.core_names, *(f"port {path.name}" for path in hw.paths)]


def states_of(hw: Hardware) -> list[str]:
    """All states of a track but idle."""
    return [*STATES, *(path.name for path in hw.paths)]


def booked(hw: Hardware, phase: Phase, timing: Timing, cycles: Ints) -> Ints:
    """Cycles of each state of each track, [n, tracks * states]; the rest of a track is idle."""
    states = states_of(hw)
    places = {(t, s): i for i, (t, s) in enumerate((t, s) for t in tracks_of(hw) for s in states)}
    found = np.zeros((phase.n, len(places)), np.int64)
    for span in spans(hw, phase, timing, cycles):
        if (place := places.get((span.track, span.state))) is not None:
            found[:, place] += span.end - span.start
    return found


def accounts(hw: Hardware, sums: Sequence[int], cycles: int) -> dict[str, dict[str, int]]:
    """Track -> state -> cycles, those idle included: each track has the latency in all.

    Args:
        hw: The hardware.
        sums: Sums of :func:`booked` over phases.
        cycles: Their latency.
    """
    states, found = states_of(hw), {}
    for number, track in enumerate(tracks_of(hw)):
        own = sums[number * len(states) : (number + 1) * len(states)] or [0] * len(states)
        found[track] = dict(zip(states, own, strict=True)) | {"idle": cycles - sum(own)}
    return found


def spans(hw: Hardware, phase: Phase, timing: Timing, cycles: Ints) -> Iterator[Span]:
    """All spans of n phases that take so many cycles; those of a track are in their order."""
    if phase.dispatch is not None:
        label, begun = phase.dispatch.schedule.label, -phase.dispatch.known_cycles
        yield Span(label, BUSY, "dispatch", begun, begun + phase.dispatch.cycles)
    names = [path.name for path in hw.paths]
    cores = _Cores(phase, timing, cycles, names)
    for core, name in enumerate(hw.core_names):
        yield from cores.spans(core, name)
    for lane in range(phase.lanes):
        track = f"DMA {lane}" if phase.lanes > 1 else "DMA"
        streams = [*_streams(phase, timing, slice(lane, lane + 1))]
        yield from _in_turn(phase, track, streams, cycles, names)
    every = [*_transfers(phase, timing)]
    for path, name in enumerate(names):
        own = [each for each in every if each.path == path]
        yield from _in_turn(phase, f"port {name}", own, cycles, names)


class _Cores:
    """The cores of n phases.

    Args:
        phase: The phases.
        timing: Their moments.
        cycles: Their length, [n].
        names: Memories.
    """

    def __init__(self, phase: Phase, timing: Timing, cycles: Ints, names: Sequence[str]) -> None:
        self._phase, self._timing, self._cycles, self._names = phase, timing, cycles, names
        ends = np.zeros((phase.n, phase.lanes), np.int64) + phase.exposed_cycles[:, None]
        self._ends = np.maximum(ends, timing.ended[-1]) if phase.steps else ends
        self._last = self._ends.argmax(axis=1)
        # Whom the end of the phase waits for: a replay, or the memory that has most to move.
        self._replay = timing.replay_end == cycles
        self._drains = moved_bytes(phase.steps, phase.n, len(names)).argmax(axis=1)
        self._work = sum((s.busy_cycles for s in phase.steps), np.zeros((phase.n, 1), np.int64))

    def spans(self, core: int, track: str) -> Iterator[Span]:
        """The spans of one core."""
        phase, lane = self._phase, core if self._phase.lanes > 1 else 0
        works = _of(self._work, core) > 0
        now = np.zeros(phase.n, np.int64)

        def until(state: str, name: str, end: Ints, where: NDArray[np.bool_]) -> Span:
            nonlocal now
            start, now = now, np.where(where, np.maximum(now, end), now)
            return Span(track, state, name, start, now)

        adds, replayed = self._adds(core, works)
        begun = self._timing.begun[0][:, lane] if phase.steps else phase.exposed_cycles
        yield until(DISPATCHER, "waits for instructions", begun, works | adds)
        for step, begun, _, _, _, ended in zip(phase.steps, *self._timing[:5], strict=True):
            busy, exchange = _of(step.busy_cycles, core), _of(step.exchange_cycles, lane)
            own = _of(step.pre_cycles + step.cycles, lane)
            at, begin, end = busy > 0, begun[:, lane], ended[:, lane]
            now = np.where(at, begin, now)
            yield until(EXCHANGE, "exchange", begin + exchange, at)
            if step.path >= 0:
                name = self._names[step.path]
                yield until(name, f"waits for {name}", end - own + exchange, at)
            yield until(BUSY, CATEGORY_LABELS[step.category], now + busy, at)
            yield until(CORE, "waits for core 0", end, at)
        if phase.replay is not None and adds.any():
            name = self._names[phase.replay.path]
            yield until(name, f"waits for {name}", replayed - phase.replay.cycles, adds)
            yield until(BUSY, CATEGORY_LABELS[Category.REPLAY], replayed, adds)
        done = works | adds
        for last in range(phase.lanes):
            end, where = self._ends[:, last], done & (self._last == last)
            yield until(CORE, f"waits for core {last}", end, where)
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
        adding = replay.busy_cycles // np.maximum(1, replay.cycles)
        return ~works & (core < at_work + adding), self._timing.replay_end


def _streams(phase: Phase, timing: Timing, lanes: slice) -> Iterator[Transfer]:
    """The operands of some lanes."""
    for step, _, begun, array_begun, fetched, ended in zip(phase.steps, *timing[:5], strict=True):
        if step.path >= 0:
            nbytes = np.broadcast_to(step.stream_bytes, begun.shape)[:, lanes]
            starved = (ended - array_begun > step.cycles)[:, lanes] & (nbytes > 0)
            name = "KV" if step.is_kv else "weights"
            first, service = _first(begun[:, lanes], nbytes), served(step.rate, nbytes.sum(axis=1))
            until = (fetched[:, lanes] * (nbytes > 0)).max(axis=1)
            yield Transfer(name, step.path, first, service, until, starved.any(axis=1))


def _transfers(phase: Phase, timing: Timing) -> Iterator[Transfer]:
    """All that crosses ports: replays, then each step's operands and what is beside them."""
    never, unknown = np.zeros(phase.n, np.bool_), np.zeros(phase.n, np.int64)
    if (replay := phase.replay) is not None:
        name, service = CATEGORY_LABELS[Category.REPLAY], served(replay.rate, replay.nbytes)
        until = timing.replay_end - replay.cycles
        yield Transfer(name, replay.path, phase.exposed_cycles, service, until, ~never)
    streams = _streams(phase, timing, slice(None))
    for step, begun in zip(phase.steps, timing.begun, strict=True):
        if step.path >= 0:
            yield next(streams)
        for path, rate, each in step.sides:
            nbytes = np.broadcast_to(each, begun.shape)
            service = served(rate, nbytes.sum(axis=1))
            yield Transfer("writes", path, _first(begun, nbytes), service, unknown, never)


def _first(moments: Ints, nbytes: Ints) -> Ints:
    """The first moment of the lanes that have bytes, [n]; 0 without one."""
    return np.where(nbytes > 0, moments, moments.max(axis=1, keepdims=True)).min(axis=1)


def _in_turn(
    phase: Phase, track: str, transfers: Sequence[Transfer], cycles: Ints, names: Sequence[str]
) -> Iterator[Span]:
    """The spans of transfers, one behind the other: what each waits for, then its bytes."""
    now = np.zeros(phase.n, np.int64)
    latest = cycles - sum((each.service for each in transfers), now)  # so that all have room
    for each in transfers:
        start = np.clip(each.begun, now, np.maximum(now, latest))
        latest = latest + each.service
        end = np.clip(each.until, start + each.service, np.maximum(start + each.service, latest))
        end = np.minimum(end, cycles)
        flows = np.maximum(start, end - each.service)
        latency = np.minimum(start + np.ravel(phase.latencies[each.path]), flows)
        first = np.where(each.starved, flows, latency)
        memory, there = names[each.path], each.service > 0
        start, first, flows, end = (np.where(there, at, now) for at in (start, first, flows, end))
        yield Span(track, memory, f"waits for {memory}", start, first)
        yield Span(track, CORE, "waits for cores", first, flows)
        yield Span(track, BUSY, each.name, flows, end)
        now = end


def _of(figure: Ints, column: int) -> Ints:
    """A column of [n, K], or what is the same for all."""
    return figure[:, column if figure.shape[1] > 1 else 0]

"""Rung ``fluid``: what phases take, solved for all of them at once.

Model: the machine of :mod:`carsim.machine.parts`, tile for tile. For the tiles k = 1, 2, ... of the
operands of a lane, in a double buffer of m slots, with latency L, service time s(b) of b bytes and
C(k) compute cycles of an operand's first k tiles:

* request:  I(k) = max(I(k-1), F(k-m)), once the slot of tile k - m is free;
* arrival:  S(k) = max(S(k-1), I(k) + L) + s(tile k);
* computed: F(k) = max(F(k-1), ceil S(k)) + C(k) - C(k-1).

These are running maxima: S(k) = X(k) + s(bytes up to k) and F(k) = Y(k) + C(k), where X and Y only
grow. The first 2 m tiles and the last m of each operand are computed one by one, all phases side by
side. In between, X stands still if memory sets the pace, and Y if the array does: the phase is then
equal to the SimPy machine's to the bit (:func:`is_exact` says where). If the buffer is too small to
cover the latency, both grow by the period (L + s + c) / m, which leaves out rounding. Several lanes
share a memory in proportion to their bytes, which leaves out who comes first.

Times of a memory are whole numbers of 1 / rate.numerator cycles, so that nothing is rounded.
"""

from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.machine.lanes import Ints, Step
from carsim.machine.phase import Phase, Timing, Track

NEVER = np.iinfo(np.int64).min // 4
"""Earlier than anything."""

SHARE_BITS = 12
"""Shares of a memory among lanes are taken to a 4096th."""


def solve(phase: Phase) -> Timing:
    """When each step of each lane of n phases took place."""
    exposed, replay = phase.exposed_cycles, phase.replay
    replay_end = np.zeros(phase.n, np.int64)
    if replay is not None:
        served = -(-replay.nbytes * replay.rate.denominator // replay.rate.numerator)
        taken = phase.latencies[replay.path] + served + replay.cycles
        replay_end = (exposed + taken) * (replay.nbytes > 0)
    lanes = _Lanes(phase, exposed)
    tracks = [lanes.step(step) for step in phase.steps]
    return Timing(tracks, lanes.sides_end, replay_end)


class _Tiles(NamedTuple):
    """Tiles of one operand, [n, K, tiles]; what is beyond the last tile is masked."""

    there: NDArray[np.bool_]
    served: Ints  # bytes' worth of service up to and with each tile, and before it
    served_before: Ints
    computed: Ints  # cycles up to and with each tile, and before it
    computed_before: Ints


class _Lanes:
    """State of the lanes of n phases between two steps."""

    def __init__(self, phase: Phase, exposed: Ints) -> None:
        shape = (phase.n, phase.lanes)
        start = np.broadcast_to(exposed[:, None], shape).copy()
        fetch_start = np.zeros(shape, np.int64) if phase.early_fetch else start
        self._latencies = phase.latencies
        self._shape = shape
        self.ended = start
        self.sides_end = np.zeros(phase.n, np.int64)
        self._issued = fetch_start.copy()
        self._free: dict[bool, Ints] = {}  # by buffer: when each slot was freed, [n, K, m]
        self._port: dict[int, tuple[Fraction, Ints]] = {}  # by memory: when it is free
        self._side_port: dict[int, tuple[Fraction, Ints]] = {}
        replay = phase.replay
        if replay is not None:
            numerator, denominator = replay.rate.as_integer_ratio()
            behind = (exposed + phase.latencies[replay.path]) * numerator
            behind = behind + replay.nbytes * denominator
            behind = np.where(replay.nbytes > 0, behind, NEVER)
            self._port[replay.path] = replay.rate, np.broadcast_to(behind[:, None], shape)
            self._side_port[replay.path] = replay.rate, behind

    def step(self, step: Step) -> Track:
        """Take the lanes through one step."""
        begun = self.ended
        self._sides(step, begun)
        start = begun + step.pre_cycles
        if step.path < 0 or not step.stream_bytes.any():
            self.ended = start + step.cycles
            return Track(step, begun, begun, start, begun, self.ended)
        return self._streamed(step, begun, start)

    def _streamed(self, step: Step, begun: Ints, start: Ints) -> Track:
        numerator, denominator = step.rate.as_integer_ratio()
        nbytes = np.broadcast_to(step.stream_bytes, self._shape)
        slots, latency = step.slots, self._latencies[step.path]
        count = -(-nbytes // step.tile_bytes)
        most = int(count.max())
        share = _share(nbytes)
        free = self._free.get(step.is_kv)
        if free is None:
            free = np.broadcast_to(self._issued[..., None], (*self._shape, slots))
        port = self._port_free(step.path, step.rate)

        def tiles(first: Ints | int, number: int) -> _Tiles:
            """``number`` tiles from ``first`` (0 is the operand's first) on."""
            index = np.asarray(first)[..., None] + np.arange(number + 1)
            done = np.minimum(index * step.tile_bytes[..., None], nbytes[..., None])
            done = np.maximum(done, 0)
            served = (done * denominator * share[..., None]) >> SHARE_BITS
            computed = -(-step.cycles[..., None] * done // np.maximum(1, nbytes)[..., None])
            there = (index[..., :-1] >= 0) & (index[..., :-1] < count[..., None])
            return _Tiles(
                there, served[..., 1:], served[..., :-1], computed[..., 1:], computed[..., :-1]
            )

        state = _Block(port, start, self._issued)

        def run(part: _Tiles, freed: Ints) -> Ints:
            return state.run(part, freed, latency, numerator)

        first = tiles(0, min(slots, most))
        done = run(first, free[..., : first.there.shape[-1]])
        array_begun, fetch_begun = state.array_begun, state.fetch_begun
        history = [free, done]
        if most > slots:
            second = tiles(slots, min(slots, most - slots))
            done = run(second, done[..., : second.there.shape[-1]])
            history.append(done)
        frees = np.concatenate(history, axis=-1)
        tail_first = np.maximum(2 * slots, count - slots)  # of what is not yet computed
        if most > 2 * slots:
            between = np.maximum(0, count - 3 * slots)
            self._advance(step, state, between, share, latency)
            before = tiles(tail_first - slots, slots)
            arrival = -(-(state.x[..., None] + before.served) // numerator)
            paced = np.maximum(state.y[..., None], arrival - before.computed_before)
            in_between = tail_first[..., None] - slots + np.arange(slots) >= 2 * slots
            known = _gather(frees, tail_first[..., None] - slots + np.arange(slots) + slots)
            freed = np.where(in_between, paced + before.computed, known)
            jumped = np.where(in_between, arrival - before.computed_before, NEVER).max(axis=-1)
            state.y = np.maximum(state.y, jumped)
            tail = tiles(tail_first, slots)
            done = run(tail, freed)
        last = state.x + ((nbytes * denominator * share) >> SHARE_BITS)
        self._port[step.path] = step.rate, last
        self._free[step.is_kv] = _last_frees(frees, done, count, tail_first, slots, most)
        self._issued = state.issued
        working = count > 0
        fetched = np.where(working, -(-last // numerator), begun)
        self.ended = np.where(working, state.y, start) + step.cycles
        return Track(
            step,
            begun,
            np.where(working, fetch_begun, begun),
            np.where(working, array_begun, start),
            fetched,
            self.ended,
        )

    def _advance(
        self, step: Step, state: "_Block", between: Ints, share: Ints, latency: int
    ) -> None:
        """Jump over tiles: where the buffer cannot cover the latency, each adds to both maxima."""
        numerator, denominator = step.rate.as_integer_ratio()
        service = (step.tile_bytes * denominator * share) >> SHARE_BITS
        compute = step.cycles * step.tile_bytes * numerator // np.maximum(1, step.stream_bytes)
        period = (latency * numerator + service + compute) // step.slots
        slow = period > np.maximum(service, compute)
        state.x = state.x + between * slow * (period - service)
        state.y = state.y + between * slow * (period - compute) // numerator

    def _port_free(self, path: int, rate: Fraction) -> Ints:
        """When a memory has served what was requested of it, in its own units of time."""
        if path not in self._port:
            return np.full(self._shape, NEVER)
        return _in_units(*self._port[path], rate)

    def _sides(self, step: Step, begun: Ints) -> None:
        for path, rate, nbytes in step.sides:
            numerator, denominator = rate.as_integer_ratio()
            free = np.where(nbytes > 0, begun, 0).max(axis=-1) * numerator
            if path in self._side_port:
                free = np.maximum(free, _in_units(*self._side_port[path], rate))
            free = free + nbytes.sum(axis=-1) * denominator
            self._side_port[path] = rate, free
            self.sides_end = np.maximum(self.sides_end, -(-free // numerator))


def _in_units(before: Fraction, free: Ints, rate: Fraction) -> Ints:
    """A time in units of 1 / rate.numerator; a change of pattern begins with a whole cycle."""
    if before == rate:
        return free
    known = np.where(free > NEVER, -(-free // before.numerator), 0) * rate.numerator
    return np.where(free > NEVER, known, NEVER)


class _Block:
    """Running maxima X and Y of the lanes, and the last request, [n, K]."""

    def __init__(self, x: Ints, y: Ints, issued: Ints) -> None:
        self.x, self.y, self.issued = x, y, issued
        self.array_begun: Ints = y
        self.fetch_begun: Ints = y
        self._is_first = True

    def run(self, tiles: _Tiles, freed: Ints, latency: int, numerator: int) -> Ints:
        """Take some tiles in order; returns when each has been computed, [n, K, tiles]."""
        there = tiles.there
        issued = np.maximum.accumulate(np.maximum(freed, self.issued[..., None]), axis=-1)
        due = np.where(there, (issued + latency) * numerator - tiles.served_before, NEVER)
        x = np.maximum.accumulate(np.maximum(due, self.x[..., None]), axis=-1)
        arrived = -(-(x + tiles.served) // numerator)
        due = np.where(there, arrived - tiles.computed_before, NEVER)
        y = np.maximum.accumulate(np.maximum(due, self.y[..., None]), axis=-1)
        if self._is_first:
            self._is_first = False
            self.array_begun = np.maximum(self.y, arrived[..., 0])
            self.fetch_begun = issued[..., 0]
        self.issued = np.maximum(self.issued, np.where(there, issued, NEVER).max(axis=-1))
        self.x, self.y = x[..., -1], y[..., -1]
        computed: Ints = y + tiles.computed
        return computed


def _share(nbytes: Ints) -> Ints:
    """How many times longer each lane's bytes take than if it had the memory to itself."""
    total = nbytes.sum(axis=-1, keepdims=True)
    share: Ints = -(-(total << SHARE_BITS) // np.maximum(1, nbytes))
    return share


def _gather(frees: Ints, index: Ints) -> Ints:
    """``frees`` at some tiles of its last axis, clipped to what there is."""
    found: Ints = np.take_along_axis(frees, np.clip(index, 0, frees.shape[-1] - 1), axis=-1)
    return found


def _last_frees(
    frees: Ints, tail: Ints, count: Ints, tail_first: Ints, slots: int, most: int
) -> Ints:
    """When the slots were freed last, the longest ago first, [n, K, m]."""
    index = count[..., None] - slots + np.arange(slots)  # of the operand's tiles, from 0
    early = _gather(frees, index + slots)
    if most <= 2 * slots:
        return early
    late = _gather(tail, index - tail_first[..., None])
    return np.where(index >= tail_first[..., None], late, early)


def is_exact(phase: Phase) -> NDArray[np.bool_]:
    """Phases, bool[n], for which :func:`solve` promises what the SimPy machine takes, to the bit.

    One lane, at most one step of several tiles beyond three buffers whose pace is clear: memory or
    array sets it, and the buffer covers the latency.
    """
    exact = np.ones(phase.n, np.bool_)
    if phase.replay is not None and phase.early_fetch:
        exact &= phase.exposed_cycles == 0
    if phase.replay is not None and phase.steps:
        # Writes of the first step are asked for before the first byte of a replay can come.
        exact &= phase.replay.path not in {path for path, _, _ in phase.steps[0].sides}
    streams = [step for step in phase.steps if step.path >= 0]
    if len({(step.path, step.rate, step.is_kv) for step in streams}) > 1:
        return exact & False
    for step in phase.steps:
        if step.cycles.shape[1] > 1:
            exact &= ((step.stream_bytes > 0).sum(axis=-1) <= 1) & (phase.lanes == 1)
        if step.path < 0 or not step.stream_bytes.any():
            continue
        numerator, denominator = step.rate.as_integer_ratio()
        service = step.tile_bytes * denominator
        compute = step.cycles * step.tile_bytes * numerator // np.maximum(1, step.stream_bytes)
        latency, slots = phase.latencies[step.path], step.slots
        clear = abs(service - compute) > numerator
        covered = (slots - 1) * np.maximum(service, compute) > (
            (latency + 2) * numerator + np.minimum(service, compute)
        )
        short = step.stream_bytes <= 3 * slots * step.tile_bytes
        exact &= ((clear & covered) | short).all(axis=-1)
    return exact

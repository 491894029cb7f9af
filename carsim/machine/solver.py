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
    """Some tiles of one operand, [n, K, tiles]; what is beyond the last tile is masked.

    Attributes:
        there: The operand has such a tile.
        served: Units of service of the operand up to and with each tile.
        served_before: The same without it.
        computed: Cycles of the operand up to and with each tile.
        computed_before: The same without it.
    """

    there: NDArray[np.bool_]
    served: Ints
    served_before: Ints
    computed: Ints
    computed_before: Ints


class _Operand:
    """An operand cut into tiles: all that does not depend on when it is asked for.

    Args:
        step: The step that reads it.
        shape: (n, K).
        latency: Cycles from request to first byte.
    """

    def __init__(self, step: Step, shape: tuple[int, int], latency: int) -> None:
        self.numerator, denominator = step.rate.as_integer_ratio()
        self.latency = latency
        self.slots = slots = step.slots
        nbytes = np.broadcast_to(step.stream_bytes, shape)
        self.count = count = -(-nbytes // step.tile_bytes)
        self.working = count > 0
        self.most = int(count.max())
        self._step, self._nbytes, self._denominator = step, nbytes, denominator
        self._share, self._share_bits = _share(nbytes, denominator)
        self._cycles, self._rest = np.divmod(step.cycles, np.maximum(1, nbytes))
        self.service = self._served(nbytes)
        self.first = self._tiles(np.zeros_like(count), min(slots, self.most))
        self.tail_first = np.maximum(2 * slots, count - slots)  # of what is not yet computed
        last = count[..., None] - slots + np.arange(slots)  # of the operand's tiles, from 0
        self.last_early = last + slots
        if self.most <= slots:
            return
        self.second = self._tiles(np.full_like(count, slots), min(slots, self.most - slots))
        if self.most <= 2 * slots:
            return
        self.before = self._tiles(self.tail_first - slots, slots)
        self.tail = self._tiles(self.tail_first, slots)
        known = self.tail_first[..., None] + np.arange(slots)
        self.in_between, self.known = known >= 3 * slots, known
        self.last_late, self.is_late = (
            last - self.tail_first[..., None],
            last >= self.tail_first[..., None],
        )
        self._slow_growth()

    def _slow_growth(self) -> None:
        """Growth of both maxima over tiles in between, if the buffer cannot cover the latency."""
        step, slots = self._step, self.slots
        between = np.maximum(0, self.count - 3 * slots)
        service = self._served(np.minimum(self._nbytes, step.tile_bytes))
        compute = _tile_cycles(step) * self.numerator
        period = (self.latency * self.numerator + service + compute) // slots
        slow = period > np.maximum(service, compute)
        self.x_growth = between * slow * (period - service)
        self.y_growth = between * slow * (period - compute) // self.numerator

    def _served(self, nbytes: Ints) -> Ints:
        """Units of service of so many bytes of each lane."""
        share = self._share if nbytes.ndim == 2 else self._share[..., None]
        return (nbytes * self._denominator * share) >> self._share_bits

    def _tiles(self, first: Ints, number: int) -> _Tiles:
        """``number`` tiles from ``first`` (0 is the operand's first) on."""
        nbytes, step = self._nbytes[..., None], self._step
        index = first[..., None] + np.arange(number + 1)
        done = np.clip(index * step.tile_bytes[..., None], 0, nbytes)
        served = self._served(done)
        # In two parts, as cycles times bytes may exceed 64 bits.
        computed = self._cycles[..., None] * done
        computed = computed + _scaled_up(self._rest[..., None], done, np.maximum(1, nbytes))
        there = (index[..., :-1] >= 0) & (index[..., :-1] < self.count[..., None])
        return _Tiles(
            there, served[..., 1:], served[..., :-1], computed[..., 1:], computed[..., :-1]
        )


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
        self._operands: dict[int, _Operand] = {}  # by step; layers of a head repeat theirs
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
        if id(step) not in self._operands:
            self._operands[id(step)] = _Operand(step, self._shape, self._latencies[step.path])
        operand = self._operands[id(step)]
        slots, numerator = operand.slots, operand.numerator
        free = self._free.get(step.is_kv)
        if free is None:
            free = np.broadcast_to(self._issued[..., None], (*self._shape, slots))
        issued = self._issued
        if step.held_back:
            issued = np.where(operand.working, np.maximum(issued, start), issued)
        state = _Block(self._port_free(step.path, step.rate), start, issued, operand)
        done = state.run(operand.first, free)
        array_begun, fetch_begun = state.array_begun, state.fetch_begun
        frees = [free, done]
        if operand.most > slots:
            done = state.run(operand.second, done)
            frees.append(done)
        history = np.concatenate(frees, axis=-1)
        early = _gather(history, operand.last_early)
        if operand.most > 2 * slots:
            state.x, state.y = state.x + operand.x_growth, state.y + operand.y_growth
            before = operand.before
            arrival = -(-(state.x[..., None] + before.served) // numerator)
            due = arrival - before.computed_before
            paced = np.maximum(state.y[..., None], due) + before.computed
            freed = np.where(operand.in_between, paced, _gather(history, operand.known))
            jumped = np.where(operand.in_between, due, NEVER).max(axis=-1)
            state.y = np.maximum(state.y, jumped)
            late = _gather(state.run(operand.tail, freed), operand.last_late)
            early = np.where(operand.is_late, late, early)
        last = state.x + operand.service
        self._port[step.path] = step.rate, last
        self._free[step.is_kv] = early
        self._issued = state.issued
        working = operand.working
        self.ended = np.where(working, state.y, start) + step.cycles
        return Track(
            step,
            begun,
            np.where(working, fetch_begun, begun),
            np.where(working, array_begun, start),
            np.where(working, -(-last // numerator), begun),
            self.ended,
        )

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

    def __init__(self, x: Ints, y: Ints, issued: Ints, operand: _Operand) -> None:
        self.x, self.y, self.issued = x, y, issued
        self.array_begun: Ints = y
        self.fetch_begun: Ints = y
        self._operand = operand
        self._is_first = True

    def run(self, tiles: _Tiles, freed: Ints) -> Ints:
        """Take some tiles in order; returns when each has been computed, [n, K, tiles].

        Args:
            tiles: The tiles.
            freed: When the slot of each is free, [n, K, at least as many].
        """
        there, numerator = tiles.there, self._operand.numerator
        freed = freed[..., : there.shape[-1]]
        issued = np.maximum.accumulate(np.maximum(freed, self.issued[..., None]), axis=-1)
        due = (issued + self._operand.latency) * numerator - tiles.served_before
        due = np.where(there, due, NEVER)
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


def _scaled_up(rest: Ints, done: Ints, nbytes: Ints) -> Ints:
    """ceil(rest * done / nbytes) for rest, done <= nbytes < 2^38, whose product exceeds 64 bits."""
    high, low = done >> 24, done & ((1 << 24) - 1)
    whole, left = np.divmod(rest * high, nbytes)
    scaled: Ints = (whole << 24) - (-((left << 24) + rest * low) // nbytes)
    return scaled


def _share(nbytes: Ints, denominator: int) -> tuple[Ints, int]:
    """Factor by which each lane's bytes take longer than with the memory to itself.

    Returns:
        Whole numbers of 1 / 2^bits, [n, K], and bits: as many as keep bytes of service in 64 bits.
    """
    total = nbytes.sum(axis=-1, keepdims=True)
    most = max(1, int(total.max()) * denominator * nbytes.shape[-1])
    bits = max(0, min(SHARE_BITS, 62 - most.bit_length()))
    share: Ints = -(-(total << bits) // np.maximum(1, nbytes))
    return share, bits


def _tile_cycles(step: Step) -> Ints:
    """Cycles of the array for a whole tile, rounded down, [n, K]."""
    nbytes = np.maximum(1, step.stream_bytes)
    whole, rest = np.divmod(step.cycles, nbytes)
    tile_bytes = np.minimum(step.tile_bytes, nbytes)
    cycles: Ints = whole * tile_bytes + rest * tile_bytes // nbytes
    return cycles


def _gather(frees: Ints, index: Ints) -> Ints:
    """``frees`` at some tiles of its last axis, clipped to what there is."""
    found: Ints = np.take_along_axis(frees, np.clip(index, 0, frees.shape[-1] - 1), axis=-1)
    return found


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
        compute = _tile_cycles(step) * numerator
        latency, slots = phase.latencies[step.path], step.slots
        clear = abs(service - compute) > numerator
        covered = (slots - 1) * np.maximum(service, compute) > (
            (latency + 2) * numerator + np.minimum(service, compute)
        )
        short = step.stream_bytes <= 3 * slots * step.tile_bytes
        exact &= ((clear & covered) | short).all(axis=-1)
    return exact

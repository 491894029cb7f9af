"""Rung ``fluid``: what phases take, solved for all of them at once.

Model: the machine of :mod:`carsim.machine.parts`, tile for tile. For the tiles k = 1, 2, ... of the
operands of a lane, in a double buffer of m slots, with latency L, service time s(b) of b bytes and
C(k) compute cycles of an operand's first k tiles:

* request:  I(k) = max(I(k-1), F(k-m)), once the slot of tile k - m is free;
* arrival:  S(k) = max(S(k-1), I(k) + L) + s(tile k);
* computed: F(k) = max(F(k-1), ceil S(k)) + C(k) - C(k-1).

The m tiles of a full buffer wait for slots of the m before them alone, and are taken at once: S(k)
= X(k) + s(bytes up to k) and F(k) = Y(k) + C(k), where X and Y are running maxima. After two
buffers of an operand its pace has settled: X stands still if memory sets it, and Y if the array
does. So the solver jumps to the operand's last m tiles (:meth:`_Tiles.jump`), and work does not
grow with the operand. If the buffer is too small to cover the latency, X and Y grow by the period
(L + s + c) / m in between, which leaves out rounding. Where a test says so
(``is_exact`` in ``tests/machine/test_ladder.py``), the times are the SimPy machine's, to the bit.

Simplifications: lanes that share a memory keep the turn in which they began
(:mod:`carsim.machine.operand`); a lane that is slower than its share leaves the rest to nobody;
what others still have to fetch is known of an operand, not of those behind it; of a buffer with
more than :data:`~carsim.machine.operand.MOST_ROWS` slots, so many are followed.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carsim.machine.hardware import Rate, Rates, served
from carsim.machine.lanes import Ints, Step
from carsim.machine.operand import MOST_ROWS, Operand
from carsim.machine.phase import Phase, Timing

NEVER = np.iinfo(np.int64).min // 4
"""Earlier than anything."""

Mask = NDArray[np.bool_]

PART = 1 << 17
"""Lanes times tiles that are solved at a time: arrays of a megabyte, so that memory is bounded."""

# Once glibc has given back a block of nearly 32 MiB, it keeps smaller ones for later arrays. Else
# it may map each anew, page by page: a sweep with private weights took 5 % longer.
np.empty((1 << 25) - (1 << 13), np.uint8)


def solve(phase: Phase) -> Timing:
    """Moments of each step of each lane of n phases."""
    replay, replay_end = phase.replay, np.zeros(phase.n, np.int64)
    behind = np.full(phase.n, NEVER)  # when replays leave their memory, in its own units of time
    if replay is not None:
        numerator, denominator = _flat(replay.rate)
        first_byte = phase.exposed_cycles + np.ravel(phase.latencies[replay.path])
        read = first_byte + served(replay.rate, replay.nbytes)
        replay_end = (read + replay.cycles) * (replay.nbytes > 0)
        # Beside operands that are fetched early, replays take their bytes' time at the beginning.
        first_byte -= phase.exposed_cycles * phase.early_fetch
        behind = first_byte * numerator + replay.nbytes * denominator
        behind = np.where(replay.nbytes > 0, behind, NEVER)
    slots = max((step.slots for step in phase.steps if step.path >= 0), default=1)
    size = max(1, PART // (phase.lanes * min(slots, MOST_ROWS)))
    times = np.empty((len(phase.steps), 5, phase.n, phase.lanes), np.int64)
    for first in range(0, phase.n, size):
        part = slice(first, first + size)
        lanes = _Lanes(phase, part, phase.exposed_cycles[part, None], behind[part, None])
        for step, found in zip(phase.steps, times, strict=True):
            lanes.take(_part(step, part), found[:, part])
    if phase.dispatch is not None and phase.dispatch.queues is not None and len(times):
        ends = phase.dispatch.queues.ends(_alone(phase), phase.dispatch.known_cycles)
        times += np.where(times[-1, 4] > times[0, 0], (ends - times[-1, 4]).clip(0), 0)
    sides_end = np.maximum(_sides_end(phase, times[:, 0], behind), _moved(phase))
    return Timing.of(times.swapaxes(0, 1), sides_end, replay_end)


def _alone(phase: Phase) -> Ints:
    """Cycles of each lane if it had every memory to itself and no latency, [n, K]."""
    found = np.zeros((phase.n, phase.lanes), np.int64)
    for step in phase.steps:
        service = -(-step.stream_bytes * step.rate.denominator // step.rate.numerator)
        found += np.maximum(step.pre_cycles + step.cycles, service)
    return found


def _moved(phase: Phase) -> Ints:
    """Earliest cycle at which each memory can have moved all its bytes, [n].

    Reads begin a latency behind the phase; writes beside the streams are posted.
    """
    reads = [(step.path, step.rate, step.stream_bytes) for step in phase.steps if step.path >= 0]
    if phase.replay is not None:
        reads += [(phase.replay.path, phase.replay.rate, phase.replay.nbytes[:, None])]
    writes = [side for step in phase.steps for side in step.sides]
    begun = np.zeros(phase.n, np.int64) if phase.early_fetch else phase.exposed_cycles
    end = np.zeros(phase.n, np.int64)
    for path in {path for path, _, _ in (*reads, *writes)}:
        of_reads = _of_all([each for each in reads if each[0] == path], phase.n)
        of_all = _of_all([each for each in (*reads, *writes) if each[0] == path], phase.n)
        latency = np.ravel(phase.latencies[path]) * (of_reads > 0)
        end = np.maximum(end, (begun + np.maximum(of_reads + latency, of_all)) * (of_all > 0))
    return end


def _of_all(transfers: Sequence[tuple[int, Rate, Ints]], n: int) -> Ints:
    """Least cycles that a memory takes for transfers at several rates, [n]."""
    by_rate: dict[int, tuple[Rate, Ints]] = {}
    for _, rate, nbytes in transfers:
        _, before = by_rate.get(id(rate), (rate, np.zeros(n, np.int64)))
        by_rate[id(rate)] = rate, before + nbytes.sum(axis=-1)
    cycles: Ints = np.full(n, min(0, 1 - len(by_rate)))  # each sum is rounded up
    for rate, total in by_rate.values():
        cycles += served(rate, total)
    return cycles.clip(0)


def _part(step: Step, part: slice) -> Step:
    """A step of some of n phases, with what decides its timing."""
    names = ("pre_cycles", "cycles", "stream_bytes", "tile_bytes", "rate")
    return step._replace(**{name: _some(getattr(step, name), part) for name in names})


def _some(figure: Any, part: slice) -> Any:
    """Some rows of a figure [n, ...], or of a rate; what is the same for all phases stays."""
    if isinstance(figure, Rates):
        return Rates(*(_some(each, part) for each in figure))
    return figure[part] if np.ndim(figure) and len(figure) > 1 else figure


def _flat(rate: Rate) -> Rates:
    """A rate as int64[n], or [1]."""
    return Rates(np.ravel(rate.numerator), np.ravel(rate.denominator))


def _sides_end(phase: Phase, begun: Ints, behind: Ints) -> Ints:
    """End of the last transfer beside the streams, [n]; memories serve them step by step.

    Args:
        phase: The n phases.
        begun: When their lanes came to each step, [steps, n, K].
        behind: When replays leave their memory, in its own units of time, [n].
    """
    end = np.zeros(phase.n, np.int64)
    ports: dict[int, tuple[Rate, Ints]] = {}
    if phase.replay is not None:
        ports[phase.replay.path] = _flat(phase.replay.rate), behind
    for step, at in zip(phase.steps, begun, strict=True):
        for path, side_rate, nbytes in step.sides:
            rate = _flat(side_rate)
            free = np.where(nbytes > 0, at, 0).max(axis=-1) * rate.numerator
            if path in ports:
                free = np.maximum(free, _in_units(*ports[path], rate))
            free = free + nbytes.sum(axis=-1) * rate.denominator
            ports[path] = rate, free
            end = np.maximum(end, -(-free // rate.numerator))
    return end


class _Lanes:
    """The K lanes of n phases on their way through the steps. Moments: [n, K], rows of tiles first.

    Args:
        phase: The phases, and more.
        part: Which of them.
        exposed: Cycles before cores may begin, [n, 1].
        behind: When replays leave their memory, in its own units of time, [n, 1].
    """

    def __init__(self, phase: Phase, part: slice, exposed: Ints, behind: Ints) -> None:
        none = np.zeros((len(exposed), phase.lanes), np.int64)
        self._latencies = [_some(each, part) for each in phase.latencies]
        self._now = none + exposed
        self._issued = none if phase.early_fetch else self._now  # the last request
        # When each memory has served what was asked for so far, in units of its rate.
        self._ports: dict[int, tuple[Rate, Ints]] = {}
        if phase.replay is not None:
            self._ports[phase.replay.path] = _some(phase.replay.rate, part), none + behind
        self._asked: dict[int, Mask] = {}  # lanes that have asked each memory
        self._freed: dict[bool, Ints] = {}  # when the slots of a buffer are free, in their turn

    def take(self, step: Step, found: Ints) -> None:
        """Execute a step; ``found``: its five times of :class:`~carsim.machine.phase.Timing`."""
        begun, start = self._now, self._now + step.pre_cycles
        self._now = start + step.cycles
        found[:2], found[2], found[3], found[4] = begun, start, begun, self._now
        if step.path >= 0 and step.stream_bytes.any():
            operand = Operand(step, self._latencies[step.path])
            for figure, moment in zip(found[1:], self._stream(step, operand, start), strict=True):
                np.copyto(figure, moment, where=operand.count > 0)
            self._now = found[4]

    def _stream(self, step: Step, operand: Operand, start: Ints) -> tuple[Ints, ...]:
        """Moments when an operand was asked for, begun, fetched and computed, where there is one.

        Args:
            step: The step that reads it.
            operand: The operand.
            start: When the array may begin.
        """
        there, rows = operand.count > 0, min(operand.slots, MOST_ROWS)
        issued = np.maximum(self._issued, start) if step.held_back else self._issued
        x = port = np.full(start.shape, NEVER)
        if step.path in self._ports:
            x = port = _in_units(*self._ports[step.path], step.rate)
        asked = self._asked.get(step.path, np.zeros((), np.bool_))
        self._asked[step.path] = there | asked
        # All lanes ask a memory for the first time at once, and wait for each other's tile.
        x = np.where(asked, x, np.maximum(x, (issued + operand.latency) * operand.numerator))
        freed = self._freed.get(step.is_kv)
        if freed is None:
            freed = np.full((rows, *start.shape), NEVER)
        tiles = _Tiles(operand, issued, x, start, freed)
        first = tiles.take(np.zeros((1, 1), np.int64))
        most, slots = int(operand.count.max()), operand.slots
        if most > slots:
            tiles.take(np.full((1, 1), slots))
        if most > 2 * slots:
            jumps = operand.count > 4 * slots
            third = np.where(jumps, operand.count - slots, 2 * slots)
            if jumps.any():
                tiles.jump(third)
            tiles.take(third)
            if (operand.count > third + slots).any():
                tiles.take(third + slots)
        self._freed[step.is_kv] = np.where(there, tiles.freed, freed)
        self._issued = np.where(there, tiles.issued, self._issued)
        count = operand.count
        arrived = tiles.x + operand.service(np.maximum(count - 1, 0), count)
        served = tiles.x + operand.service(count, count)
        self._ports[step.path] = step.rate, np.where(there, served, port)
        return *first, -(-arrived // operand.numerator), tiles.y + operand.cycles


class _Tiles:
    """The tiles of an operand, buffer by buffer. Shapes: [n, K], and [R, n, K] for R slots.

    Args:
        operand: The operand.
        issued: The last request before it.
        x: When its memory is free, in units of service.
        y: When the array may begin.
        freed: When the slots are free for its first tiles.

    Attributes:
        issued: When the last tile so far was asked for.
        x: When it had arrived, less the service of the operand.
        y: When it was computed, less its cycles.
        freed: When the slots are free for the next tiles.
    """

    def __init__(self, operand: Operand, issued: Ints, x: Ints, y: Ints, freed: Ints) -> None:
        self._operand, slots, rows = operand, operand.slots, len(freed)
        self.issued, self.x, self.y, self.freed = issued, x, y, freed
        self._rows = np.arange(rows)[:, None, None]
        self._tile = self._rows * (slots - 1) // max(1, rows - 1)  # of the slot, in a full buffer
        # Beginnings of tiles and their ends, once where one tile's end is the next one's beginning.
        self._is_spread = rows < slots
        self._edges = np.arange(rows + 1)[:, None, None]
        if self._is_spread:
            self._edges = np.concatenate([self._tile, self._tile + 1])

    def take(self, first: Ints) -> tuple[Ints, Ints]:
        """Take the tiles of a buffer: the moments when its first was asked for, and computed on.

        Args:
            first: The first of them.
        """
        operand = self._operand
        left = operand.count - first
        # Rows behind the last tile of a lane change nothing.
        there = self._tile < left
        asked = np.where(there, self.freed, NEVER)
        np.maximum(asked[0], self.issued, out=asked[0])
        _running_most(asked)
        due: Ints = (asked + operand.latency) * operand.numerator
        edges = first + self._edges
        if self._is_spread:  # the last tile counts, though it may lie between two rows
            behind = np.arange(len(edges))[:, None, None] // len(self.freed)
            edges = np.minimum(edges, np.maximum(operand.count, 1) - 1 + behind)
        computed = self._settle(edges, due, None if self._is_spread else there)
        self.issued = asked[-1]
        taken = np.minimum(np.maximum(left, 0), operand.slots)
        kept = taken * len(self.freed) // operand.slots
        if (kept == len(self.freed)).all():
            self.freed = computed
        else:
            history = np.concatenate([self.freed, computed])
            self.freed = np.take_along_axis(history, kept + self._rows, axis=0)
        return asked[0], self._began

    def _settle(self, edges: Ints, due: Ints | None = None, there: Mask | None = None) -> Ints:
        """Ends of tiles that cannot be there before ``due``; None: that come in their turn.

        Args:
            edges: Their edges, as ``self._edges`` has them.
            due: Moments in units of service, less the service of the tile; taken as its own.
            there: Which tiles there are, bool; None: all.
        """
        operand, half = self._operand, len(edges) // 2
        tiles, ends = slice(len(edges) - 1), slice(1, None)
        if self._is_spread:
            tiles, ends = slice(half), slice(half, None)
        nbytes = operand.bytes_of(edges)
        own = operand.own_service(nbytes)
        served, x = own[ends], self.x[None]
        if not operand.is_alone:
            served = operand.service(edges[tiles], edges[ends])
        if due is not None:
            due -= own[tiles]
            if not operand.is_alone:
                due += own[ends] - served
            np.maximum(due[0], self.x, out=due[0])
            x = _running_most(due)
        cycles = operand.computed(nbytes)
        y = x + served
        y += operand.numerator - 1
        y //= operand.numerator  # when they have arrived
        y -= cycles[tiles]
        if there is not None and not there.all():
            np.copyto(y, NEVER, where=~there)
        np.maximum(y[0], self.y, out=y[0])
        _running_most(y)
        self._began, self.x, self.y = y[0], x[-1], y[-1]
        return y + cycles[ends]

    def jump(self, first: Ints) -> None:
        """Go from the third buffer to the last, where it is another: its first tiles are given."""
        operand, slots = self._operand, self._operand.slots
        at = np.full_like(first, 2 * slots)
        compute = operand.tile_cycles * operand.numerator
        alone = operand.own_service(operand.bytes_of(np.ones((1, 1), np.int64)))
        period = (operand.latency * operand.numerator + alone + compute) // slots
        jumped = first > at
        # Memory quickens as other lanes end, until the array may set the pace.
        for end in [*np.clip(operand.ends, at, np.maximum(at, first - slots)), first]:
            tiles, served = end - at, operand.service(end, end) - operand.service(at, at)
            is_slow = tiles * period > np.maximum(served, tiles * compute)
            self.x = self.x + is_slow * (tiles * period - served)
            self.y = self.y + is_slow * tiles * (period - compute) // operand.numerator
            if end is not first:
                self._settle(np.stack([end - 1, end]))
            at = end
        freed = self._settle(np.maximum(first - slots + self._edges, 2 * slots - 1))
        self.freed = np.where(jumped, freed, self.freed)


def _running_most(rows: Ints) -> Ints:
    """Each row as late as any before it, in place: row by row takes a seventh of ``accumulate``."""
    for before, row in pairwise(rows):
        np.maximum(before, row, out=row)
    return rows


def _in_units(before: Rate, free: Ints, rate: Rate) -> Ints:
    """A time in units of 1 / rate.numerator; a change of pattern begins with a whole cycle."""
    if before is rate:
        return free
    same = (before.numerator == rate.numerator) & (before.denominator == rate.denominator)
    known = np.where(free > NEVER, -(-free // before.numerator), 0) * rate.numerator
    return np.where(same | (free == NEVER), free, known)

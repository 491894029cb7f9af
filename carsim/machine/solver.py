"""Rung ``fluid``: what phases take, solved for all of them at once.

Model: the machine of :mod:`carsim.machine.parts`, tile for tile. For the tiles k = 1, 2, ... of the
operands of a lane, in a double buffer of m slots, with latency L, service time s(b) of b bytes and
C(k) compute cycles of an operand's first k tiles:

* request:  I(k) = max(I(k-1), F(k-m)), once the slot of tile k - m is free;
* arrival:  S(k) = max(S(k-1), I(k) + L) + s(tile k);
* computed: F(k) = max(F(k-1), ceil S(k)) + C(k) - C(k-1).

These are running maxima: S(k) = X(k) + s(bytes up to k) and F(k) = Y(k) + C(k), where X and Y only
grow; X stands still if memory sets the pace, and Y if the array does. So where the pace is clear
and the buffer covers the latency, a few tiles of an operand in an empty buffer decide, however many
there are (:meth:`_Operand.in_pace`). Elsewhere, the first 2 m tiles and the last m of each operand
are computed one by one, all lanes side by side. Both equal the SimPy machine to the bit where
:func:`is_exact` says so. If the buffer is too small to cover the latency, X and Y grow by the
period (L + s + c) / m in between, which leaves out rounding.

Lanes that share a memory are served in turn, tile k of each lane before tile k + 1 of any, as long
as they have one: s(bytes up to k) are those of all lanes by then. A lane whose slot came free late
waits for the latency and its own tile only. Simplifications: lanes keep the turn in which they
began; a lane that is slower than its share leaves the rest to nobody; and what others still have to
fetch is known of an operand, not of those behind it.

Operands that repeat, as those of the layers of a head, are laid out once.

Times of a memory are whole numbers of 1 / rate.numerator cycles, so that nothing is rounded.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.machine.lanes import Ints, Step
from carsim.machine.phase import Phase, Timing, repeats

NEVER = np.iinfo(np.int64).min // 4
"""Earlier than anything."""

PART = 1 << 17
"""Lanes times slots that are solved at a time: arrays of a megabyte, so that memory is bounded."""


def solve(phase: Phase) -> Timing:
    """When each step of each lane of n phases took place."""
    replay, replay_end = phase.replay, np.zeros(phase.n, np.int64)
    behind = np.full(phase.n, NEVER)  # when replays leave their memory, in its own units of time
    if replay is not None:
        numerator, denominator = replay.rate.as_integer_ratio()
        first_byte = phase.exposed_cycles + phase.latencies[replay.path]
        served = -(-replay.nbytes * denominator // numerator)
        replay_end = (first_byte + served + replay.cycles) * (replay.nbytes > 0)
        behind = first_byte * numerator + replay.nbytes * denominator
        behind = np.where(replay.nbytes > 0, behind, NEVER)
    asked = _Asked(
        {id(step): _Work.of_phases(step) for step, _ in repeats(phase.steps)},
        phase.exposed_cycles[:, None],
        behind[:, None],
    )
    lanes = _Chosen(
        np.repeat(np.arange(phase.n), phase.lanes), np.tile(np.arange(phase.lanes), phase.n)
    )
    slots = max((step.slots for step in phase.steps if step.path >= 0), default=1)
    parts = [
        _times(phase, asked.of(part), len(part.phases))
        for part in lanes.parts(max(1, PART // slots))
    ]
    times = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)
    times = times.reshape(*times.shape[:2], phase.n, phase.lanes)
    times = times.swapaxes(0, 1)
    return Timing.of(times, _sides_end(phase, times[0], behind), replay_end)


class _Work(NamedTuple):
    """What a step asks of lanes: [n, K] or what broadcasts to it; of chosen lanes [P] or [1].

    Attributes:
        pre_cycles: As in :class:`~carsim.machine.lanes.Step`.
        cycles: Likewise.
        nbytes: Bytes of the operand.
        tile_bytes: As there.
        most: The different bytes of the lanes, most first: of all that a memory serves in turn.
        first: How many lanes have so many that have their turn no later than this one.
        then: How many have theirs after it; nothing where there is one lane.
    """

    pre_cycles: Ints
    cycles: Ints
    nbytes: Ints
    tile_bytes: Ints
    most: tuple[Ints, ...]
    first: tuple[Ints, ...]
    then: tuple[Ints, ...]

    @classmethod
    def of_phases(cls, step: Step) -> "_Work":
        """The work of all lanes of n phases."""
        nbytes = step.stream_bytes
        figures = step.pre_cycles, step.cycles, nbytes, step.tile_bytes
        if nbytes.shape[1] == 1:
            return cls(*figures, (nbytes,), (np.ones((1, 1), np.int64),), ())
        order = np.argsort(-nbytes, axis=-1, kind="stable")
        sorted_bytes = np.take_along_axis(nbytes, order, axis=-1)
        differs = (sorted_bytes[:, 1:] < sorted_bytes[:, :-1]).any(axis=0)
        level = np.cumsum(np.concatenate([[0], differs]))[np.argsort(order, axis=-1)]
        starts = np.flatnonzero(np.concatenate([[True], differs]))
        most = tuple(sorted_bytes[:, [at]] for at in starts)
        first = tuple(np.cumsum(level == each, axis=-1) for each in range(len(most)))
        then = tuple(each[:, -1:] - each for each in first)
        return cls(*figures, most, first, then)

    def of(self, choose: Callable[[Ints], Ints]) -> "_Work":
        """The work of some of the lanes."""
        pre_cycles, cycles, nbytes, tile_bytes = map(choose, self[:4])
        most, first, then = (tuple(map(choose, each)) for each in self[4:])
        return _Work(pre_cycles, cycles, nbytes, tile_bytes, most, first, then)


class _Asked(NamedTuple):
    """All that is asked of lanes, [n, K] or what broadcasts to it; of chosen lanes [P] or [1].

    Attributes:
        works: The work of each step, by its identity: layers of a head repeat theirs.
        exposed: Cycles before cores may begin.
        behind: When replays leave their memory, in its own units of time.
    """

    works: Mapping[int, _Work]
    exposed: Ints
    behind: Ints

    def of(self, lanes: "_Chosen") -> "_Asked":
        """What is asked of some lanes."""
        works = {step: work.of(lanes.of) for step, work in self.works.items()}
        return _Asked(works, lanes.of(self.exposed), lanes.of(self.behind))

    def some(self, lanes: NDArray[np.intp]) -> "_Asked":
        """What is asked of some of P lanes."""

        def of(figure: Ints) -> Ints:
            return figure if figure.size == 1 else figure[lanes]

        works = {step: work.of(of) for step, work in self.works.items()}
        return _Asked(works, of(self.exposed), of(self.behind))


class _Chosen(NamedTuple):
    """Some of the lanes of n phases: their phases, and their places in them, [P] each."""

    phases: NDArray[np.intp]
    places: NDArray[np.intp]

    def of(self, figure: Ints) -> Ints:
        """A figure of these lanes, [P], or [1] if it is the same for all."""
        n, lanes = figure.shape
        phases, places = 0 if n == 1 else self.phases, 0 if lanes == 1 else self.places
        found: Ints = np.atleast_1d(figure[phases, places])
        return found

    def parts(self, size: int) -> Iterator["_Chosen"]:
        """So many of them at a time."""
        for first in range(0, max(1, len(self.phases)), size):
            yield _Chosen(*(each[first : first + size] for each in self))


def _sides_end(phase: Phase, begun: Ints, behind: Ints) -> Ints:
    """When the last transfer beside the streams is over, [n]; memories serve them step by step.

    Args:
        phase: The n phases.
        begun: When their lanes came to each step, [steps, n, K].
        behind: When replays leave their memory, in its own units of time, [n].
    """
    end = np.zeros(phase.n, np.int64)
    ports: dict[int, tuple[Fraction, Ints]] = {}
    if phase.replay is not None:
        ports[phase.replay.path] = phase.replay.rate, behind
    for step, at in zip(phase.steps, begun, strict=True):
        for path, rate, nbytes in step.sides:
            numerator, denominator = rate.as_integer_ratio()
            free = np.where(nbytes > 0, at, 0).max(axis=-1) * numerator
            if path in ports:
                free = np.maximum(free, _in_units(*ports[path], rate))
            free = free + nbytes.sum(axis=-1) * denominator
            ports[path] = rate, free
            end = np.maximum(end, -(-free // numerator))
    return end


class _Tiles(NamedTuple):
    """Tiles of an operand of P lanes that decide when it is done, [R, P] unless said otherwise.

    Attributes:
        there: The operand has such a tile.
        asked: When it is asked for is found, too.
        served: Units of service of the operand up to and with each tile.
        served_before: The same without what it takes with the memory to itself.
        computed: Cycles of the operand up to and with each tile.
        computed_before: The same without it.
        slot_of: The tile whose slot it takes: one of the m that were in the buffer before, or m +
            one of these; -1 if it is not asked for.
        left: The tiles that it leaves in the buffer, likewise, [m, P].
        service: Units of service of the operand, [P].
        fetched: Units of service until it is there, [P].
        cycles: Its cycles, [P].
    """

    there: NDArray[np.bool_]
    asked: NDArray[np.bool_]
    served: Ints
    served_before: Ints
    computed: Ints
    computed_before: Ints
    slot_of: NDArray[np.intp]
    left: NDArray[np.intp]
    service: Ints
    fetched: Ints
    cycles: Ints


class _Operand:
    """An operand of P lanes, cut into tiles: all that does not depend on when it is asked for.

    Args:
        step: The step that reads it.
        work: What it asks of the lanes.
        latency: Cycles from request to first byte.
    """

    def __init__(self, step: Step, work: _Work, latency: int) -> None:
        self.numerator, self._denominator = step.rate.as_integer_ratio()
        self.latency, self.slots, self.work = latency, step.slots, work
        self._nbytes, self._tile_bytes = work.nbytes, work.tile_bytes
        self.count = -(-work.nbytes // work.tile_bytes)
        self._cycles, self._rest = np.divmod(work.cycles, np.maximum(1, work.nbytes))
        self.service = self._served(self.count, self.count)
        self.fetched = self._served(np.maximum(self.count - 1, 0), self.count)
        # Its first tile waits for those of the lanes before it; all others come in turn.
        first = np.minimum(work.tile_bytes, work.nbytes)
        self.queued = self._served(0 * first, 0 * first + 1) - self._denominator * first

    def in_pace(self, port: Ints, start: Ints, issued: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        """The operand in an empty buffer, and for which lanes, bool[P], that holds.

        If memory sets the pace, tiles arrive further apart than the array needs for them: the last
        two decide when it is done, and no request waits for a slot if that of tile m does not. If
        the array does, each tile but the first has arrived when it is needed, and the last request
        is the one that waited longest for its slot. The buffer covers the latency if what the
        slower of the two does with its other slots takes longer.

        Args:
            port: When the memory has served what was requested before, in its units, [P].
            start: When the array may begin, [P].
            issued: When the operand may be asked for, [P].

        Returns:
            When it was asked for, when the array began on it, when it was fetched and when it was
            computed, [4, P].
        """
        numerator, slots, latency = self.numerator, self.slots, self.latency
        nbytes, tile = self._nbytes, np.minimum(self._tile_bytes, self._nbytes)
        last = np.maximum(self.count - 1, 0)
        one, before = 0 * last + 1, np.maximum(last - 1, 0)
        service, compute = self._served(one, one), self._tile_cycles * numerator
        least = self._served(last, last) - self._served(before, before)  # fewer lanes are left
        least = np.where(last > 0, least, service)
        x = np.maximum(port, (issued + latency) * numerator)
        first = np.maximum(start, -(-(x + self._served(0 * one, one)) // numerator))
        by_memory = least > compute + numerator
        due = np.maximum(
            -(-(x + self._served(before, last)) // numerator) - self._computed(before * tile),
            -(-(x + self.fetched) // numerator) - self._computed(last * tile),
        )
        y = np.where(by_memory, np.maximum(first, due), first)
        fits = self.count <= slots
        freed = first + self._computed(np.maximum(last - slots + 1, 0) * tile)
        alone = self._denominator * (nbytes - last * tile)
        late = (freed + latency) * numerator + alone - self.fetched
        end = np.where(by_memory | fits, x, np.maximum(x, late)) + self.fetched
        slower, faster = np.where(by_memory, [least, compute], [compute, service])
        covered = (slots - 1) * slower > (latency + 2) * numerator + faster
        second = (first + self._computed(tile) + latency) * numerator + self._denominator * tile
        in_time = by_memory <= (second - self._served(slots * one, (slots + 1) * one) <= x)
        clear = slower - faster > numerator
        holds = clear & (fits | (covered & in_time)) | (last == 0)
        fetched = -(-end // numerator)
        return np.stack(np.broadcast_arrays(issued, first, fetched, y + self.work.cycles)), holds

    @property
    def _tile_cycles(self) -> Ints:
        """Cycles of the array for a whole tile, rounded down, [P]."""
        tile_bytes = np.minimum(self._tile_bytes, np.maximum(1, self._nbytes))
        rest = _scaled_down(self._rest, tile_bytes, np.maximum(1, self._nbytes))
        cycles: Ints = self._cycles * tile_bytes + rest
        return cycles

    def tiles(self) -> _Tiles:
        """The first 2 m tiles, and if there are more: with which other lanes end, then m + m.

        The last m are preceded by those whose slots they take. Between them X stands still where
        memory sets the pace, which quickens as other lanes end.
        """
        slots, count = self.slots, self.count
        most, slot = int(count.max()), np.arange(slots)[:, None]
        index = np.arange(min(2 * slots, most))[:, None] + np.zeros_like(count)
        there = index < count
        asked, place = there, index
        last = count - slots + slot
        ends = last + slots
        x_growth = y_growth = np.zeros((1, count.size), np.int64)
        if most > 2 * slots:
            first = np.maximum(2 * slots, count - slots)  # of those not yet among them
            before, known = first - slots + slot, first + slot
            others = [each + np.zeros_like(count) for each in self.work.most[:0:-1]]
            turns = -(-np.array(others, np.int64).reshape(-1, count.size) // self._tile_bytes) - 1
            turned = (turns >= 2 * slots) & (turns < before[:1])
            x_growth, y_growth = self._slow_growth(turns)
            growth_of = np.repeat(
                [0, *range(1, len(x_growth))], [len(index), *[1] * len(turns), 2 * slots]
            )
            index = np.concatenate([index, turns, before, known])
            there = np.concatenate([there, turned, before >= 2 * slots, known < count])
            not_asked = np.zeros((len(turns) + slots, count.size), np.bool_)
            asked = np.concatenate([asked, not_asked, known < count])
            at = 3 * slots + len(turns)
            between = np.where(before >= 2 * slots, at + slot, known)
            place = np.concatenate([place, 0 * turns, 0 * before, between])
            ends = np.where(last >= first, at + slots + last - first, ends)
            computed, served = y_growth[growth_of], x_growth[growth_of]
        else:
            computed = served = np.zeros((len(index), 1), np.int64)
        ahead = np.clip(index * self._tile_bytes, 0, self._nbytes)
        upto = np.clip((index + 1) * self._tile_bytes, 0, self._nbytes)
        served = served + self._served(index, index + 1)
        return _Tiles(
            there,
            asked,
            served,
            served - self._denominator * (upto - ahead),
            computed + self._computed(upto),
            computed + self._computed(ahead),
            np.where(asked, place, -1),
            ends,
            self.service + x_growth[-1],
            self.fetched + x_growth[-1],
            self.work.cycles + y_growth[-1],
        )

    def _slow_growth(self, turns: Ints) -> tuple[Ints, Ints]:
        """Growth of both maxima where the buffer cannot cover the latency.

        Args:
            turns: The tiles with which other lanes end, [J, P], in order.

        Returns:
            Units of service and cycles by which they have grown after the first 2 m tiles, after
            each turn, and before the last m, [J + 2, P] each.
        """
        end = self.count - self.slots
        first = np.minimum(2 * self.slots, end)
        edges = np.stack([first, *np.clip(turns + 1, first, end), end])
        served = np.diff([self._served(edge, edge) for edge in edges], axis=0)
        tiles = np.diff(edges, axis=0)
        tile = np.minimum(self._nbytes, self._tile_bytes)
        compute, alone = self._tile_cycles * self.numerator, self._denominator * tile
        period = (self.latency * self.numerator + alone + compute) // self.slots
        slow = tiles * period > np.maximum(served, tiles * compute)
        x_growth = slow * (tiles * period - served)
        y_growth = slow * tiles * (period - compute) // self.numerator
        none = 0 * end[None]
        x_growth, y_growth = (
            np.concatenate([none, each.cumsum(axis=0)]) for each in (x_growth, y_growth)
        )
        return x_growth, y_growth

    def _served(self, then: Ints, first: Ints) -> Ints:
        """Units of service until lanes have so many tiles, or as many as they need.

        Args:
            then: Tiles of the lanes whose turn comes after each one's.
            first: Its own, and of the lanes whose turn comes before.
        """
        work, served = self.work, np.zeros(1, np.int64)
        first, then = first * work.tile_bytes, then * work.tile_bytes
        for level, most in enumerate(work.most):
            served = served + work.first[level] * np.minimum(first, most)
            if work.then:
                served = served + work.then[level] * np.minimum(then, most)
        return self._denominator * served

    def _computed(self, nbytes: Ints) -> Ints:
        """Cycles of so many bytes of each lane."""
        # In two parts, as cycles times bytes may exceed 64 bits.
        return self._cycles * nbytes + _scaled_up(self._rest, nbytes, np.maximum(1, self._nbytes))


class _Sequence:
    """The tiles of all steps of P lanes in one row, behind a row 0 that stands for none.

    The three running maxima of the model are taken over all of them at once: first as if all slots
    were free, then with the slots that this left free, and so on until nothing changes, which is
    the solution. That takes two or three turns where the pace is clear, and never more than the
    buffer is filled.

    Args:
        phase: The phase of the lanes.
        asked: What is asked of them.
        size: P.
    """

    def __init__(self, phase: Phase, asked: _Asked, size: int) -> None:
        self._phase = phase
        self._begun = np.broadcast_to(asked.exposed, size)
        self._behind = np.broadcast_to(asked.behind, size)
        works = [asked.works[id(step)] for step in phase.steps]
        known: dict[int, tuple[_Operand, _Tiles]] = {}
        for step, work in zip(phase.steps, works, strict=True):
            if id(step) not in known and _streams(step, work):
                operand = _Operand(step, work, phase.latencies[step.path])
                known[id(step)] = operand, operand.tiles()
        self._different = list(known.values())
        streams = [index for index, step in enumerate(phase.steps) if id(step) in known]
        self._streams = np.array(streams, np.intp)
        place = {step: index for index, step in enumerate(known)}
        self._which = np.array([place[id(phase.steps[index])] for index in streams], np.intp)
        lengths = np.array([len(tiles.there) for _, tiles in self._different])[self._which]
        self._rows = np.cumsum([1, *lengths])  # where the tiles of each operand begin
        self._pre = _stacked([work.pre_cycles for work in works], size)
        cycles = _stacked(
            [
                known[id(step)][1].cycles if id(step) in known else work.cycles
                for step, work in zip(phase.steps, works, strict=True)
            ],
            size,
        )
        self._computed = np.cumsum(self._pre + cycles, axis=0)  # with each step, [steps, P]
        self._lay_out(lengths, (self._computed - cycles)[self._streams], size)

    def _lay_out(self, lengths: NDArray[np.intp], before: Ints, size: int) -> None:
        """Put the tiles of all operands behind each other."""
        self._service = self._of_operands([tiles.service for _, tiles in self._different], size)
        # An operand that goes on where one of the same memory and rate ended is of its run.
        steps = [self._phase.steps[stream] for stream in self._streams]
        patterns = [(step.path, step.rate) for step in steps]
        firsts = [i for i in range(len(steps)) if i == 0 or patterns[i] != patterns[i - 1]]
        self._runs = [
            (
                steps[first],
                self._different[self._which[first]][0],
                slice(*self._rows[[first, end]].tolist()),
            )
            for first, end in zip(firsts, [*firsts[1:], len(steps)], strict=True)
        ]
        # Units of service in the run before each operand.
        served = np.cumsum(self._service, axis=0) - self._service
        run = np.repeat(firsts, np.diff([*firsts, len(steps)]))
        served -= served[run]
        row_of = _Repeated([len(tiles.there) for _, tiles in self._different], self._which)

        def rows_of(name: str) -> NDArray[Any]:
            return row_of([getattr(tiles, name) for _, tiles in self._different], size)

        self._service += served
        self._fetched = served + self._of_operands(
            [tiles.fetched for _, tiles in self._different], size
        )
        served, before = (np.repeat(each, lengths, axis=0) for each in (served, before))
        numerators = np.array([operand.numerator for operand, _ in self._different])
        latencies = numerators * [operand.latency for operand, _ in self._different]
        self._numerators = numerators[self._which][:, None]
        one_run = len(self._runs) == 1
        self._numerator: Any = (
            int(numerators[0]) if one_run else np.repeat(self._numerators, lengths, axis=0)
        )
        latency = np.repeat(latencies[self._which], lengths)[:, None]
        asked, there = rows_of("asked"), rows_of("there")
        self._served = served + rows_of("served")
        self._ahead = np.where(asked, latency - served - rows_of("served_before"), NEVER)
        self._computed_before = before + rows_of("computed_before")
        self._is_before = np.where(there, -self._computed_before, NEVER)
        self._computed_with = before + rows_of("computed")
        self._slots = np.where(asked, self._slots_of_tiles(lengths, size), 0)

    def _of_operands(self, figures: Sequence[Ints], size: int) -> Ints:
        """A figure of the different operands at all of them, [operands, P]."""
        found: Ints = _stacked(figures, size)[self._which]
        return found

    def _slots_of_tiles(self, lengths: NDArray[np.intp], size: int) -> NDArray[np.intp]:
        """The row of the tile whose slot each takes, 0 if none had it."""
        buffers: dict[bool, tuple[int, NDArray[np.intp]]] = {}
        known: dict[Hashable, tuple[int, NDArray[np.intp], NDArray[np.intp]]] = {}
        different: list[NDArray[np.intp]] = []
        which: list[int] = []
        rows = self._rows.tolist()
        for stream, begin, end, of in zip(
            self._streams.tolist(), rows, rows[1:], self._which.tolist(), strict=False
        ):
            step, tiles = self._phase.steps[stream], self._different[of][1]
            # Rows of what a buffer holds are taken relative to those of the next operand, so that
            # operands that repeat, as the layers of a head do, are laid out once.
            at, held = buffers.get(step.is_kv, (0, np.zeros((step.slots, size), np.intp)))
            key = of, id(held), begin - at if at else 0
            if key not in known:
                own = np.arange(end - begin)[:, None] + np.zeros(size, np.intp)
                history = np.concatenate([held - (begin - at), own])
                taken = np.take_along_axis(history, np.maximum(tiles.slot_of, 0), axis=0)
                left = np.take_along_axis(history, tiles.left, axis=0) - (end - begin)
                if (tiles.left >= step.slots).all():
                    _, _, left = known.setdefault(of, (0, held, left))
                known[key] = len(different), held, left
                different.append(taken)
            place, _, left = known[key]
            which.append(place)
            buffers[step.is_kv] = end, left
        found = _Repeated(list(map(len, different)), np.array(which))(different, size)
        found += np.repeat(self._rows[:-1], lengths)[:, None]
        return found

    def times(self) -> Ints:
        """The five times of :class:`~carsim.machine.phase.Timing`, of all steps: [steps, 5, P]."""
        issued, arrived, served, y = self._settled()
        rows, begins = self._rows, self._rows[:-1]
        steps, size = self._pre.shape
        # The last row before the end of each step.
        last = rows[np.searchsorted(self._streams, np.arange(steps), "right")] - 1
        ended = y[last] + self._computed
        begun = np.concatenate([self._begun[None], ended[:-1]])
        found = np.stack([begun, begun, begun + self._pre, begun, ended], axis=1)
        working = self._of_operands([operand.count for operand, _ in self._different], size) > 0
        of_stream = found[self._streams]
        for at, figure in (
            (1, issued[begins]),
            (2, np.maximum(of_stream[:, 2], arrived[begins - 1])),
            (3, served),
        ):
            of_stream[:, at] = np.where(working, figure, of_stream[:, at])
        found[self._streams] = of_stream
        return found

    def _settled(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Requests [1 + R, P], arrivals [R, P], ends of fetches [operands, P] and Y [1 + R, P]."""
        phase, size = self._phase, len(self._begun)
        done = np.full((self._rows[-1], size), NEVER)
        slots = self._slots * size + np.arange(size)
        x, issued, y = (np.empty_like(done) for _ in range(3))
        y[:] = self._begun
        held_back = [
            row
            for row, stream in zip(self._rows, self._streams, strict=False)
            if phase.steps[stream].held_back
        ]
        fetch_begun = np.zeros(size, np.int64) if phase.early_fetch else self._begun
        while True:
            issued[0] = fetch_begun
            done.take(slots, out=issued[1:])
            for row in held_back:
                start = y[row - 1] + self._computed_before[row - 1]
                working = self._ahead[row - 1] > NEVER
                issued[row] = np.where(working, np.maximum(issued[row], start), issued[row])
            np.maximum.accumulate(issued, axis=0, out=issued)
            due = issued[1:] * self._numerator + self._ahead
            ports: dict[int, tuple[Fraction, Ints]] = {}
            if phase.replay is not None:
                ports[phase.replay.path] = phase.replay.rate, self._behind
            asked: set[int] = set()
            for step, first, rows in self._runs:
                port = np.full(size, NEVER)
                if step.path in ports:
                    port = _in_units(*ports[step.path], step.rate)
                run = x[rows]
                run[:] = due[rows.start - 1 : rows.stop - 1]
                if step.path not in asked:  # all lanes ask at once
                    asked.add(step.path)
                    run[0] += first.queued
                np.maximum(run[0], port, out=run[0])
                np.maximum.accumulate(run, axis=0, out=run)
                index = np.searchsorted(self._rows, rows.stop) - 1
                ports[step.path] = step.rate, x[rows.stop - 1] + self._service[index]
            arrived = -(-(x[1:] + self._served) // self._numerator)
            y[0] = self._begun
            np.add(arrived, self._is_before, out=y[1:])
            np.maximum.accumulate(y, axis=0, out=y)
            now = y[1:] + self._computed_with
            if (now == done[1:]).all():
                break
            done[1:] = now
        ends = x[self._rows[1:] - 1] + self._fetched
        return issued, arrived, -(-ends // self._numerators), y


class _Repeated:
    """Blocks of rows, some of them several times, one below the other.

    Args:
        lengths: Rows of each block.
        which: The blocks, in order, [k].
    """

    def __init__(self, lengths: Sequence[int], which: NDArray[np.intp]) -> None:
        starts = np.cumsum([0, *lengths])[:-1]
        taken = np.array(lengths)[which]
        ends = np.cumsum(taken)
        self._row = np.arange(ends[-1]) + np.repeat(starts[which] - ends + taken, taken)

    def __call__(self, blocks: Sequence[NDArray[Any]], size: int) -> NDArray[Any]:
        """The rows of the blocks for P lanes, [rows, P]."""
        wide = [np.broadcast_to(block, (len(block), size)) for block in blocks]
        found: NDArray[Any] = np.concatenate(wide)[self._row]
        return found


def _streams(step: Step, work: _Work) -> bool:
    """Something is fetched for some of the lanes."""
    return step.path >= 0 and bool(work.nbytes.any())


def _stacked(figures: Sequence[Ints], size: int) -> Ints:
    """Figures of P lanes as one array, [figures, P]."""
    found = np.empty((len(figures), size), np.int64)
    for row, figure in zip(found, figures, strict=True):
        row[:] = figure
    return found


def _times(phase: Phase, asked: _Asked, size: int) -> Ints:
    """The five times of :class:`~carsim.machine.phase.Timing`, of all steps: [steps, 5, P]."""
    works = [asked.works[id(step)] for step in phase.steps]
    streams = [i for i, each in enumerate(zip(phase.steps, works, strict=True)) if _streams(*each)]
    if len(streams) > 1:
        return _Sequence(phase, asked, size).times()
    pre = _stacked([work.pre_cycles for work in works], size)
    ended = asked.exposed + np.cumsum(pre + _stacked([work.cycles for work in works], size), axis=0)
    begun = np.concatenate([np.broadcast_to(asked.exposed, size)[None], ended[:-1]])
    found = np.stack([begun, begun, begun + pre, begun, ended], axis=1)
    if not streams:
        return found
    (index,) = streams
    step, work = phase.steps[index], works[index]
    start, replay = found[index, 2], phase.replay
    issued = np.zeros(size, np.int64) if phase.early_fetch else begun[0]
    if step.held_back:
        issued = np.where(work.nbytes > 0, np.maximum(issued, start), issued)
    port = np.full(1, NEVER)
    if replay is not None and replay.path == step.path:
        port = _in_units(replay.rate, asked.behind, step.rate)
    operand = _Operand(step, work, phase.latencies[step.path])
    at, holds = operand.in_pace(port, start, issued)
    if not holds.all():
        rest = np.flatnonzero(~np.broadcast_to(holds, size))
        instead = _Sequence(phase, asked.some(rest), len(rest)).times()
        if len(rest) == size:
            return instead
    waited = np.where(work.nbytes > 0, at[-1] - found[index, -1], 0)
    found[index, 1:4] = np.where(work.nbytes > 0, at[:3], found[index, 1:4])
    found[index, 4] += waited
    found[index + 1 :] += waited
    if not holds.all():
        found[..., rest] = instead
    return found


def _in_units(before: Fraction, free: Ints, rate: Fraction) -> Ints:
    """A time in units of 1 / rate.numerator; a change of pattern begins with a whole cycle."""
    if before == rate:
        return free
    known = np.where(free > NEVER, -(-free // before.numerator), 0) * rate.numerator
    return np.where(free > NEVER, known, NEVER)


def _scaled_up(rest: Ints, done: Ints, nbytes: Ints) -> Ints:
    """ceil(rest * done / nbytes) for rest, done <= nbytes, whose product may not fit."""
    return -_scaled_down(-rest, done, nbytes)


def _scaled_down(rest: Ints, done: Ints, nbytes: Ints) -> Ints:
    """floor(rest * done / nbytes); in Python's integers where 64 bits do not hold the product."""
    if int(abs(rest).max(initial=0)) * int(done.max(initial=0)) < 1 << 62:
        fits: Ints = rest * done // nbytes
        return fits
    exact: Ints = (rest.astype(object) * done // nbytes).astype(np.int64)
    return exact


def _tile_cycles(step: Step) -> Ints:
    """Cycles of the array for a whole tile, rounded down, [n, K]."""
    nbytes = np.maximum(1, step.stream_bytes)
    whole, rest = np.divmod(step.cycles, nbytes)
    tile_bytes = np.minimum(step.tile_bytes, nbytes)
    cycles: Ints = whole * tile_bytes + _scaled_down(rest, tile_bytes, nbytes)
    return cycles


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

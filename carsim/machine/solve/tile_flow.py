"""The tiles of an operand on their way through a double buffer, one buffer full at a time.

Shapes are [n, K] for n phases of K lanes, and [R, n, K] for the R tiles of a full buffer.

With m slots, latency L, service s(k) of the first k tiles and compute cycles C(k) of the first k
tiles, :mod:`carsim.machine.solve.solver` defines for tile k

* its request I(k), its arrival S(k), and F(k), when it is computed.

The solver keeps two running maxima instead of S and F:

* X(k) = S(k) - s(k), ``service_start``: when memory would have begun, had it never paused;
* Y(k) = F(k) - C(k), ``compute_start``: when the array would have begun, had it never stalled.

X grows only when memory waits for a request, and Y only when the array stalls.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from carsim.machine.solve.axes import LaneInts, TileInts, TileMask
from carsim.machine.solve.operand import Operand

BEFORE_ALL = np.iinfo(np.int64).min // 4
"""Earlier than all events of a phase; sums with it do not overflow."""


class BufferStart(NamedTuple):
    """Cycles at which the first tile of a buffer is requested, and computed, [n, K]."""

    requested: LaneInts
    computing: LaneInts


class _Tiles(NamedTuple):
    """R tiles of each lane of an operand, [R, n, K] each.

    Attributes:
        served_before: Units of service until the tile arrives, without its own.
        served: Units of service until the tile arrives.
        computed_before: Compute cycles of the tiles before it.
        computed: Compute cycles of the tiles before it and of the tile.
    """

    served_before: TileInts
    served: TileInts
    computed_before: TileInts
    computed: TileInts


class TileFlow:
    """The tiles of the operand of n x K lanes, requested, served and computed.

    Args:
        operand: The operand.
        last_request: Cycle of the lane's last request before this operand, [n, K].
        service_start: When its memory is free, in units of service, [n, K].
        compute_start: Cycle from which the array may work on the operand, [n, K].
        slots_free: Cycles at which the slots are free for the first R tiles, [R, n, K].

    Attributes:
        last_request: Cycle at which the last tile so far was requested.
        service_start: Arrival of the last tile so far, less the service until then, in units of
            service.
        compute_start: Cycle at which the last tile so far was computed, less the compute cycles
            until then.
        slots_free: Cycles at which the slots are free for the next R tiles.
    """

    def __init__(
        self,
        operand: Operand,
        *,
        last_request: LaneInts,
        service_start: LaneInts,
        compute_start: LaneInts,
        slots_free: TileInts,
    ) -> None:
        self._operand = operand
        self.last_request = last_request
        self.service_start = service_start
        self.compute_start = compute_start
        self.slots_free = slots_free
        n_followed = len(slots_free)
        self._followed = np.arange(n_followed)[:, None, None]
        # Number of each followed tile in a full buffer.
        self._tile_of_followed = self._followed * (operand.slots - 1) // max(1, n_followed - 1)
        self._follows_all_slots = n_followed == operand.slots
        # Tiles as edges: the numbers of tiles before and after each tile. Where all tiles are
        # followed, the end of a tile is the beginning of the next, and is worked out once.
        if self._follows_all_slots:
            self._edges = np.arange(n_followed + 1)[:, None, None]
        else:
            edges = [self._tile_of_followed, self._tile_of_followed + 1]
            self._edges = np.concatenate(edges)

    def pass_all(self) -> BufferStart:
        """Take all tiles; returns the start of the first buffer.

        After two buffers the pace of an operand has settled, so that a long operand continues with
        its last two buffers.
        """
        counts = self._operand.count
        slots = self._operand.slots
        most_tiles = int(counts.max())
        start = self.take_buffer(np.zeros((1, 1), np.int64))
        if most_tiles > slots:
            self.take_buffer(np.full((1, 1), slots))
        if most_tiles > 2 * slots:
            is_long = counts > 4 * slots
            third_buffer = np.where(is_long, counts - slots, 2 * slots)
            if is_long.any():
                self.jump(third_buffer)
            self.take_buffer(third_buffer)
            if (counts > third_buffer + slots).any():
                self.take_buffer(third_buffer + slots)
        return start

    def take_buffer(self, first: LaneInts) -> BufferStart:
        """Take the tiles of one full buffer, or of those that an operand still has.

        Args:
            first: Number of the first of these tiles, [n, K].
        """
        operand = self._operand
        tiles_left = operand.count - first
        # Most buffers are full in all lanes; without a mask, they take four fifths of the time.
        is_full = bool((tiles_left >= operand.slots).all())
        exists = None
        if is_full:
            requests = self.slots_free.copy()
        else:
            # Tiles behind the last one of a lane change nothing.
            exists = self._tile_of_followed < tiles_left
            requests = np.where(exists, self.slots_free, BEFORE_ALL)
        np.maximum(requests[0], self.last_request, out=requests[0])
        _running_maximum(requests)

        edges = first + self._edges
        if not self._follows_all_slots:
            # The last tile of an operand counts, even if it lies between two followed tiles.
            is_end = np.arange(len(edges))[:, None, None] // len(self._followed)
            edges = np.minimum(edges, np.maximum(operand.count, 1) - 1 + is_end)
        tiles = self._tiles(edges)

        service_starts: TileInts = (requests + operand.latency) * operand.numerator
        service_starts -= tiles.served_before
        np.maximum(service_starts[0], self.service_start, out=service_starts[0])
        _running_maximum(service_starts)
        self.service_start = service_starts[-1]

        # The tiles that are followed in a larger buffer are all moved to tiles that exist.
        counted = exists if self._follows_all_slots else None
        compute_starts = self._compute(tiles, service_starts + tiles.served, counted)
        self.last_request = requests[-1]
        computed = compute_starts + tiles.computed
        if is_full:
            self.slots_free = computed
        else:
            self._free_slots(computed, tiles_left)
        return BufferStart(requested=requests[0], computing=compute_starts[0])

    def jump(self, last_buffer: LaneInts) -> None:
        """Go from the third buffer of an operand to its last, at the pace that has settled.

        Args:
            last_buffer: Number of the first tile of the last buffer, [n, K]; twice the slots for
                lanes that do not jump.
        """
        operand = self._operand
        slots = operand.slots
        compute = operand.tile_cycles * operand.numerator
        one_tile = operand.bytes_of(np.ones((1, 1), np.int64))
        service = operand.own_service(one_tile)
        # If the buffer does not cover latency, service and compute, a slot takes so long a tile.
        period = (operand.latency * operand.numerator + service + compute) // slots
        third_buffer = np.full_like(last_buffer, 2 * slots)
        jumps = last_buffer > third_buffer
        latest_stop = np.maximum(third_buffer, last_buffer - slots)
        # Memory serves a lane faster once lanes with fewer tiles have ended, until the array may
        # set the pace. So the jump stops where a lane ends.
        stops = [last_buffer]
        if not operand.is_alone:
            stops = [*np.clip(operand.shorter_counts, third_buffer, latest_stop), last_buffer]
        start = third_buffer
        for stop in stops:
            tiles = stop - start
            served = operand.service(stop, stop) - operand.service(start, start)
            is_slow = tiles * period > np.maximum(served, tiles * compute)
            self.service_start = self.service_start + is_slow * (tiles * period - served)
            stall = is_slow * tiles * (period - compute) // operand.numerator
            self.compute_start = self.compute_start + stall
            if stop is not last_buffer:
                # The array may be late at this stop, by its last tile.
                last_tile = self._tiles(np.stack([stop - 1, stop]))
                self._compute(last_tile, self.service_start + last_tile.served)
            start = stop
        buffer_before = self._tiles(np.maximum(last_buffer - slots + self._edges, 2 * slots - 1))
        arrivals = self.service_start + buffer_before.served
        compute_starts = self._compute(buffer_before, arrivals)
        slots_free = compute_starts + buffer_before.computed
        self.slots_free = np.where(jumps, slots_free, self.slots_free)

    def _tiles(self, edges: TileInts) -> _Tiles:
        """Service and compute of tiles.

        Args:
            edges: Tiles before and after each of R tiles: R + 1 numbers if they follow each other,
                else R numbers before and R after, along the first axis.
        """
        operand = self._operand
        nbytes = operand.bytes_of(edges)
        own_before, own_after = self._split(operand.own_service(nbytes))
        computed_before, computed = self._split(operand.computed(nbytes))
        if operand.is_alone:
            return _Tiles(own_before, own_after, computed_before, computed)
        before, after = self._split(edges)
        served = operand.service(before, after)
        served_before = served - (own_after - own_before)
        return _Tiles(served_before, served, computed_before, computed)

    def _split(self, at_edges: TileInts) -> tuple[TileInts, TileInts]:
        """A figure before and after each tile, from the figure at the edges of the tiles."""
        if self._follows_all_slots or len(at_edges) == 2:
            return at_edges[:-1], at_edges[1:]
        n_followed = len(at_edges) // 2
        return at_edges[:n_followed], at_edges[n_followed:]

    def _compute(
        self, tiles: _Tiles, arrivals: TileInts, exists: TileMask | None = None
    ) -> TileInts:
        """Compute tiles in turn, and move ``compute_start``.

        Args:
            tiles: The tiles.
            arrivals: When they arrive, in units of service. This array is changed.
            exists: Which of them exist; None for all.

        Returns:
            ``compute_start`` by tile, [R, n, K].
        """
        numerator = self._operand.numerator
        # Arrivals are rounded up to whole cycles.
        compute_starts = arrivals
        compute_starts += numerator - 1
        compute_starts //= numerator
        compute_starts -= tiles.computed_before
        if exists is not None and not exists.all():
            np.copyto(compute_starts, BEFORE_ALL, where=~exists)
        # The array stalls here: a tile starts when it has arrived and the one before has started.
        np.maximum(compute_starts[0], self.compute_start, out=compute_starts[0])
        _running_maximum(compute_starts)
        self.compute_start = compute_starts[-1]
        return compute_starts

    def _free_slots(self, computed: TileInts, tiles_left: LaneInts) -> None:
        """Free the slots of a buffer in the order in which its tiles are computed.

        Args:
            computed: Cycles at which its tiles are computed, [R, n, K].
            tiles_left: Tiles that the operand still had, [n, K].
        """
        slots = self._operand.slots
        fills_buffer = tiles_left >= slots
        if (fills_buffer | (tiles_left <= 0)).all():  # a third of the time of what follows
            self.slots_free = np.where(fills_buffer, computed, self.slots_free)
            return
        n_followed = len(self._followed)
        tiles = np.minimum(np.maximum(tiles_left, 0), slots)
        n_taken = tiles * n_followed // slots
        # Slots that got no tile stay as free as they were, and come first.
        both = np.concatenate([self.slots_free, computed])
        self.slots_free = np.take_along_axis(both, n_taken + self._followed, axis=0)


def _running_maximum(times: TileInts) -> None:
    """Make the time of each tile at least as late as that of the tile before, in place.

    Tile by tile this takes a seventh of the time of ``np.maximum.accumulate``.
    """
    for before, time in pairwise(times):
        np.maximum(before, time, out=time)

"""An operand cut into tiles: bytes that a memory serves, and cycles that the array computes.

Shapes: [n, K] for n phases of K lanes, or what broadcasts to it. Tiles are numbers, from 0.

Lanes that share a memory are served in turn: tile k of each lane before tile k + 1 of any, as long
as they have one. Service is counted in units of 1 / rate.numerator cycles, so that nothing is
rounded.
"""

import numpy as np

from carsim.machine.lanes import Ints, Step

MOST_ROWS = 64
"""Tiles of a full buffer that are computed: all of a smaller one, else so many, evenly spread."""


class Operand:
    """An operand of n x K lanes.

    Args:
        step: The step that reads it.
        latency: Cycles from request to first byte, one or [n, 1].

    Attributes:
        numerator: Units of service in a cycle, likewise.
        latency: As above.
        slots: Tiles that the buffer holds.
        cycles: Compute cycles of the operand.
        count: Its tiles.
    """

    def __init__(self, step: Step, latency: Ints | int) -> None:
        self.numerator, self._denominator = step.rate.numerator, step.rate.denominator
        self.latency, self.slots, self.cycles = latency, step.slots, step.cycles
        self._nbytes, self._tile_bytes = step.stream_bytes, step.tile_bytes
        self.count: Ints = -(-self._nbytes // self._tile_bytes)
        self._least_one: Ints = np.maximum(1, self._nbytes)
        self._whole, self._rest = np.divmod(step.cycles, self._least_one)
        most = int(self._least_one.max(initial=1))
        self._fits = int(self._rest.max(initial=0)) * most < 1 << 62
        # Different sizes of a phase's lanes, largest first, and how many lanes with at least so
        # many bytes have their turn no later than each lane, or later.
        self._sizes = self._nbytes[None]
        self._first, self._then = np.ones((1, 1, 1), np.int64), np.zeros((1, 1, 1), np.int64)
        if self._nbytes.shape[1] > 1:
            self._rank_lanes()

    def _rank_lanes(self) -> None:
        order = np.argsort(-self._nbytes, axis=-1, kind="stable")
        ordered = np.take_along_axis(self._nbytes, order, axis=-1)
        differs = (ordered[:, 1:] < ordered[:, :-1]).any(axis=0)
        level = np.cumsum(np.concatenate([[0], differs]))[np.argsort(order, axis=-1)]
        starts = np.flatnonzero(np.concatenate([[True], differs]))
        starts = starts[ordered[:, starts].any(axis=0)]  # idle lanes ask for nothing
        self._sizes = ordered.T[starts][..., None]
        levels = np.arange(len(starts))[:, None, None]
        self._first = np.cumsum(level == levels, axis=-1)
        self._then = self._first[..., -1:] - self._first

    @property
    def ends(self) -> Ints:
        """Tiles of the lanes by size, the fewest first, without the most, [J, n, 1]."""
        return -(-self._sizes[:0:-1] // self._tile_bytes[..., :1])

    def own_service(self, tile: Ints) -> Ints:
        """Units of service of a tile alone."""
        return self._denominator * (self._bytes(tile + 1) - self._bytes(tile))

    def service(self, tile: Ints, ahead: int = 1) -> Ints:
        """Units of service of all lanes until each has its tile; with ahead 0, those before it."""
        first, then = (tile + ahead) * self._tile_bytes, tile * self._tile_bytes
        served: Ints = np.zeros((), np.int64)
        for size, before, after in zip(self._sizes, self._first, self._then, strict=True):
            served = served + before * np.minimum(first, size)
            if self._nbytes.shape[1] > 1:
                served = served + after * np.minimum(then, size)
        return self._denominator * served

    def computed(self, tiles: Ints) -> Ints:
        """Cycles of the first so many tiles, rounded up."""
        # In two parts, as cycles times bytes may exceed 64 bits.
        nbytes = self._bytes(tiles)
        rest = _scaled_down(-self._rest, nbytes, self._least_one, fits=self._fits)
        return self._whole * nbytes - rest

    @property
    def tile_cycles(self) -> Ints:
        """Cycles of a whole tile, rounded down."""
        tile = np.minimum(self._tile_bytes, self._least_one)
        rest = _scaled_down(self._rest, tile, self._least_one, fits=self._fits)
        return self._whole * tile + rest

    def _bytes(self, tiles: Ints) -> Ints:
        return np.minimum(tiles * self._tile_bytes, self._nbytes)


def _scaled_down(rest: Ints, done: Ints, nbytes: Ints, *, fits: bool) -> Ints:
    """floor(rest * done / nbytes); in Python's integers if 64 bits may not hold the product."""
    if fits:
        return rest * done // nbytes
    return (rest.astype(object) * done // nbytes).astype(np.int64)

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
        is_alone: One lane has its memory to itself.
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
        self.is_alone = self._nbytes.shape[1] == 1
        self._sizes = self._nbytes[None]
        self._first, self._then = np.ones((1, 1, 1), np.int64), np.zeros((1, 1, 1), np.int64)
        if not self.is_alone:
            self._rank_lanes()

    def _rank_lanes(self) -> None:
        order = np.argsort(-self._nbytes, axis=-1, kind="stable")
        ordered = np.take_along_axis(self._nbytes, order, axis=-1)
        differs = (ordered[:, 1:] < ordered[:, :-1]).any(axis=0)
        level = np.cumsum(np.concatenate([[0], differs]))[np.argsort(order, axis=-1)]
        starts = np.flatnonzero(np.concatenate([[True], differs]))
        starts = starts[ordered[:, starts].any(axis=0)]  # idle lanes ask for nothing
        self._sizes = ordered.T[starts][..., None]
        self._first = np.cumsum(level == np.arange(len(starts))[:, None, None], axis=-1)
        self._then = self._first[..., -1:] - self._first

    @property
    def ends(self) -> Ints:
        """Tiles of the lanes by size, the fewest first, without the most, [J, n, 1]."""
        return -(-self._sizes[:0:-1] // self._tile_bytes[..., :1])

    def bytes_of(self, tiles: Ints) -> Ints:
        """Bytes of the first so many tiles."""
        return np.minimum(tiles * self._tile_bytes, self._nbytes)

    def own_service(self, nbytes: Ints) -> Ints:
        """Units of service of some bytes alone."""
        return self._denominator * nbytes

    def service(self, before: Ints, after: Ints) -> Ints:
        """Units of service of all lanes until each has had its turn.

        Args:
            before: Tiles that each has had before; later lanes have no more.
            after: Tiles that it has then.
        """
        served: Ints = np.zeros((), np.int64)
        for size, first, then in zip(self._sizes, self._first, self._then, strict=True):
            served = served + first * np.minimum(after * self._tile_bytes, size)
            if not self.is_alone:
                served = served + then * np.minimum(before * self._tile_bytes, size)
        return self._denominator * served

    def computed(self, nbytes: Ints) -> Ints:
        """Cycles of the first so many bytes, rounded up."""
        # In two parts, as cycles times bytes may exceed 64 bits.
        found = _scaled(self._rest, nbytes, self._least_one, self._least_one - 1, fits=self._fits)
        found += self._whole * nbytes
        return found

    @property
    def tile_cycles(self) -> Ints:
        """Cycles of a whole tile, rounded down."""
        tile = np.minimum(self._tile_bytes, self._least_one)
        return self._whole * tile + _scaled(self._rest, tile, self._least_one, fits=self._fits)


def _scaled(rest: Ints, done: Ints, nbytes: Ints, more: Ints | int = 0, *, fits: bool) -> Ints:
    """floor((rest * done + more) / nbytes); in Python's integers if 64 bits may not hold it."""
    if fits:
        found = rest * done
        found += more
        found //= nbytes
        return found
    return ((rest.astype(object) * done + more) // nbytes).astype(np.int64)

"""An operand cut into tiles: the service that its memory gives, and the cycles of its array.

Tiles are numbered from 0. Shapes are [n, K] for n phases of K lanes, or what broadcasts to them.

A memory serves the lanes in turn: tile k of each lane comes before tile k + 1 of any lane, as long
as a lane has tiles. Service is counted in units of 1 / rate.numerator cycles, so that nothing is
rounded.
"""

import numpy as np

from carsim.machine.lanes import LaneOp
from carsim.machine.solve.axes import LaneInts, TileInts

MOST_ROWS = 64
"""Tiles of a full buffer that are followed: all, or this many of a larger buffer, evenly spread."""

INT64_MARGIN = 1 << 62
"""Products below it fit into 64 bits, with room for one sum."""


class Operand:
    """The operand of each of n x K lanes in one step.

    Args:
        step: The step that reads it.
        latency: Cycles from request to first byte: one number, or [n, 1].

    Attributes:
        numerator: Units of service in a cycle: one number, or [n, 1].
        latency: Cycles from request to first byte.
        slots: Tiles that the double buffer holds.
        cycles: Compute cycles of the whole operand, [n, K].
        count: Number of its tiles, [n, K]; 0 for a lane without an operand.
        is_alone: The phase has one lane, which shares its memory with no other.
    """

    def __init__(self, step: LaneOp, latency: LaneInts | int) -> None:
        self.numerator = step.rate.numerator
        self.latency = latency
        self.slots = step.slots
        self.cycles = step.cycles
        self._denominator = step.rate.denominator
        self._nbytes = step.stream_bytes
        self._tile_bytes = step.tile_bytes
        self.count: LaneInts = -(-self._nbytes // self._tile_bytes)
        # Cycles per byte as a whole number and a remainder, so that no product is too large.
        self._divisor: LaneInts = np.maximum(1, self._nbytes)
        # Two operations: ``np.divmod`` takes three times as long.
        self._cycles_per_byte: LaneInts = step.cycles // self._divisor
        self._remaining_cycles: LaneInts = step.cycles - self._cycles_per_byte * self._divisor
        self._rounding: LaneInts = self._divisor - 1
        most_cycles = int(self._remaining_cycles.max(initial=0))
        most_bytes = int(self._divisor.max(initial=1))
        self._fits_64_bits = most_cycles * most_bytes < INT64_MARGIN
        self.is_alone = self._nbytes.shape[1] == 1
        # The J different sizes of the lanes' operands in bytes, the largest first, [J, n, 1].
        self._sizes = self._nbytes[None]
        # By size: how many lanes of that size have their turn before or with a lane, [J, n, K] ...
        self._turns_until: LaneInts = np.ones((1, 1, 1), np.int64)
        # ... and how many have it after that lane.
        self._turns_after: LaneInts = np.zeros((1, 1, 1), np.int64)
        if not self.is_alone:
            self._rank_lanes()

    def _rank_lanes(self) -> None:
        """Find the different sizes of operands, and the turns of the lanes by size."""
        largest_first = np.argsort(-self._nbytes, axis=-1, kind="stable")
        sorted_bytes = np.take_along_axis(self._nbytes, largest_first, axis=-1)
        # All phases have a new size wherever one of them has, so that sizes are an array.
        is_smaller = (sorted_bytes[:, 1:] < sorted_bytes[:, :-1]).any(axis=0)
        size_of_rank = np.cumsum(np.concatenate([[0], is_smaller]))
        rank_of_lane = np.argsort(largest_first, axis=-1)
        size_of_lane = size_of_rank[rank_of_lane]
        first_ranks = np.flatnonzero(np.concatenate([[True], is_smaller]))
        # Lanes without an operand ask for nothing.
        first_ranks = first_ranks[sorted_bytes[:, first_ranks].any(axis=0)]
        self._sizes = sorted_bytes.T[first_ranks][..., None]
        sizes = np.arange(len(first_ranks))[:, None, None]
        self._turns_until = np.cumsum(size_of_lane == sizes, axis=-1)
        self._turns_after = self._turns_until[..., -1:] - self._turns_until

    @property
    def shorter_counts(self) -> TileInts:
        """Tiles of the smaller sizes of operand, the smallest first, without the largest."""
        smallest_first = self._sizes[:0:-1]
        return -(-smallest_first // self._tile_bytes[..., :1])

    def bytes_of(self, tiles: TileInts) -> TileInts:
        """Bytes of the first ``tiles`` tiles."""
        return np.minimum(tiles * self._tile_bytes, self._nbytes)

    def own_service(self, nbytes: TileInts) -> TileInts:
        """Units of service that a lane's bytes take if no other lane is served."""
        return self._denominator * nbytes

    def service(self, before: TileInts, after: TileInts) -> TileInts:
        """Units of service that all lanes have had once a lane has had its turn.

        Args:
            before: Tiles that each lane has before the turn. Lanes with a later turn have no more.
            after: Tiles that the lane has after the turn.
        """
        if self.is_alone:
            return self.own_service(self.bytes_of(after))
        served_bytes: TileInts = np.zeros((), np.int64)
        for size, turns_until, turns_after in zip(
            self._sizes, self._turns_until, self._turns_after, strict=True
        ):
            served_bytes = served_bytes + turns_until * np.minimum(after * self._tile_bytes, size)
            served_later = np.minimum(before * self._tile_bytes, size)
            served_bytes = served_bytes + turns_after * served_later
        return self._denominator * served_bytes

    def computed(self, nbytes: TileInts) -> TileInts:
        """Compute cycles of the first ``nbytes`` bytes, rounded up."""
        cycles = self._share_of_remainder(nbytes, rounding=self._rounding)
        cycles += self._cycles_per_byte * nbytes
        return cycles

    @property
    def tile_cycles(self) -> LaneInts:
        """Compute cycles of a whole tile, rounded down."""
        tile_bytes = np.minimum(self._tile_bytes, self._divisor)
        remainder = self._share_of_remainder(tile_bytes, rounding=0)
        return self._cycles_per_byte * tile_bytes + remainder

    def _share_of_remainder(self, nbytes: TileInts, rounding: LaneInts | int) -> TileInts:
        """Part of the remaining cycles that some bytes take.

        Python's integers take the place of 64 bits where the product may not fit.

        Args:
            nbytes: The bytes.
            rounding: Added before the division: the divisor less 1 to round up, 0 to round down.
        """
        if self._fits_64_bits:
            cycles = self._remaining_cycles * nbytes
            cycles += rounding
            cycles //= self._divisor
            return cycles
        exact_product = self._remaining_cycles.astype(object) * nbytes
        return ((exact_product + rounding) // self._divisor).astype(np.int64)

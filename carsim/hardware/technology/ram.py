"""On-chip RAM of an FPGA: which kind of block holds a buffer, and how many of them."""

import math
from collections.abc import Sequence
from typing import NamedTuple

BRAM36_SHAPES = ((512, 72), (1024, 36), (2048, 18), (4096, 9))
"""Words and bits of a 36 kbit block with one read and one write port (UG573)."""

URAM_SHAPES = ((4096, 72),)
"""Words and bits of an UltraRAM (UG573)."""


class Buffer(NamedTuple):
    """A kind of on-chip buffer: bytes and bits per cycle of one copy, and how many copies.

    >>> Buffer("256 weights of 4.15625 bits per cycle", 256 * 1024, 1064, 1).bram36
    60
    """

    name: str
    nbytes: int
    width_bits: int
    copies: int

    @property
    def bram36(self) -> int:
        """Block RAMs of all copies."""
        return self._blocks(BRAM36_SHAPES)

    @property
    def uram(self) -> int:
        """UltraRAMs of all copies, were they put there."""
        return self._blocks(URAM_SHAPES)

    def _blocks(self, shapes: Sequence[tuple[int, int]]) -> int:
        """Blocks of all copies, in the cheapest of the shapes (words, bits) of a block."""
        depth_words = -(-8 * self.nbytes // self.width_bits)
        blocks_of_copy = []
        for words, bits in shapes:
            blocks_wide = -(-self.width_bits // bits)
            blocks_deep = -(-depth_words // words)
            blocks_of_copy.append(blocks_wide * blocks_deep)
        return self.copies * min(blocks_of_copy)


def place(buffers: Sequence[Buffer], bram36: int, uram: int) -> list[tuple[int, int]]:
    """Give each buffer, in order, block RAM or UltraRAM; the counts may exceed what there is.

    Args:
        buffers: Buffers in the order in which they choose.
        bram36: Block RAMs of the board.
        uram: UltraRAMs of the board; where there are none, all goes to block RAM.

    Returns:
        Block RAMs and UltraRAMs of each buffer; one of the two is 0.
    """

    def share(needed: int, left: int) -> float:
        return needed / left if left > 0 else math.inf

    placed = []
    bram36_left = bram36
    uram_left = uram
    for buffer in buffers:
        if share(buffer.bram36, bram36_left) <= share(buffer.uram, uram_left):
            placed.append((buffer.bram36, 0))
            bram36_left -= buffer.bram36
        else:
            placed.append((0, buffer.uram))
            uram_left -= buffer.uram
    return placed

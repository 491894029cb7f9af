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
        deep = -(-8 * self.nbytes // self.width_bits)
        blocks = (-(-self.width_bits // bits) * -(-deep // words) for words, bits in shapes)
        return self.copies * min(blocks)


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
    for buffer in buffers:
        in_bram = share(buffer.bram36, bram36) <= share(buffer.uram, uram)
        blocks = (buffer.bram36, 0) if in_bram else (0, buffer.uram)
        placed.append(blocks)
        bram36, uram = bram36 - blocks[0], uram - blocks[1]
    return placed

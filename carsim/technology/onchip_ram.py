"""Block RAMs and UltraRAMs of a buffer, by the width of its port as well as by its bytes.

Model: a buffer is read in words of ``width_bits``, one word per cycle, while it is filled through
the other port. A block RAM of 36 kbit stores 512 x 72, 1024 x 36, 2048 x 18 or 4096 x 9 bits in
that mode (UG573); blocks stand side by side until the word is wide enough and behind each other
until it is deep enough, and the cheapest shape is taken. An UltraRAM is always 4096 x 72. A wide
and shallow buffer is therefore paid by its width: 256 four-bit weights per cycle take 15 blocks
however few bytes they hold.

Each buffer goes to the kind of RAM of which it takes the smaller share of what is left on the
board.

Simplifications: the parity bits of a block are used as data; buffers are not split between kinds
nor packed together into one block; cascading and placement cost nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

BRAM36_SHAPES = ((512, 72), (1024, 36), (2048, 18), (4096, 9))
"""Words and bits of a 36 kbit block with one read and one write port (UG573)."""

URAM_SHAPE = (4096, 72)
"""Words and bits of an UltraRAM (UG573)."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """A kind of on-chip buffer.

    Attributes:
        name: Component that it belongs to.
        nbytes: Bytes of one copy.
        width_bits: Bits that one copy delivers per cycle.
        copies: How many there are.
    """

    name: str
    nbytes: int
    width_bits: int
    copies: int

    @property
    def words(self) -> int:
        """Words of ``width_bits`` that hold the bytes."""
        return -(-8 * self.nbytes // self.width_bits)

    @property
    def bram36(self) -> int:
        """Block RAMs of all copies.

        >>> Buffer("256 weights of 4.15625 bits per cycle", 256 * 1024, 1064, 1).bram36
        60
        """
        return self.copies * min(_blocks(self, shape) for shape in BRAM36_SHAPES)

    @property
    def uram(self) -> int:
        """UltraRAMs of all copies, were they put there."""
        return self.copies * _blocks(self, URAM_SHAPE)


def _blocks(buffer: Buffer, shape: tuple[int, int]) -> int:
    words, bits = shape
    return -(-buffer.width_bits // bits) * -(-buffer.words // words)


def place(buffers: Sequence[Buffer], bram36: int, uram: int) -> list[tuple[int, int]]:
    """Give each buffer, in order, block RAM or UltraRAM; the counts may exceed what there is.

    Args:
        buffers: Buffers in the order in which they choose.
        bram36: Block RAMs of the board.
        uram: UltraRAMs of the board; where there are none, all goes to block RAM.

    Returns:
        Block RAMs and UltraRAMs of each buffer; one of the two is 0.
    """
    placed = []
    for buffer in buffers:
        if _share(buffer.bram36, bram36) <= _share(buffer.uram, uram):
            placed.append((buffer.bram36, 0))
        else:
            placed.append((0, buffer.uram))
        bram36 -= placed[-1][0]
        uram -= placed[-1][1]
    return placed


def _share(needed: int, left: int) -> float:
    return needed / left if left > 0 else math.inf

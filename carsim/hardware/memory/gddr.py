"""GDDR6: two 16-bit channels a device, eight transfers a clock."""

from carsim.hardware.memory.base import MemoryStandard


class Gddr6(MemoryStandard):
    """A channel of 16 bits. A request is one burst of 32 bytes; bank groups are interleaved.

    Four groups of four banks. The data clock runs at four times that of the commands, each of which
    takes one clock of the one command bus.
    """

    family = "GDDR6"
    mapping = "bgi"
    request_bytes = 32
    transfers_per_clock = 8

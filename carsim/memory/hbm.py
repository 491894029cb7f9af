"""HBM2: pseudo-channels of 64 bits with a bus for row and one for column commands."""

from carsim.memory.base import MemoryStandard


class Hbm2(MemoryStandard):
    """A pseudo-channel. A request is one burst of 32 bytes; bank groups are interleaved.

    The mapping is the default of AMD's controller (row, bank, column, with bank groups interleaved)
    and of the reference. Activates and column commands have a bus each and never meet.
    """

    family = "HBM2"
    mapping = "bgi"
    request_bytes = 32
    command_nck = 0
    precharge_nck = 0

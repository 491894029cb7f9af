"""HBM2, HBM2E and HBM3: pseudo-channels with a bus for row and one for column commands."""

from carsim.hardware.memory.base import MemoryStandard


class Hbm2(MemoryStandard):
    """A pseudo-channel. A request is one burst of 32 bytes; bank groups are interleaved.

    The mapping is the default of AMD's controller (row, bank, column, with bank groups interleaved)
    and of the reference. Activates and column commands have a bus each and never meet.
    """

    family = "HBM2"
    mapping = "bgi"
    request_bytes = 32
    column_nck = 0
    activate_nck = 0
    precharge_nck = 0


class Hbm3(Hbm2):
    """A pseudo-channel of 32 bits, 32 of them a stack: a burst of 8 is 32 bytes.

    The data strobe runs at twice the clock of the commands. Only the banks of one stack ID count:
    a taller stack has more.
    """

    family = "HBM3"
    transfers_per_clock = 4

"""DDR3, DDR4 and DDR5: one command bus, bank groups from DDR4 on."""

from carsim.hardware.memory.base import MemoryStandard


class Ddr3(MemoryStandard):
    """Eight banks without groups."""

    family = "DDR3"


class Ddr4(MemoryStandard):
    """Four groups of four banks, or two of four where devices are 16 bits wide."""

    family = "DDR4"


class Ddr5(MemoryStandard):
    """A subchannel of 32 bits, two of them a DIMM: a burst of 16 is 64 bytes.

    Eight groups of four banks. Activates and column commands take two clocks of the command bus.
    """

    family = "DDR5"
    column_nck = 2
    activate_nck = 2

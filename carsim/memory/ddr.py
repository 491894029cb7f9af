"""DDR3 and DDR4: one command bus, bank groups from DDR4 on."""

from carsim.memory.base import MemoryStandard


class Ddr3(MemoryStandard):
    """Eight banks without groups."""

    family = "DDR3"


class Ddr4(MemoryStandard):
    """Four groups of four banks, or two of four where devices are 16 bits wide."""

    family = "DDR4"

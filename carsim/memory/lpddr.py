"""LPDDR4: two 16-bit channels a device, commands of several clocks."""

from carsim.memory.base import MemoryStandard


class Lpddr4(MemoryStandard):
    """Activates and column commands take four clocks of the command bus, precharges two."""

    family = "LPDDR4"
    command_nck = 4
    precharge_nck = 2

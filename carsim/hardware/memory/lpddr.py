"""LPDDR4 and LPDDR5: two 16-bit channels a device, commands of several clocks."""

from carsim.hardware.memory.base import MemoryStandard


class Lpddr4(MemoryStandard):
    """Activates and column commands take four clocks of the command bus, precharges two.

    LPDDR4X differs in the voltage of its outputs alone: its rows are of this family.
    """

    family = "LPDDR4"
    column_nck = 4
    activate_nck = 4
    precharge_nck = 2


class Lpddr5(MemoryStandard):
    """Four groups of four banks and bursts of 16, as above 3200 MT/s; four data clocks a clock.

    An activate is two commands of a clock each; the command that synchronises the data clock is
    left out, as it is only sent when the data bus has been idle. LPDDR5X runs faster: its rows are
    of this family.
    """

    family = "LPDDR5"
    transfers_per_clock = 8
    activate_nck = 2

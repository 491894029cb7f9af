"""Packed schedule: fill one core before the next, so that as few cores as possible fetch weights.

It costs what DRS costs: the same registers, another rule of the scan.
"""

from carsim.hardware.schedule.base import Cores, slots_per_core
from carsim.hardware.schedule.drs import Drs


class Pack(Drs):
    """Computing sequences, in order, ``slots_per_core`` to each core."""

    kind = "pack"
    label = "pack"
    compared = False

    def core_of(self, order: Cores, computing: Cores, batch: int, cores: int) -> Cores:
        """Core = order among the computing sequences // slots."""
        return order // slots_per_core(batch, cores)

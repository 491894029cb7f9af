"""Static schedule: sequence b belongs to core b mod cores, whether or not the others compute."""

import numpy as np

from carsim.hardware.schedule.base import REPLAYS, Bools, Cores, Registers, Schedule, slots_per_core


class Static(Schedule):
    """Every core keeps its own sequences and checks their instructions, all cores in parallel."""

    kind = "static"
    label = "static"
    compared = True
    central = False

    def assign(self, computing: Bools, cores: int) -> Cores:  # [n, B] -> [n, B]
        """Core b mod cores."""
        return np.where(computing, np.arange(computing.shape[-1]) % cores, REPLAYS)

    def dispatch_cycles(self, registers: Registers, batch: int, cores: int) -> int:
        """The core with the most sequences checks longest."""
        return slots_per_core(batch, cores) * registers.check_cycles

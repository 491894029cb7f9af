"""A schedule: every core owns the sequences of one half of the batch, and helps nobody."""

import numpy as np

from carsim.hardware.schedule import REPLAYS, SCHEDULES, Schedule, slots_per_core


class Interleaved(Schedule):
    """Sequence b is computed by core b mod C, as in static scheduling, from the last core on."""

    kind = "interleaved"
    label = "interleaved"
    central = False

    def dispatch_cycles(self, registers, batch, cores):
        """Every core checks the instructions of its own sequences, one after the other."""
        return slots_per_core(batch, cores) * registers.check_cycles

    def assign(self, computing, cores):
        """The core of each sequence that computes; bool[n, B] to int[n, B]."""
        home = cores - 1 - np.arange(computing.shape[-1]) % cores
        return np.where(computing, home, REPLAYS)


SCHEDULES.register(Interleaved())

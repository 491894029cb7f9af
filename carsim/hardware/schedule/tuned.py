"""Tuned schedule: round robin over as many cores as are fastest for the number that computes.

More cores share the work; where each streams weights of its own, each costs a stream, too. So the
best number of cores depends on the machine and on how many sequences compute. It is looked up: a
ROM with an entry for each number, found once per machine, stands before the counter of DRS.

It costs what DRS costs: the sequences that compute are counted while the register latches them,
before the scan. (In gates, DRS maps sequences as their scores arrive and has no scan, and ``tuned``
scans in B + 1 cycles.)

Simplification: the table is found for MLPs of all layers alike, and with the first sequences
computing; where they lie apart, more of them change cores.
"""

from collections.abc import Sequence

import numpy as np

from carsim.hardware.schedule.base import Cores, CyclesOf, Schedule, slots_per_core
from carsim.hardware.schedule.drs import Drs


class Tuned(Drs):
    """Computing sequences, in order, to cores 0, 1, ..., used - 1, 0, ...

    Args:
        used: Cores in use by the number of sequences that compute; as DRS where there is no entry.
    """

    kind = "tuned"
    label = "tuned"
    compared = False

    def __init__(self, used: Sequence[int] = ()) -> None:
        self.used = tuple(used)

    def core_of(self, order: Cores, computing: Cores, batch: int, cores: int) -> Cores:
        """Round robin over the cores in use."""
        least = -(-computing // slots_per_core(batch, cores))
        table = np.array([*self.used, *[cores] * (batch + 1 - len(self.used))])
        return order % np.clip(table[computing], np.maximum(least, 1), cores)

    def fitted(self, cycles_of: CyclesOf, batch: int, cores: int) -> Schedule:
        """Try each number of cores that has room for the sequences; of equals, the fewest cores."""
        slots = slots_per_core(batch, cores)
        used = [1]
        for computing in range(1, batch + 1):
            least = -(-computing // slots)
            cycles_by_cores = {}
            for tried in range(least, min(cores, computing) + 1):
                schedule = Tuned([tried] * (batch + 1))
                cycles_by_cores[tried] = cycles_of(schedule, computing)
            used.append(min(cycles_by_cores, key=cycles_by_cores.__getitem__))
        return Tuned(used)

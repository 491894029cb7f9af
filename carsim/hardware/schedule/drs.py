"""The Dynamic Resource Scheduler of FastCar section 5.

When the last sequence of a layer has its temporal attention score, the Index Register latches one
bit per sequence (replay = 0, compute = 1). A scan over the register gives each computing sequence
a core, round robin, in a Mapping Register of log2(cores) bits. Then the dispatcher checks
precompiled instruction after instruction against the Index Register and discards it or sends it
to the mapped core. All of it runs beside the output projection; only what is left when the residual
is complete holds the MLP up.

Simplification: an MLP starts when its last instruction has been sent, not with its first.
"""

import numpy as np

from carsim.hardware.schedule.base import REPLAYS, Bools, Cores, Registers, Schedule


class Drs(Schedule):
    """Computing sequences, in order, to cores 0, 1, ..., cores - 1, 0, ...

    Another central schedule is a subclass with another :meth:`core_of`.
    """

    kind = "drs"
    label = "DRS"
    compared = True

    def core_of(self, order: Cores, computing: Cores, batch: int, cores: int) -> Cores:
        """The core of the ``order``-th of all computing sequences of a batch: round robin."""
        return order % cores

    def assign(self, computing: Bools, cores: int) -> Cores:  # [n, B] -> [n, B]
        """By their order among the computing sequences."""
        order: Cores = np.cumsum(computing, axis=-1)
        core = self.core_of(order - 1, order[..., -1:], computing.shape[-1], cores)
        return np.where(computing, core, REPLAYS)

    def dispatch_cycles(self, registers: Registers, batch: int, cores: int) -> int:
        """Latch + B (scan + instructions x check)."""
        of_sequence = registers.scan_cycles_per_sequence + registers.check_cycles
        return registers.latch_cycles + batch * of_sequence

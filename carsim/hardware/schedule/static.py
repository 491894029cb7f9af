"""Static schedule: sequence b belongs to core b mod cores, whether or not the others compute."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from carsim.hardware.schedule.base import (
    REPLAYS,
    Bools,
    Cores,
    Process,
    Registers,
    Schedule,
    Send,
    check_instructions,
    slots_per_core,
)

if TYPE_CHECKING:
    import simpy


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

    def dispatch(
        self,
        env: "simpy.Environment",
        registers: Registers,
        computing: Sequence[bool],
        cores: int,
        send: Send,
    ) -> Process:
        """One checking process per core."""
        (assigned,) = self.assign(np.array([computing]), cores).tolist()
        yield env.all_of(
            [
                env.process(
                    check_instructions(env, registers, list(enumerate(assigned))[core::cores], send)
                )
                for core in range(cores)
            ]
        )

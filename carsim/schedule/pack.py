"""Packed schedule: fill one core before the next, so that as few cores as possible fetch weights.

It costs what DRS costs: the same registers, another rule of the scan.
"""

from collections.abc import Sequence

import numpy as np
import simpy

from carsim.schedule.base import (
    REPLAYS,
    Bools,
    Cores,
    Process,
    Registers,
    Schedule,
    Send,
    central_cycles,
    check_instructions,
    slots_per_core,
)


class Pack(Schedule):
    """Computing sequences, in order, ``slots_per_core`` to each core."""

    kind = "pack"
    label = "pack"

    def assign(self, computing: Bools, cores: int) -> Cores:  # [n, B] -> [n, B]
        """Core = order among the computing sequences // slots."""
        order = np.cumsum(computing, axis=-1) - 1
        slots = slots_per_core(computing.shape[-1], cores)
        return np.where(computing, order // slots, REPLAYS)

    def dispatch_cycles(self, registers: Registers, batch: int, cores: int) -> int:
        """Latch + B (scan + instructions x check)."""
        return central_cycles(registers, batch)

    def dispatch(
        self,
        env: simpy.Environment,
        registers: Registers,
        computing: Sequence[bool],
        cores: int,
        send: Send,
    ) -> Process:
        """Latch, scan, then check and send."""
        yield env.timeout(registers.latch_cycles)
        yield env.timeout(len(computing) * registers.scan_cycles_per_sequence)
        (mapping,) = self.assign(np.array([computing]), cores).tolist()
        yield from check_instructions(env, registers, list(enumerate(mapping)), send)

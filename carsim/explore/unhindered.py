"""Phases in which no core ever waits, for bounds."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from carsim.hardware.schedule import Schedule
from carsim.machine.arrays import MachineArrays
from carsim.machine.build import build
from carsim.machine.cases import Cases
from carsim.machine.lanes import Ints, LaneOp
from carsim.machine.phase import Outcome, Phase, Timing, outcome
from carsim.machine.phases import Phases
from carsim.program.block import Block


class Unhindered(Phases):
    """Phases in which no core ever waits for a memory, a dispatcher or another core.

    Seconds that a sample states take no time: they depend on the clock alone.
    """

    def seconds(self, seconds: float) -> Outcome:
        """No time: stated seconds are added where the clock is known."""
        idle = self.stated(np.zeros(self.machine.n_designs, np.int64))
        return replace(
            idle, buffer_traffic=buffer_traffic(self.machine, [], self.machine.n_designs)
        )

    def _solve(self, block: Block, schedule: Schedule | None, cases: Cases) -> Outcome:
        phase = build(self.machine, block, schedule, cases)
        outcome_of_phase = unhindered(replace(phase, dispatch=None))
        traffic = buffer_traffic(self.machine, phase.steps, phase.n)
        return replace(outcome_of_phase, buffer_traffic=traffic)


def buffer_traffic(machine: MachineArrays, steps: Iterable[LaneOp], n: int) -> Ints:
    """The first lane's traffic through weight buffers and KV buffers, int64[n, 2 x 2 x (1 + M)].

    Of each: compute cycles and bytes by memory; 0 and bytes of one core by memory.
    """
    traffic = np.zeros((n, 2, 2, 1 + len(machine.memories)), np.int64)
    for step in steps:
        if step.path >= 0:
            cores = np.maximum(1, step.tile_bytes[:, 0] // machine.tile_bytes)
            buffer = traffic[:, int(step.is_kv)]  # a view
            buffer[:, 0, 0] += step.cycles[:, 0]
            buffer[:, 0, 1 + step.path] += step.stream_bytes[:, 0]
            buffer[:, 1, 1 + step.path] += step.stream_bytes[:, 0] // cores
    return traffic.reshape(n, -1)


def unhindered(phase: Phase, exchanges: bool = True) -> Outcome:
    """The outcome of n phases in which nobody waits."""
    ended = np.zeros((phase.n, phase.lanes), np.int64)
    times = np.zeros((5, len(phase.steps), *ended.shape), np.int64)
    for step, times_of_step in zip(phase.steps, times.swapaxes(0, 1), strict=True):
        times_of_step[:4] = ended
        ended = ended + step.pre_cycles + step.cycles
        if not exchanges:
            ended = ended - step.exchange_cycles
        times_of_step[4] = ended
    no_cycles = np.zeros(phase.n, np.int64)
    return outcome(phase, Timing.of(times, no_cycles, no_cycles))

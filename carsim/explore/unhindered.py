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
        """The outcome of stated seconds: no time, which is added where the clock is known."""
        n_designs = self.machine.n_designs
        no_time = self.stated(np.zeros(n_designs, np.int64))
        no_traffic = buffer_traffic(self.machine, [], n_designs)
        return replace(no_time, buffer_traffic=no_traffic)

    def _solve(self, block: Block, schedule: Schedule | None, cases: Cases) -> Outcome:
        """The outcome of a block's phases without waiting, with the traffic of its buffers."""
        phase = build(self.machine, block, schedule, cases)
        outcome_of_phase = unhindered(replace(phase, dispatch=None))
        traffic = buffer_traffic(self.machine, phase.steps, phase.n)
        return replace(outcome_of_phase, buffer_traffic=traffic)


def buffer_traffic(machine: MachineArrays, steps: Iterable[LaneOp], n: int) -> Ints:
    """The first lane's traffic through weight buffers and KV buffers.

    Args:
        machine: The designs, with M memories.
        steps: Operations of the phases, one after the other.
        n: Number of phases.

    Returns:
        int64[n, 2 * 2 * (1 + M)]. The first axis of 2 is the buffer: weights, then KV. The second
        one has, first, compute cycles and the bytes from each memory; second, 0 and the bytes from
        each memory that one core takes.
    """
    traffic = np.zeros((n, 2, 2, 1 + len(machine.memories)), np.int64)
    for step in steps:
        if step.path < 0:  # nothing is streamed
            continue
        stream_bytes = step.stream_bytes[:, 0]
        cores = np.maximum(1, step.tile_bytes[:, 0] // machine.tile_bytes)
        memory = 1 + step.path
        buffer = traffic[:, int(step.is_kv)]  # a view
        buffer[:, 0, 0] += step.cycles[:, 0]
        buffer[:, 0, memory] += stream_bytes
        buffer[:, 1, memory] += stream_bytes // cores
    return traffic.reshape(n, -1)


def unhindered(phase: Phase, exchanges: bool = True) -> Outcome:
    """The outcome of n phases in which no core waits.

    Args:
        phase: The phases; each lane runs its operations one after the other.
        exchanges: Count the cycles of exchanges between cores.
    """
    # Cycle at which the last operation of each lane ended, int64[n, lanes].
    ended = np.zeros((phase.n, phase.lanes), np.int64)
    # The five times of an operation (see Timing), int64[5, operations, n, lanes].
    times = np.zeros((5, len(phase.steps), *ended.shape), np.int64)
    for index, step in enumerate(phase.steps):
        times[:4, index] = ended  # nothing waits: all but its end are at the end of the one before
        ended = ended + step.pre_cycles + step.cycles
        if not exchanges:
            ended = ended - step.exchange_cycles
        times[4, index] = ended
    no_cycles = np.zeros(phase.n, np.int64)
    return outcome(phase, Timing.of(times, no_cycles, no_cycles))

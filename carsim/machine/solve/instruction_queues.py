"""Instruction queues of cores: how a dispatcher that finds a full queue delays the cores.

Model: a central dispatcher checks the instructions of one sequence after the other. It waits while
the queue of an instruction's core is full. A core takes an instruction from its queue when the one
before is done. The instructions of a sequence take equally long. Cores begin when the last
instruction has been sent, as with queues without limit, or when the dispatcher first waits.

Simplifications:

* A core works on one of its sequences after the other, even where they share its stream of weights.
* While some cores wait for instructions, those that work have the memory to themselves.
* No phase is shorter than with all cores at work.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from carsim.hardware.schedule import Registers
from carsim.machine.solve.axes import LaneInts, PhaseInts

LONG_AGO = -(1 << 60)
"""Before all instructions of a phase."""

CoreInts = NDArray[np.int64]
"""Whole numbers by core, int64[n, C]."""

SequenceInts = NDArray[np.int64]
"""Whole numbers by sequence of the batch, int64[n, B]."""


@dataclass(frozen=True)
class Queues:
    """The queues of all cores in n phases.

    Attributes:
        registers: Depth, instructions, and cycles that checking one takes.
        depth: Instructions that a queue holds.
        assigned: The core of each sequence, -1 for one that replays, [n, B].
        lanes: The lane of each core, [n, C].
        dispatch_cycles: From the decisions to the last instruction, if none waits.
    """

    registers: Registers
    depth: int
    assigned: SequenceInts
    lanes: CoreInts
    dispatch_cycles: int

    @cached_property
    def cores_start(self) -> PhaseInts:
        """Cycles from the decisions until cores begin, [n].

        They begin with the last instruction, or with the first that finds its queue full.
        """
        instructions = self.registers.instructions_per_sequence
        phases = np.arange(len(self.assigned))
        cores_start = np.full(len(self.assigned), self.dispatch_cycles)
        check_start = self._first_check
        sent = np.zeros(self.lanes.shape, np.int64)  # instructions in the queue of each core
        for core in self.assigned.T:
            room = self.depth - sent[phases, core]
            is_first_wait = cores_start == self.dispatch_cycles
            waits = (core >= 0) & (room < instructions) & is_first_wait
            first_without_room = check_start + (room + 1) * self.registers.cycles_per_instruction
            cores_start = np.where(waits, first_without_room, cores_start)
            sent[phases, core] += instructions * (core >= 0)
            check_start += self.registers.check_cycles
        return cores_start

    @property
    def _first_check(self) -> int:
        """Cycles from the decisions to the check of the first instruction."""
        batch = self.assigned.shape[1]
        return self.dispatch_cycles - batch * self.registers.check_cycles

    def ends(self, alone: LaneInts, known_cycles: PhaseInts) -> LaneInts:
        """End of each lane as its instructions allow, [n, K].

        Args:
            alone: Cycles that each lane takes with the memory to itself, [n, K].
            known_cycles: Cycles for which decisions have been known when the phases begin, [n].
        """
        cores = _Cores(self, alone, start=np.maximum(0, self.cores_start - known_cycles))
        check_start: PhaseInts = self._first_check - known_cycles
        for core in self.assigned.T:
            check_start = cores.take_sequence(core, check_start)
        ends: LaneInts = np.zeros_like(cores.free)
        np.put_along_axis(ends, self.lanes, cores.free, axis=1)
        return ends


class _Cores:
    """The C cores of n phases while the dispatcher sends them their sequences.

    Args:
        queues: The queues.
        alone: Cycles of each lane with the memory to itself, [n, K].
        start: Cycle from which cores may work, [n].

    Attributes:
        free: Cycle at which each core has done its sequences so far, [n, C].
    """

    def __init__(self, queues: Queues, alone: LaneInts, start: PhaseInts) -> None:
        self._queues = queues
        self._instructions = queues.registers.instructions_per_sequence
        shape = queues.lanes.shape
        batch = queues.assigned.shape[1]
        self._phases = np.arange(len(queues.assigned))
        sequences = (queues.assigned[..., None] == np.arange(shape[1])).sum(axis=1)
        lane_cycles = np.take_along_axis(alone, queues.lanes, axis=1)
        # Cycles of one sequence on each core, [n, C].
        self._sequence_cycles: CoreInts = lane_cycles // np.maximum(1, sequences)
        # Start of each sequence of a core, in the order in which it takes them, [n, C, B + 1].
        self._starts = np.zeros((*shape, batch + 1), np.int64)
        self._sequences_so_far = np.zeros(shape, np.int64)
        self.free: CoreInts = np.broadcast_to(start[:, None], shape).copy()

    def take_sequence(self, core: PhaseInts, check_start: PhaseInts) -> PhaseInts:
        """Send the instructions of the next sequence of each phase to its core.

        Args:
            core: The core, -1 for a sequence that replays, [n].
            check_start: Cycle at which the dispatcher begins to check the sequence, [n].

        Returns:
            Cycle at which it begins to check the next sequence, [n].
        """
        phases = self._phases
        depth = self._queues.depth
        registers = self._queues.registers
        computes = core >= 0
        cycles = self._sequence_cycles[phases, core]
        first = self._sequences_so_far[phases, core] * self._instructions
        last = first + self._instructions - 1

        first_sent = check_start + registers.cycles_per_instruction
        has_room = self._taken(core, first - depth)
        start = np.maximum(np.maximum(first_sent, has_room), self.free[phases, core])
        self._starts[phases, core, self._sequences_so_far[phases, core]] = np.where(
            computes, start, 0
        )

        check_end = check_start + registers.check_cycles
        # The last instruction waits until its queue has room, and the dispatcher with it.
        last_sent = np.maximum(check_end, self._taken(core, last - depth))
        check_end = np.where(computes, last_sent, check_end)
        end = np.maximum(start + cycles, check_end + cycles // self._instructions)
        self.free[phases, core] = np.where(computes, end, self.free[phases, core])
        self._sequences_so_far[phases, core] += computes
        return check_end

    def _taken(self, core: PhaseInts, instruction: PhaseInts) -> PhaseInts:
        """Cycle at which each core takes one of its instructions; long ago before the first.

        Args:
            core: The core of each phase, [n].
            instruction: Number of the instruction among those of the core, [n].
        """
        sequence, within = np.divmod(np.maximum(instruction, 0), self._instructions)
        cycles = self._sequence_cycles[self._phases, core]
        start = self._starts[self._phases, core, sequence]
        taken_at: PhaseInts = start + within * cycles // self._instructions
        return np.where(instruction >= 0, taken_at, LONG_AGO)

"""Instruction queues of cores, in closed form: how a dispatcher that finds one full delays others.

Model: a central dispatcher checks the instructions of one sequence after the other, and waits while
the queue of an instruction's core is full. A core takes an instruction from its queue when the one
before is done; those of a sequence take equally long. Cores begin when the last instruction has
been sent, as without limit, or when the first one waits.

Simplifications: a core works on one of its sequences after the other, also where they share its
stream of weights; while cores wait for instructions, those that work have the memory to themselves,
and no phase is shorter than with all of them at work.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from carsim.hardware.schedule import Registers
from carsim.machine.lanes import Ints

LONG_AGO = -(1 << 60)


@dataclass(frozen=True)
class Queues:
    """The queues of all cores in n phases.

    Attributes:
        registers: Depth, instructions, and what checking one takes.
        depth: Instructions that a queue holds.
        assigned: The core of each sequence, -1 for one that replays, [n, B].
        lanes: The lane of each core, [n, C].
        dispatch_cycles: From the decisions to the last instruction, if none waits.
    """

    registers: Registers
    depth: int
    assigned: Ints
    lanes: Ints
    dispatch_cycles: int

    @cached_property
    def begun(self) -> Ints:
        """Cycles from the decisions until cores begin, [n]."""
        each, check = self.registers.instructions_per_sequence, self.registers.check_cycles
        found = np.full(len(self.assigned), self.dispatch_cycles)
        now, rows = self._first_check, np.arange(len(found))
        sent = np.zeros(self.lanes.shape, np.int64)
        for core in self.assigned.T:
            room = self.depth - sent[rows, core]
            waits = (core >= 0) & (room < each) & (found == self.dispatch_cycles)
            found = np.where(waits, now + (room + 1) * self.registers.cycles_per_instruction, found)
            sent[rows, core] += each * (core >= 0)
            now += check
        return found

    @property
    def _first_check(self) -> int:
        """Cycles from the decisions to the check of the first instruction."""
        return self.dispatch_cycles - self.assigned.shape[1] * self.registers.check_cycles

    def ends(self, alone: Ints, known_cycles: Ints) -> Ints:
        """End of each lane by its instructions, [n, K].

        Args:
            alone: Cycles that each lane takes with the memory to itself, [n, K].
            known_cycles: Cycles for which decisions have been known when the phases begin, [n].
        """
        each, check = self.registers.instructions_per_sequence, self.registers.check_cycles
        n, batch = self.assigned.shape
        rows, begin = np.arange(n), np.maximum(0, self.begun - known_cycles)
        sequences = (self.assigned[..., None] == np.arange(self.lanes.shape[1])).sum(axis=1)
        takes = np.take_along_axis(alone, self.lanes, axis=1) // np.maximum(1, sequences)
        begun = np.zeros((n, self.lanes.shape[1], batch + 1), np.int64)  # by core and its sequence
        number = np.zeros(self.lanes.shape, np.int64)  # sequences that each core has so far
        free = np.zeros(self.lanes.shape, np.int64) + begin[:, None]
        now = self._first_check - known_cycles
        for core in self.assigned.T:
            there, took = core >= 0, takes[rows, core]

            def taken(instruction: Ints, core: Ints = core, took: Ints = took) -> Ints:
                """Cycle at which a core takes an instruction; long ago before its first."""
                of, within = np.divmod(np.maximum(instruction, 0), each)
                found: Ints = begun[rows, core, of] + within * took // each
                return np.where(instruction >= 0, found, LONG_AGO)

            before = number[rows, core] * each
            sent = now + self.registers.cycles_per_instruction
            start = np.maximum(np.maximum(sent, taken(before - self.depth)), free[rows, core])
            begun[rows, core, number[rows, core]] = np.where(there, start, 0)
            now = now + check
            now = np.where(there, np.maximum(now, taken(before + each - 1 - self.depth)), now)
            end = np.maximum(start + took, now + took // each)
            free[rows, core] = np.where(there, end, free[rows, core])
            number[rows, core] += there
        ends: Ints = np.zeros_like(free)
        np.put_along_axis(ends, self.lanes, free, axis=1)
        return ends

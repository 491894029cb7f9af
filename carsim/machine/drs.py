"""The Dynamic Resource Scheduler and the schedules it is compared with.

FastCar section 5: once the last sequence of a layer has its TAS, an Index Register holds one bit
per sequence (replay = 0, compute = 1), and Mapping Registers of log2(cores) bits hold the core of
each computing sequence, given out round robin. Precompiled instructions are checked against the
Index Register and discarded or sent to the mapped core.

A schedule is a function ``(computing, cores) -> core of each sequence or None``. Its contract:
every computing sequence gets exactly one core in range, no replaying sequence gets any, and the
same input gives the same answer. ``SCHEDULES`` names them; a new one is a function and a line
there.
"""

from collections.abc import Callable, Sequence
from math import ceil

import numpy as np
from numpy.typing import NDArray

from carsim.design import Drs

Assignment = tuple[int | None, ...]


class IndexRegister:
    """One bit per sequence: 1 computes, 0 replays."""

    def __init__(self, width_bits: int) -> None:
        self.width_bits = width_bits
        self.bits = 0

    def latch(self, computing: Sequence[bool]) -> None:
        """Take the decisions of one layer; ``computing`` is no longer than the register."""
        if len(computing) > self.width_bits:
            raise ValueError(f"{len(computing)} sequences in a register of {self.width_bits} bits")
        self.bits = sum(1 << b for b, computes in enumerate(computing) if computes)

    def computes(self, sequence: int) -> bool:
        """The bit of one sequence."""
        return bool(self.bits >> sequence & 1)


class MappingRegisters:
    """The core of each computing sequence, in log2(cores) bits each."""

    def __init__(self, index: IndexRegister, cores: int) -> None:
        self._index = index
        self._cores = cores
        self.core_of: list[int] = [0] * index.width_bits

    def map_round_robin(self) -> None:
        """Give computing sequences, in order, to cores 0, 1, ..., cores - 1, 0, ..."""
        core = 0
        for sequence in range(self._index.width_bits):
            if self._index.computes(sequence):
                self.core_of[sequence] = core
                core = (core + 1) % self._cores


def static(computing: Sequence[bool], cores: int) -> Assignment:
    """Sequence b belongs to core b mod cores, whether or not the others compute."""
    return tuple(b % cores if computes else None for b, computes in enumerate(computing))


def drs(computing: Sequence[bool], cores: int) -> Assignment:
    """The registers of FastCar section 5: computing sequences round robin over all cores."""
    index = IndexRegister(len(computing))
    index.latch(computing)
    mapping = MappingRegisters(index, cores)
    mapping.map_round_robin()
    return tuple(mapping.core_of[b] if index.computes(b) else None for b in range(len(computing)))


def pack(computing: Sequence[bool], cores: int) -> Assignment:
    """Fill one core's slots before the next: as few weight streams as the buffers allow."""
    slots = slots_per_core(len(computing), cores)
    order = iter(range(len(computing)))
    return tuple(next(order) // slots if computes else None for computes in computing)


SCHEDULES: dict[str, Callable[[Sequence[bool], int], Assignment]] = {
    "static": static,
    "drs": drs,
    "pack": pack,
}


def slots_per_core(batch: int, cores: int) -> int:
    """Sequences that a core has room for: an even share of the batch."""
    return ceil(batch / cores)


def loads_of(assignment: Assignment, cores: int) -> tuple[int, ...]:
    """Computing sequences of each core, most loaded first: cores are alike."""
    loads = [0] * cores
    for core in assignment:
        if core is not None:
            loads[core] += 1
    return tuple(sorted(loads, reverse=True))


def loads(
    schedule: str, computing: NDArray[np.bool_], cores: int
) -> NDArray[np.int16]:  # [..., B] -> [..., cores]
    """:func:`loads_of` for many decisions at once.

    Args:
        schedule: A key of ``SCHEDULES``.
        computing: Decisions, shape [..., B].
        cores: Cores of the machine.

    Returns:
        Sequences of each core, most loaded first, shape [..., cores].
    """
    batch = computing.shape[-1]
    if schedule == "static":
        per_core = np.zeros((*computing.shape[:-1], cores), np.int16)
        for b in range(batch):
            per_core[..., b % cores] += computing[..., b]
        per_core.sort(axis=-1)
        return per_core[..., ::-1]
    # Every other schedule depends on how many compute, not on which.
    table = np.array(
        [
            loads_of(SCHEDULES[schedule]([b < n for b in range(batch)], cores), cores)
            for n in range(batch + 1)
        ],
        np.int16,
    )
    found: NDArray[np.int16] = table[computing.sum(axis=-1)]
    return found


def dispatch_cycles(registers: Drs, schedule: str, batch: int, cores: int) -> int:
    """Cycles from the decisions of a layer to the last instruction of its MLP sent.

    Under ``static`` each core checks the instructions of its own sequences, in parallel; otherwise
    one dispatcher latches the decisions, maps them and checks the instructions of all sequences.
    """
    check = registers.instructions_per_sequence * registers.cycles_per_instruction
    if schedule == "static":
        return slots_per_core(batch, cores) * check
    return registers.latch_cycles + batch * (registers.scan_cycles_per_sequence + check)

"""Phases of blocks whose time is that of a table (:mod:`carsim.machine.kernels`)."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.hardware.schedule import Schedule
from carsim.machine.arrays import MachineArrays
from carsim.machine.kernels import Floats, KernelTable, cycles_of
from carsim.machine.lanes import Ints, LaneOp, splits
from carsim.machine.phase import Phase, UntimedWork, moved_bytes
from carsim.program.block import Block
from carsim.program.reads import Reads


class CoreReplays(NamedTuple):
    """What replay asks of each core besides the rows that it computes, in n phases.

    Attributes:
        replaying: Rows whose cached outputs a core adds, [n, C].
        gathers: The core computes other rows than all of its own, bool[n, C].
    """

    replaying: Ints
    gathers: NDArray[np.bool_]

    @classmethod
    def of(
        cls, machine: MachineArrays, schedule: Schedule, loads: Ints, replaying: Ints
    ) -> "CoreReplays":
        """Replays of the cores of n phases.

        Args:
            machine: The numbers of D designs.
            schedule: Assignment of rows to cores.
            loads: Rows that each core computes, most loaded first, [n, C].
            replaying: Rows that replay, [n].
        """
        any_replays = (replaying > 0)[:, None]
        if schedule.central:
            of_cores = machine.even_loads(replaying)
            return cls(of_cores, any_replays & (loads > 0))
        of_cores = np.maximum(0, machine.home_loads - loads) * any_replays
        return cls(of_cores, (of_cores > 0) & (loads > 0))


def tabled(  # noqa: PLR0913 - a phase, and what its time depends on
    machine: MachineArrays,
    block: Block,
    phase: Phase,
    loads: Ints,
    reads: Reads | None,
    replays: CoreReplays | None = None,
) -> Phase:
    """The n phases with the cycles of the table, and their work as it was.

    Args:
        machine: The numbers of D designs, laid out for n phases.
        block: The block.
        phase: The phases, as memories and arrays make them.
        loads: Rows that each core computes, [n, C].
        reads: Tokens that each phase reads; None for a block that reads none.
        replays: What replay asks of each core; None where no row can replay.
    """
    table = machine.kernels
    assert table is not None
    split = splits(machine, block)
    lockstep = machine.is_lockstep(split)
    tokens: Floats | float = 0.0
    if reads is not None:
        tokens = reads.attended[:, None].astype(float)
    rows = loads.sum(axis=1, keepdims=True) if split else loads
    at_work = (loads > 0).sum(axis=1, keepdims=True)
    n_cores = loads.shape[1]
    if split:
        at_work = np.full_like(at_work, n_cores)
    taken_us = table.us(block.name, rows, np.maximum(1, at_work), tokens)
    added = None
    if replays is not None and block.holds:
        if "gather" in table:
            gathered_us = table.us("gather", loads, np.maximum(1, at_work))
            taken_us = taken_us + np.where(replays.gathers, gathered_us, 0.0)
        if "replay" in table and phase.replay is not None:
            taken_us = taken_us + table.us("replay", replays.replaying, np.maximum(1, at_work))
            added = phase.replay
    of_cores = cycles_of(taken_us, machine.clock_mhz)  # [n, C]; [n, 1] of a split block
    of_lanes = of_cores.max(axis=1, keepdims=True) if lockstep else of_cores
    even_rows = rows if split else -(-loads.sum(axis=1, keepdims=True) // n_cores)
    even_us = table.us(block.name, even_rows, np.maximum(1, at_work), tokens)
    even = np.minimum(of_lanes, cycles_of(even_us, machine.clock_mhz))
    nbytes = moved_bytes(phase.steps, phase.n, len(machine.memories))
    nothing = np.zeros(phase.n, np.int64)
    untimed = UntimedWork(dram_bytes=nbytes, vector_ops=nothing, sram_bytes=nothing)
    if added is not None:
        nbytes[:, added.path] += added.nbytes
        untimed = UntimedWork(nbytes, added.vector_ops, 2 * added.nbytes)
    first, *others = phase.steps
    busy = np.broadcast_to(of_cores, (phase.n, n_cores))
    steps = [_timed(first, of_lanes, even=even, busy=busy)]
    none = np.zeros((1, 1), np.int64)
    steps += [_timed(step, none, even=none, busy=none) for step in others]
    return replace(
        phase,
        steps=tuple(steps),
        bound_cycles=_bound_cycles(machine, table, block, phase, loads, reads),
        replay=None if added is not None else phase.replay,
        untimed=untimed,
    )


def _timed(step: LaneOp, cycles: Ints, *, even: Ints, busy: Ints) -> LaneOp:
    """A step that takes some cycles and waits for no memory."""
    return step._replace(
        pre_cycles=np.zeros((1, 1), np.int64),
        exchange_cycles=np.zeros((1, 1), np.int64),
        cycles=cycles,
        balanced_cycles=even,
        path=-1,
        sides=(),
        busy_cycles=busy,
        held_back=False,
    )


def _bound_cycles(  # noqa: PLR0913
    machine: MachineArrays,
    table: KernelTable,
    block: Block,
    phase: Phase,
    loads: Ints,
    reads: Reads | None,
) -> Ints:
    """Cycles that no assignment of the computing rows to cores is below, [n].

    Blocks that rows skip and that read no cache have their bound elsewhere
    (:func:`carsim.machine.bounds.skip_bound`).
    """
    if block.follows is not None and reads is None:
        return phase.bound_cycles
    rows = loads.sum(axis=1)
    bound = np.zeros(phase.n, np.int64)
    clocks = np.broadcast_to(machine.clock_mhz, (phase.n, 1))[:, 0]
    for count in np.unique(rows[rows > 0]).tolist():
        where = rows == count
        tokens: Floats | float = 0.0
        if reads is not None:
            tokens = reads.attended[where].astype(float)
        least_us = least_block_us(machine, table, block, count, tokens)
        bound[where] = cycles_of(least_us, clocks[where])
    return bound


def least_block_us(
    machine: MachineArrays,
    table: KernelTable,
    block: Block,
    rows: int,
    tokens: Floats | float = 0.0,
) -> Floats:
    """Microseconds that a block with some computing rows takes at least, [n] or [1].

    Args:
        machine: The numbers of D designs.
        table: Times of kernels.
        block: The block.
        rows: Rows that compute, of all cores, at least 1.
        tokens: Tokens that each row attends to, [n] or one number.
    """
    n_cores = machine.home_loads.size
    if splits(machine, block):
        return np.atleast_1d(table.us(block.name, np.array(rows), np.array(n_cores), tokens))
    return table.least_us(block.name, rows, n_cores, tokens)

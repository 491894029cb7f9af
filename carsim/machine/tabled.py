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
    """Work of replay on each core besides the rows that it computes, in n phases.

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
        some_row_replays = (replaying > 0)[:, None]
        if schedule.central:
            replaying_of_cores = machine.even_loads(replaying)
            return cls(replaying_of_cores, gathers=some_row_replays & (loads > 0))
        replaying_of_cores = np.maximum(0, machine.home_loads - loads) * some_row_replays
        return cls(replaying_of_cores, gathers=(replaying_of_cores > 0) & (loads > 0))


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
    times = _BlockTimes.of(machine, table, block, loads=loads, reads=reads)
    core_us = times.core_us
    replay = phase.replay
    if replays is not None and block.holds:
        if "gather" in table:
            gather_us = table.us("gather", loads, times.at_work)
            core_us = core_us + np.where(replays.gathers, gather_us, 0.0)
        if "replay" in table and replay is not None:
            core_us = core_us + table.us("replay", replays.replaying, times.at_work)
            replay = None  # the table's time includes it
    core_cycles = cycles_of(core_us, machine.clock_mhz)  # [n, C]; [n, 1] of a split block
    lane_cycles = core_cycles
    if machine.is_lockstep(splits(machine, block)):
        lane_cycles = core_cycles.max(axis=1, keepdims=True)
    even_cycles = np.minimum(lane_cycles, cycles_of(times.even_us, machine.clock_mhz))
    # The first step takes the time of the table, the others none.
    first, *further = phase.steps
    busy_cycles = np.broadcast_to(core_cycles, (phase.n, loads.shape[1]))
    steps = [_timed(first, lane_cycles, even=even_cycles, busy=busy_cycles)]
    no_cycles = np.zeros((1, 1), np.int64)
    steps += [_timed(step, no_cycles, even=no_cycles, busy=no_cycles) for step in further]
    return replace(
        phase,
        steps=tuple(steps),
        bound_cycles=_bound_cycles(machine, table, block, phase, loads=loads, reads=reads),
        replay=replay,
        untimed=_untimed_work(machine, phase, with_replay=replay is not phase.replay),
    )


class _BlockTimes(NamedTuple):
    """Times of a block in n phases, by the table, before any time for replay.

    Attributes:
        at_work: Cores at work, at least 1, [n, 1].
        core_us: Microseconds of each core, [n, C]; [n, 1] of a block that is split over the cores.
        even_us: Microseconds of a core, were rows spread evenly over all cores, [n, 1].
    """

    at_work: Ints
    core_us: Floats
    even_us: Floats

    @classmethod
    def of(
        cls,
        machine: MachineArrays,
        table: KernelTable,
        block: Block,
        *,
        loads: Ints,
        reads: Reads | None,
    ) -> "_BlockTimes":
        """Times of a block whose cores compute ``loads`` rows, [n, C]."""
        n_cores = loads.shape[1]
        all_rows = loads.sum(axis=1, keepdims=True)
        if splits(machine, block):  # every core works on all rows
            rows = all_rows
            even_rows = all_rows
            at_work = np.full_like(all_rows, n_cores)
        else:
            rows = loads
            even_rows = -(-all_rows // n_cores)
            at_work = np.maximum(1, (loads > 0).sum(axis=1, keepdims=True))
        tokens: Floats | float = 0.0
        if reads is not None:
            tokens = reads.attended[:, None].astype(float)
        return cls(
            at_work=at_work,
            core_us=table.us(block.name, rows, at_work, tokens),
            even_us=table.us(block.name, even_rows, at_work, tokens),
        )


def _untimed_work(machine: MachineArrays, phase: Phase, *, with_replay: bool) -> UntimedWork:
    """Bytes and operations that take no time of their own, as the table's time includes them.

    Args:
        machine: The numbers of D designs.
        phase: The n phases, as memories and arrays make them.
        with_replay: The table's time includes adding held outputs.
    """
    dram_bytes = moved_bytes(phase.steps, phase.n, len(machine.memories))
    if not with_replay or phase.replay is None:
        nothing = np.zeros(phase.n, np.int64)
        return UntimedWork(dram_bytes=dram_bytes, vector_ops=nothing, sram_bytes=nothing)
    replay = phase.replay
    dram_bytes[:, replay.path] += replay.nbytes
    return UntimedWork(
        dram_bytes=dram_bytes,
        vector_ops=replay.vector_ops,
        sram_bytes=2 * replay.nbytes,  # written and read
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


def _bound_cycles(  # noqa: PLR0913 - a phase, and what its time depends on
    machine: MachineArrays,
    table: KernelTable,
    block: Block,
    phase: Phase,
    *,
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
    bound_cycles = np.zeros(phase.n, np.int64)
    clock_mhz = np.broadcast_to(machine.clock_mhz, (phase.n, 1))[:, 0]
    for computing in np.unique(rows[rows > 0]).tolist():
        has_rows = rows == computing
        tokens: Floats | float = 0.0
        if reads is not None:
            tokens = reads.attended[has_rows].astype(float)
        least_us = least_block_us(machine, table, block, rows=computing, tokens=tokens)
        bound_cycles[has_rows] = cycles_of(least_us, clock_mhz[has_rows])
    return bound_cycles


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

"""From operations to what the cores of a machine execute, for many phases at once.

A *lane* is what is paced by one stream of operands: all cores in lockstep where weights are
broadcast or matrices are split, so that the slowest core sets the pace; each core by itself where
it streams weights of its own. A phase has K lanes; n phases of one kind differ in nothing but whole
numbers (sequences per core, tokens attended to), so that every figure of a step is an int64 array
[n, K], or broadcasts to it.

Where a core takes in no more than ``machine.core_gbps``, it computes its operand no faster than the
operand comes in: the limit lies behind the buffer, tile by tile.

Simplification: activations that change cores - the gather after every matrix that is split, the way
to the mapped core and back under a central schedule - cross the exchange network while nobody
computes.
"""

from fractions import Fraction
from typing import Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from carsim.machine.across import most_across, sum_across
from carsim.machine.array import gemm_cycles, softmax_cycles, softmax_ops, vector_cycles
from carsim.machine.arrays import ArrayNumbers, MachineArrays, VectorNumbers
from carsim.machine.hardware import Rate
from carsim.machine.numbering import Index
from carsim.program.block import Block, OpsOf
from carsim.program.reads import Reads
from carsim.workload.elements import SOFTMAX_OPS
from carsim.workload.ops import Category, Count, Op, Share, Stream

Ints = NDArray[np.int64]

Buffer = Literal["weight", "KV", "activation"]
"""Buffers of a core."""


def splits(machine: MachineArrays, block: Block) -> bool:
    """The matrices of a block are split over the cores."""
    if block.split == "attention":
        return machine.mapping.splits_attention
    return machine.mapping.splits_mlp


def operations_of(machine: MachineArrays, block: Block, reads: Reads | None) -> OpsOf:
    """The operations of a block on a core's share of rows.

    Where the activation buffer holds the widest activations of fewer tokens than the fullest core
    has, a block ``in_passes`` takes them in several passes, each of which streams the weights.
    """
    operations = block.operations(machine.model, reads)
    if block.deals == "all_tokens":
        on_chip = machine.on_chip(split=splits(machine, block))
        return lambda share: operations(share._replace(on_chip=on_chip))
    tokens = block.tokens
    passes = 1
    if block.in_passes:
        rows = machine.rows_of_fullest_core(machine.batch, split=splits(machine, block))
        nbytes = rows * tokens * machine.activation_bytes_per_token
        passes = -(-nbytes // machine.activation_buffer_bytes)
    if tokens == passes == 1:
        return operations

    def of_all_tokens(share: Share) -> list[Op]:
        return operations(share._replace(tokens=tokens, streams=passes * share.streams))

    return of_all_tokens


def buffers_of(machine: MachineArrays, block: Block, reads: Reads | None) -> frozenset[Buffer]:
    """Buffers of a core on whose size phases of a block depend.

    A block that takes many tokens through a core in tiles cuts its operations by all of them.

    Args:
        machine: The numbers of D designs.
        block: The block.
        reads: What one of its phases reads.
    """
    if block.deals == "all_tokens":
        return frozenset({"weight", "KV", "activation"})
    ops = operations_of(machine, block, reads)(Share(1))
    buffers: set[Buffer] = {
        "KV" if op.stream is Stream.KV else "weight" for op in ops if op.stream is not Stream.NONE
    }
    if block.in_passes:
        buffers.add("activation")
    return frozenset(buffers)


class LaneOp(NamedTuple):
    """An op as the lanes of n phases execute it. Shapes: [n, K]; of work, sums over it count.

    Attributes:
        category: Category of its time.
        pre_cycles: Exchange and element operations before the array may start.
        exchange_cycles: Part of them in which activations are exchanged between cores.
        cycles: Compute cycles of the slowest core of the lane, array and vector unit side by side.
        balanced_cycles: ``pre_cycles + cycles``, were the sequences spread evenly over all cores.
        path: Index of the memory that the operand streams from; -1 for none.
        rate: Bytes per cycle of that memory for the pattern of this operand.
        stream_bytes: Bytes of the operand.
        tile_bytes: Bytes of one request, which must all be there before the array reads them.
        slots: Tiles that the double buffer holds.
        is_kv: The operand goes to the KV buffer instead of the weight buffer.
        sides: Further transfers that only the end of the phase waits for: (memory, rate, bytes).
        busy_cycles: Cycles in which each core computes, [n, C].
        macs: Multiply-accumulates.
        vector_ops: Element operations.
        sram_bytes: On-chip bytes written and read.
        held_back: The operand is asked for after ``pre_cycles``, and not before.
        operand: Name of the operand; empty without one.
    """

    category: Category
    pre_cycles: Ints
    exchange_cycles: Ints
    cycles: Ints
    balanced_cycles: Ints
    path: int
    rate: Rate
    stream_bytes: Ints
    tile_bytes: Ints
    slots: int
    is_kv: bool
    sides: tuple[tuple[int, Rate, Ints], ...]
    busy_cycles: Ints
    macs: Ints
    vector_ops: Ints
    sram_bytes: Ints
    held_back: bool = False
    operand: str = ""

    def take(self, index: Index) -> "LaneOp":
        """The step in some of n phases of one design, or in some of them several times."""
        sides = [(path, rate, of_phases(nbytes, index)) for path, rate, nbytes in self.sides]
        return self._replace(
            pre_cycles=of_phases(self.pre_cycles, index),
            exchange_cycles=of_phases(self.exchange_cycles, index),
            cycles=of_phases(self.cycles, index),
            balanced_cycles=of_phases(self.balanced_cycles, index),
            stream_bytes=of_phases(self.stream_bytes, index),
            tile_bytes=of_phases(self.tile_bytes, index),
            sides=tuple(sides),
            busy_cycles=of_phases(self.busy_cycles, index),
            macs=of_phases(self.macs, index),
            vector_ops=of_phases(self.vector_ops, index),
            sram_bytes=of_phases(self.sram_bytes, index),
        )


def of_phases(figure: Ints, index: Index) -> Ints:
    """A figure of some of n phases, [n, K]; a single row stands for all."""
    return figure if len(figure) == 1 else figure[index]


class Cost(NamedTuple):
    """Cycles of one core for an op, in sequence and side by side with its array."""

    serial: Ints
    beside: Ints

    @property
    def all(self) -> Ints:
        """Cycles of both, one after the other."""
        return self.serial + self.beside


class OpCycles(NamedTuple):
    """Cycles of an op.

    Attributes:
        of_core: Cost of each core, or of any.
        if_even: Cost of a core, were sequences spread evenly.
        exchanged: Cycles in which activations change cores.
    """

    of_core: Cost
    if_even: Cost
    exchanged: Count


def lower(machine: MachineArrays, ops: OpsOf, loads: Ints, *, split: bool) -> tuple[LaneOp, ...]:
    """The steps of n phases.

    Args:
        machine: The numbers of D designs.
        ops: The ops of the phase.
        loads: Sequences of each core, int64[n, C], most loaded first.
        split: Every matrix is split over the cores.
    """
    cores = machine.cores
    lockstep = machine.is_lockstep(split)
    rows = sum_across(loads)[:, None]  # [n, 1]
    even = -(-rows // cores)
    # Where all cores have equal loads, one stands for all, and has an even share. Attention on four
    # cores is built in half of the time.
    is_even = not split and loads.shape[1] == cores and bool((loads == loads[:, :1]).all())
    costed_loads = loads[:, :1] if is_even and lockstep else loads
    if split:
        costed_loads = rows
        # Every core takes the norm of every row.
        wholes = [
            op._replace(serial_vector_ops=cores * op.serial_vector_ops) for op in ops(Share(rows))
        ]
        of_cores = ops(Share(rows, cores))
    elif lockstep:
        wholes = ops(Share(rows))  # [n, 1]
        of_cores = ops(Share(costed_loads))  # [n, C], or [n, 1]
    else:  # every core is a lane
        streams = loads if machine.streams_per_sequence else 1
        wholes = ops(Share(loads, streams=streams))
        of_cores = wholes
    costs = [_cost(machine, op, costed_loads) for op in of_cores]
    spreads = costs if split or is_even else [_cost(machine, op, even) for op in ops(Share(even))]
    gathered = [op.gathered_elements if split else 0 for op in wholes]
    if lockstep and not split and machine.mapping.splits_remainder:
        rounds = rows // cores
        remainder = rows - rounds * cores
        of_rounds = [_cost(machine, op, rounds) for op in ops(Share(rounds))]
        of_remainder = [_cost(machine, op, remainder) for op in ops(Share(remainder, cores))]
        gathered_of_remainder = [op.gathered_elements for op in ops(Share(remainder))]
        for number, op in enumerate(wholes):
            if not op.stream.is_kv:
                # Cores work on whole rounds, then on their columns of the remainder.
                costs[number] = Cost(
                    serial=of_rounds[number].serial + of_remainder[number].serial + 0 * loads,
                    beside=of_rounds[number].beside + of_remainder[number].beside + 0 * loads,
                )
                gathered[number] = gathered_of_remainder[number]
    exchanged = [_exchange_cycles(machine, elements) for elements in gathered]
    cycles = map(OpCycles, costs, spreads, exchanged)
    return tuple(
        _step(machine, op, loads, cycles=of_op, split=split)
        for op, of_op in zip(wholes, cycles, strict=True)
    )


def with_moves(
    machine: MachineArrays, steps: tuple[LaneOp, ...], moved: Ints
) -> tuple[LaneOp, ...]:
    """The steps of n phases in front of which activations change cores.

    Args:
        machine: The numbers of D designs.
        steps: The steps of the phases.
        moved: Sequences whose activations travel to another core and back before the first step, by
            lane, [n, K].
    """
    if not moved.any():
        return steps
    first, *further = steps
    moved_elements = 2 * moved * machine.model.body.hidden_size
    exchange_cycles = _exchange_cycles(machine, moved_elements)
    first = first._replace(
        pre_cycles=first.pre_cycles + exchange_cycles,
        exchange_cycles=first.exchange_cycles + exchange_cycles,
        balanced_cycles=first.balanced_cycles + exchange_cycles,
    )
    return (first, *further)


def _step(machine: MachineArrays, op: Op, loads: Ints, *, cycles: OpCycles, split: bool) -> LaneOp:
    """The step of an op.

    Args:
        machine: The numbers of D designs.
        op: The op of a lane.
        loads: Sequences of each core.
        cycles: Cycles of the op.
        split: Its matrices are split over the cores.
    """
    is_kv = op.stream.is_kv
    slowest, balanced = _slowest_and_balanced(cycles, lockstep=machine.is_lockstep(split))
    buffers_of_own_kv = is_kv and not op.is_shared
    filled, copies = _buffers(machine, loads, split=split, is_kv=buffers_of_own_kv)
    rows = sum_across(loads)[:, None] if machine.is_lockstep(split) else loads
    working = (rows > 0).astype(np.int64)  # 1 for a lane that computes, [n, K]
    path = machine.path_of[op.stream] if op.stream else -1
    operand_bytes = op.stream_bytes * working
    if machine.core_rate is not None and path >= 0:
        core_bytes = -(-np.asarray(operand_bytes, np.int64) // np.asarray(filled, np.int64))
        intake = _intake_cycles(machine.core_rate, core_bytes)
        slowest = slowest._replace(beside=np.maximum(slowest.beside, intake))
        balanced = balanced._replace(beside=np.maximum(balanced.beside, intake))
    side_bytes_behind, sides = _side_transfers(machine, op, working, path)
    streamed_bytes = operand_bytes + side_bytes_behind
    # One figure may stand for all cores.
    n_busy = machine.cores if split else loads.shape[1]
    tile_bytes: Count = filled * machine.tile_bytes
    buffer_bytes: Count = 2 * copies * operand_bytes  # written and read
    buffer = machine.kv_buffer_bytes if is_kv else machine.weight_buffer_bytes
    return LaneOp(
        category=op.category,
        pre_cycles=_ints(slowest.serial + cycles.exchanged),
        exchange_cycles=_ints(cycles.exchanged),
        cycles=_ints(slowest.beside),
        balanced_cycles=_ints(balanced.all + cycles.exchanged),
        path=path if np.any(streamed_bytes) else -1,
        rate=machine.rates[path] if op.stream else Fraction(1),
        stream_bytes=_ints(streamed_bytes),
        tile_bytes=_ints(tile_bytes),
        slots=int(np.min(buffer // machine.tile_bytes)),
        is_kv=is_kv,
        sides=sides,
        busy_cycles=_ints(cycles.of_core.all + np.zeros(n_busy, np.int64)),
        macs=_ints(op.macs),
        vector_ops=_ints(op.vector_ops + op.serial_vector_ops + SOFTMAX_OPS * op.exponentials),
        sram_bytes=_ints(buffer_bytes + _activation_bytes(machine, op)),
        held_back=op.held_back,
        operand=op.operand,
    )


def _slowest_and_balanced(cycles: OpCycles, *, lockstep: bool) -> tuple[Cost, Cost]:
    """Cost of the slowest core of a lane, and the cost were sequences spread evenly.

    Args:
        cycles: Cycles of the op.
        lockstep: All cores are one lane; else each core is a lane.
    """
    slowest = cycles.of_core
    if lockstep:
        slowest = Cost(
            serial=most_across(cycles.of_core.serial)[..., None],
            beside=most_across(cycles.of_core.beside)[..., None],
        )
    # Cores with less than an even share, or with columns of a sequence, never wait for that share.
    balanced = Cost(
        serial=np.minimum(slowest.serial, cycles.if_even.serial),
        beside=np.minimum(slowest.beside, cycles.if_even.beside),
    )
    return slowest, balanced


def _side_transfers(
    machine: MachineArrays, op: Op, working: Ints, path: int
) -> tuple[Ints, tuple[tuple[int, Rate, Ints], ...]]:
    """Bytes of an op that are moved beside its operand: keys and values, and held outputs.

    Args:
        machine: The numbers of D designs.
        op: The op of a lane.
        working: 1 for a lane that computes, else 0, [n, K].
        path: Memory that the operand streams from; -1 for none.

    Returns:
        Bytes that use the memory of the operand, behind its stream, where they take as long as
        beside it; and transfers on other memories: (memory, rate, bytes).
    """
    transfers = [
        (op.kv_side_bytes, machine.path_of[Stream.KV]),
        (op.replay_bytes, machine.replay_path),
    ]
    if Stream.FAR_KV in machine.path_of:
        transfers.append((op.far_side_bytes, machine.path_of[Stream.FAR_KV]))
    behind_stream: Ints = np.zeros_like(working)
    sides: list[tuple[int, Rate, Ints]] = []
    for side_bytes, side_path in transfers:
        nbytes = side_bytes * working
        if not np.any(nbytes):
            continue
        if side_path == path:
            behind_stream = behind_stream + nbytes
        else:
            sides.append((side_path, machine.rates[side_path], _ints(nbytes)))
    return behind_stream, tuple(sides)


def _intake_cycles(rate: Rate, nbytes: Ints) -> Ints:
    """Cycles in which one core takes in the bytes of its operand, [n, K]."""
    cycles: Ints = -(-nbytes * rate.denominator // rate.numerator)
    return cycles


def _buffers(
    machine: MachineArrays, loads: Ints, *, split: bool, is_kv: bool
) -> tuple[Count, Count]:
    """Buffers that fill with different parts of an operand, and those that get the same part."""
    rows = sum_across(loads)[:, None]
    at_work = sum_across((loads > 0).astype(np.int64))[:, None]
    cores = machine.cores
    if split:
        return cores, 1
    if not machine.is_lockstep(split):
        return 1, 1
    if is_kv:
        # K and V of a core's own sequences fill as many buffers as there are cores at work.
        return np.maximum(1, at_work), 1  # nobody asks where nobody computes
    # Weights fill the buffer of each core at work with the same part.
    if not machine.mapping.splits_remainder:
        return 1, at_work
    # Less than a round is split: each core has columns of its own.
    return 1, np.where(rows < cores, 1, cores)


def _activation_bytes(machine: MachineArrays, op: Op) -> Count:
    """Bytes of activations that an op reads and writes on chip."""
    cols = _unit(machine, op).cols
    # Element operations that are not fused read the results once more, and write their own.
    passes: Count = 1
    if not machine.kernel_fusion:
        passes = 1 + cast(Count, 2 * (op.vector_ops > 0))
    elements: Count = 0
    for gemm in op.gemms:
        tiles: Count = -(-gemm.n // cols)
        of_row: Count = gemm.k * tiles + passes * gemm.n
        elements = elements + gemm.copies * gemm.m * of_row
    return machine.model.activations.bytes_of(elements)


def _unit(machine: MachineArrays, op: Op) -> ArrayNumbers:
    """The array that multiplies for an op."""
    return machine.attention_array if op.category == Category.ATTENTION else machine.array


def _cost(machine: MachineArrays, op: Op, rows: Ints) -> Cost:
    """Cycles of an op on cores with some rows; a core without rows takes none."""
    array = gemm_cycles(_unit(machine, op), op.gemms) + machine.kernel_cycles * len(op.gemms)
    elements = element_cycles(machine.vector, op)
    beside = np.maximum(array, elements) if machine.kernel_fusion else array + elements
    working = (rows > 0).astype(np.int64)
    if op.stream is Stream.FAR_KV:  # in some phases, no token lies in the second memory
        working = working * (np.asarray(op.macs) > 0)
    serial = vector_cycles(machine.vector, op.serial_vector_ops) + op.scan_cycles
    return Cost(
        serial=np.asarray(serial * working, np.int64),
        beside=np.asarray(beside * working, np.int64),
    )


def element_cycles(vector: VectorNumbers, op: Op) -> Count:
    """Cycles of element operations and softmax beside an array, at the same time."""
    on_lanes = vector_cycles(vector, op.vector_ops + softmax_ops(vector, op.exponentials))
    in_unit = softmax_cycles(vector, op.exponentials)
    return np.maximum(on_lanes, in_unit)


def _exchange_cycles(machine: MachineArrays, elements: Count) -> Count:
    """Cycles in which activations go from core to core; none on a single core."""
    if machine.cores == 1:
        return 0
    return -(-machine.model.activations.bytes_of(elements) // machine.exchange_bytes_per_cycle)


def _ints(figure: Count) -> Ints:
    """At least two axes: [n, K], or [1, 1] for what is the same everywhere."""
    figures = np.asarray(figure, np.int64)
    return figures if figures.ndim == 2 else figures.reshape(1, -1)

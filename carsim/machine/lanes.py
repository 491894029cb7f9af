"""From operations to what the cores of a machine execute, for many phases at once.

A *lane* is what is paced by one stream of operands: all cores in lockstep where weights are
broadcast or matrices are split, so that the slowest core sets the pace; each core by itself where
it streams weights of its own. A phase has K lanes; n phases of one kind differ in nothing but whole
numbers (sequences per core, tokens attended to), so that every figure of a step is an int64 array
[n, K], or broadcasts to it.

Simplification: activations that change cores - the gather after every matrix that is split, the way
to the mapped core and back under a central schedule - cross the exchange network while nobody
computes.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.machine.array import gemm_cycles, vector_cycles
from carsim.machine.hardware import Hardware, Rate
from carsim.workload.ops import Category, Count, Op, Slice, Stream

Ints = NDArray[np.int64]

OpOf = Callable[[Count, Slice, Count], Op]
"""(Rows of a core, its share of every matrix, weight streams) -> the op of that core."""


class Step(NamedTuple):
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


class Cost(NamedTuple):
    """Cycles of one core for an op, in sequence and side by side with its array."""

    serial: Ints
    beside: Ints

    @property
    def all(self) -> Ints:
        """Cycles of both, one after the other."""
        return self.serial + self.beside


def lower(
    hw: Hardware,
    ops: Sequence[OpOf],
    loads: Ints,
    *,
    split: bool,
    moved: Ints | int = 0,
) -> tuple[Step, ...]:
    """The steps of n phases.

    Args:
        hw: The hardware.
        ops: The ops of the phase, in order.
        loads: Sequences of each core, int64[n, C], most loaded first.
        split: Every matrix is split over the cores.
        moved: Sequences whose activations travel to another core and back before the first step, by
            lane, [n, K].
    """
    return tuple(
        _step(hw, op, loads, split, moved if index == 0 else 0) for index, op in enumerate(ops)
    )


def _step(hw: Hardware, op_of: OpOf, loads: Ints, split: bool, moved: Count) -> Step:
    machine = hw.design.machine
    cores = machine.cores
    rows = loads.sum(axis=-1, keepdims=True)  # [n, 1]
    even = -(-rows // cores)
    at_work = (loads > 0).sum(axis=-1, keepdims=True)
    exchanged = 0
    if split:
        part = Slice(cores)
        whole = op_of(rows, Slice(), 1)
        # Every core takes the norm of every row.
        whole = whole._replace(serial_vector_ops=cores * whole.serial_vector_ops)
        slowest = spread = _cost(hw, op_of(rows, part, 1), rows)
        busy, filled = slowest.all + np.zeros(cores, np.int64), cores
        exchanged = _exchange_cycles(hw, whole.gathered_elements)
    elif hw.is_lockstep(split):
        whole = op_of(rows, Slice(), 1)
        of_core = _cost(hw, op_of(loads, Slice(), 1), loads)  # [n, C]
        if hw.mapping.splits_remainder and whole.stream is not Stream.KV:
            rounds = rows // cores
            left = rows - rounds * cores
            of_left = _cost(hw, op_of(left, Slice(cores), 1), left)
            of_round = _cost(hw, op_of(rounds, Slice(), 1), rounds)
            of_core = Cost(
                *(a + b + np.zeros_like(loads) for a, b in zip(of_round, of_left, strict=True))
            )
            exchanged = _exchange_cycles(hw, op_of(left, Slice(), 1).gathered_elements)
        slowest = Cost(*(part.max(axis=-1, keepdims=True) for part in of_core))
        spread = _cost(hw, op_of(even, Slice(), 1), even)
        busy = of_core.all
        # Weights are held once by every core at work; K and V of a core's own sequences fill as
        # many buffers as there are cores at work.
        filled = at_work if whole.stream is Stream.KV else 1
    else:
        streams = loads if machine.weight_sharing == "private_per_sequence" else 1
        whole = op_of(loads, Slice(), streams)  # [n, C]: every core is a lane
        slowest = _cost(hw, whole, loads)
        spread = _cost(hw, op_of(even, Slice(), 1), even)
        busy, filled = slowest.all, 1
    # Cores with less than an even share, or with columns of a sequence, never wait for that share.
    balanced = Cost(*(np.minimum(own, other) for own, other in zip(slowest, spread, strict=True)))
    elements = 2 * moved * hw.design.model.body.hidden_size
    exchanged = exchanged + _exchange_cycles(hw, elements)
    # Every core at work has a copy of the broadcast weights in its buffer.
    broadcast = hw.is_lockstep(split) and not split and whole.stream is not Stream.KV
    copies = at_work if broadcast else 1
    if broadcast and hw.mapping.splits_remainder:
        copies = np.where(rows < cores, 1, cores)  # less than a round: each core has its columns
    working = (rows if hw.is_lockstep(split) else loads) > 0
    return _assemble(hw, whole, working, slowest, balanced, busy, filled, exchanged, copies)


def _cost(hw: Hardware, op: Op, rows: Ints) -> Cost:
    machine = hw.design.machine
    unit = machine.attention_array if op.category == Category.ATTENTION else machine.array
    array = gemm_cycles(unit, op.gemms) + machine.overheads.kernel_cycles * len(op.gemms)
    elements = vector_cycles(machine.vector, op.vector_ops)
    beside = np.maximum(array, elements) if machine.kernel_fusion else array + elements
    working = rows > 0
    serial = vector_cycles(machine.vector, op.serial_vector_ops) + op.scan_cycles
    return Cost(serial * working, beside * working)


def _exchange_cycles(hw: Hardware, elements: Count) -> Count:
    machine = hw.design.machine
    if machine.cores == 1:
        return 0
    nbytes = hw.design.model.activations.bytes_of(elements)
    return -(-nbytes // machine.exchange_bytes_per_cycle)


def _assemble(
    hw: Hardware,
    op: Op,
    working: NDArray[np.bool_],
    slowest: Cost,
    balanced: Cost,
    busy: Ints,
    filled: Count,
    exchanged: Count,
    copies: Count,
) -> Step:
    machine, model = hw.design.machine, hw.design.model
    path = hw.path_of[op.stream] if op.stream else -1
    rate = hw.rates[path] if op.stream else Fraction(1)
    streamed = own = op.stream_bytes * working
    sides = []
    for nbytes, side_path in (
        (op.kv_side_bytes, hw.path_of[Stream.KV]),
        (op.replay_bytes, hw.replay_path),
    ):
        nbytes = nbytes * working
        if np.any(nbytes) and side_path == path:
            # Behind the stream on the same path, they take the same time as beside it.
            streamed = streamed + nbytes
        elif np.any(nbytes):
            sides.append((side_path, hw.rates[side_path], _ints(nbytes)))
    is_kv = op.stream is Stream.KV
    buffer = machine.kv_buffer_bytes if is_kv else machine.weight_buffer_bytes
    unit = machine.attention_array if op.category == Category.ATTENTION else machine.array
    cols = unit.cols
    # Element operations that are not fused read the results once more, and write their own.
    passes = 1 if machine.kernel_fusion else 1 + 2 * (op.vector_ops > 0)
    activations = sum(
        copies_ * (m * k * -(-n // cols) + passes * m * n) for m, k, n, copies_ in op.gemms
    )
    sram = copies * 2 * own + model.activations.bytes_of(activations)
    return Step(
        category=op.category,
        pre_cycles=_ints(slowest.serial + exchanged),
        exchange_cycles=_ints(exchanged),
        cycles=_ints(slowest.beside),
        balanced_cycles=_ints(balanced.all + exchanged),
        path=path if np.any(streamed) else -1,
        rate=rate,
        stream_bytes=_ints(streamed),
        tile_bytes=_ints(filled * machine.tile_bytes),
        slots=int(np.min(buffer // machine.tile_bytes)),
        is_kv=is_kv,
        sides=tuple(sides),
        busy_cycles=_ints(busy),
        macs=_ints(op.macs),
        vector_ops=_ints(op.vector_ops + op.serial_vector_ops),
        sram_bytes=_ints(sram),
        held_back=op.held_back,
    )


def _ints(figure: Count) -> Ints:
    """At least two axes: [n, K], or [1, 1] for what is the same everywhere."""
    found = np.asarray(figure, np.int64)
    return found if found.ndim == 2 else found.reshape(1, -1)

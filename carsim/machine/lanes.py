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

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.hardware.machine import Array
from carsim.machine.array import gemm_cycles, vector_cycles
from carsim.machine.hardware import Hardware, Rate
from carsim.workload.ops import Category, Count, Op, Share, Stream

Ints = NDArray[np.int64]

OpsOf = Callable[[Share], list[Op]]
"""Share of a core -> its ops in order."""


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
    hw: Hardware, ops: OpsOf, loads: Ints, *, split: bool, moved: Ints | int = 0
) -> tuple[Step, ...]:
    """The steps of n phases.

    Args:
        hw: The hardware.
        ops: The ops of the phase.
        loads: Sequences of each core, int64[n, C], most loaded first.
        split: Every matrix is split over the cores.
        moved: Sequences whose activations travel to another core and back before the first step, by
            lane, [n, K].
    """
    cores, lockstep = hw.design.machine.cores, hw.is_lockstep(split)
    rows = loads.sum(axis=-1, keepdims=True)  # [n, 1]
    even = -(-rows // cores)
    if split:
        wholes, own = ops(Share(rows)), ops(Share(rows, cores))
        # Every core takes the norm of every row.
        wholes = [op._replace(serial_vector_ops=cores * op.serial_vector_ops) for op in wholes]
    elif lockstep:
        wholes, own = ops(Share(rows)), ops(Share(loads))  # [n, 1], [n, C]
    else:
        alone = hw.design.machine.weight_sharing == "private_per_sequence"
        wholes = own = ops(Share(loads, streams=loads if alone else 1))  # every core is a lane
    costs = [_cost(hw, op, rows if split else loads) for op in own]
    spreads = costs if split else [_cost(hw, op, even) for op in ops(Share(even))]
    gathered = [op.gathered_elements if split else 0 for op in wholes]
    if lockstep and not split and hw.mapping.splits_remainder:
        rounds = rows // cores
        left = rows - rounds * cores
        of_rounds = [_cost(hw, op, rounds) for op in ops(Share(rounds))]
        of_left = [_cost(hw, op, left) for op in ops(Share(left, cores))]
        left_over = [op.gathered_elements for op in ops(Share(left))]
        for n, op in enumerate(wholes):
            if op.stream is not Stream.KV:
                summed = map(sum, zip(of_rounds[n], of_left[n], strict=True))
                costs[n] = Cost(*(each + np.zeros_like(loads) for each in summed))
                gathered[n] = left_over[n]
    elements = 2 * moved * hw.design.model.body.hidden_size
    exchanged = [_exchange_cycles(hw, left) for left in gathered]
    exchanged[0] = exchanged[0] + _exchange_cycles(hw, elements)
    return tuple(
        _step(hw, op, loads, split, cost, spread, cycles)
        for op, cost, spread, cycles in zip(wholes, costs, spreads, exchanged, strict=True)
    )


def _step(
    hw: Hardware, op: Op, loads: Ints, split: bool, own: Cost, spread: Cost, exchanged: Count
) -> Step:
    """The step of an op.

    Args:
        hw: The hardware.
        op: The op of a lane.
        loads: Sequences of each core.
        split: Its matrices are split over the cores.
        own: Cost of each core, or of any.
        spread: Cost of a core, were sequences spread evenly.
        exchanged: Cycles in which activations change cores.
    """
    machine = hw.design.machine
    lockstep, is_kv = hw.is_lockstep(split), op.stream is Stream.KV
    slowest = Cost(*(part.max(axis=-1, keepdims=True) for part in own)) if lockstep else own
    # Cores with less than an even share, or with columns of a sequence, never wait for that share.
    balanced = Cost(*(np.minimum(a, b) for a, b in zip(slowest, spread, strict=True)))
    filled, copies = _buffers(hw, loads, split, is_kv)
    working = (loads.sum(axis=-1, keepdims=True) if lockstep else loads) > 0
    path = hw.path_of[op.stream] if op.stream else -1
    streamed = stored = op.stream_bytes * working
    sides, kv_path = [], hw.path_of[Stream.KV]
    for nbytes, side_path in ((op.kv_side_bytes, kv_path), (op.replay_bytes, hw.replay_path)):
        nbytes = nbytes * working
        if np.any(nbytes) and side_path == path:
            # Behind the stream on the same path, they take the same time as beside it.
            streamed = streamed + nbytes
        elif np.any(nbytes):
            sides.append((side_path, hw.rates[side_path], _ints(nbytes)))
    buffer = machine.kv_buffer_bytes if is_kv else machine.weight_buffer_bytes
    return Step(
        category=op.category,
        pre_cycles=_ints(slowest.serial + exchanged),
        exchange_cycles=_ints(exchanged),
        cycles=_ints(slowest.beside),
        balanced_cycles=_ints(balanced.all + exchanged),
        path=path if np.any(streamed) else -1,
        rate=hw.rates[path] if op.stream else Fraction(1),
        stream_bytes=_ints(streamed),
        tile_bytes=_ints(filled * machine.tile_bytes),
        slots=int(np.min(buffer // machine.tile_bytes)),
        is_kv=is_kv,
        sides=tuple(sides),
        busy_cycles=_ints(own.all + np.zeros(machine.cores if split else 1, np.int64)),
        macs=_ints(op.macs),
        vector_ops=_ints(op.vector_ops + op.serial_vector_ops),
        sram_bytes=_ints(copies * 2 * stored + _activation_bytes(hw, op)),
        held_back=op.held_back,
    )


def _buffers(hw: Hardware, loads: Ints, split: bool, is_kv: bool) -> tuple[Count, Count]:
    """Buffers that fill with different parts of an operand, and those that get the same part."""
    rows = loads.sum(axis=-1, keepdims=True)
    at_work = (loads > 0).sum(axis=-1, keepdims=True)
    cores = hw.design.machine.cores
    if split:
        return cores, 1
    if not hw.is_lockstep(split):
        return 1, 1
    if is_kv:
        # K and V of a core's own sequences fill as many buffers as there are cores at work ...
        return at_work, 1
    # ... and weights that of each: less than a round is split, so that each has its columns.
    return 1, np.where(rows < cores, 1, cores) if hw.mapping.splits_remainder else at_work


def _activation_bytes(hw: Hardware, op: Op) -> Count:
    """Bytes of activations that an op reads and writes on chip."""
    cols = _unit(hw, op).cols
    # Element operations that are not fused read the results once more, and write their own.
    passes = 1 if hw.design.machine.kernel_fusion else 1 + 2 * (op.vector_ops > 0)
    read = (copies * (m * k * -(-n // cols) + passes * m * n) for m, k, n, copies in op.gemms)
    return hw.design.model.activations.bytes_of(sum(read))


def _unit(hw: Hardware, op: Op) -> Array:
    """The array that multiplies for an op."""
    machine = hw.design.machine
    return machine.attention_array if op.category == Category.ATTENTION else machine.array


def _cost(hw: Hardware, op: Op, rows: Ints) -> Cost:
    machine = hw.design.machine
    array = gemm_cycles(_unit(hw, op), op.gemms) + machine.overheads.kernel_cycles * len(op.gemms)
    elements = vector_cycles(machine.vector, op.vector_ops)
    beside = np.maximum(array, elements) if machine.kernel_fusion else array + elements
    working = rows > 0
    serial = vector_cycles(machine.vector, op.serial_vector_ops) + op.scan_cycles
    return Cost(serial * working, beside * working)


def _exchange_cycles(hw: Hardware, elements: Count) -> Count:
    machine = hw.design.machine
    if machine.cores == 1:
        return 0
    return -(-hw.design.model.activations.bytes_of(elements) // machine.exchange_bytes_per_cycle)


def _ints(figure: Count) -> Ints:
    """At least two axes: [n, K], or [1, 1] for what is the same everywhere."""
    found = np.asarray(figure, np.int64)
    return found if found.ndim == 2 else found.reshape(1, -1)

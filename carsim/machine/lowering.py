"""From operations to the steps that lanes of cores execute.

A *lane* is a set of cores with the same work. Where one stream of weights paces all cores
(broadcast weights, or split matrices), all of them form one lane whose slowest core sets the pace.
Where each core streams weights of its own, cores with the same number of sequences form a lane:
they cannot be told apart, so one stands for all, with as many flows. That is exact, not an
approximation.

Simplification: activations that change cores - the gather after every matrix that is split, the way
to the mapped core and back under ``drs`` and ``pack`` - cross the exchange network while nobody
computes.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from carsim.machine.array import gemm_cycles, vector_cycles
from carsim.machine.hardware import Hardware
from carsim.machine.lane import Step
from carsim.machine.many import larger
from carsim.workload.ops import Op, Slice, Stream

OpOf = Callable[[int, Slice, int], Op]
"""(rows, share of every matrix, weight streams) -> the op of one core."""


WHOLE = Slice()
"""Whole matrices, as cores hold them where nothing is split."""


class Lane(NamedTuple):
    """Steps, and the identical cores that execute them."""

    cores: int
    steps: tuple[Step, ...]


def lower(
    hw: Hardware, ops: Sequence[OpOf], loads: Sequence[int], handed_over: bool = False
) -> tuple[Lane, ...]:
    """Turn ops into the lanes of a phase.

    Args:
        hw: The hardware.
        ops: The ops of the phase, in order.
        loads: Sequences of each core, most loaded first.
        handed_over: Activations travel to their core and back before the first step.

    Returns:
        Lanes with work, most loaded first.
    """
    if not any(loads):
        return ()
    if hw.is_lockstep:
        return (
            Lane(
                1,
                tuple(
                    _lockstep_step(hw, op, loads, i == 0 and handed_over)
                    for i, op in enumerate(ops)
                ),
            ),
        )
    return tuple(
        Lane(
            cores,
            tuple(
                _private_step(hw, op, load, cores, loads, i == 0 and handed_over)
                for i, op in enumerate(ops)
            ),
        )
        for load, cores in sorted(Counter(loads).items(), reverse=True)
        if load
    )


def _lockstep_step(hw: Hardware, op_of: OpOf, loads: Sequence[int], handed_over: bool) -> Step:
    cores, rows = len(loads), sum(loads)
    whole = op_of(rows, WHOLE, 1)
    if hw.is_tensor:
        slowest = balanced = _compute(hw, op_of(rows, hw.part, 1))
        busy = cores * sum(slowest)
    else:
        even = -(-rows // cores)
        # Loads are often equal, and then one calculation serves all.
        taken = {load: _compute(hw, op_of(load, WHOLE, 1)) for load in {even, *loads} if load}
        slowest, balanced = taken[max(loads)], taken[even]
        busy = sum([sum(taken[load]) for load in loads if load])
    # Weights that all cores read are held once by each; what each core reads for itself (its
    # columns, its sequences' K and V) fills as many buffers as there are cores at work.
    own_operands = hw.is_tensor or whole.stream is Stream.KV
    filled = (cores if hw.is_tensor else sum(load > 0 for load in loads)) if own_operands else 1
    exchanged = _exchange_cycles(hw, whole, rows, handed_over)
    return _step(hw, whole, slowest, balanced, busy, filled, exchanged, lanes_cores=1)


def _private_step(
    hw: Hardware, op_of: OpOf, load: int, cores: int, loads: Sequence[int], handed_over: bool
) -> Step:
    per_sequence = hw.design.machine.weight_sharing == "private_per_sequence"
    op = op_of(load, WHOLE, load if per_sequence else 1)
    own = _compute(hw, op)
    even = -(-sum(loads) // len(loads))
    balanced = own if even >= load else _compute(hw, op_of(even, WHOLE, 1))
    exchanged = _exchange_cycles(hw, op, load, handed_over)
    return _step(hw, op, own, balanced, cores * sum(own), 1, exchanged, lanes_cores=cores)


def _compute(hw: Hardware, op: Op) -> tuple[int, int]:
    """(Cycles before the array may start, cycles of array and vector unit side by side)."""
    machine = hw.design.machine
    return (
        vector_cycles(machine.vector, op.serial_vector_ops),
        larger(gemm_cycles(machine.array, op.gemms), vector_cycles(machine.vector, op.vector_ops)),
    )


def _exchange_cycles(hw: Hardware, op: Op, rows: int, handed_over: bool) -> int:
    machine, model = hw.design.machine, hw.design.model
    elements = op.gathered_elements if hw.is_tensor else 0
    if handed_over and not hw.is_tensor:
        elements = 2 * rows * model.body.hidden_size
    if machine.cores == 1:
        elements = 0
    return -(-model.activations.bytes_of(elements) // machine.exchange_bytes_per_cycle)


def _step(
    hw: Hardware,
    op: Op,
    slowest: tuple[int, int],
    balanced: tuple[int, int],
    busy_cycles: int,
    filled_buffers: int,
    exchange_cycles: int,
    *,
    lanes_cores: int,
) -> Step:
    machine, model = hw.design.machine, hw.design.model
    path = hw.path_of[op.stream] if op.stream else -1
    streamed, sides = op.stream_bytes, []
    for nbytes, side_path in (
        (op.kv_side_bytes, hw.path_of[Stream.KV]),
        (op.replay_bytes, hw.replay_path),
    ):
        if nbytes and side_path == path:
            # Behind the stream on the same path, they take the same time as beside it. (Not added
            # in place, where an array of contexts would change with it.)
            streamed = streamed + nbytes
        elif nbytes:
            sides.append((side_path, nbytes))
    is_kv = op.stream is Stream.KV
    buffer = machine.kv_buffer_bytes if is_kv else machine.weight_buffer_bytes
    cols = machine.array.cols
    activations = sum([copies * (m * k * -(-n // cols) + m * n) for m, k, n, copies in op.gemms])
    return Step(
        category=op.category,
        pre_cycles=slowest[0] + exchange_cycles,
        exchange_cycles=exchange_cycles,
        cycles=slowest[1],
        balanced_cycles=sum(balanced) + exchange_cycles,
        # Nothing streams for a prompt without tokens; an array of contexts has none without.
        path=path if type(streamed) is not int or streamed else -1,
        stream_bytes=streamed,
        tile_bytes=filled_buffers * machine.tile_bytes,
        buffer_bytes=filled_buffers * buffer,
        is_kv=is_kv,
        sides=tuple(sides),
        busy_cycles=busy_cycles,
        macs=lanes_cores * op.macs,
        vector_ops=lanes_cores * (op.vector_ops + op.serial_vector_ops),
        sram_bytes=lanes_cores * (2 * op.stream_bytes + model.activations.bytes_of(activations)),
    )

"""Cycles of one matrix product whose operands come from memory, as other simulators count them.

No run of carsim calls this module. ``carsim validate array`` compares SCALE-Sim, ZigZag, AccelForge
and LLMCompass with it. It shares the cycles of the array (:func:`carsim.machine.array.gemm_cycles`)
with the machine, but its memory is simpler than the machine's. Only the whole layers of ONNXim run
on the machine.

Model: weights, activations and results have one byte per element. They cross the memory interface
once, in M = (k n + m k + m n) / bandwidth cycles. The weights come in P pieces of equal size. While
the array works on one piece, the next one comes in (double buffering). So the product takes

    total = max(first + C, M + C / P, port) + drain

* C: the cycles of the array (:mod:`carsim.machine.array`).
* first: the time in which the first piece comes in. A piece is a tile of the array. If the array
  starts only when half of its buffer is full, a piece is half of that buffer.
* M + C / P: if memory is the limit, the array works on the last piece after all bytes have come.
* port: the time of an on-chip buffer's port of limited width. It carries weights and activations to
  the array, and partial sums from it. Where weights stay in the array, each tile has m rows of
  activations and of partial sums. Activations and results pass the port once more on their way from
  or to memory. Weights go past the buffer.
* drain: if results have a double buffer, the time in which its last half leaves the array.

Simplifications: bandwidth is a constant. The buffer is so large that nothing is fetched twice.
Accumulation in the array is free: partial sums are written once per tile and never read back.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from carsim.hardware.machine import Array
from carsim.machine.array import gemm_cycles
from carsim.workload.ops import Count, Gemm


@dataclass(frozen=True)
class Supply:
    """Rates at which operands reach the array and results leave it; ``None`` is without a limit.

    Attributes:
        bytes_per_cycle: Rate of the memory, both directions together.
        port_bytes_per_cycle: Rate of the on-chip buffer's port to the array.
        buffer_bytes: A double buffer, half of which is filled before the array starts, and as much
            for results; ``None`` starts with the first tile, and results leave as they come.
        fill_bytes_per_cycle: Rate at which the first half is filled; ``None``: the memory's rate.
    """

    bytes_per_cycle: Fraction | None = None
    port_bytes_per_cycle: int | None = None
    buffer_bytes: int | None = None
    fill_bytes_per_cycle: int | None = None


@dataclass(frozen=True)
class Product:
    """Cost of a product; times in cycles.

    Attributes:
        compute_cycles: The array, its operands always at hand.
        memory_cycles: All bytes at the memory's rate.
        total_cycles: Both double-buffered, with what the port, first filling and last results take.
        moved_bytes: Between memory and chip.
    """

    compute_cycles: int
    memory_cycles: int
    total_cycles: int
    moved_bytes: int


def product(array: Array, gemm: Gemm, supply: Supply) -> Product:
    """Run one product on an array, operands from memory and results back.

    Args:
        array: The array.
        gemm: The product; of its copies, each has operands of its own.
        supply: Rates at which operands arrive.

    >>> array = Array(rows=32, cols=32, dataflow="weight_stationary", weight_load="full_fold")
    >>> wide = product(array, Gemm(1, 4096, 4096), Supply(Fraction(96)))
    >>> wide.compute_cycles, wide.memory_cycles, wide.total_cycles
    (1556480, 174848, 1556491)
    """
    weights = int(gemm.copies * gemm.k * gemm.n)
    inputs = int(gemm.copies * gemm.m * gemm.k)
    outputs = int(gemm.copies * gemm.m * gemm.n)
    compute = int(gemm_cycles(array, [gemm]))
    memory = _cycles(weights + inputs + outputs, supply.bytes_per_cycle)
    passes = _passes(array, gemm)
    # Activations and results pass the port once more, from and to memory.
    port_bytes = weights * passes.weights
    port_bytes += inputs * (passes.inputs + 1)
    port_bytes += outputs * (passes.outputs + 1)
    port = _cycles(port_bytes, supply.port_bytes_per_cycle)
    half_buffer = supply.buffer_bytes // 2 if supply.buffer_bytes else 0
    piece = min(weights, half_buffer or array.rows * array.cols)
    first_piece = _cycles(piece, supply.fill_bytes_per_cycle or supply.bytes_per_cycle)
    last_piece = -(-compute * piece // weights)
    if half_buffer:
        # Full halves have left before; the array's columns empty the last one.
        last_half = (outputs * passes.outputs - 1) % half_buffer + 1
        drain = -(-last_half // array.cols)
    else:
        drain = 0
    memory_bound = memory + last_piece if memory else 0
    return Product(
        compute_cycles=compute,
        memory_cycles=memory,
        total_cycles=max(first_piece + compute, memory_bound, port) + drain,
        moved_bytes=weights + inputs + outputs,
    )


class _Passes(NamedTuple):
    """Number of times that each operand crosses between array and on-chip buffer."""

    weights: int
    inputs: int
    outputs: int


def _passes(array: Array, gemm: Gemm) -> _Passes:
    """Passes of the operands of a product under the dataflow of an array."""

    def tiles(size: Count, side: int) -> int:
        return int(-(-size // side))

    if array.dataflow == "output_stationary":
        return _Passes(tiles(gemm.m, array.rows), tiles(gemm.n, array.cols), outputs=1)
    if array.dataflow == "input_stationary":
        return _Passes(tiles(gemm.m, array.cols), inputs=1, outputs=tiles(gemm.k, array.rows))
    return _Passes(1, tiles(gemm.n, array.cols), outputs=tiles(gemm.k, array.rows))


def _cycles(nbytes: int, rate: Fraction | int | None) -> int:
    """Cycles that bytes take at a rate, rounded up; 0 without a limit."""
    return 0 if rate is None else -(-nbytes // Fraction(rate))

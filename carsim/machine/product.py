"""One matrix product whose operands come from memory: what it takes, and what limits it.

Model: weights, activations and results of one byte each cross the memory interface once:
M = (k n + m k + m n) / bandwidth. The weights come in pieces, the next one while the array works on
the one before (double buffering), so that with P pieces of equal size

    total = max(first + C, M + C / P, port) + drain

where C are the cycles of the array (:mod:`carsim.machine.array`) and ``first`` is the time that the
first piece takes to come in; if memory is the limit, the array still has to work on the last piece
when that is in. A piece is a tile of the array, or half of a buffer that is filled before the array
starts. With such a buffer, results that its other half still holds at the end leave it then:
``drain``.

If the on-chip buffer has a port of limited width (``port``), it carries weights and activations to
the array and partial sums from it: each tile's m rows of activations and of partial sums, where
weights stay in the array, and everything once more on its way from or to memory - but not the
weights, which go past the buffer.

Simplifications: bandwidth is a constant (:mod:`carsim.hardware.memory.sustained` has where it comes
from); the buffer
is large enough that nothing is fetched twice; accumulation in the array is free, so partial sums
are written once per tile and never read back.
"""

from dataclasses import dataclass
from fractions import Fraction

from carsim.hardware.machine import Array
from carsim.machine.array import gemm_cycles
from carsim.workload.ops import Gemm


@dataclass(frozen=True)
class Supply:
    """Rates at which operands reach the array and results leave it; ``None`` is without a limit.

    Attributes:
        bytes_per_cycle: Rate of the memory, both directions together.
        port_bytes_per_cycle: Rate of the on-chip buffer's port to the array.
        buffer_bytes: A double buffer, half of which is filled before the array starts, and as much
            for results; ``None`` starts with the first tile, and results leave as they come.
        fill_bytes_per_cycle: At which the first half is filled; ``None`` is as memory does it.

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
    m, k, n, copies = gemm
    weights, inputs, outputs = (copies * elements for elements in (k * n, m * k, m * n))
    compute = gemm_cycles(array, [gemm])
    memory = _cycles(weights + inputs + outputs, supply.bytes_per_cycle)
    rows, cols = array.rows, array.cols
    # Passes of weights, activations and results between array and buffer.
    of_weights, of_inputs, of_outputs = {
        "output_stationary": (-(-m // rows), -(-n // cols), 1),
        "input_stationary": (-(-m // cols), 1, -(-k // rows)),
    }.get(array.dataflow, (1, -(-n // cols), -(-k // rows)))
    carried = weights * of_weights + inputs * (of_inputs + 1) + outputs * (of_outputs + 1)
    port = _cycles(carried, supply.port_bytes_per_cycle)
    half = supply.buffer_bytes // 2 if supply.buffer_bytes else 0
    piece = min(weights, half or rows * cols)
    first = _cycles(piece, supply.fill_bytes_per_cycle or supply.bytes_per_cycle)
    last_piece = -(-compute * piece // weights)
    # Halves that filled up have left meanwhile; the array's columns empty the last one.
    held = (outputs * of_outputs - 1) % half + 1 if half else 0
    drain = -(-held // cols)
    through = memory + last_piece if memory else 0
    return Product(
        compute_cycles=compute,
        memory_cycles=memory,
        total_cycles=max(first + compute, through, port) + drain,
        moved_bytes=weights + inputs + outputs,
    )


def _cycles(nbytes: int, rate: Fraction | int | None) -> int:
    return 0 if rate is None else -(-nbytes // Fraction(rate))

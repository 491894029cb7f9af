"""Cycles of one core's multiply-accumulate array and vector unit.

An array of ``rows`` x ``cols`` (R x C) multiply-accumulators works on one tile of a matrix product
at a time: an ``m x k`` block of activations times a ``k x n`` operand. What is left over in the
last tile of a row or column idles. ``dataflow`` says what a tile is:

* ``dot_product`` (usual on FPGAs): C dot products of R lanes with an adder tree each. A tile is R
  deep along the reduction and C outputs wide and takes one row of activations per cycle:
  ceil(k/R) ceil(n/C) tiles of T = m cycles, and ``pipeline_cycles`` once per product.
* systolic: operands move one processing element per cycle, so that what enters row r or column c
  is skewed by r or c cycles. From the first operand in to the last result out, a tile that streams
  T operands takes T + (R - 1) + (C - 1) cycles: the last operand enters the first row in cycle
  T - 1, reaches the last row R - 1 and the last column C - 1 cycles later. Before that, what stays
  in the array is shifted in, one row per cycle: R cycles.

  - ``weight_stationary``: ceil(k/R) ceil(n/C) tiles of weights, T = m rows of activations;
  - ``input_stationary``: ceil(k/R) ceil(m/C) tiles of activations, T = n columns of the operand;
  - ``output_stationary``: ceil(m/R) ceil(n/C) tiles of the result, T = k; nothing is shifted in.

``weight_load`` says what a change of tiles costs:

* ``none``: nothing. The next tile enters behind the current one: tiles * T, and on a systolic array
  the skew R + C - 2 once per product.
* ``rows``: R cycles, one row of the tile at a time. Dot products wait for it: tiles * (T + R). The
  elements of a systolic array have a second register into which the next tile is shifted while the
  current one works, so that tiles follow each other every max(T, R) cycles; R for the first tile
  and the skew come once. It is what ONNXim charges (its ``SystolicWS``: a preload may start
  ``core_height`` cycles after the one before). An output-stationary array shifts its results out
  in the same way, the last tile's at the end.
* ``full_fold``: nothing overlaps; the next tile begins when the last result of the one before is
  out. Systolic: tiles * (R + T + R + C - 2), without the first R if output-stationary, as each
  result leaves the array over a wire of its own. Dot products: tiles * (T + 2 R + C - 2). It is
  what SCALE-Sim 3 counts, to the cycle, for the 210 products of
  ``carsim/validate/data/scalesim.csv``. Its authors derive the same per tile (Samajdar et al.,
  ISPASS 2020), but add R cycles to shift the results out of an output-stationary array, which
  their program does not.

Simplifications: the array starts a tile only when it is whole in the buffer (that wait is modelled
where buffers are, not here); accumulators never spill; tiles at the edge cost as much as whole
ones.
"""

from collections.abc import Iterable
from typing import Any

from carsim.hardware.machine import Array, Vector
from carsim.workload.ops import Gemm


def tiles_of(array: Array, gemm: Gemm) -> tuple[Any, Any]:
    """Tiles of one copy of a product, and rows or columns that move through the array per tile.

    Tiles at the edges count; one row or column moves per cycle.

    >>> tiles_of(Array(rows=32, cols=32, dataflow="output_stationary"), Gemm(1, 4096, 100))
    (4, 4096)
    """
    rows, cols = array.rows, array.cols
    m, k, n, _ = gemm
    if array.dataflow == "output_stationary":
        return -(-m // rows) * -(-n // cols), k
    if array.dataflow == "input_stationary":
        return -(-k // rows) * -(-m // cols), n
    return -(-k // rows) * -(-n // cols), m


def gemm_cycles(array: Array, gemms: Iterable[Gemm]) -> Any:
    """Cycles of the products executed one after the other, each with its fill and drain.

    >>> gemm_cycles(Array(rows=32, cols=32, pipeline_cycles=0), [Gemm(1, 4096, 4096)])
    16384
    >>> systolic = Array(rows=32, cols=32, dataflow="weight_stationary", weight_load="full_fold")
    >>> gemm_cycles(systolic, [Gemm(1, 4096, 4096)]) // 16384
    95
    """
    return sum([_product_cycles(array, gemm) for gemm in gemms])


def _product_cycles(array: Array, gemm: Gemm) -> Any:
    """All copies of a product, one behind the other."""
    per_copy, streamed = tiles_of(array, gemm)
    tiles, rows, skew = gemm.copies * per_copy, array.rows, array.rows + array.cols - 2
    if array.dataflow == "dot_product":
        load = 0 if array.weight_load == "none" else rows + skew * (array.weight_load != "rows")
        return tiles * (streamed + load) + array.pipeline_cycles
    if array.weight_load == "none":
        return tiles * streamed + skew
    if array.weight_load == "rows":
        longer = rows + (streamed - rows) * (streamed > rows)
        return rows + (tiles - 1) * longer + streamed + skew
    load = 0 if array.dataflow == "output_stationary" else rows
    return tiles * (load + streamed + skew)


def vector_cycles(vector: Vector, operations: Any) -> Any:
    """Cycles of ``operations`` element operations, none if there are none.

    >>> vector_cycles(Vector(lanes=16, pipeline_cycles=4), 33)
    7
    """
    return -(-operations // vector.lanes) + vector.pipeline_cycles * (operations > 0)

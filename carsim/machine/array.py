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

Weights that are wider than the port of the weight buffer take ``read_cycles`` for what the array
takes in a cycle (:class:`carsim.workload.ops.Gemm`). A tile of weights that stays in the array is
read while T rows pass, or in the load of ``rows`` and ``full_fold``, which is longer by this
factor. Weights that stream through the array (``output_stationary``, ``input_stationary``) make T
longer by it.

Simplifications: the array starts a tile only when it is whole in the buffer (that wait is modelled
where buffers are, not here); accumulators never spill; tiles at the edge cost as much as whole
ones.
"""

from collections.abc import Iterable
from typing import NamedTuple, cast

from carsim.base.units import scaled
from carsim.hardware.machine import Array, Vector
from carsim.machine.arrays import ArrayNumbers, VectorNumbers
from carsim.workload.elements import SOFTMAX_OPS
from carsim.workload.ops import FULL_RATE, Count, Gemm


class Tiling(NamedTuple):
    """The tiles of one copy of a product on an array.

    Attributes:
        tiles: Number of tiles, those at the edges included.
        streamed: Rows or columns that move through the array per tile, one per cycle: T above.
    """

    tiles: Count
    streamed: Count


def tiling(array: Array | ArrayNumbers, gemm: Gemm) -> Tiling:
    """Cut one copy of a product into the tiles of an array.

    >>> tiling(Array(rows=32, cols=32, dataflow="output_stationary"), Gemm(1, 4096, 100))
    Tiling(tiles=4, streamed=4096)
    """
    rows = array.rows
    cols = array.cols
    if array.dataflow == "output_stationary":
        return Tiling(tiles=-(-gemm.m // rows) * -(-gemm.n // cols), streamed=gemm.k)
    if array.dataflow == "input_stationary":
        return Tiling(tiles=-(-gemm.k // rows) * -(-gemm.m // cols), streamed=gemm.n)
    return Tiling(tiles=-(-gemm.k // rows) * -(-gemm.n // cols), streamed=gemm.m)


def gemm_cycles(array: Array | ArrayNumbers, gemms: Iterable[Gemm]) -> Count:
    """Cycles of products that are executed one after the other, each with its fill and drain.

    >>> gemm_cycles(Array(rows=32, cols=32, pipeline_cycles=0), [Gemm(1, 4096, 4096)])
    16384
    >>> systolic = Array(rows=32, cols=32, dataflow="weight_stationary", weight_load="full_fold")
    >>> gemm_cycles(systolic, [Gemm(1, 4096, 4096)]) // 16384
    95
    """
    return sum([_product_cycles(array, gemm) for gemm in gemms])


def _product_cycles(array: Array | ArrayNumbers, gemm: Gemm) -> Count:
    """Cycles of all copies of a product, one after the other."""
    of_copy = tiling(array, gemm)
    tiles = gemm.copies * of_copy.tiles
    streamed = of_copy.streamed
    shift: Count = array.rows
    keeps_weights = array.dataflow in ("dot_product", "weight_stationary")
    # Nearly all ports keep up; to compare fractions takes longer than the rest.
    is_slow = gemm.read_cycles is not FULL_RATE and gemm.read_cycles > 1
    if is_slow and keeps_weights:
        shift = scaled(shift, gemm.read_cycles)
    elif is_slow:
        streamed = scaled(streamed, gemm.read_cycles)
    skew: Count = array.rows + array.cols - 2
    is_dot_product = array.dataflow == "dot_product"
    if array.weight_load == "none":
        cycles: Count = tiles * streamed
        if is_slow and keeps_weights:
            late: Count = scaled(tiles, gemm.read_cycles) - cycles
            is_late = cast(Count, (late > 0) * (streamed > 0))
            cycles = cycles + late * is_late
        once: Count = array.pipeline_cycles if is_dot_product else skew
        return cycles + once
    if is_dot_product:
        wait = shift if array.weight_load == "rows" else shift + skew
        return tiles * (streamed + wait) + array.pipeline_cycles
    if array.weight_load == "rows":
        # A tile takes as long as it streams, or as the next one is shifted in: max(T, R).
        tile_cycles = shift + (streamed - shift) * (streamed > shift)
        return shift + (tiles - 1) * tile_cycles + streamed + skew
    load = 0 if array.dataflow == "output_stationary" else shift
    return tiles * (load + streamed + skew)


def softmax_cycles(vector: Vector | VectorNumbers, scores: Count) -> Count:
    """Cycles of scores on a softmax unit of its own, beside the lanes; 0 without one.

    >>> softmax_cycles(Vector(lanes=16, exponentials_per_cycle=4), 33)
    9
    """
    if isinstance(scores, int) and scores == 0:
        return 0
    rate = vector.exponentials_per_cycle
    return -(-scores // (rate + (rate == 0))) * (rate > 0)


def softmax_ops(vector: Vector | VectorNumbers, scores: Count) -> Count:
    """Element operations of scores on the lanes; 0 where a unit of its own takes them."""
    if isinstance(scores, int) and scores == 0:
        return 0
    return scores * SOFTMAX_OPS * (vector.exponentials_per_cycle == 0)


def vector_cycles(vector: Vector | VectorNumbers, operations: Count) -> Count:
    """Cycles of element operations on a vector unit; none if there are none.

    >>> vector_cycles(Vector(lanes=16, pipeline_cycles=4), 33)
    7
    """
    fill_cycles = cast(Count, vector.pipeline_cycles * (operations > 0))
    return -(-operations // vector.lanes) + fill_cycles

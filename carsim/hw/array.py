"""Cycles of one core's multiply-accumulate array and vector unit.

Model: an array of ``rows`` x ``cols`` multiply-accumulators holds a tile of the streamed operand,
``rows`` deep along the reduction and ``cols`` outputs wide, and takes one activation row per cycle.
A product of an ``m x k`` block with a ``k x n`` operand needs ceil(k / rows) * ceil(n / cols) tiles
of ``m`` cycles; what is left over in the last tile of a row or column idles. Bringing a tile into
the array costs, by the rule that the machine names,

* ``none``: nothing; the next tile enters behind the current one (a dot-product array with a second
  register per multiplier, the usual FPGA matrix-vector engine);
* ``rows``: ``rows`` cycles, one row of the tile at a time;
* ``full_fold``: ``2 rows + cols - 2`` cycles, the fill and drain of a systolic array that waits for
  both before the next tile.

Simplifications: the array starts a tile only when it is whole in the buffer (that wait is modelled
where buffers are, not here); accumulators never spill; fill and drain of a product is one constant.
"""

from collections.abc import Iterable

from carsim.spec import Array, Vector
from carsim.workload.ops import Gemm


def tile_load_cycles(array: Array) -> int:
    """Cycles to bring one tile of the streamed operand into the array."""
    if array.weight_load == "none":
        return 0
    if array.weight_load == "rows":
        return array.rows
    return 2 * array.rows + array.cols - 2


def gemm_cycles(array: Array, gemms: Iterable[Gemm]) -> int:
    """Cycles of the products executed one after the other, each with its fill and drain.

    >>> gemm_cycles(Array(rows=32, cols=32, pipeline_cycles=0), [Gemm(1, 4096, 4096)])
    16384
    """
    load = tile_load_cycles(array)
    rows, cols = array.rows, array.cols
    cycles = 0
    for m, k, n, copies in gemms:
        tiles = -(-k // rows) * -(-n // cols)
        cycles += copies * tiles * (m + load) + array.pipeline_cycles
    return cycles


def vector_cycles(vector: Vector, operations: int) -> int:
    """Cycles of ``operations`` element operations, none if there are none.

    >>> vector_cycles(Vector(lanes=16, pipeline_cycles=4), 33)
    7
    """
    return -(-operations // vector.lanes) + vector.pipeline_cycles if operations else 0

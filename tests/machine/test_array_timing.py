"""The array against machines that are stepped cycle by cycle and must get the product right."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from carsim.hardware.machine import Array
from carsim.machine.array import gemm_cycles
from carsim.workload.ops import Gemm

Matrix = NDArray[np.int64]

SIZES = [(1, 1), (2, 3), (4, 4), (5, 2)]
SHAPES = [(1, 1, 1), (1, 9, 7), (3, 8, 8), (6, 5, 11), (13, 4, 2)]
SIZED = pytest.mark.parametrize(
    ("rows", "cols", "m", "k", "n"), [(*size, *shape) for size in SIZES for shape in SHAPES]
)


def operands(m: int, k: int, n: int) -> tuple[Matrix, Matrix]:
    rng = np.random.default_rng(m * 10_000 + k * 100 + n)
    return rng.integers(-9, 10, (m, k)), rng.integers(-9, 10, (k, n))


def tiles(length: int, size: int) -> list[slice]:
    return [slice(begin, begin + size) for begin in range(0, length, size)]


def padded(block: Matrix, rows: int, cols: int) -> Matrix:
    out = np.zeros((rows, cols), dtype=np.int64)
    out[: block.shape[0], : block.shape[1]] = block
    return out


def stationary(held: Matrix, streamed: Matrix) -> tuple[Matrix, int]:
    """Step a systolic array that holds ``held`` [R, C] while ``streamed`` [T, R] moves through.

    Operands move right, partial sums down; row r is fed r cycles after row 0.
    """
    (rows, cols), count = held.shape, streamed.shape[0]
    cycle = 0
    registers = np.zeros_like(held)
    for row in held[::-1]:
        registers = np.vstack([row, registers[:-1]])
        cycle += 1
    np.testing.assert_array_equal(registers, held)
    moving, sums = np.zeros((rows, cols), np.int64), np.zeros((rows, cols), np.int64)
    result = np.zeros((count, cols), dtype=np.int64)
    missing, begun = count * cols, cycle
    while missing:
        now = cycle - begun
        entering = [
            streamed[now - row, row] if 0 <= now - row < count else 0 for row in range(rows)
        ]
        moving = np.column_stack([entering, moving[:, :-1]])
        sums = np.vstack([np.zeros(cols, np.int64), sums[:-1]]) + moving * registers
        for column in range(cols):
            index = now - (rows - 1) - column
            if 0 <= index < count:
                result[index, column] = sums[-1, column]
                missing -= 1
        cycle += 1
    return result, cycle


def accumulating(x: Matrix, w: Matrix) -> tuple[Matrix, int]:
    """Step a systolic array that keeps its results: x [R, T] enters from the left, w [T, C] above.

    A result leaves the array over a wire of its own in the cycle in which it is complete.
    """
    (rows, count), cols = x.shape, w.shape[1]
    right, down = np.zeros((rows, cols), np.int64), np.zeros((rows, cols), np.int64)
    result = np.zeros((rows, cols), dtype=np.int64)
    done = np.zeros((rows, cols), dtype=np.int64)
    cycle = 0
    while (done < count).any():
        left = [x[row, cycle - row] if 0 <= cycle - row < count else 0 for row in range(rows)]
        above = [w[cycle - col, col] if 0 <= cycle - col < count else 0 for col in range(cols)]
        right = np.column_stack([left, right[:, :-1]])
        down = np.vstack([above, down[:-1]])
        result += right * down
        arrived = cycle - np.arange(rows)[:, None] - np.arange(cols)
        done = np.clip(arrived + 1, 0, count)
        cycle += 1
    return result, cycle


def stepped(dataflow: str, x: Matrix, w: Matrix, rows: int, cols: int) -> Iterator[Any]:
    """Of each tile: where its results belong, its results, its cycles, and T."""
    (m, k), n = x.shape, w.shape[1]
    if dataflow == "output_stationary":
        for top, left in itertools.product(tiles(m, rows), tiles(n, cols)):
            found = accumulating(padded(x[top], rows, k), padded(w[:, left], k, cols))
            yield (top, left), *found, k
    elif dataflow == "weight_stationary":
        for deep, left in itertools.product(tiles(k, rows), tiles(n, cols)):
            held = padded(w[deep, left], rows, cols)
            yield (slice(None), left), *stationary(held, padded(x[:, deep], m, rows)), m
    else:
        for deep, top in itertools.product(tiles(k, rows), tiles(m, cols)):
            held = padded(x[top, deep].T, rows, cols)
            got, took = stationary(held, padded(w[deep].T, n, rows))
            yield (top, slice(None)), got.T, took, n


def systolic(dataflow: str, x: Matrix, w: Matrix, rows: int, cols: int) -> Any:
    """Step all tiles, one after the other; returns product, cycles, and T of each tile."""
    result, cycle, streams = np.zeros((x.shape[0], w.shape[1]), np.int64), 0, []
    for place, got, took, streamed in stepped(dataflow, x, w, rows, cols):
        block = result[place]
        block += got[: block.shape[0], : block.shape[1]]
        cycle += took
        streams.append(streamed)
    return result, cycle, streams


SYSTOLIC = ["weight_stationary", "output_stationary", "input_stationary"]


@SIZED
@pytest.mark.parametrize("dataflow", SYSTOLIC)
def test_a_systolic_array_takes_what_stepping_its_elements_takes(rows, cols, m, k, n, dataflow):
    x, w = operands(m, k, n)
    product, counted, _ = systolic(dataflow, x, w, rows, cols)
    np.testing.assert_array_equal(product, x @ w)
    array = Array(rows=rows, cols=cols, dataflow=dataflow, weight_load="full_fold")
    assert gemm_cycles(array, [Gemm(m, k, n)]) == counted


@SIZED
@pytest.mark.parametrize("dataflow", ["weight_stationary", "input_stationary"])
@pytest.mark.parametrize("weight_load", ["none", "rows"])
def test_tiles_that_stay_are_shifted_in_behind_others(rows, cols, m, k, n, dataflow, weight_load):
    *_, streams = systolic(dataflow, *operands(m, k, n), rows, cols)
    load = rows if weight_load == "rows" else 0
    loaded, free, last = load, 0, 0
    for streamed in streams:
        # Shifted into the second registers while the tile before streams, then swapped in.
        begin = max(loaded, free)
        loaded, free = begin + load, begin + streamed
        last = begin + streamed - 1 + (rows - 1) + (cols - 1)
    array = Array(rows=rows, cols=cols, dataflow=dataflow, weight_load=weight_load)
    assert gemm_cycles(array, [Gemm(m, k, n)]) == last + 1


@SIZED
@pytest.mark.parametrize("weight_load", ["none", "rows"])
def test_results_that_stay_are_shifted_out_beside_other_tiles(rows, cols, m, k, n, weight_load):
    *_, streams = systolic("output_stationary", *operands(m, k, n), rows, cols)
    unload = rows if weight_load == "rows" else 0
    complete, out = rows + cols - 2, 0
    for streamed in streams:
        # A complete tile moves to the second registers once those of the tile before are out.
        complete = max(complete + streamed, out)
        out = complete + unload
    array = Array(rows=rows, cols=cols, dataflow="output_stationary", weight_load=weight_load)
    assert gemm_cycles(array, [Gemm(m, k, n)]) == out


@pytest.mark.parametrize(("load", "cycles"), [("none", 5 * 6 * 3), ("rows", 5 * 6 * (3 + 4))])
def test_copies_follow_each_other_and_fill_the_pipeline_once(load: str, cycles: int) -> None:
    # 5 copies of 3 x 2 tiles of 4 x 8, each of 3 rows of activations; 7 cycles to fill.
    array = Array.model_validate({"rows": 4, "cols": 8, "pipeline_cycles": 7, "weight_load": load})
    assert gemm_cycles(array, [Gemm(3, 12, 16, 5)]) == cycles + 7

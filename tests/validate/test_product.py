"""One product from memory through an array: what it takes, what limits it, what is refused."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carsim.hardware.machine import Array
from carsim.validate.product import Supply, product
from carsim.workload.ops import Gemm

DATAFLOWS = ["dot_product", "weight_stationary", "output_stationary", "input_stationary"]
LOADS = ["none", "rows", "full_fold"]

arrays = st.builds(
    Array,
    rows=st.integers(1, 12),
    cols=st.integers(1, 12),
    dataflow=st.sampled_from(DATAFLOWS),
    weight_load=st.sampled_from(LOADS),
    pipeline_cycles=st.integers(0, 9),
)
gemms = st.builds(Gemm, *[st.integers(1, 60)] * 3, st.integers(1, 3))


def double_buffered(pieces: int, fetch: Fraction, compute: Fraction) -> Fraction:
    """Piece by piece: the next is fetched once the buffer before the present one is free."""
    fetched = worked = Fraction(0)
    freed = [Fraction(0), Fraction(0)]
    for _ in range(pieces):
        fetched = max(fetched, freed[-2]) + fetch
        worked = max(fetched, worked) + compute
        freed.append(worked)
    return worked


@given(arrays, gemms, st.integers(1, 64))
def test_total_is_that_of_a_double_buffer_worked_through_piece_by_piece(array, gemm, rate):
    got = product(array, gemm, Supply(Fraction(rate)))
    weights = gemm.k * gemm.n * gemm.copies
    pieces = -(-weights // (array.rows * array.cols))
    naive = double_buffered(
        pieces, Fraction(got.moved_bytes, rate * pieces), Fraction(got.compute_cycles, pieces)
    )
    # Activations and results ride along, so the first piece is longer there by its share of them.
    share = Fraction(got.moved_bytes - weights, rate * pieces) + Fraction(
        array.rows * array.cols, rate
    )
    assert abs(got.total_cycles - naive) <= share + Fraction(got.compute_cycles, pieces) + 3


@given(arrays, gemms, st.integers(1, 64), st.integers(1, 64))
def test_no_product_beats_its_macs_its_bytes_or_more_bandwidth(array, gemm, rate, more):
    got = product(array, gemm, Supply(Fraction(rate)))
    assert got.total_cycles * array.macs_per_cycle >= gemm.macs
    assert got.total_cycles * rate >= got.moved_bytes
    faster = product(array, gemm, Supply(Fraction(rate + more)))
    assert got.compute_cycles <= faster.total_cycles <= got.total_cycles


@pytest.mark.parametrize(
    ("dataflow", "carried"),
    [
        # (weights, activations, results) between array and buffer, 8 x 64 times 64 x 96 on 8 x 16,
        # and activations and results once more between buffer and memory.
        ("weight_stationary", 64 * 96 + 8 * 64 * (6 + 1) + 8 * 96 * (8 + 1)),
        ("output_stationary", 64 * 96 * 1 + 8 * 64 * (6 + 1) + 8 * 96 * (1 + 1)),
        ("input_stationary", 64 * 96 * 1 + 8 * 64 * (1 + 1) + 8 * 96 * (8 + 1)),
    ],
)
def test_a_port_carries_what_each_tile_needs(dataflow: str, carried: int) -> None:
    array = Array(rows=8, cols=16, dataflow=dataflow)
    assert product(array, Gemm(8, 64, 96), Supply(port_bytes_per_cycle=1)).total_cycles == carried


def test_half_a_buffer_comes_in_before_and_goes_out_after() -> None:
    array = Array(rows=4, cols=4, dataflow="output_stationary", weight_load="full_fold")
    supply = Supply(buffer_bytes=128, fill_bytes_per_cycle=10)
    got = product(array, Gemm(10, 8, 10), supply)
    # 9 tiles of 8 + 4 + 4 - 2 cycles; 64 of 80 weights at 10 a cycle; of 100 results 64 have left.
    assert (got.compute_cycles, got.total_cycles) == (9 * 14, 7 + 126 + 9)
    # Of 64 results none have left.
    assert product(array, Gemm(8, 8, 8), supply).total_cycles == 7 + 4 * 14 + 16

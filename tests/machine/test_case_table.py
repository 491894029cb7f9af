"""Cases are found again by their numbers, whatever numbers further cases bring."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carsim.machine.case_table import CaseTable
from carsim.machine.numbering import distinct
from carsim.machine.phase import Outcome

WIDE = 1 << 40
"""Two numbers of this size do not fit into one key of 62 bits."""


def outcome_of(columns: np.ndarray, designs: int) -> Outcome:
    """An outcome that names its design and the numbers of its case."""
    figures = [number * 10 + columns.sum(axis=0) for number in range(designs)]
    cycles = np.concatenate(figures)
    table = np.stack([cycles], axis=1)
    return Outcome(
        cycles=cycles,
        times=table,
        compute_cycles=cycles,
        busy_cycles=cycles,
        macs=cycles,
        vector_ops=cycles,
        sram_bytes=cycles,
        dram_bytes=table,
        bound_cycles=cycles,
        bound_dram_bytes=table,
        booked=table,
        buffer_traffic=table,
    )


@given(
    calls=st.lists(
        st.lists(
            st.tuples(st.integers(-3, 3), st.sampled_from([0, 1, 7, WIDE]), st.integers(0, WIDE)),
            min_size=1,
            max_size=6,
        ),
        min_size=1,
        max_size=5,
    ),
    designs=st.integers(1, 3),
)
def test_every_case_is_solved_once_and_found_again(
    calls: list[list[tuple[int, int, int]]], designs: int
) -> None:
    table = CaseTable(designs)
    solved: list[tuple[int, ...]] = []
    for cases in calls:
        columns = np.array(cases, np.int64).T

        def solve(new: np.ndarray, columns: np.ndarray = columns) -> Outcome:
            solved.extend(map(tuple, columns[:, new].T.tolist()))
            return outcome_of(columns[:, new], designs)

        found = table.look_up(columns, solve)
        assert (found.cycles == outcome_of(columns, designs).cycles).all()
    different = {case for cases in calls for case in cases}
    assert sorted(solved) == sorted(different)
    assert table.n_phases == designs * len(different)


@pytest.mark.parametrize("scale", [1, WIDE])
def test_distinct_columns_stand_for_all(scale: int) -> None:
    """With keys of one whole number, and with keys of bytes."""
    columns = scale * np.random.default_rng(0).integers(0, 3, (4, 200))
    example_of, number_of = distinct(columns)
    assert (columns[:, example_of][:, number_of] == columns).all()
    assert len(np.unique(columns, axis=1).T) == len(example_of)

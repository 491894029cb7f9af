"""Two cores in gates take the cycles that the machine model says, tile by tile."""

import numpy as np
import pytest

pytest.importorskip("amaranth", reason="needs the extra carsim[rtl]")

from core_gates import SEED, compared


def test_gates_take_the_cycles_of_the_machine() -> None:
    """Sums of products are checked on the way; ``fluid`` is near."""
    gates, tile, fluid = compared(20, 0.0, SEED).T
    assert gates.tolist() == tile.tolist()
    assert abs(fluid.sum() / gates.sum() - 1) < 0.15


def test_random_stalls_are_a_slower_memory() -> None:
    gates, tile, _ = compared(10, 0.1, SEED).T
    assert (gates != tile).any()
    assert abs(tile.sum() / gates.sum() - 1) < 0.03
    assert np.abs(tile / gates - 1).max() < 0.2

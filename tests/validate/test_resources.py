"""Published resources and power: the intervals of carsim are what is said of them."""

import pytest

from carsim.hardware.technology.fpga import Fpga
from carsim.metrics import Comparison
from carsim.validate.resources import resource_comparisons

Found = dict[str, tuple[Comparison, ...]]


@pytest.fixture(scope="module")
def found() -> Found:
    return resource_comparisons()


def test_intervals_are_the_ratios_of_published_designs(found: Found) -> None:
    for name, ends in Fpga.published_ratios.items():
        ratios = sorted(row.reference / row.ours for row in found[name])
        assert (ratios[0], ratios[-1]) == pytest.approx(ends, rel=0.01), name
        assert len(ratios) == (4 if name in ("bram36", "uram") else 6)


def test_published_power_lies_in_its_interval(found: Found) -> None:
    for row in found["power_w"]:
        low, high = map(float, row.note.split(" to "))
        assert low <= row.reference <= high, row.what
    assert len(found["power_w"]) == 8
    # Li et al. on a board; Hummingbird by Vivado, which leaves DRAM out.
    assert [round(row.ours, 1) for row in found["power_w"][:3]] == [2.9, 4.3, 6.7]

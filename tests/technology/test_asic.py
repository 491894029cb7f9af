"""Area, leakage and clock of a 28 nm chip, and how far from published ones they come out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carsim.design import Design, load_design, override
from carsim.errors import InputError
from carsim.technology import Resources
from carsim.technology.asic import OPERATORS, SRAM_MM2_PER_KIB, Asic, Operator
from carsim.technology.energy import energy
from carsim.technology.fit import check_fit
from carsim.technology.resources import resources
from carsim.workload.activity import Activity
from carsim.workload.geometry import Video

VIDEO = Video(n_frames=8, tokens_per_frame=256, prompt_tokens=62)
ASIC = load_design("asic_28nm")
FP32 = Operator(7700, 4184, 32 + 32 + 32)


def area(design: Design) -> float:
    return resources(design).totals["area"]


def interval(design: Design) -> tuple[float, float]:
    technology = design.board.technology
    assert isinstance(technology, Asic)
    return technology.area_interval(design)


def test_a_component_is_cells_over_the_floor_that_they_cover() -> None:
    """An 8-bit MAC: (282 + 137) x 0.387 of logic, 48 bits of 2.93 um2, over 0.7."""
    logic, registers = (282 + 137) * (28 / 45) ** 2, 48 * 5.98 * (28 / 40) ** 2
    assert OPERATORS["int8"].um2 == pytest.approx((logic + registers) / 0.7)
    found = resources(override(ASIC, {"machine.array.arithmetic": "int8"})).by_component
    assert found["arrays"]["area"] == pytest.approx(2 * 16 * 32 * OPERATORS["int8"].um2 * 1e-6)
    assert found["weight buffers"]["area"] == pytest.approx(2 * 128 * SRAM_MM2_PER_KIB.value)
    rest = sum(part["area"] for name, part in found.items() if name != "control")
    assert found["control"]["area"] == pytest.approx(0.3 * rest)


def test_wider_products_take_more_area() -> None:
    sizes = [OPERATORS[kind].um2 for kind in ("int4", "int4x8", "int8", "int16", "fp16")]
    assert sizes == sorted(sizes)
    assert sizes[-1] < FP32.um2


@given(
    st.integers(1, 8),
    st.sampled_from(sorted(OPERATORS)),
    st.integers(1, 64),
    st.sampled_from([128, 256, 1024]),
)
def test_the_area_lies_in_its_interval_and_grows_with_everything(
    cores: int, arithmetic: str, lanes: int, kib: int
) -> None:
    changes = {
        "machine.cores": cores,
        "machine.array.arithmetic": arithmetic,
        "machine.vector.lanes": lanes,
        "machine.weight_buffer_kib": kib,
    }
    design = override(ASIC, changes)
    low, high = interval(design)
    assert low < area(design) < high
    for name in ("cores", "vector.lanes", "weight_buffer_kib", "array.rows"):
        value = override(design, {}).model_dump()["machine"]
        for key in name.split("."):
            value = value[key]
        assert area(override(design, {f"machine.{name}": 2 * value})) > area(design)


@pytest.mark.parametrize(
    ("arithmetic", "published_mm2", "error"),
    [("int4", 24.4, -0.77), ("int4x8", 23.9, -0.76), ("fp32", 29.2, -0.50)],
)
def test_the_order_of_magnitude_is_that_of_quartdepth(
    monkeypatch: pytest.MonkeyPatch, arithmetic: str, published_mm2: float, error: float
) -> None:
    """QuartDepth: no array and no buffer is known, so these are of a machine of our own size.

    Published areas hardly depend on the width of products, from 29.2 to 23.9 mm2, and W4A4 takes
    more than W4A8: their machines have other numbers of multipliers. With equal ones, ours order
    themselves by width.
    """
    monkeypatch.setitem(OPERATORS, "fp32", FP32)
    array = ASIC.machine.array.model_copy(update={"arithmetic": arithmetic})
    machine = ASIC.machine.model_copy(update={"array": array})
    found = area(ASIC.model_copy(update={"machine": machine}))
    ratio = found / published_mm2
    print(f"{arithmetic}: {found:.1f} mm2, published {published_mm2}: {ratio - 1:+.0%}")
    assert ratio - 1 == pytest.approx(error, abs=0.01)
    assert 0.1 < ratio < 10


def test_a_chip_that_is_too_small_is_a_misfit_with_a_cure() -> None:
    report = check_fit(override(ASIC, {"board.technology.area_mm2": 5.0}), VIDEO)
    assert report.misfits == (
        "area: 5.7 mm2 needed (KV buffers 2.0), 5.0 mm2 available, 0.7 mm2 missing",
    )
    assert report.cures == ("shrink machine.array, machine.vector or the buffers",)


def test_what_fits_only_at_the_value_of_the_constants_is_a_warning() -> None:
    assert check_fit(ASIC, VIDEO).warnings == ()
    report = check_fit(override(ASIC, {"board.technology.area_mm2": 10.0}), VIDEO)
    assert report.fits
    assert report.warnings == (
        "area: up to 15.9 mm2 within the intervals of its constants, 10.0 available",
    )
    (line,) = check_fit(override(ASIC, {"board.fabric_clock_mhz": 1200.0}), VIDEO).warnings
    assert line == (
        "clock: 1200 MHz is more than the 1000 MHz of the fastest published accelerator of 28 nm"
    )


def test_what_is_there_leaks_and_its_clock_runs() -> None:
    """10 mm2: 0.12 W of leakage, and 30 uW x 1000 MHz x 10 of clock."""
    watts = {
        power.component: power.constant.value * power.amount
        for power in ASIC.board.technology.idle_power(ASIC, Resources({"all": {"area": 10.0}}))
    }
    assert watts == {"leakage": pytest.approx(0.12), "clock": pytest.approx(0.3)}
    second = Activity(10**9, 0, 0, 0, {})
    parts = {part.component: part for part in energy(ASIC, second, resources(ASIC)).parts}
    assert parts["clock"].value_j == pytest.approx(0.03 * area(ASIC))
    assert parts["leakage"].idle


def test_an_asic_asks_nothing_of_an_fpga() -> None:
    board = ASIC.board
    assert (board.lut, board.dsp, board.bram36, board.uram) == (None,) * 4
    with pytest.raises(InputError, match=r"technology\.area_mm2: is missing"):
        load_design("zcu102", ["board.technology={kind: asic}"])

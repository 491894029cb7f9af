"""Area, leakage and clock of a 28 nm chip, and how far from published ones they come out."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import resources

from carsim.base.errors import InputError
from carsim.cost.energy import energy
from carsim.cost.fit import check_fit
from carsim.design import Design, load_design, override
from carsim.hardware.memory import STANDARDS
from carsim.hardware.technology import Resources
from carsim.hardware.technology.asic import NODES, OPERATORS, SRAM_MM2_PER_KIB, Asic, Operator
from carsim.workload.activity import Activity
from carsim.workload.geometry import Video

VIDEO = Video(n_frames=8, tokens_per_frame=256, prompt_tokens=62)
ASIC = load_design("asic_28nm")
FP32 = Operator(7700, 4184, 32 + 32 + 32)


def area(design: Design) -> float:
    """Without interfaces to memories."""
    parts = resources(design).by_component.items()
    return sum(each["area_mm2"] for name, each in parts if not name.startswith("interface"))


def interval(design: Design) -> tuple[float, float]:
    return design.board.technology.intervals(design)["area_mm2"]


def test_a_component_is_cells_over_the_floor_that_they_cover() -> None:
    """An 8-bit MAC: (282 + 137) x 0.387 of logic, 48 bits of 2.93 um2, over 0.7."""
    logic, registers = (282 + 137) * (28 / 45) ** 2, 48 * 5.98 * (28 / 40) ** 2
    assert OPERATORS["int8"].um2 == pytest.approx((logic + registers) / 0.7)
    found = resources(override(ASIC, {"machine.array.arithmetic": "int8"})).by_component
    assert found["arrays"]["area_mm2"] == pytest.approx(2 * 16 * 32 * OPERATORS["int8"].um2 * 1e-6)
    assert found["weight buffers"]["area_mm2"] == pytest.approx(2 * 128 * SRAM_MM2_PER_KIB.value)
    rest = area(override(ASIC, {"machine.array.arithmetic": "int8"})) / 1.3
    assert found["control"]["area_mm2"] == pytest.approx(0.3 * rest)


@given(
    st.integers(1, 8),
    st.sampled_from(sorted(OPERATORS)),
    st.integers(1, 64),
    st.sampled_from([128, 256, 1024]),
)
def test_the_area_lies_in_its_interval_and_grows_with_everything(cores, arithmetic, lanes, kib):
    sizes = {"cores": cores, "vector.lanes": lanes, "weight_buffer_kib": kib, "array.rows": 16}
    changes = {f"machine.{name}": value for name, value in sizes.items()}
    design = override(ASIC, changes | {"machine.array.arithmetic": arithmetic})
    low, high = interval(design)
    assert low < resources(design).totals["area_mm2"] < high
    for name, value in changes.items():
        assert area(override(design, {name: 2 * value})) > area(design)


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
    assert found / published_mm2 - 1 == pytest.approx(error, abs=0.01)


def chip(node: str, area_mm2: float, cores: int, mib: int, lanes: int) -> Design:
    """Cores of 128 x 128 16-bit floating-point multipliers with all memory in their buffers."""
    changes = {
        "board.technology.node": node,
        "board.technology.area_mm2": area_mm2,
        "machine.cores": cores,
        "machine.array": {"rows": 128, "cols": 128, "arithmetic": "fp16"},
        "machine.weight_buffer_kib": mib * 1024 // cores,
        "machine.vector.lanes": lanes,
        "model.weights.group": None,
        "model.weights.scale_bits": 0,
        "model.weights.zero_bits": 0,
    }
    return override(ASIC, changes)


@pytest.mark.parametrize(
    ("node", "published_mm2", "cores", "mib", "lanes", "found_mm2"),
    [("16nm", 625.0, 2, 32, 1024, 153), ("7nm", 400.0, 4, 144, 256, 188)],
)
def test_chips_of_which_arrays_and_memories_are_known_take_more(
    node: str, published_mm2: float, cores: int, mib: int, lanes: int, found_mm2: float
) -> None:
    """TPU v2 and v4i (Jouppi et al., ISCA 2021, at most so large): links, HBM and cores beside."""
    design = chip(node, published_mm2, cores, mib, lanes)
    low, high = interval(design)
    assert area(design) == pytest.approx(found_mm2, rel=0.01)
    assert low < area(design) < published_mm2 < high


def test_the_memory_of_the_tpu_v4i_takes_its_published_share() -> None:
    """128 MiB on 28 % of at most 400 mm2; arrays of 65,536 on 11 %."""
    per_kib = SRAM_MM2_PER_KIB.value * NODES["7nm"].sram.value
    assert 128 * 1024 * per_kib == pytest.approx(0.28 * 400, rel=0.05)
    arrays = resources(chip("7nm", 400.0, 4, 144, 256)).by_component["arrays"]["area_mm2"]
    assert 0.4 < arrays / (0.11 * 400) < 1


def test_a_smaller_node_takes_less_and_draws_less_for_the_same_machine() -> None:
    second = Activity(round(ASIC.board.fabric_clock_mhz * 1e6), 0, 0, 0, {})
    areas, watts = [], []
    for node in ("28nm", "16nm", "7nm"):
        section = {"kind": "asic", "node": node, "area_mm2": 24.4}
        design = override(ASIC, {"board.technology": section})
        parts = energy(design, second, resources(design)).components
        areas.append(area(design))
        watts.append(sum(p.value_j for p in parts if p.component in ("leakage", "clock")))
    assert areas == sorted(areas, reverse=True)
    assert watts == sorted(watts, reverse=True)


def test_a_chip_of_28_nm_keeps_its_document_and_others_draw_what_their_node_draws() -> None:
    assert "node" not in ASIC.board.model_dump()["technology"]
    small = load_design("asic_28nm", ["board.preset=asic_7nm", "energy.preset=asic_7nm"])
    technology = small.board.technology
    assert isinstance(technology, Asic)
    assert technology.leakage_w_per_mm2 == NODES["7nm"].leakage_w_per_mm2
    assert technology.model_dump()["node"] == "7nm"
    line, *_ = check_fit(override(small, {"board.fabric_clock_mhz": 1800.0}), VIDEO).warnings
    assert "1800 MHz is more than the 1600 MHz of the fastest" in line


def test_a_chip_that_is_too_small_is_a_misfit_with_a_cure() -> None:
    report = check_fit(override(ASIC, {"board.technology.area_mm2": 5.0}), VIDEO)
    assert report.misfits == (
        "area: 21.0 mm2 needed (interface ddr 15.3), 5.0 mm2 available, 16.0 mm2 missing",
    )
    assert report.cures == ("shrink machine.array, machine.vector, the buffers or board.memories",)


def test_what_fits_only_at_the_value_of_the_constants_is_a_warning() -> None:
    report = check_fit(ASIC, VIDEO)
    assert report.fits
    assert report.warnings == ("area: up to 40.1 mm2 if all constants err upwards, 24.4 available",)
    assert check_fit(override(ASIC, {"board.technology.area_mm2": 41.0}), VIDEO).warnings == ()
    line, _ = check_fit(override(ASIC, {"board.fabric_clock_mhz": 1200.0}), VIDEO).warnings
    assert "1200 MHz is more than the 1000 MHz of the fastest" in line


def test_what_is_there_leaks_and_its_clock_runs() -> None:
    """10 mm2: 0.12 W of leakage, and 30 uW x 1000 MHz x 10 of clock."""
    watts = {
        power.component: power.constant.value * power.amount
        for power in ASIC.board.technology.idle_power(ASIC, Resources({"all": {"area_mm2": 10.0}}))
    }
    assert watts == {"leakage": pytest.approx(0.12), "clock": pytest.approx(0.3)}
    second = Activity(10**9, 0, 0, 0, {})
    parts = {part.component: part for part in energy(ASIC, second, resources(ASIC)).components}
    assert parts["clock"].value_j == pytest.approx(0.03 * resources(ASIC).totals["area_mm2"])
    assert parts["leakage"].idle


def test_a_family_whose_interface_is_unknown_is_refused_on_a_chip_and_runs_on_a_board() -> None:
    row = STANDARDS["DDR4-2400"]
    family = replace(row.family, name="DDR9", interface=None)
    STANDARDS.register(replace(row, name="DDR9-2400", family=family))
    try:
        board = override(load_design("zcu102"), {"board.memories.ps_ddr.standard": "DDR9-2400"})
        assert check_fit(board, VIDEO).fits
        (memory,) = ASIC.board.memories
        chip = override(ASIC, {f"board.memories.{memory}.standard": "DDR9-2400"})
        with pytest.raises(
            InputError, match=r"interface to DDR9 is known; give the family an `int"
        ):
            check_fit(chip, VIDEO)
    finally:
        del STANDARDS["DDR9-2400"]

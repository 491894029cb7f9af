"""Energy: the hand check of a step, and that being there costs power."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import resources

from carsim.base.errors import InputError
from carsim.cost.energy import ComponentJoules, EnergyReport, energy
from carsim.design import load_design, override
from carsim.hardware.energy import Energy
from carsim.hardware.memory import STANDARDS
from carsim.hardware.technology.base import Resources
from carsim.workload.activity import Activity

U280 = load_design("u280")
DDR4 = STANDARDS["DDR4-2133"].family

# A step of one guidance pair at the mean context of 62 + 1024.5 tokens on the stock ZCU102: 3.364e9
# B of weights and 2 rows x 2 x 32 x 4096 x 1086.5 x 4.25 / 8 = 0.303e9 B of K and V; 2 x (2.147 +
# 4.329 + 0.284) = 13.5e9 MAC; 254 ms at 250 MHz.
STEP = Activity(
    cycles=63_500_000,
    macs=13_520_000_000,
    vector_ops=70_000_000,
    sram_bytes=14_000_000_000,
    dram_bytes={"ps_ddr": 3_667_000_000},
)


def report_of(name: str, activity: Activity) -> EnergyReport:
    design = load_design(name)
    return energy(design, activity, resources(design))


def joules(report: EnergyReport, component: str) -> float:
    (part,) = [part for part in report.components if part.component == component]
    return part.value_j


def test_a_step_of_one_pair_by_hand() -> None:
    report = report_of("zcu102", STEP)
    (ddr,) = [part for part in report.components if part.component == "memory ps_ddr"]
    # 20 pJ/bit x 3.667e9 B x 8 = 0.587 J; 28 pJ/bit make 0.82 J.
    assert (ddr.value_j, ddr.high_j) == pytest.approx((0.587, 0.821), abs=0.001)
    # 13.52e9 MACs of 0.9 to 7.4 pJ.
    (macs,) = [part for part in report.components if part.component == "multiply-accumulates"]
    assert (macs.low_j, macs.high_j) == pytest.approx((0.0122, 0.1), abs=0.0005)


@pytest.mark.parametrize(
    ("component", "work", "constant"),
    [
        ("multiply-accumulates", {"macs": 10**12}, "mac_pj"),
        ("vector operations", {"vector_ops": 10**12}, "vector_op_pj"),
        ("on-chip buffers", {"sram_bytes": 10**12}, "sram_pj_per_byte"),
        ("memory ps_ddr", {"dram_bytes": {"ps_ddr": 10**12 // 8}}, ""),
    ],
)
def test_1e12_of_one_thing_cost_as_many_joules_as_one_costs_picojoules_by_hand(
    component: str, work: dict[str, Any], constant: str
) -> None:
    nothing = {"cycles": 0, "macs": 0, "vector_ops": 0, "sram_bytes": 0, "dram_bytes": {}}
    design = load_design("zcu102")
    price = getattr(design.energy, constant) if constant else DDR4.dram_pj_per_bit
    if constant == "mac_pj":
        price = price[design.machine.array.arithmetic]
    assert price.low < price.value < price.high
    report = energy(design, Activity(**{**nothing, **work}), resources(design))
    assert joules(report, component) == pytest.approx(price.value)
    for joules_of in (report.board, report.device, report.above_idle):
        found = joules_of.low_j, joules_of.value_j, joules_of.high_j
        assert found == pytest.approx((price.low, price.value, price.high))


@pytest.mark.parametrize(
    ("stated", "pj"),
    [
        ({}, 20.0),
        ({"LPDDR4": 1.0}, 20.0),
        ({"any": 1.0}, 1.0),
        ({"DDR4": 2.0}, 2.0),
        ({"any": 1.0, "DDR4": 2.0}, 2.0),
    ],
)
def test_a_design_states_the_energy_of_a_memory_before_its_family(
    stated: dict[str, float], pj: float
) -> None:
    """Its family's name counts before ``any``."""
    design = load_design("zcu102")
    raw = design.energy.model_dump()
    raw["dram_pj_per_bit"] = {
        name: {"value": value, "low": value, "high": value, "source": "made up here"}
        for name, value in stated.items()
    }
    changed = design.model_copy(update={"energy": Energy.model_validate(raw)})
    report = energy(changed, STEP, resources(changed))
    assert joules(report, "memory ps_ddr") == pytest.approx(8 * 3_667_000_000 * pj * 1e-12)


def test_a_design_changes_a_part_of_the_constant_of_a_family() -> None:
    changed = load_design("zcu102", ["energy.dram_pj_per_bit.DDR4.value=25"])
    (price,) = changed.energy.dram_pj_per_bit.values()
    assert (price.low, price.value, price.high) == (12.0, 25.0, 28.0)
    assert joules(energy(changed, STEP, resources(changed)), "memory ps_ddr") == pytest.approx(
        8 * 3_667_000_000 * 25e-12
    )
    with pytest.raises(InputError, match=r"dram_pj_per_bit.DDR4.value: 29 lies outside of its int"):
        load_design("zcu102", ["energy.dram_pj_per_bit.DDR4.value=29"])
    with pytest.raises(InputError, match=r"dram_pj_per_bit.DDR9.low"):
        load_design("zcu102", ["energy.dram_pj_per_bit.DDR9.value=29"])


@given(st.lists(st.floats(0, 1e6), max_size=9))
def test_sums_are_rounded_once_whatever_the_python(values: list[float]) -> None:
    board = EnergyReport(
        tuple(ComponentJoules("", v, v / 3, 3 * v, idle=False) for v in values)
    ).board
    assert board.value_j == math.fsum(values)
    assert board.low_j == math.fsum(v / 3 for v in values)
    assert board.high_j == math.fsum(3 * v for v in values)


@pytest.mark.parametrize(
    ("name", "watts"),
    # 8 devices of 4 Gb and 16 of 8 Gb, 52 mW each; 8 GiB of HBM2 and 32 devices of DDR4.
    [("zcu102", 0.416), ("zcu102_16gb", 0.832), ("kv260", 0.208), ("u280", 0.8 + 1.664)],
)
def test_standby_follows_the_number_of_devices_and_their_family(name: str, watts: float) -> None:
    design = load_design(name)
    second = Activity(round(design.board.fabric_clock_mhz * 1e6), 0, 0, 0, {})
    report = energy(design, second, resources(design))
    standby = [part for part in report.components if part.component.startswith("standby")]
    assert sum(part.value_j for part in standby) == pytest.approx(watts)
    # 35 to 45 mA at 1.2 V are 0.042 to 0.054 W.
    assert 0.042 <= DDR4.dram_background_w_per_gib.value <= 0.054


def test_one_constant_of_standby_serves_every_family_as_it_used_to() -> None:
    design = load_design("u280")
    raw = design.energy.model_dump()
    raw["dram_background_w_per_gib"] = DDR4.dram_background_w_per_gib.model_dump()
    old = design.model_copy(update={"energy": Energy.model_validate(raw)})
    report = energy(old, Activity(300_000_000, 0, 0, 0, {}), resources(old))
    assert joules(report, "standby hbm") == pytest.approx(8 * 0.052)


def test_a_u280_draws_most_of_its_power_idle() -> None:
    """37.3 W with a design loaded (FlexLLM's power log); resources of DFX (arXiv 2209.10797)."""
    dfx = Resources({"all": {"dsp": 3533, "bram36": 1192, "uram": 104, "lut": 520_560}})
    second = Activity(200_000_000, 0, 0, 0, {})
    design = override(U280, {"board.fabric_clock_mhz": 200.0})
    assert energy(design, second, dfx).board.value_j == pytest.approx(37.3, rel=0.05)


def test_a_second_of_doing_nothing_still_costs_clock_static_standby_and_host() -> None:
    design = load_design("zcu102")
    second = Activity(250_000_000, 0, 0, 0, {})
    used = Resources({"all": {"dsp": 1000, "bram36": 500, "lut": 100_000}})
    report = energy(design, second, used)
    # 1000 DSP x 2, 500 BRAM x 6 and 100 kLUT x 40 microwatts per MHz at 250 MHz.
    by_hand = {"clocked DSP": 0.5, "clocked BRAM": 0.75, "clocked LUT": 1.0, "device static": 0.9}
    # 8 devices of PS DDR in use; the PL memory is not.
    by_hand |= {"standby ps_ddr": 0.416, "host": 1.5}
    assert {name: joules(report, name) for name in by_hand} == pytest.approx(by_hand)
    assert report.board.value_j == pytest.approx(sum(by_hand.values()))
    assert report.above_idle.value_j == 0


def test_memories_are_priced_by_family_and_the_device_leaves_out_the_host_alone() -> None:
    report = report_of("u280", replace(STEP, dram_bytes={"hbm": 10**9, "ddr": 10**9}))
    assert report.board.value_j - report.device.value_j == pytest.approx(joules(report, "host"))
    assert joules(report, "memory hbm") == pytest.approx(8e9 * 7e-12)
    assert joules(report, "memory ddr") == pytest.approx(8e9 * 20e-12)


def test_a_missing_constant_is_named() -> None:
    design = load_design("zcu102")
    others = {name: price for name, price in design.energy.mac_pj.items() if name != "int16"}
    constants = design.energy.model_copy(update={"mac_pj": others})
    with pytest.raises(InputError, match="mac_pj: has no entry 'int16'; add it"):
        energy(design.model_copy(update={"energy": constants}), STEP, resources(design))


def test_every_memory_of_the_table_has_joules() -> None:
    for family in STANDARDS.families.values():
        assert family.dram_pj_per_bit, family.name
        assert family.dram_background_w_per_gib, family.name

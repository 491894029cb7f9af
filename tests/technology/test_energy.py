"""Energy: the hand check of a step, published power, and that being there costs power."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from carsim.design import Design, load_design, override
from carsim.errors import InputError
from carsim.technology.energy import EnergyReport, energy
from carsim.technology.resources import Resources, resources
from carsim.workload.activity import Activity

PUBLISHED = Path(__file__).parents[1] / "data" / "published_fpga.csv"

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
    (part,) = [part for part in report.parts if part.component == component]
    return part.value_j


def published_power() -> list[dict[str, str]]:
    with PUBLISHED.open(encoding="utf-8", newline="") as lines:
        return [row for row in csv.DictReader(lines) if row["power_w"]]


def published_report(row: dict[str, str]) -> tuple[EnergyReport, float]:
    """Energy of one second of a published design on our preset of its board."""
    design = override(
        load_design(row["board"]),
        {
            "board.fabric_clock_mhz": float(row["clock_mhz"]),
            "machine.array.arithmetic": row["arithmetic"],
        },
    )
    tokens = float(row["tokens_per_s"])
    second = Activity(
        cycles=round(float(row["clock_mhz"]) * 1e6),
        macs=round(tokens * float(row["macs_per_token"])),
        vector_ops=0,
        sram_bytes=round(2 * tokens * float(row["dram_bytes_per_token"])),
        dram_bytes={row["memory"]: round(tokens * float(row["dram_bytes_per_token"]))},
    )
    used = Resources(
        dsp=int(row["dsp"] or 0),
        bram36=int(row["bram36"] or row["ram_blocks"]),
        uram=int(row["uram"] or 0),
        lut=int(row["lut"]),
        by_component={},
    )
    return energy(design, second, used), float(row["power_w"])


def test_a_step_of_one_pair_moves_0_6_to_0_8_joules_of_ddr() -> None:
    report = report_of("zcu102", STEP)
    (ddr,) = [part for part in report.parts if part.component == "memory ps_ddr"]
    # 20 pJ/bit x 3.667e9 B x 8 = 0.587 J; 28 pJ/bit make 0.82 J.
    assert ddr.value_j == pytest.approx(0.587, abs=0.001)
    assert ddr.high_j == pytest.approx(0.82, abs=0.01)


def test_a_step_of_one_pair_costs_0_004_to_0_05_joules_of_macs() -> None:
    report = report_of("zcu102", STEP)
    (macs,) = [part for part in report.parts if part.component == "multiply-accumulates"]
    assert macs.low_j == pytest.approx(0.004, abs=0.0005)
    assert macs.high_j == pytest.approx(0.05, abs=0.0005)


def test_llama_2_7b_on_kv260_takes_1_34_joules_a_token() -> None:
    # Li et al. (arXiv 2502.10659): 6.57 W at 4.9 token/s.
    (row,) = [row for row in published_power() if row["design"].startswith("Li et al.")]
    report, power_w = published_report(row)
    tokens = float(row["tokens_per_s"])
    assert power_w / tokens == pytest.approx(1.34, abs=0.005)
    assert report.board.low_j / tokens < 1.34 < report.board.high_j / tokens
    assert report.board.value_j / tokens == pytest.approx(1.34, rel=0.05)


@pytest.mark.parametrize("row", published_power(), ids=lambda row: row["design"])
def test_published_power_lies_in_the_interval_and_near_the_value(row: dict[str, str]) -> None:
    report, power_w = published_report(row)
    assert report.board.low_j < power_w < report.board.high_j
    assert report.board.value_j == pytest.approx(power_w, rel=0.20)


def test_a_u280_draws_most_of_its_power_idle() -> None:
    # 37.3 W idle with a design loaded (FlexLLM's power log), 45 W while DFX decodes.
    (row,) = [row for row in published_power() if row["design"] == "DFX"]
    report, power_w = published_report(row)
    idle_w = report.board.value_j - report.above_idle.value_j
    assert idle_w == pytest.approx(37.3, rel=0.05)
    assert report.above_idle.value_j == pytest.approx(power_w - 37.3, rel=0.2)


def test_a_second_of_doing_nothing_still_costs_clock_static_standby_and_host() -> None:
    design = load_design("zcu102")
    second = Activity(250_000_000, 0, 0, 0, {})
    report = energy(design, second, Resources(1000, 500, 0, 100_000, {}))
    # 1000 DSP x 2, 500 BRAM x 6 and 100 kLUT x 40 microwatts per MHz at 250 MHz.
    assert joules(report, "clocked DSP") == pytest.approx(0.5)
    assert joules(report, "clocked BRAM") == pytest.approx(0.75)
    assert joules(report, "clocked LUT") == pytest.approx(1.0)
    assert joules(report, "device static") == pytest.approx(0.9)
    # 4 GiB of PS DDR in use at 0.1 W; the PL memory is not.
    assert joules(report, "memory standby") == pytest.approx(0.4)
    assert joules(report, "host") == pytest.approx(1.5)
    assert report.board.value_j == pytest.approx(0.5 + 0.75 + 1.0 + 0.9 + 0.4 + 1.5)
    assert report.above_idle.value_j == 0


def test_idle_cores_are_not_free() -> None:
    few = load_design("zcu102")
    many = override(few, {"machine.cores": 4})
    assert (
        energy(many, STEP, resources(many)).board.value_j
        > energy(few, STEP, resources(few)).board.value_j
    )


def test_the_device_boundary_leaves_out_the_host_alone() -> None:
    report = report_of("u280", replace(STEP, dram_bytes={"hbm": 10**9}))
    assert report.board.value_j - report.device.value_j == pytest.approx(joules(report, "host"))


def test_memories_are_priced_by_family() -> None:
    report = report_of("u280", Activity(1, 0, 0, 0, {"hbm": 10**9, "ddr": 10**9}))
    assert joules(report, "memory hbm") == pytest.approx(8e9 * 7e-12)
    assert joules(report, "memory ddr") == pytest.approx(8e9 * 20e-12)


def without(design: Design, table: str, key: str) -> Design:
    entries = dict(getattr(design.energy, table))
    del entries[key]
    return design.model_copy(update={"energy": design.energy.model_copy(update={table: entries})})


@pytest.mark.parametrize(("table", "key"), [("mac_pj", "int16"), ("dram_pj_per_bit", "DDR4")])
def test_a_missing_constant_is_named(table: str, key: str) -> None:
    design = load_design("zcu102")
    with pytest.raises(InputError, match=f"{table}: has no entry '{key}'; add it"):
        energy(without(design, table, key), STEP, resources(design))

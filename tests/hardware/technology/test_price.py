"""Interfaces to memories take area, joules and dollars, so that no channel is free."""

import re

import pytest
from tiny import resources

from carsim.cost.energy import energy
from carsim.cost.fit import FitReport, check_fit
from carsim.design import Design, load_design, override
from carsim.design.load import shipped_presets
from carsim.hardware.memory import STANDARDS
from carsim.hardware.technology.price import BOARDS, Price, die_usd, total
from carsim.metrics import figures
from carsim.report.screen import facts
from carsim.report.stored import stored
from carsim.runs.pipeline import run
from carsim.workload.activity import Activity
from carsim.workload.geometry import Video

VIDEO = Video(n_frames=8, tokens_per_frame=256, prompt_tokens=62)
ASIC = load_design("asic_28nm", ["board.preset=asic_7nm", "energy.preset=asic_7nm"])


def with_memory(standard: str, channels: int, bits: int, gib: float) -> Design:
    changes = {"standard": standard, "channels": channels, "channel_bits": bits}
    changes |= {"capacity_gib": gib}
    return override(ASIC, {f"board.memories.lpddr.{key}": value for key, value in changes.items()})


def fit_of(design: Design) -> tuple[FitReport, Price]:
    report = check_fit(design, VIDEO)
    price = total(report.prices)
    assert price is not None
    return report, price


@pytest.mark.parametrize(
    ("standard", "channels", "bits", "gib", "mm2", "usd"),
    [
        # 16 bits: half of 1.45 of PHY and 0.94 of controller; at least 1 GiB a package of 32 bits.
        ("LPDDR5X-8533", 4, 16, 8.0, 2 * (1.45 + 0.94), 20.0),
        ("LPDDR5X-8533", 32, 16, 8.0, 16 * (1.45 + 0.94), 40.0),
        # A stack has one PHY, used in full or not, and a controller for each channel.
        ("HBM3-6400", 1, 32, 8.0, 10.45 + 5.74 / 32, 240.0),
        ("HBM3-6400", 32, 32, 8.0, 10.45 + 5.74, 240.0),
        ("HBM3-6400", 128, 32, 8.0, 4 * (10.45 + 5.74), 960.0),
    ],
)
def test_channels_take_area_and_packages(standard, channels, bits, gib, mm2, usd):
    report, _ = fit_of(with_memory(standard, channels, bits, gib))
    assert report.resources.by_component["interface lpddr"]["area_mm2"] == pytest.approx(mm2)
    assert {each.part: each.value for each in report.prices}["memory lpddr"] == usd


def test_more_channels_cost_more_of_everything() -> None:
    second = Activity(10**9, 0, 0, 0, {"lpddr": 10**9})
    before = (0.0, 0.0, 0.0)
    for channels in (1, 2, 32, 33, 64, 128):
        design = with_memory("HBM3-6400", channels, 32, 8.0)
        report, price = fit_of(design)
        watts = energy(design, second, resources(design)).board.value_j
        (low, high), found = report.intervals["area_mm2"], report.counts["area_mm2"].used
        assert low < found < high
        assert price.low < price.value < price.high
        assert all(
            now > then for now, then in zip((found, price.value, watts), before, strict=True)
        )
        before = found, price.value, watts


def test_a_die_costs_what_chiplet_actuary_says() -> None:
    """7 nm, 9,346 USD a wafer, 0.09 defects per cm2: 800 mm2 are 58.8 dies, 49.9 % of them good."""
    assert die_usd(800.0, "7nm", "value") == pytest.approx(9346 / 58.8 / 0.499, rel=0.01)
    assert die_usd(10.0, "28nm", "value") < die_usd(10.0, "7nm", "value") < 2


def test_every_standard_and_every_board_has_a_price() -> None:
    assert all(family.interface for family in STANDARDS.families.values())
    designs = {name: load_design("zcu102", [f"board.preset={name}"]) for name in BOARD_PRESETS}
    for name, design in designs.items():
        _, price = fit_of(design)
        assert 0 < price.low <= price.value <= price.high, name
    assert {design.board.name for design in designs.values()} == {*BOARDS}


BOARD_PRESETS = [name for name in shipped_presets()["board"] if not name.startswith("asic")]


def test_a_board_with_more_memory_than_it_comes_with_has_no_price() -> None:
    more = load_design("u280", ["board.memories.hbm.channels=64"])
    assert check_fit(more, VIDEO).prices == ()
    own = {"value": 9000.0, "low": 8000.0, "high": 9500.0, "source": "our own purchase"}
    own |= {"date": "2026-11", "memory_gbps": 1000.0, "memory_gib": 40.0}
    (price,) = check_fit(override(more, {"board.price": own}), VIDEO).prices
    assert price == Price("board", 9000.0, 8000.0, 9500.0)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("asic_7nm_hbm3", r".* full; ([\d.]+) \([\d.]+ to [\d.]+\) USD of parts"),
        ("zcu102", r".* full; (3,200) \(2,500 to 3,300\) USD in a shop"),
    ],
)
def test_a_run_prints_the_price_with_its_interval(name: str, line: str) -> None:
    report = run(name, workload="video:1", what_if=False)
    found = re.fullmatch(line, dict(facts(stored(report)))["fits"])
    assert found is not None
    assert float(found[1].replace(",", "")) == pytest.approx(
        figures(report.chosen, report)["cost_usd"], rel=1e-3
    )

"""Designs of FlightVGM and Diff-DiT: fit, cycles by hand, and ratios to GPUs."""

from pathlib import Path

import pytest

from carsim import load_design, run
from carsim.cost.fit import check_fit
from carsim.design import override
from carsim.design.load import for_work
from carsim.program.sample import forward_macs
from carsim.validate.accelerators import (
    CARD_W,
    DIFFERENTIAL,
    EXTENDED,
    SPARSE_WORK,
    V100,
    V100_FP32,
    accelerator_group,
    accelerator_notes,
    diff_dit,
    flightvgm,
    floating_share,
    published,
)
from carsim.validate.forward_times import gpu_design
from carsim.validate.preset_counts import preset_model
from carsim.workload.geometry import Video
from carsim.workload.workload import workload_of

BLOCKS = 28
CLOCK_HZ = 300e6


def slices_of(name: str) -> dict[str, float]:
    """DSP58 slices of a design by component."""
    design = load_design(name)
    by_component = design.board.technology.resources(design).by_component
    return {component: amounts.get("dsp", 0) for component, amounts in by_component.items()}


@pytest.mark.parametrize(
    ("name", "arrays", "lanes"),
    [
        ("diff_dit_v80", 43 * 128, 128),  # 128 rows are 43 slices of three products
        ("flightvgm_v80", 16 * 16 * 36, 16 * 12),
    ],
)
def test_resources_fit_the_board(name: str, arrays: int, lanes: int) -> None:
    fit = check_fit(load_design(name), Video(1, 1, 0))
    assert fit.fits
    slices = slices_of(name)
    assert slices["arrays"] == arrays
    assert slices["vector units"] == 7 * lanes
    assert fit.counts["dsp"].used == arrays + 7 * lanes
    assert fit.counts["dsp"].available == 10_848


def test_products_of_diff_dit_are_those_of_its_slices() -> None:
    design = load_design("diff_dit_v80")
    slices = 32 * 16 * 16
    assert slices <= 10_848
    assert design.machine.macs_per_cycle == 2 * slices
    assert override(design, DIFFERENTIAL).machine.macs_per_cycle == 6 * slices


def test_cycles_of_a_layer_of_diff_dit_by_hand() -> None:
    row = run(load_design("diff_dit_v80"), what_if=False).chosen
    # Tiles of 128 tokens and 128 outputs, each as long as the inputs: 512 tokens are 4 of them.
    by_hand = {
        "qkv": 4 * 27 * 1152,
        "output": 4 * 9 * 1152,
        "mlp": 4 * 36 * 1152 + 4 * 9 * 4608,
        # Of 16 heads: 256 keys are 2 tiles; sums of 72 outputs are one.
        "attention": 16 * (4 * 2 * 72 + 4 * 256),
        "modulation": 54 * 1152,
    }
    for phase, cycles in by_hand.items():
        seconds = 250 * BLOCKS * cycles / CLOCK_HZ
        assert row.seconds_by_phase[phase] == pytest.approx(seconds, rel=0.03), phase


def test_modulation_of_diff_dit_is_longer_than_the_products_of_a_differential_step() -> None:
    modulation = 2 * 1152 * 6 * 1152 / 64  # on the 64 multipliers of its own unit
    full = sum((4 * 27 * 1152, 4 * 9 * 1152, 4 * 36 * 1152, 4 * 9 * 4608))
    differential = sum((2 * 18 * 1152, 2 * 6 * 1152, 2 * 24 * 1152, 2 * 6 * 4608))
    assert full == 3 * differential
    assert differential < modulation < full


def test_tokens_that_reuse_leave_the_published_operations() -> None:
    design = for_work(load_design("flightvgm_v80"), workload_of(SPARSE_WORK))
    report = run(design, workload=SPARSE_WORK, what_if=False)
    dense, own = (
        sum(total.macs for total in row.simulation.totals.values())
        for row in (report.rows[0], report.chosen)
    )
    assert dense / own == pytest.approx(published("FlightVGM", "less computation"), rel=0.01)


def test_the_extension_has_four_products_in_the_same_slices() -> None:
    design = load_design("flightvgm_v80")
    extended = override(design, EXTENDED)
    slices = slices_of("flightvgm_v80")["arrays"]
    assert design.machine.macs_per_cycle == 3 * slices
    assert extended.machine.macs_per_cycle == 4 * slices
    attention = extended.machine.cores * extended.machine.attention_array.macs_per_cycle
    assert attention == 2 * slices


def test_share_of_floating_point_by_hand() -> None:
    model = preset_model("open_sora1.2_1.1b")
    tokens = 15 * 30 * 54
    scores = 28 * 2 * tokens * (30 * 54 + 15) * 1152
    crossed = 56 * 2 * tokens * 300 * 1152
    share = (scores + crossed) / sum(forward_macs(model).values())
    assert floating_share(model) == pytest.approx(share)
    assert share == pytest.approx(0.12, abs=0.003)


def test_machines_of_a_v100_have_the_products_of_its_data_sheet() -> None:
    for gpu in (V100, V100_FP32):
        design = gpu_design(gpu.machine, preset_model("dit_xl2"))
        flop = 2e6 * design.machine.macs_per_cycle * design.board.fabric_clock_mhz
        assert flop == pytest.approx(1e12 * gpu.peak_tflops, rel=0.01)


def test_ratios_stand_beside_those_of_operations_over_peak() -> None:
    rows = {row.what: row for row in accelerator_group().rows}
    assert len(rows) == 7
    row = rows["Diff-DiT, differential steps, over a V100 in FP32: speed-up"]
    flop = 2 * 250 * 2 * sum(forward_macs(preset_model("dit_xl2")).values())
    peak_s = flop / (2 * 49_152 * CLOCK_HZ)
    assert row.rival == pytest.approx((flop / 15.7e12) / peak_s, rel=1e-6)
    assert row.reference == 1.39
    power = rows["FlightVGM: power of an RTX 3090 over its own"]
    assert power.reference == pytest.approx(4.49 / 1.3)
    assert power.rival == pytest.approx(350 / CARD_W)
    assert power.ours == pytest.approx(350 / flightvgm(extended=False).power_w)
    # Products take a third of the time, modulation two thirds, and softmax half.
    assert diff_dit(differential=True).seconds < 0.42 * diff_dit(differential=False).seconds
    assert len(list(accelerator_notes())) == 2


def test_the_page_on_validation_has_these_ratios() -> None:
    root = Path(__file__).resolve().parents[2]
    page = (root / "docs/reference/validation.md").read_text(encoding="utf-8")
    for row in accelerator_group().rows:
        assert row.rival is not None
        figures = f"{row.reference:.2f} | {row.ours:.2f} | {row.rival:.2f}"
        assert f"| {row.what} | {figures} |" in page

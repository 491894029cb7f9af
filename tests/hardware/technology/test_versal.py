"""Versal: slices and tiles by arithmetic, where arrays stand, and what that draws."""

import pytest
from tiny import resources

from carsim.base.errors import InputError
from carsim.cost.energy import energy
from carsim.cost.fit import check_fit
from carsim.design import load_design, override
from carsim.hardware.machine import Array
from carsim.hardware.technology.fpga import array_dsp
from carsim.hardware.technology.versal import ai_engines_of, array_dsp58
from carsim.workload.activity import Activity
from carsim.workload.geometry import Video

VIDEO = Video(n_frames=8, tokens_per_frame=256, prompt_tokens=62)
VCK190 = load_design("vck190")


@pytest.mark.parametrize("kind", ["int4", "int4x8", "int8", "int16", "fp16"])
def test_a_dsp58_does_no_less_than_the_slice_before_it(kind: str) -> None:
    array = Array.model_validate({"rows": 48, "cols": 32, "arithmetic": kind})
    assert array_dsp58(array) <= array_dsp(array)


@pytest.mark.parametrize(("kind", "tiles"), [("int4", 26), ("int8", 26), ("int16", 52)])
def test_tiles_by_hand(kind: str, tiles: int) -> None:
    """1024 products a cycle of 250 MHz; 8 bytes of weights a cycle of 1250 MHz: 25.6, or twice."""
    array = Array.model_validate({"rows": 32, "cols": 32, "arithmetic": kind})
    assert ai_engines_of(array, 250.0, 1250.0) == tiles


def test_arrays_stand_in_slices_or_in_tiles_and_in_one_of_them_alone() -> None:
    assert resources(VCK190).by_component["arrays"] == {"dsp": 0, "lut": 0, "ai_engines": 4 * 26}
    slices = resources(override(VCK190, {"board.technology.arrays_in": "dsp58"}))
    assert slices.totals["ai_engines"] == 0
    assert slices.by_component["arrays"]["dsp"] == 4 * 11 * 32
    assert slices.by_component["arrays"]["lut"] > 0


def test_too_large_an_array_misses_tiles() -> None:
    report = check_fit(override(VCK190, {"machine.cores": 16}), VIDEO)
    assert "AI Engines: 416 AIE needed (arrays 416), 400 AIE available, 16 AIE missing" in (
        report.misfits
    )


def test_tiles_in_use_draw_their_clock() -> None:
    """104 tiles x 16 uW x 1250 MHz are 2.08 W."""
    second = Activity(round(VCK190.board.fabric_clock_mhz * 1e6), 0, 0, 0, {})
    parts = {p.component: p.value_j for p in energy(VCK190, second, resources(VCK190)).components}
    assert parts["clocked AI Engines"] == pytest.approx(2.08)


def test_a_device_without_tiles_takes_no_arrays_in_them() -> None:
    with pytest.raises(InputError, match=r"arrays_in: 'ai_engines' on a device that has none; wri"):
        load_design("u280", ["board.preset=v80", "board.technology.arrays_in=ai_engines"])

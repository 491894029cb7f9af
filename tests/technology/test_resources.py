"""Resources: DSP by precision, RAM by width, LUTs against published designs, plausible clock."""

import csv
from pathlib import Path

import pytest

from carsim.design import Array, Drs, load_design, override
from carsim.technology.logic import Logic, array_dsp, dsp_by_component, lut_by_component
from carsim.technology.onchip_ram import Buffer, place
from carsim.technology.resources import Resources, drs_register_bits, plausible_clock_mhz, resources

PUBLISHED = Path(__file__).parents[1] / "data" / "published_fpga.csv"


def published() -> list[dict[str, str]]:
    with PUBLISHED.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def logic_of(row: dict[str, str]) -> Logic:
    array = {
        "rows": int(row["rows"]),
        "cols": int(row["cols"]),
        "arithmetic": row["arithmetic"],
    }
    return Logic(
        array=Array.model_validate(array),
        lanes=int(row["lanes"]),
        cores=int(row["cores"]),
        port_bits=int(row["port_bits"]),
        ram_blocks=int(row["ram_blocks"]),
        dequantised=row["dequantised"] == "yes",
    )


def relative_errors(kind: str, used_for: set[str]) -> dict[str, float]:
    model = {"lut": lut_by_component, "dsp": dsp_by_component}[kind]
    return {
        row["design"]: sum(model(logic_of(row)).values()) / float(row[kind]) - 1
        for row in published()
        if row["used_for"] in used_for and row[kind]
    }


def test_lut_calibration_error_is_what_the_docstring_says() -> None:
    errors = relative_errors("lut", {"calibration"})
    assert len(errors) == 8
    sizes = [abs(error) for error in errors.values()]
    assert sum(sizes) / len(sizes) == pytest.approx(0.11, abs=0.005)
    assert max(sizes) == pytest.approx(0.23, abs=0.005)


def test_held_out_designs_take_far_more_luts_than_the_model_says() -> None:
    errors = relative_errors("lut", {"held out"})
    assert errors["LlamaF"] == pytest.approx(-0.74, abs=0.005)
    assert errors["apex unified engine"] == pytest.approx(-0.49, abs=0.005)


def test_dsp_calibration_error_is_what_the_docstring_says() -> None:
    errors = relative_errors("dsp", {"calibration", "held out"})
    assert len(errors) == 6
    sizes = [abs(error) for error in errors.values()]
    assert sum(sizes) / len(sizes) == pytest.approx(0.10, abs=0.005)
    assert max(errors.values()) == pytest.approx(0.42, abs=0.005)


@pytest.mark.parametrize(
    ("arithmetic", "dsp"), [("int4", 256), ("int8", 512), ("int16", 1024), ("fp16", 3072)]
)
def test_dsp_of_a_32_by_32_array_by_precision(arithmetic: str, dsp: int) -> None:
    # 1024 MACs: 4 per slice, 2 per slice, 1 per slice, 3 slices each.
    array = Array.model_validate({"rows": 32, "cols": 32, "arithmetic": arithmetic})
    assert array_dsp(array) == dsp


def test_int8_products_need_a_neighbouring_column_to_share_a_slice() -> None:
    assert array_dsp(Array(rows=64, cols=1, arithmetic="int8")) == 64
    assert array_dsp(Array(rows=32, cols=2, arithmetic="int8")) == 32


def test_ram_is_paid_by_width_before_it_is_paid_by_bytes() -> None:
    # 1064 bits are 14.8 times 72: 15 blocks of 512 words hold up to 69,120 B.
    assert Buffer("narrow", 1024, 72, 1).bram36 == 1
    assert Buffer("wide and all but empty", 1024, 1064, 1).bram36 == 15
    assert Buffer("wide and full", 68_096, 1064, 1).bram36 == 15
    assert Buffer("one word more", 68_096 + 133, 1064, 1).bram36 == 30
    # Deep and narrow: 4096 x 9 holds 4096 bytes in one block.
    assert Buffer("deep", 4096, 8, 1).bram36 == 1


def test_ram_of_the_zcu102_weight_buffer_by_hand() -> None:
    # 16 x 16 weights of 4 + 20/128 bits = 1064 bits; 256 KiB of them are 1972 words;
    # 15 blocks wide and 4 deep, in each of two cores.
    design = load_design("zcu102")
    used = resources(design).by_component["weight buffers"]
    assert (used.bram36, used.uram) == (2 * 15 * 4, 0)


def test_an_array_loaded_row_by_row_needs_a_narrower_weight_buffer() -> None:
    design = load_design("zcu102")
    by_rows = override(design, {"machine.array.weight_load": "rows"})
    assert (
        resources(by_rows).by_component["KV buffers"].bram36
        < resources(design).by_component["KV buffers"].bram36
    )


def test_buffers_go_to_the_ram_of_which_they_take_the_smaller_share() -> None:
    deep = Buffer("deep", 144 * 1024, 288, 1)
    assert (deep.bram36, deep.uram) == (32, 4)
    assert place([deep], bram36=144, uram=64) == [(0, 4)]
    assert place([deep], bram36=144, uram=0) == [(32, 0)]
    assert place([deep, deep], bram36=144, uram=4) == [(32, 0), (32, 0)]


def test_without_room_for_a_buffer_the_overflow_is_reported_not_hidden() -> None:
    wide = Buffer("wide", 1024, 7200, 3)
    assert place([wide], bram36=144, uram=0) == [(300, 0)]


def test_totals_are_the_sum_of_components() -> None:
    used = resources(load_design("u280"))
    for kind in ("dsp", "bram36", "uram", "lut"):
        parts = [getattr(part, kind) for part in used.by_component.values()]
        assert getattr(used, kind) == sum(parts) > 0


def test_dsp_of_the_zcu102_design_by_hand() -> None:
    # 2 x 256 int16 MACs, 2 x 16 vector lanes of 7, 2 x 16 columns with a dequantiser.
    assert resources(load_design("zcu102")).dsp == 512 + 224 + 32


def test_drs_registers_are_one_index_register_and_a_mapping_register_per_sequence() -> None:
    # FastCar section 5: 32 bits, and 32 registers of log2(cores) bits.
    assert drs_register_bits(Drs(), cores=1) == 32
    assert drs_register_bits(Drs(), cores=2) == 32 + 32
    assert drs_register_bits(Drs(), cores=8) == 32 + 32 * 3


@pytest.mark.parametrize(
    ("lut_share", "clock_mhz"), [(0.36, 333.0), (0.67, 300.0), (0.70, 300.0), (0.71, 225.0)]
)
def test_plausible_clock_falls_with_occupancy(lut_share: float, clock_mhz: float) -> None:
    board = load_design("kv260").board
    used = Resources(dsp=0, bram36=0, uram=0, lut=int(lut_share * board.lut), by_component={})
    assert plausible_clock_mhz(used, board) == clock_mhz

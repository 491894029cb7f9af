"""FPGA: DSP by precision, RAM by width, LUTs against published designs, plausible clock."""

import csv
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import small_design
from tiny import resources

from carsim.design import load_design, override
from carsim.hardware.machine import Array
from carsim.hardware.technology.base import Resources
from carsim.hardware.technology.fpga import Fpga, Logic, _buffers, array_dsp, logic_by_component
from carsim.hardware.technology.ram import Buffer, place

PUBLISHED = Path(__file__).parents[2] / "data" / "published_fpga.csv"
ZCU102 = load_design("zcu102")


def errors_of(kind: str, *used_for: str) -> dict[str, float]:
    """Relative errors of the published designs that say how much of ``kind`` they take."""
    with PUBLISHED.open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["used_for"] in used_for and row[kind]]
    errors = {}
    for row in rows:
        array = {name: int(row[name]) for name in ("rows", "cols")}
        logic = Logic(
            array=Array.model_validate({**array, "arithmetic": row["arithmetic"]}),
            lanes=int(row["lanes"]),
            cores=int(row["cores"]),
            port_bits=int(row["port_bits"]),
            ram_blocks=int(row["ram_blocks"]),
            dequantised=row["dequantised"] == "yes",
        )
        predicted = sum(part[kind] for part in logic_by_component(logic).values())
        errors[row["design"]] = predicted / float(row[kind]) - 1
    return errors


def test_calibration_errors_are_what_the_docstring_says() -> None:
    luts = [abs(error) for error in errors_of("lut", "calibration").values()]
    assert len(luts) == 8
    assert sum(luts) / len(luts) == pytest.approx(0.11, abs=0.005)
    assert max(luts) == pytest.approx(0.23, abs=0.005)
    held_out = errors_of("lut", "held out")
    assert held_out["LlamaF"] == pytest.approx(-0.74, abs=0.005)
    assert held_out["apex unified engine"] == pytest.approx(-0.49, abs=0.005)
    slices = errors_of("dsp", "calibration", "held out").values()
    assert len(slices) == 6
    assert sum(map(abs, slices)) / 6 == pytest.approx(0.10, abs=0.005)
    assert max(slices) == pytest.approx(0.42, abs=0.005)


@pytest.mark.parametrize(
    ("arithmetic", "rows", "cols", "dsp"),
    [
        # 1024 MACs: 4 per slice, 2 per slice, 1 per slice, 3 slices each.
        *(("int4", 32, 32, 256), ("int8", 32, 32, 512)),
        *(("int16", 32, 32, 1024), ("fp16", 32, 32, 3072)),
        # Products of 8 bits need a neighbouring column to share a slice.
        *(("int8", 64, 1, 64), ("int8", 32, 2, 32)),
    ],
)
def test_dsp_of_an_array_by_precision(arithmetic: str, rows: int, cols: int, dsp: int) -> None:
    array = Array.model_validate({"rows": rows, "cols": cols, "arithmetic": arithmetic})
    assert array_dsp(array) == dsp
    if arithmetic == "int8":  # weights of 4 bits share a slice as those of 8 do
        assert array_dsp(array, operand_bits=4) == array_dsp(array, operand_bits=8) == dsp


@pytest.mark.parametrize(
    ("bits", "words", "rows", "across"),
    [
        # 256 elements a cycle and, for each 128, a scale and a zero point of 16 bits.
        (8, 497, 1, 30),  # 2,112 bits: 30 blocks of 72
        (7, 565, 2, 26),  # 1,856 bits: 53 words begin another row
        (4, 964, 2, 15.5),  # 1,088 bits: 31 blocks of 36, which are 1,024 deep
        (3.7, 1033, 3, 15),  # 1,016 bits: 9 words begin a third row of 512
    ],
)
def test_fewer_bits_may_take_more_blocks_as_words_begin_a_row(bits, words, rows, across):
    design = override(load_design("zcu102"), {"model.kv.bits": bits, "machine.cores": 1})
    (buffer,) = (each for each in _buffers(design) if each.name == "KV buffers")
    assert -(-8 * buffer.nbytes // buffer.width_bits) == words
    assert buffer.bram36 == rows * across


def test_resources_of_the_zcu102_by_hand() -> None:
    used = resources(ZCU102)
    # 2 x 256 int16 MACs, 2 x 16 vector lanes of 7, 2 x 16 columns with a dequantiser.
    assert used.totals["dsp"] == 512 + 224 + 32
    # 16 x 16 weights of 4 + 20/128 bits = 1064 bits; 256 KiB of them are 1972 words;
    # 15 blocks wide and 4 deep, in each of two cores.
    weights = used.by_component["weight buffers"]
    assert (weights["bram36"], weights["uram"]) == (2 * 15 * 4, 0)
    by_rows = resources(override(ZCU102, {"machine.array.weight_load": "rows"}))
    assert by_rows.by_component["KV buffers"]["bram36"] < used.by_component["KV buffers"]["bram36"]


def test_buffers_go_to_the_ram_of_which_they_take_the_smaller_share() -> None:
    deep = Buffer("deep", 144 * 1024, 288, 1)
    assert (deep.bram36, deep.uram) == (32, 4)
    assert place([deep], bram36=144, uram=64) == [(0, 4)]
    assert place([deep], bram36=144, uram=0) == [(32, 0)]
    # Four find 144, 112, 80 and 48 block RAMs; of the 16 that are left, 32 would be too many.
    assert place([deep] * 5, bram36=144, uram=4) == [(32, 0)] * 4 + [(0, 4)]
    # Without room, the overflow is reported, not hidden.
    assert place([Buffer("wide", 1024, 7200, 3)], bram36=144, uram=0) == [(300, 0)]


@pytest.mark.parametrize(
    ("lut_share", "clock_mhz"), [(0.36, 333.0), (0.67, 300.0), (0.70, 300.0), (0.71, 225.0)]
)
def test_plausible_clock_falls_with_occupancy(lut_share: float, clock_mhz: float) -> None:
    kv260 = load_design("kv260")
    used = Resources({"all": {"lut": int(lut_share * (kv260.board.lut or 0))}})
    assert Fpga().published_clock_mhz(kv260, used) == clock_mhz


buffers = st.builds(
    Buffer,
    name=st.just("b"),
    nbytes=st.integers(1, 10**7),
    width_bits=st.integers(1, 20_000),
    copies=st.integers(1, 8),
)


@settings(max_examples=50)
@given(buffers, st.integers(1, 10**6))
def test_ram_holds_the_bytes_and_feeds_the_width(buffer: Buffer, more_bytes: int) -> None:
    for blocks, kibit in ((buffer.bram36, 36), (buffer.uram, 288)):
        assert blocks * kibit * 1024 >= 8 * buffer.nbytes * buffer.copies
        assert blocks * 72 >= buffer.width_bits * buffer.copies
    more = Buffer("b", buffer.nbytes + more_bytes, buffer.width_bits, buffer.copies)
    assert more.bram36 >= buffer.bram36


@settings(max_examples=50)
@given(st.lists(buffers, max_size=5), st.integers(1, 2000), st.integers(0, 1000))
def test_each_buffer_is_placed_whole_in_one_kind(several: list[Buffer], bram36: int, uram: int):
    for buffer, placed in zip(several, place(several, bram36, uram), strict=True):
        assert placed in ((buffer.bram36, 0), (0, buffer.uram))
        assert uram or not placed[1]


def test_one_core_has_nobody_to_exchange_with() -> None:
    one, more = (small_design(cores=1, exchange_bytes_per_cycle=n) for n in (1, 64))
    assert resources(one) == resources(more)

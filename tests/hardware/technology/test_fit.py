"""Fit: what is refused, and that the line says how much is missing."""

import pytest

from carsim.cost.fit import FitRow, activation_bytes_per_token, check_fit, widest_activations
from carsim.design import load_design, override
from carsim.workload.geometry import Video

VILA_U = Video(n_frames=8, tokens_per_frame=256, prompt_tokens=62)
ZCU102, ZCU102_16GB = load_design("zcu102"), load_design("zcu102_16gb")
ROWS_OF_16_BIT = {"weight_load": "rows", "arithmetic": "int16"}
LINEAR = {"model.head": {"kind": "linear", "vocabulary": 128_256}}


@pytest.mark.parametrize(
    ("name", "changes", "line"),
    [
        # 4.2919e9 B of contents in 4 GiB less 192 MiB = 4.0936e9 B.
        (
            "zcu102",
            {"machine.include_head": True},
            "memory ps_ddr: 4.292 GB needed (weights 3.364 GB + KV cache 0.588 GB + replay cache "
            "0.067 GB + head 0.272 GB), 4.094 GB available, 0.198 GB missing",
        ),
        # 2 x 48 x 32 = 3072 for the arrays, 224 for vector units, 64 for dequantisers, of 2520.
        (
            "zcu102",
            {"machine.array": {"rows": 48, "cols": 32, **ROWS_OF_16_BIT}},
            "DSP slices: 3,360 DSP needed (arrays 3,072, published designs took 0.71 to 5.4 times "
            "as much), 2,520 DSP available, 840 DSP missing",
        ),
        # 2 x 4096 + 2 x 11008 elements of 16 bit are 59 KiB; eight rows on four cores twice that.
        (
            "zcu102_16gb",
            {"policy.batch": 8, "machine.activation_buffer_kib": 64},
            "widest activations in the activation buffer: 118.0 KiB needed (2 sequences per core), "
            "64.0 KiB available, 54.0 KiB missing",
        ),
        # 6 layers x 2 x 2560 elements x 4 codes = 122,880 B at 8 bit; two sequences per core.
        (
            "zcu102_16gb",
            {"machine.kv_buffer_kib": 128},
            "the head's keys and values in the KV buffer: 240.0 KiB needed (2 sequences per core), "
            "128.0 KiB available, 112.0 KiB missing",
        ),
    ],
)
def test_a_misfit_says_how_much_is_missing_and_of_what(name, changes, line):
    report = check_fit(override(load_design(name), changes), VILA_U)
    assert not report.fits
    assert report.misfits == (line,)
    assert all(report.cures)


@pytest.mark.parametrize("buffer", ["weight", "kv"])
def test_a_buffer_holds_one_tile_that_is_read_and_one_that_is_filled(buffer: str) -> None:
    design = override(ZCU102, {"machine.tile_kib": 16})
    what = f"two tiles in the {'KV' if buffer == 'kv' else buffer} buffer"
    (row,) = [row for row in check_fit(design, VILA_U).rows if row.what == what]
    assert (row.needed, row.unit) == (32 * 1024, "B")


def test_sequences_left_over_make_the_fullest_core() -> None:
    machine = override(ZCU102, {"machine.cores": 4}).machine
    assert [machine.sequences_per_core(batch) for batch in (1, 4, 5, 8, 9)] == [1, 1, 2, 2, 3]
    assert [machine.sequences_per_core(batch, split=True) for batch in (1, 5)] == [1, 5]


def test_several_misfits_are_all_reported() -> None:
    changes = {"machine.include_head": True, "machine.weight_buffer_kib": 2048}
    report = check_fit(override(ZCU102, changes), VILA_U)
    assert [line.split(":")[0] for line in report.misfits] == ["block RAM", "memory ps_ddr"]
    assert report.counts["bram36"].used > report.counts["bram36"].available


def test_widest_activations_are_those_of_the_mlp() -> None:
    # Residual, block input, gate and up, of one sequence a core; without a gate, up alone.
    widest = widest_activations(ZCU102.model, ZCU102.machine, 2, 2110)
    assert widest == (2 * (2 * 4096 + 2 * 11008), 1)
    plain = override(ZCU102, {"model.body.mlp": "plain", "model.body.ffn_size": 22_016})
    assert widest_activations(plain.model, plain.machine, 2, 2110) == widest


def test_a_token_of_prefill_takes_the_inner_width_of_the_mlp() -> None:
    """59 KiB, where the hidden width alone makes 8."""
    assert activation_bytes_per_token(ZCU102.model, ZCU102.machine) == 2 * (2 * 4096 + 2 * 11008)
    narrow = override(ZCU102, {"model.body.ffn_size": 1024})
    # Residual, block input, Q, K and V, output.
    assert activation_bytes_per_token(narrow.model, narrow.machine) == 2 * 6 * 4096
    split = override(ZCU102_16GB, {"machine.mapping": "tensor"})
    expected = 2 * (1024 + max(4096 + 2 * 2752, 11008 + 1024))
    assert activation_bytes_per_token(split.model, split.machine) == expected


def test_tensor_mapping_works_on_all_sequences_with_a_share_of_the_columns() -> None:
    design = override(ZCU102_16GB, {"machine.mapping": "tensor"})
    # A quarter of the residual, the input, a quarter of gate and up; down reads all 11008 instead.
    expected = 8 * 2 * (1024 + max(4096 + 2 * 2752, 11008 + 1024))
    assert widest_activations(design.model, design.machine, 8, 2110) == (expected, 8)
    # All eight sequences, a quarter of the heads: as much as two whole sequences.
    (row,) = [row for row in check_fit(design, VILA_U).rows if row.what.startswith("the head's")]
    assert row.needed == 8 * 122_880 // 4


def test_by_heads_attention_holds_all_sequences_and_mlps_their_own() -> None:
    """Of 8 sequences on 4 cores, each of 2 bytes an element."""
    design = override(ZCU102_16GB, {"machine.mapping": "heads"})
    # A quarter of the residual, the input, a quarter of Q, K and V, one head's scores, the output.
    expected = 8 * 2 * (1024 + 4096 + 3 * 1024 + 50_000 + 1024)
    assert widest_activations(design.model, design.machine, 8, 50_000) == (expected, 8)
    # Residual, block input, gate and up of one sequence.
    wide = override(design, {"machine.cores": 8, "model.body.ffn_size": 65_536})
    expected = 2 * (2 * 4096 + 2 * 65_536)
    assert widest_activations(wide.model, wide.machine, 8, 1) == (expected, 1)
    rows = {row.what: row for row in check_fit(design, VILA_U).rows}
    head = rows["the head's keys and values in the KV buffer"]
    assert (head.needed, head.detail) == (2 * 122_880, "2 sequences per core")
    assert rows["widest activations in the activation buffer"].detail == "8 sequences per core"


def test_an_implausible_clock_is_a_warning_not_a_misfit() -> None:
    report = check_fit(override(ZCU102, {"board.fabric_clock_mhz": 400.0}), VILA_U)
    assert report.fits
    (warning,) = report.warnings
    assert warning.startswith("clock: 400 MHz is more than the 333 MHz of the fastest comparable ")


def test_a_batch_beyond_the_index_register_runs_in_groups_and_says_so() -> None:
    report = check_fit(override(ZCU102, {"policy.batch": 40}), VILA_U)
    assert any("40 sequences are scheduled in 2 groups" in line for line in report.warnings)
    slots = ZCU102.machine.drs.index_register_bits
    for batch, told in ((slots, False), (slots + 1, True)):
        report = check_fit(override(ZCU102, {"policy.batch": batch}), VILA_U)
        assert any("scheduled in 2 groups" in line for line in report.warnings) == told


@pytest.mark.parametrize(("needed", "ok"), [(99, True), (100, True), (100.5, False)])
def test_exactly_full_fits(needed: float, ok: bool) -> None:
    assert FitRow("x", needed, 100, "mm2").ok is ok


def test_logits_of_a_vocabulary_stream_past_their_best() -> None:
    design = override(load_design("zcu102_16gb"), {**LINEAR, "machine.activation_buffer_kib": 128})
    report = check_fit(design, VILA_U)
    row = next(row for row in report.rows if row.what.startswith("head input and best 64 logits"))
    # 4096 inputs and two blocks of logits of 16 bit, 64 logits of 8 bytes with their token; twice.
    assert row.needed == 2 * ((4096 + 2 * design.machine.array.cols) * 2 + 64 * 8)
    assert report.fits

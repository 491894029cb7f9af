"""Fit: what is refused, and that the line says how much is missing."""

import pytest

from carsim.design import load_design, override
from carsim.technology.fit import (
    FitRow,
    check_fit,
    head_kv_bytes,
    sequences_per_core,
    widest_activations,
)
from carsim.workload.geometry import Video

VILA_U = Video(n_frames=8, tokens_per_frame=256, prompt_tokens=62)


def misfit(changes: dict[str, object], name: str = "zcu102") -> str:
    report = check_fit(override(load_design(name), changes), VILA_U)
    assert not report.fits
    (line,) = report.misfits
    return line


def test_a_head_too_many_on_a_stock_zcu102() -> None:
    # 4.2919e9 B of contents in 4 GiB less 192 MiB = 4.0936e9 B.
    line = misfit({"machine.include_head": True})
    assert line == (
        "memory ps_ddr: 4.292 GB needed (weights 3.364 GB + KV cache 0.588 GB + replay cache "
        "0.067 GB + head 0.272 GB), 4.094 GB available, 0.198 GB missing"
    )


def test_too_many_dsp_slices() -> None:
    # 2 x 48 x 32 = 3072 for the arrays, 224 for vector units, 64 for dequantisers, of 2520.
    changes = {
        "machine.array.rows": 48,
        "machine.array.cols": 32,
        "machine.array.weight_load": "rows",
    }
    line = misfit(changes)
    assert line == (
        "DSP slices: 3,360 DSP needed (arrays 3,072), 2,520 DSP available, 840 DSP missing"
    )


def test_too_many_block_rams() -> None:
    line = misfit({"machine.weight_buffer_kib": 2048})
    assert line.startswith("block RAM: ")
    assert "(weight buffers " in line
    assert line.endswith("BRAM36 missing")


def test_activations_of_all_sequences_of_a_core() -> None:
    # 2 x 4096 + 2 x 11008 elements of 16 bit are 59 KiB; eight rows on four cores need twice that.
    line = misfit({"policy.batch": 8, "machine.activation_buffer_kib": 64}, "zcu102_16gb")
    assert line == (
        "widest activations in the activation buffer: 118.0 KiB needed (2 sequences per core), "
        "64.0 KiB available, 54.0 KiB missing"
    )


def test_head_keys_and_values_stay_in_the_kv_buffer() -> None:
    # 6 layers x 2 x 2560 elements x 4 codes = 122,880 B at 8 bit; two sequences per core.
    design = load_design("zcu102_16gb")
    assert head_kv_bytes(design.model) == 122_880
    line = misfit({"machine.kv_buffer_kib": 128}, "zcu102_16gb")
    assert line == (
        "the head's keys and values in the KV buffer: 240.0 KiB needed (2 sequences per core), "
        "128.0 KiB available, 112.0 KiB missing"
    )


def test_a_linear_head_keeps_nothing_on_chip() -> None:
    design = override(
        load_design("zcu102_16gb"), {"model.head": {"kind": "linear", "vocabulary": 32000}}
    )
    assert head_kv_bytes(design.model) == 0
    # Logits wait beside the body's output: 4096 + 32000 elements.
    assert widest_activations(design.model, design.machine, 4, 2110) == (2 * 36_096, 1)


def test_widest_activations_are_those_of_the_mlp() -> None:
    design = load_design("zcu102")
    # Residual, block input, gate and up, of one sequence a core.
    expected = 2 * (2 * 4096 + 2 * 11008)
    assert widest_activations(design.model, design.machine, 2, 2110) == (expected, 1)


def test_tensor_mapping_works_on_all_sequences_with_a_share_of_the_columns() -> None:
    design = override(load_design("zcu102_16gb"), {"machine.mapping": "tensor"})
    assert sequences_per_core(design.machine, 8, split=True) == 8
    # A quarter of the residual, the input, a quarter of gate and up; down reads all 11008 instead.
    expected = 8 * 2 * (1024 + max(4096 + 2 * 2752, 11008 + 1024))
    assert widest_activations(design.model, design.machine, 8, 2110) == (expected, 8)
    # All eight sequences, a quarter of the heads: as much as two whole sequences.
    report = check_fit(design, VILA_U)
    (row,) = [row for row in report.rows if row.what.startswith("the head's")]
    assert row.needed == 8 * 122_880 // 4


def test_by_heads_attention_holds_all_sequences_and_mlps_their_own() -> None:
    """Of 8 sequences on 4 cores, each of 2 bytes an element."""
    design = override(load_design("zcu102_16gb"), {"machine.mapping": "heads"})
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


def test_several_misfits_are_all_reported() -> None:
    changes = {"machine.include_head": True, "machine.weight_buffer_kib": 2048}
    report = check_fit(override(load_design("zcu102"), changes), VILA_U)
    assert [line.split(":")[0] for line in report.misfits] == ["block RAM", "memory ps_ddr"]


def test_an_implausible_clock_is_a_warning_not_a_misfit() -> None:
    report = check_fit(override(load_design("zcu102"), {"board.fabric_clock_mhz": 400.0}), VILA_U)
    assert report.fits
    (warning,) = report.warnings
    assert warning == (
        "clock: 400 MHz is more than the 333 MHz that published designs of this occupancy reach "
        "(lut 36%)"
    )


def test_a_batch_beyond_the_index_register_runs_in_groups_and_says_so() -> None:
    report = check_fit(override(load_design("zcu102"), {"policy.batch": 40}), Video(8, 256, 62))
    assert any("40 sequences are scheduled in 2 groups" in line for line in report.warnings)


@pytest.mark.parametrize(("needed", "ok"), [(99, True), (100, True), (101, False)])
def test_exactly_full_fits(needed: int, ok: bool) -> None:
    assert FitRow("x", needed, 100, "LUT").ok is ok


def test_a_larger_context_needs_more() -> None:
    design = load_design("zcu102")
    # Every frame adds 256 tokens of 0.28 MB to the 0.074 GB that are free.
    longer = Video(n_frames=10, tokens_per_frame=256, prompt_tokens=62)
    assert check_fit(design, VILA_U).fits
    (line,) = check_fit(design, longer).misfits
    assert line.startswith("memory ps_ddr")

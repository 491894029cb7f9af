"""Sweeps warn of what a run warns of: rows that no batch holds, measured bandwidths."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from commands import call
from explore_study import make_study, write_study
from tiny import write_inputs

from carsim import sweep
from carsim.design import load_design
from carsim.explore.work_notes import work_notes
from carsim.report.target import _on_boards

SIX_ROWS: dict[str, Any] = {
    "guidance_pairs": ((0, 1), (2, 3), (4, 5)),
    "prompt_lengths": (5, 2, 4, 2, 3, 2),
}


def test_rows_left_out_are_told_by_batch(tmp_path) -> None:
    write_inputs(tmp_path, **SIX_ROWS)
    axes = {"policy.batch": [2, 4, 5, 6], "machine.cores": [1, 2]}
    # A batch of 2 or 6 divides the six rows; 5 would split a pair, and is refused.
    assert work_notes(make_study(tmp_path, axes=axes)) == [
        "2 of the 6 rows of the trace are not decoded with batches of 4: the batch does not "
        "divide them."
    ]
    assert work_notes(make_study(tmp_path, axes={"policy.batch": [2, 6]})) == []


def test_a_measured_bandwidth_is_told_once_and_by_value(tmp_path) -> None:
    field = "board.memories.ps_ddr.efficiency_"
    measured = {f"{field}low": 0.46, f"{field}high": 0.47}
    study = make_study(tmp_path, set=measured, axes={"machine.cores": [1, 2, 4]})
    (note,) = work_notes(study)
    assert note.startswith("memory ps_ddr: the measured 0.4600 to 0.4700 of its peak replaces")
    choices = {"slow": measured, "usual": {f"{field}low": None, f"{field}high": None}}
    varied = make_study(tmp_path, axes={"memory": {"choice": choices}})
    assert work_notes(varied) == [note]


def test_the_command_and_python_tell_them(tmp_path, caplog: pytest.LogCaptureFixture) -> None:
    write_inputs(tmp_path, **SIX_ROWS)
    study = write_study(tmp_path, axes={"policy.batch": [4]})
    out = call("sweep", study, "--out", tmp_path / "out", "--workers", "0").out
    told = "2 of the 6 rows of the trace are not decoded with batches of 4"
    assert told in " ".join(out.split())
    out = call("sweep", study, "--out", tmp_path / "out", "--workers", "0", "--json").out
    assert told in str(json.loads(out)["notes"])
    sweep(study, tmp_path / "again", workers=0)
    assert told in caplog.text


def test_a_search_by_target_has_the_factor_of_each_kind_of_board() -> None:
    """An FPGA and a chip have factors of different populations."""
    machines = [
        SimpleNamespace(preset=preset, design=load_design(design))
        for preset, design in (("kv260", "kv260"), ("asic_7nm_hbm3", "asic_7nm_hbm3"))
    ]
    answer: Any = SimpleNamespace(machines=[*machines, machines[0]])
    fpga, chip = _on_boards(answer)
    assert "published FPGA systems" in fpga
    assert "(kv260)" in fpga
    assert "systems of all kinds" in chip
    assert "(asic_7nm_hbm3)" in chip
    alone: Any = SimpleNamespace(machines=machines[:1])
    (only,) = _on_boards(alone)
    assert "(kv260)" not in only

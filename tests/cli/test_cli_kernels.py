"""``carsim calibrate --kernels``: times by block and rows, and how well dense points tell them."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from carsim.base.errors import InputError
from carsim.cli import carsim
from carsim.design import load_design
from carsim.design.load import override
from carsim.runs.calibrate import MeasuredPoints, measured_points
from carsim.runs.decode import decode
from carsim.runs.kernel_times import (
    BlockTime,
    kernels_of_batches,
    kernels_of_blocks,
    line_of,
    read_blocks,
)
from carsim.validate.replay import shipped_rows

TINY = shipped_rows() / "tiny"
HOST = str(TINY / "host.yaml")
HEADER = "block,workers,rows,us,low,high"
BLOCKS = [
    *(f"attention,1,{rows},{10 * rows},{9 * rows},{11 * rows}" for rows in (1, 2, 4)),
    *(f"mlp,1,{rows},{20 + 5 * rows},{19 + 5 * rows},{21 + 5 * rows}" for rows in (1, 2, 4)),
    "gather,1,1,2,2,2",
    "replay,1,1,1,1,1",
]


def table(folder: Path, *lines: str) -> Path:
    file = folder / "blocks.csv"
    file.write_text("\n".join([HEADER, *lines]), encoding="utf-8")
    return file


def points(folder: Path, *rows: str) -> MeasuredPoints:
    file = folder / "dense.csv"
    file.write_text("\n".join(["tokens_per_s,workload,set", *rows]), encoding="utf-8")
    return measured_points(HOST, [str(file)])


def dense_point(folder: Path) -> MeasuredPoints:
    return points(folder, "2500,text:32+13,policy.batch=1")


def test_a_design_with_the_table_takes_the_measured_times(tmp_path: Path) -> None:
    measured = dense_point(tmp_path)
    found = kernels_of_blocks(table(tmp_path, *BLOCKS), measured.points)
    section = found.overheads(measured.points, "mine").model_dump()
    for batch, layer_us in {1: 10 + 25, 2: 20 + 30, 3: 30 + 35, 4: 40 + 40}.items():
        design = override(load_design(HOST), {"machine.overheads": section, "policy.batch": batch})
        # Three rows were not measured: both blocks are lines, and so is what lies between.
        taken_us = 1e6 * decode(design, 33, 45).seconds_per_step
        assert taken_us == pytest.approx(4 * layer_us, rel=2e-3)
    assert {entry.block for entry in found.kernels} == {
        "qkv", "attention", "output", "mlp", "gather", "replay",
    }  # fmt: skip
    assert not found.notes
    assert "gathering" in kernels_of_blocks(table(tmp_path, *BLOCKS[:-2]), measured.points).notes[0]


def test_gaps_are_filled_by_a_line_if_it_predicts_better(tmp_path: Path) -> None:
    jagged = {1: 10.0, 2: 30.0, 4: 20.0, 8: 40.0}
    lines = [f"mlp,1,{rows},{us},{us},{us}" for rows, us in jagged.items()]
    complete = [f"mlp,1,{rows},{us},{us},{us}" for rows, us in enumerate((10, 30, 20, 40), 1)]
    measured = dense_point(tmp_path).points

    def mlp_of(rows: list[str]) -> dict[int, float]:
        found = kernels_of_blocks(table(tmp_path, BLOCKS[0], *rows), measured)
        return {entry.rows: entry.us for entry in found.kernels if entry.block == "mlp"}

    assert mlp_of(complete) == {1: 10, 2: 30, 3: 20, 4: 40}
    assert set(mlp_of(lines)) in ({1, 8}, {1, 2, 4, 8})


def test_the_line_of_a_block_says_how_well_it_predicts() -> None:
    exact = {rows: BlockTime(5.0 + 2 * rows, 5.0 + 2 * rows, 5.0 + 2 * rows) for rows in (1, 2, 4)}
    line = line_of("mlp", 1, exact)
    assert (line.constant_us, line.row_us) == (pytest.approx(5), pytest.approx(2))
    assert line.error == pytest.approx(0, abs=1e-9)
    assert line.low_us == pytest.approx(7)
    wide = {
        rows: BlockTime(taken.us, 0.9 * taken.us, 1.1 * taken.us) for rows, taken in exact.items()
    }
    assert line_of("mlp", 1, wide).high_us == pytest.approx(7.7)
    falling = {1: BlockTime(9.0, 9.0, 9.0), 2: BlockTime(5.0, 5.0, 5.0)}
    assert line_of("mlp", 1, falling).row_us == 0


def made_up(batch: int, ffn_size: int, costs: tuple[float, float, float]) -> str:
    """A dense point of a machine with these costs of a product, a byte, and a weight and row."""
    changes = f"policy.batch={batch} model.body.ffn_size={ffn_size}"
    design = load_design(HOST, changes.split())
    body = design.model.body
    weights = body.weights / body.n_layers
    launch, byte, product = costs
    layer_us = launch * 7 + byte * 4 * weights + product * batch * weights
    return f"{1e6 * batch / (layer_us * body.n_layers)},text:32+13,{changes}"


COSTS = (5.0, 1e-3, 5e-4)


def test_widths_tell_launches_from_bytes(tmp_path: Path) -> None:
    rows = [made_up(batch, ffn, COSTS) for batch in (1, 2, 4) for ffn in (172, 688)]
    found = kernels_of_batches(points(tmp_path, *rows).points)
    assert not found.notes
    (mlp,) = [line for line in found.lines if line.block == "mlp"]
    weights = 3 * 64 * 172
    # Keys and values are taken off the measured times, which this made-up board does not have.
    assert mlp.constant_us == pytest.approx(5 * 3 + 1e-3 * 4 * weights, rel=0.02)
    assert mlp.row_us == pytest.approx(5e-4 * weights, rel=0.05)
    assert mlp.low_us == mlp.high_us


def test_one_width_leaves_an_interval_that_covers(tmp_path: Path) -> None:
    rows = [made_up(batch, 172, COSTS) for batch in (1, 2, 4, 8)]
    measured = points(tmp_path, *rows)
    found = kernels_of_batches(measured.points)
    assert "cannot tell launches from bytes" in found.notes[0]
    (mlp,) = [line for line in found.lines if line.block == "mlp"]
    weights = 3 * 64 * 172
    true_us = 5 * 3 + 1e-3 * 4 * weights + 5e-4 * weights
    assert mlp.low_us < true_us < mlp.high_us
    assert found.log_sd > 0.05  # what it does not know widens the interval of the design
    with pytest.raises(InputError, match="2 different"):
        kernels_of_batches(points(tmp_path, *rows[:2]).points)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (BLOCKS[3:6], "attention and mlp"),
        (["head,1,1,2,2,2"], "block is 'head'"),
        (["mlp,1,one,2,2,2"], "no number"),
        (["mlp,1,1,-2,2,2"], "above 0"),
        (["mlp,1,1,2"], "cells"),
    ],
)
def test_tables_of_something_else_are_refused(tmp_path: Path, lines: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_blocks(table(tmp_path, *lines))


def test_the_command_prints_lines_and_writes_a_section(tmp_path: Path) -> None:
    out = tmp_path / "kernels.yaml"
    said = ["calibrate", HOST, "--measured", str(TINY / "dense.csv")]
    blocks = ["--kernels", str(TINY / "blocks.csv")]
    shown = CliRunner().invoke(carsim, [*said, *blocks, "--out", str(out)])
    assert shown.exit_code == 0, shown.output
    assert "constant" in shown.output
    design = load_design(HOST, [f"machine.overheads.from={out}"])
    assert design.machine.overheads.kernels
    found = CliRunner().invoke(carsim, [*said, "--kernels", "batches", "--json"])
    document = json.loads(found.stdout)
    assert {line["block"] for line in document["lines"]} == {"qkv", "output", "mlp"}
    absent = CliRunner().invoke(carsim, [*said, "--kernels", str(tmp_path / "absent.csv")])
    assert isinstance(absent.exception, InputError)
    shutil.copy(TINY / "dense.csv", tmp_path / "wrong.csv")
    wrong = CliRunner().invoke(carsim, [*said, "--kernels", str(tmp_path / "wrong.csv")])
    assert "give block, workers, rows" in str(wrong.exception)

"""A memory family from outside the package, on FPGA and chip.

The family is the whole file of docs/reference/plugins.md.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from commands import call
from readme import NAMED_FILE, ROOT, blocks

PLUGIN = "gddr7.py"
STANDARD = "GDDR7-28000"
TWO_PACKAGES = {"channels": 8, "channel_bits": 8, "capacity_gib": 8.0}


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """The file that the page shows."""
    page = (ROOT / "docs/reference/plugins.md").read_text(encoding="utf-8")
    (text,) = (
        block.body
        for block in blocks(page)
        if block.language == "python" and block.body.startswith(f"# {PLUGIN}\n")
    )
    assert NAMED_FILE.match(text)
    file = tmp_path / PLUGIN
    file.write_text(text, encoding="utf-8")
    return file


def with_memory(memory: str) -> dict[str, Any]:
    """Changes of a design that put two packages of GDDR7 in place of one of its memories."""
    fields = {"standard": STANDARD, **TWO_PACKAGES}
    return {f"board.memories.{memory}.{field}": value for field, value in fields.items()}


def set_options(changes: dict[str, Any]) -> list[str]:
    return [word for path, value in changes.items() for word in ("--set", f"{path}={value}")]


def first_policy(design: str, memory: str, plugin: Path) -> dict[str, Any]:
    """The first row of ``carsim run --json``."""
    command = ("run", design, "--workload", "video:1", "--json", "--plugin", str(plugin))
    done = call(*command, *set_options(with_memory(memory)))
    assert done.status == 0, done.err
    row: dict[str, Any] = json.loads(done.out)["policies"][0]
    return row


def test_it_runs_on_a_chip_with_area_price_and_energy(plugin: Path) -> None:
    row = first_policy("asic_7nm_lpddr5x", "lpddr", plugin)
    energy = row["energy_parts_per_video_j"]
    assert energy["memory lpddr"]["constant"] == "dram_pj_per_bit.GDDR7"
    assert energy["interface lpddr"]["constant"] == "interface_pj_per_bit.GDDR7"
    assert energy["standby lpddr"]["constant"] == "dram_background_w_per_gib.GDDR7"
    bits = 8e9 * row["memory_gb_per_video_by_memory"]["lpddr"]
    assert energy["memory lpddr"]["value"] == pytest.approx(4.5e-12 * bits)
    assert energy["interface lpddr"]["value"] == pytest.approx(3.3e-12 * bits)


def test_it_runs_on_an_fpga_with_energy(plugin: Path) -> None:
    row = first_policy("u280", "hbm", plugin)
    energy = row["energy_parts_per_video_j"]
    bits = 8e9 * row["memory_gb_per_video_by_memory"]["hbm"]
    assert energy["memory hbm"]["value"] == pytest.approx(4.5e-12 * bits)
    assert "interface hbm" not in energy


def test_a_sweep_compares_it_with_another_memory_in_area_price_and_speed(
    plugin: Path, tmp_path: Path
) -> None:
    """On a chip, 8 channels of 28 GB/s take the place of 16 channels of 17 GB/s."""
    study = {
        "name": "memories",
        "design": "asic_7nm_lpddr5x",
        "workload": "video:1",
        "axes": {"memory": {"choice": {"LPDDR5X": {}, "GDDR7": with_memory("lpddr")}}},
    }
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study, sort_keys=False), encoding="utf-8")
    out = tmp_path / "out"
    command = ("sweep", tmp_path / "study.yaml", "--out", out, "--workers", "2")
    done = call(*command, "--plugin", plugin)
    assert done.status == 0, done.err
    points = pd.read_csv(out / "points.csv").set_index("memory")
    gddr7, lpddr5x = points.loc["GDDR7"], points.loc["LPDDR5X"]
    # PHYs of 3 mm2 a package at any node, controllers of 0.94 mm2 at 7 nm, and two packages.
    assert gddr7.area_mm2 - lpddr5x.area_mm2 == pytest.approx(2 * 3.94 - 8 * (1.45 + 0.94))
    assert gddr7.cost_usd > 0
    assert gddr7.ms_per_token != lpddr5x.ms_per_token


def test_config_lists_and_resolves_it(plugin: Path, tmp_path: Path) -> None:
    listed = call("config", "list", "--presets", "--json", "--plugin", plugin)
    assert json.loads(listed.out)["standard"][STANDARD] == "8 bits, 28.0 GB/s a channel"
    command = ("config", "show", "asic_7nm_lpddr5x", "--plugin", plugin)
    shown = call(*command, *set_options(with_memory("lpddr")))
    assert shown.status == 0, shown.err
    file = tmp_path / "mine.yaml"
    file.write_text(shown.out, encoding="utf-8")
    assert yaml.safe_load(shown.out)["board"]["memories"]["lpddr"]["standard"] == STANDARD
    again = call("run", file, "--workload", "video:1", "--plugin", plugin)
    assert again.status == 0, again.err
    without = call("run", file, "--workload", "video:1")
    assert without.status == 2
    assert f"no DRAM standard '{STANDARD}'" in without.err


def test_it_keeps_the_contract_of_memories(plugin: Path):
    """In a process of its own, as a plugin that is loaded stays loaded."""
    command = [sys.executable, "-m", "carsim.testing", str(plugin)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"ok   DRAM standard {STANDARD}\n" in done.stdout

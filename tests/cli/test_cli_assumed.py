"""The line of assumptions of sweeps, of their fronts, and of runs whose output is short."""

import json
from pathlib import Path

from explore_study import write_study


def test_a_sweep_says_it_second(prints, tmp_path: Path) -> None:
    write_study(tmp_path, axes={"policy.tau": [0.0, 0.5]})
    asked = ("sweep", tmp_path / "study.yaml", "--out", tmp_path / "out", "--workers", "0")
    document = json.loads(prints(*asked, "--json"))
    assert list(document)[:2] == ["study", "assumed"]
    assert document["assumed"].startswith("Assumed: ")
    assert document["assumed"] in " ".join(prints(*asked).split())
    front = ("report", tmp_path / "out", "--front")
    assert json.loads(prints(*front, "--json"))["assumed"] == document["assumed"]
    assert document["assumed"] in " ".join(prints(*front).split())


def test_one_row_as_json_has_it(prints) -> None:
    document = json.loads(prints("run", "zcu102", "--workload", "video:1", "--quiet", "--json"))
    assert document["assumed"].startswith("Assumed: weights ")

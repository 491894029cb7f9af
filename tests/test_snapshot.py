"""The table of figures that differ from the recorded ones."""

import runpy
from pathlib import Path
from typing import Any

import pytest
from tiny import tiny_design, tiny_trace

SCRIPT = Path(__file__).parents[1] / ".ci" / "snapshot.py"


@pytest.fixture(scope="module")
def snapshot() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


@pytest.fixture(scope="module")
def records(snapshot: dict[str, Any]) -> Any:
    place = snapshot["Place"]("toy", "toy", "fluid", "-")
    found = snapshot["figures"](place, tiny_design(), tiny_trace(), "fluid")
    return found | {place._replace(trace="refused"): {"refusal": "MisfitError: does not fit"}}


def test_the_file_keeps_every_digit(snapshot: Any, records: Any, tmp_path: Path) -> None:
    file = tmp_path / "figures.csv"
    snapshot["write"](file, records)
    assert snapshot["read"](file) == records
    assert snapshot["changes"](records, records) == []


def test_what_is_recorded_covers_every_shipped_design(snapshot: Any) -> None:
    root = SCRIPT.parents[1] / "configs"
    recorded = {place.design for place in snapshot["read"](snapshot["SNAPSHOT"])}
    designs = {path.stem for path in root.rglob("*.yaml") if path.parent.name != "networks"}
    # What is recorded decodes token by token, which designs for networks do not.
    assert recorded == {name for name in designs if not name.startswith(("llamacpp_", "gpu_"))}


def test_a_change_is_a_line_of_the_table(snapshot: Any, records: Any) -> None:
    first, *_, refused = records
    new = {place: dict(figures) for place, figures in records.items()}
    new[first]["cycles"] = str(int(new[first]["cycles"]) + 1)
    new[first]["energy_j"] = repr(1.25 * float(new[first]["energy_j"]))
    new[first]["latency_s"] = repr(float(new[first]["latency_s"]) * (1 + 1e-15))  # is rounding
    new[refused]["refusal"] = "MisfitError: another"
    found = snapshot["changes"](records, new)
    assert [change.figure for change in found] == ["cycles", "energy_j", "refusal"]
    lines = list(snapshot["table"](found))
    assert all(len(line) <= 80 for line in lines)
    assert sum("energy_j" in line and line.endswith("+25") for line in lines) == 1
    assert snapshot["largest"](found) == found


def test_a_row_that_is_gone_is_a_change(snapshot: Any, records: Any) -> None:
    found = snapshot["changes"](records, dict(list(records.items())[1:]))
    assert {change.new for change in found} == {""}
    assert len(found) == 9
    assert all(len(line) <= 80 for line in snapshot["table"](found))

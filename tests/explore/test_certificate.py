"""Certificates of fronts: they hold, and what was changed is refused even with right digests."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from explore_study import make_study

from carsim.base.errors import InputError
from carsim.cli import carsim
from carsim.cli.report import rows_of_front
from carsim.explore.certificate import _digest, _document, verify, write_certificate
from carsim.explore.grid import GridStudy
from carsim.explore.grid_bounds import GridBounds, grid_bounds
from carsim.explore.pareto import pareto
from carsim.explore.points import make_points
from carsim.explore.store import CERTIFICATE, STORE_FILE, _line, open_store
from carsim.explore.study import load_study
from carsim.explore.sweep import sweep
from carsim.report.stored_study import read_study

AXES = {
    "machine.cores": [1, 2, 4],
    "machine.array.rows": [2, 8],
    "board.fabric_clock_mhz": [50.0, 100.0, 200.0, 400.0],
}
GOALS = ["seconds_per_video", "energy_per_video_j", "dsp"]

Change = Callable[[dict[str, Any], list[dict[str, Any]]], None]
"""Changes facts of a store, and its rows: ordinal, values, status and figures by name."""


@pytest.fixture(scope="module")
def proven(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study, and ``out`` with its proven front."""
    folder = tmp_path_factory.mktemp("proven")
    limits = ["frames_per_s >= 100", "dsp <= 100"]
    study = make_study(folder, axes=AXES, objectives=GOALS, constraints=limits)
    sweep(study, folder / "out", workers=0, front_only=True)
    return folder


@pytest.fixture
def copied(proven: Path, tmp_path: Path) -> Path:
    """A copy of the folder of the front, which a test may change."""
    return Path(shutil.copytree(proven / "out", tmp_path / "out"))


def rewritten(folder: Path, change: Change) -> None:
    """Change a store, and write all of its checksums anew."""
    first, *lines = (folder / STORE_FILE).read_bytes().splitlines()
    facts = json.loads(first.split(b"\t", 1)[1])
    columns, rows = facts["columns"], []
    for line in lines:
        _, identity, key, ordinal, _, values, cells = line.decode().split("\t")
        row = dict(zip(columns, json.loads(cells), strict=True))
        row |= {"#": (identity, key), "ordinal": int(ordinal), "values": json.loads(values)}
        rows.append(row)
    change(facts, rows)
    text = _line([json.dumps(facts)])
    for row in rows:
        parts = *row["#"], str(row["ordinal"]), row["status"], json.dumps(row["values"])
        text += _line([*parts, json.dumps([row[name] for name in columns])])
    (folder / STORE_FILE).write_bytes(text)


def forged(folder: Path, proven: Path, bounds: GridBounds | None = None, **entries: Any) -> None:
    """Write the certificate that a store would have, with other entries and a right digest."""
    study = load_study(proven / "study.yaml").lean
    with open_store(folder) as store:
        bounds = bounds or grid_bounds(GridStudy(study))
        document = _document(store, study, bounds, store.facts["within"]) | entries
    document["sha256"] = _digest(document)
    (folder / CERTIFICATE).write_text(json.dumps(document))


def front_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of the front."""
    counted = [row for row in rows if row["status"] == "ok" and row["frames_per_s"] >= 100]

    def beats(one: dict[str, Any], other: dict[str, Any]) -> bool:
        pairs = [(one[name], other[name]) for name in GOALS]
        return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)

    return [row for row in counted if not any(beats(other, row) for other in counted)]


def test_a_front_is_proven_anew(proven: Path) -> None:
    found = verify(proven / "out", proven / "study.yaml")
    assert found.designs == 24
    assert found.front > 2
    assert found.broken > 0
    said = CliRunner().invoke(
        carsim, ["report", str(proven / "out"), "--verify", "--study", str(proven / "study.yaml")]
    )
    n_rows = len(read_study(proven / "out").representatives)
    counted = f"{found.front} points{rows_of_front(n_rows, found.front, 0.0)}"
    assert f"The front of {counted} is proven for 24 designs" in " ".join(said.output.split())
    alone = CliRunner().invoke(carsim, ["report", str(proven / "out"), "--verify"]).exception
    assert "name the file of the study with --study" in str(alone)


def remove_front_point(place: int) -> Change:
    return lambda facts, rows: rows.remove(front_of(rows)[place])


def remove_region(facts: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    rows[:] = [row for row in rows if row["values"]["machine.cores"] > 1]


def change_front(name: str, factor: float) -> Change:
    def change(facts: dict[str, Any], rows: list[dict[str, Any]]) -> None:
        front_of(rows)[0][name] *= factor

    return change


def hide_front_point(facts: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Make a point of the front look worse than all others."""
    front_of(rows)[-1].update(dict.fromkeys(GOALS, 1e9))


def call_misfit(facts: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    front_of(rows)[1]["status"] = "misfit"


def swap_values(facts: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    one, other, *_ = front_of(rows)
    one["values"], other["values"] = other["values"], one["values"]


def fewer_designs(facts: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    facts["points"] -= 1


def larger_share(facts: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    facts["within"] = "none"


def other_fingerprint(facts: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    facts["fingerprint"] = "0"


STORES = [
    *(remove_front_point(place) for place in (0, 1, -1)),
    remove_region,
    *(change_front(name, 0.99) for name in (*GOALS, "latency_s")),
    hide_front_point,
    call_misfit,
    swap_values,
    fewer_designs,
    larger_share,
    other_fingerprint,
]


@pytest.mark.parametrize("change", STORES)
def test_a_store_that_was_changed_is_refused(copied: Path, proven: Path, change: Change) -> None:
    rewritten(copied, change)
    forged(copied, proven)
    with pytest.raises(InputError, match="the front is not proven; sweep it again"):
        verify(copied, proven / "study.yaml")


@pytest.mark.parametrize(
    "entries",
    [
        {"bounds_sha256": "0"},
        {"designs": 23},
        {"within": 0.5},
        {"objectives": {"dsp": "min"}},
        {"constraints": []},
        {"code": "0"},
        {"version": "0"},
        {"fingerprint": "0"},
        {"ruled_out": {}},
        {"rows": 3},
        {"rows_sha256": "0"},
        {"front": []},
        {"bounded": []},
        {"more": 1},
    ],
)
def test_a_certificate_that_was_changed_is_refused(copied: Path, proven: Path, entries) -> None:
    forged(copied, proven, **entries)
    with pytest.raises(InputError, match="the front is not proven; sweep it again"):
        verify(copied, proven / "study.yaml")


def test_a_bound_that_is_raised_is_refused(copied: Path, proven: Path) -> None:
    bounds = grid_bounds(GridStudy(load_study(proven / "study.yaml").lean))
    objectives = bounds.objectives.copy()
    objectives[7] *= 1.01
    forged(copied, proven, GridBounds(objectives, bounds.missing))
    with pytest.raises(InputError, match="says bounds_sha256 is"):
        verify(copied, proven / "study.yaml")
    lacks = {name: np.ones_like(broken) for name, broken in bounds.missing.items()}
    forged(copied, proven, GridBounds(bounds.objectives, lacks))
    with pytest.raises(InputError, match="says bounds_sha256 is"):
        verify(copied, proven / "study.yaml")


def test_what_is_no_certificate_is_one_line(copied: Path, proven: Path) -> None:
    text = (copied / CERTIFICATE).read_text()
    for written, problem in (
        (text.replace('"within"', '"without"'), "does not match its own digest"),
        (text[:-9], "is no JSON"),
    ):
        (copied / CERTIFICATE).write_text(written)
        with pytest.raises(InputError, match=problem):
            verify(copied, proven / "study.yaml")
    (copied / CERTIFICATE).unlink()
    with pytest.raises(InputError, match=r"holds no certificate.json; sweep it again with --front"):
        verify(copied, proven / "study.yaml")


PRIVATE = {"machine.weight_sharing": "private"}
EACH_ALONE = {"machine.weight_sharing": "private_per_sequence"}
VIDEO = {"traces": None, "workload": "video:2,replay=0.5"}


@pytest.mark.parametrize("within", [0.0, 0.1])
@pytest.mark.parametrize(
    "changes",
    [
        {"objectives": GOALS},
        {"objectives": ["tokens_per_s", "dsp"], "constraints": ["energy_per_video_j <= 0.01"]},
        {"objectives": {"fill": "max", "latency_s": "min"}},
        {"objectives": ["frames_per_s"], "set": {"machine.weight_sharing": "private"}},
        {"objectives": GOALS, "traces": None, "workload": "text:16+8", "constraints": ["dsp < 99"]},
        {"objectives": {"frames_per_s": "max", "dsp": "min"}, "set": PRIVATE, **VIDEO},
        {"objectives": GOALS, "set": EACH_ALONE, "constraints": ["frames_per_s >= 1000"]},
        {
            "objectives": {"tokens_per_s": "max", "lut": "min"},
            "constraints": ["tokens_per_s >= 20000", "tokens_per_s <= 60000"],
            "traces": None,
            "workload": "text:8+32",
        },
        {
            "objectives": ["energy_per_video_j", "latency_s", "bram36"],
            "set": {"policy.attention": {"kind": "streaming", "sinks": 1, "window": 4}},
            "constraints": ["latency_s <= 0.02", "frames_per_s >= 100"],
        },
        {
            "objectives": {"seconds_per_video": "min", "fill": "max"},
            "set": {"policy.tau": 0.2, "policy.schedule": "pack"},
            "axes": AXES | {"machine.weight_sharing": ["private", "private_per_sequence"]},
            "constraints": ["seconds_per_video <= 0.01", "energy_per_video_j <= 0.02"],
        },
    ],
)
def test_certificates_of_small_grids_hold_and_fronts_equal_enumeration(tmp_path, changes, within):
    study = make_study(tmp_path, **{"axes": AXES, **changes}).lean
    designs = len(make_points(study))
    some = sweep(study, tmp_path / "out", workers=0, front_only=True, within=within)
    found = verify(tmp_path / "out", tmp_path / "study.yaml")
    assert (found.designs, found.within) == (designs, within)
    if within == 0.0:
        whole = sweep(study, workers=0)
        limits = [each.text for each in study.constraints]
        if not (whole["status"] == "ok").any() or found.front == 0:
            with pytest.raises(InputError, match=f"none of {designs} points "):
                pareto(whole, study.objectives, limits)
            return
        best = pareto(whole, study.objectives, limits)["point"].tolist()
        assert pareto(some, study.objectives, limits)["point"].tolist() == best
        with open_store(tmp_path / "out") as store:
            certificate = json.loads((tmp_path / "out" / CERTIFICATE).read_text())
            claimed = [entry["point"] for entry in certificate["front"]]
            assert {*best} <= {*claimed}
            write_certificate(store, study, grid_bounds(GridStudy(study)), within)

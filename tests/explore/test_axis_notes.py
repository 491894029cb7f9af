"""Notes at the end of a sweep, and facts on how complete it is."""

import json
import shlex

import numpy as np
import pandas as pd
import pytest
from commands import call
from explore_study import make_study, spoilt, write_study

from carsim.explore.axis_notes import axis_notes, groups_without_effect, sample_note
from carsim.explore.sweep import sweep

MISSING = np.nan


def frame_of_rows(rows):
    columns = ["a", "b", "status", "reason", "latency_s", "lut"]
    return pd.DataFrame(rows, columns=columns)


@pytest.mark.parametrize(
    ("rows", "groups"),
    [
        ([(1, 1, "ok", "", 5.0, 2), (2, 1, "ok", "", 5.0, 2)], 1),
        ([(1, 1, "ok", "", 5.0, 2), (2, 1, "ok", "", 5.1, 2)], 0),
        ([(1, 1, "ok", "", 5.0, 2), (2, 2, "ok", "", 5.0, 2)], 0),  # nothing differs in a alone
        ([(1, 1, "ok", "", 5.0, 2), (2, 1, "misfit", "", 5.0, 2)], 0),
        ([(1, 1, "ok", "", MISSING, 2), (2, 1, "ok", "", MISSING, 2)], 1),
        ([(1, 1, "ok", "", 5.0, 2), (2, 1, "failed", "x", MISSING, MISSING)], 0),
        ([(1, 1, "invalid", "", MISSING, MISSING), (2, 1, "invalid", "", MISSING, MISSING)], 0),
        ([(n, m, "ok", "", m, 2) for n in (1, 2, 3) for m in (1, 2)], 2),
        ([(n, m, "ok", "", m + (n == m == 2), 2) for n in (1, 2, 3) for m in (1, 2)], 0),
    ],
)
def test_an_axis_has_no_effect_if_points_that_differ_in_it_alone_are_equal(rows, groups):
    assert groups_without_effect(frame_of_rows(rows), "a", ["a", "b"]) == groups


def test_values_that_are_never_valid_are_named_with_a_reason():
    rows = [(a, b, "ok", "", a * b, 2) for a in (1, 2) for b in (1, 2)]
    rows += [(a, b, "invalid", "too large", MISSING, MISSING) for a in (3, 4) for b in (1, 2)]
    rows.append((2, 3, "invalid", "unlucky", MISSING, MISSING))
    assert list(axis_notes(frame_of_rows(rows), ["a", "b"])) == [
        "a: no point with 3, 4 is valid: too large",
        "b: no point with 3 is valid: unlucky",
    ]
    assert not list(axis_notes(frame_of_rows(rows), ["a", "b"], with_invalid=False))
    everything = frame_of_rows([(1, 1, "invalid", "no", MISSING, MISSING)])
    assert not list(axis_notes(everything, ["a", "b"]))


def test_a_sample_says_why_it_is_smaller(tmp_path):
    axes = {"machine.cores": [1, 2, 4], "policy.tau": [-0.5, 0.5]}
    sampling = {"method": "lhs", "points": 12, "seed": 1}
    study = make_study(tmp_path, axes=axes, sampling=sampling, filters=["machine.cores < 4"])
    said = "The sample has 4 points of 12: 4 fail the filters, 4 repeat others."
    assert sample_note(study) == said
    assert sample_note(make_study(tmp_path, axes=axes)) == ""


def test_a_sweep_warns_of_an_axis_without_effect(tmp_path, caplog):
    axes = {"machine.cores": [1, 2], "description": ["a", "b"]}
    sweep(make_study(tmp_path, axes=axes), workers=0)
    told = "description has no effect: points that differ in it alone have equal results (2 compar"
    assert [told in message for message in caplog.messages] == [True]


def test_commands_tell_notes_and_how_complete_a_study_is(tmp_path):
    axes = {"machine.cores": [1, 2], "machine.tile_kib": [1, 1024], "description": ["a", "b"]}
    path, out = write_study(tmp_path, axes=axes), tmp_path / "my out"
    printed = call("sweep", path, "--out", out, "--workers", "0")
    assert printed.status == 0
    assert "machine.tile_kib: no point with 1024 is valid: " in printed.out
    assert "description has no effect: " in printed.out
    assert f"carsim report {shlex.quote(str(out))} --front --out {shlex.quote(str(out))}" in (
        printed.out
    )
    told = json.loads(call("sweep", path, "--out", out, "--workers", "0", "--json").out)
    assert [told[key] for key in ("complete", "total", "damaged")] == [True, 8, []]
    assert len(told["notes"]) == 2
    front = json.loads(call("report", out, "--front", "--json").out)
    assert [front[key] for key in ("complete", "total", "damaged")] == [True, 8, []]
    lines = (out / "store.txt").read_bytes().splitlines()
    number = next(n for n, line in enumerate(lines, 1) if b"\tok\t" in line)
    spoilt(out, number)
    front = json.loads(call("report", out, "--front", "--json").out)
    damaged = [f"line {number}"]
    assert [front[key] for key in ("complete", "total", "damaged")] == [False, 8, damaged]


def test_a_search_says_that_there_are_fewer_points_and_is_never_complete(tmp_path):
    axes = {"machine.cores": [1, 2], "policy.schedule": ["static", "drs"]}
    path, out = write_study(tmp_path, axes=axes, objectives=["latency_s"]), tmp_path / "out"
    done = call("search", path, "--out", out, "--points", "9", "--workers", "0")
    assert "The study has 4 different points that pass its filters; 9 were asked for." in done.out
    assert json.loads(call("report", out, "--front", "--json").out)["complete"] is False


def test_a_changed_copy_of_the_study_is_damage(tmp_path):
    path, out = write_study(tmp_path), tmp_path / "out"
    sweep(make_study(tmp_path, axes={"machine.cores": [1, 2]}), out, workers=0)
    assert "study.yaml: cannot be checked" not in call("report", out, "--check").out
    assert call("sweep", path, "--out", out, "--workers", "0").status == 0
    assert "study.yaml: right" in call("report", out, "--check").out
    copy = (out / "study.yaml").read_bytes()
    (out / "study.yaml").write_bytes(copy + b"# more\n")
    checked = call("report", out, "--check")
    assert checked.status == 1
    assert "study.yaml: does not match its digest in SHA256SUMS" in checked.out
    (out / "SHA256SUMS").unlink()
    assert "study.yaml: differs from the study in store.txt" in call("report", out, "--check").out
    assert call("report", out, "--rescue", tmp_path / "new").status == 0
    assert (tmp_path / "new" / "study.yaml").read_bytes() == copy
    assert call("report", tmp_path / "new", "--check").status == 0

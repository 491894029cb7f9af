"""The output folder appears whole or not at all; the summary says everything, stably."""

import errno
import json
import os
import subprocess
from platform import node

import pandas as pd
import pytest
from tiny import MISFIT, tiny_design, tiny_report, tiny_trace

from carsim.base.errors import InputError
from carsim.base.files import write_whole
from carsim.design import load_design
from carsim.machine import play
from carsim.metrics import METRICS
from carsim.metrics.table import RESOURCES
from carsim.report import save_report, summary
from carsim.report.files import CHUNKS, NOTICE, OUTPUT_FILES, REPORT
from carsim.report.folder import check_folder, whole_folder
from carsim.report.notes import notes_of
from carsim.report.run_tables import labels, metrics_table
from carsim.report.stored import read_run, stored
from carsim.runs.pipeline import run

OURS = ("a.txt", "b.txt")


def leftovers(folder):
    return sorted(path.name for path in folder.iterdir())


def test_numbers_of_decisions_are_those_of_their_labels():
    of_run = stored(tiny_report("policy.tau=0.5"))
    said, (*_, row) = list(labels(of_run)), metrics_table(of_run).rows
    assert row[0] == "decisions"
    for policy, number in zip(of_run.policies, row[1:], strict=True):
        assert f"{number} {policy.decisions}" in said


@pytest.fixture
def old(tmp_path):
    """A folder that is there already."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.txt").write_text("old")
    return tmp_path / "out"


def test_overwriting_replaces_the_whole_folder(old, tmp_path):
    with whole_folder(old, overwrite=True, ours=OURS) as into:
        (into / "b.txt").write_text("new")
    assert leftovers(tmp_path) == ["out"]
    assert leftovers(old) == ["b.txt"]


def test_a_failing_rename_restores_the_folder_that_was_there(old, tmp_path):
    with (
        pytest.raises(InputError, match="cannot be written"),
        whole_folder(old, overwrite=True, ours=OURS) as into,
    ):
        into.rmdir()  # the last step has nothing to rename
    assert leftovers(tmp_path) == ["out"]
    assert (old / "a.txt").read_text() == "old"


def test_what_is_refused_before_any_work(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "full")
    for name, overwrite, problem in (
        ("file", True, "exists and is no folder"),
        ("link", True, "exists and is no folder"),
        ("full", False, "exists already"),
        ("full", True, "holds 'thesis.tex', which carsim did not write"),
        ("missing/out", False, "there is no folder"),
        ("file/out", False, "there is no folder"),
    ):
        with pytest.raises(InputError, match=problem):
            check_folder(tmp_path / name, overwrite=overwrite, ours=OURS)
    assert leftovers(tmp_path / "full") == ["thesis.tex"]


def test_unwritable_parent_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    with pytest.raises(InputError, match="cannot be written; name another"):
        check_folder(tmp_path / "out", overwrite=False, ours=OURS)


def test_every_file_is_there_told_and_holds_what_was_found(tmp_path):
    folder, report = tmp_path / "out", tiny_report()
    names = save_report(report, folder, timeline=(15, 18))
    others = (REPORT, NOTICE, CHUNKS)  # a page, a notice, and what videos in chunks have
    assert names == [name for name in OUTPUT_FILES if name not in others]
    assert sorted(names) == leftovers(folder)
    document = json.loads((folder / "summary.json").read_text())
    assert document == json.loads(json.dumps(summary(report)))
    assert read_run(folder) == stored(report)
    assert load_design(str(folder / "design.yaml")) == report.design
    wanted = report.to_frame()
    wanted = wanted.where(wanted.notna(), float("nan"))
    frame = pd.read_csv(folder / "comparison.csv", index_col="policy")
    pd.testing.assert_frame_equal(frame, wanted, check_dtype=False)
    timeline = json.loads((folder / "timeline.json").read_text())
    steps: dict[int, list[str]] = {}  # by process, which is a policy
    for event in timeline["traceEvents"]:
        if event.get("cat") == "steps":
            steps.setdefault(event["pid"], []).append(event["name"])
    assert len(steps) == len(timeline["otherData"]["cycles"]) == 2  # with each dispatcher
    assert all(names == ["step 15", "step 16", "step 17"] for names in steps.values())
    assert timeline["otherData"]["design_sha256"] == report.design.sha256


def test_every_output_of_a_misfit_is_marked(tmp_path):
    folder = tmp_path / "out"
    save_report(tiny_report(MISFIT), folder, timeline=(0, 1))
    document = json.loads((folder / "summary.json").read_text())
    assert document["fits"] is False
    assert "1 DSP available" in document["misfits"][0]
    assert (folder / "design.yaml").read_text().startswith("# MISFIT: toy does not fit ZCU102\n")
    assert load_design(str(folder / "design.yaml")) == tiny_design(MISFIT)
    assert not pd.read_csv(folder / "comparison.csv")["fits"].any()
    other = json.loads((folder / "timeline.json").read_text())["otherData"]
    assert (other["fits"], other["title"][:6], other["title"][-6:]) == (False, "MISFIT", "0 to 0")


def test_summary_is_finite_json_and_agrees_with_the_report():
    report = tiny_report()
    document = json.loads(json.dumps(summary(report), allow_nan=False))
    assert len({tuple(policy) for policy in document["policies"]}) == 1  # same keys in all
    of_others = set(RESOURCES) - set(report.fit.counts)  # an FPGA has no area in mm2
    for policy, row in zip(document["policies"], report.rows, strict=True):
        assert not of_others & policy.keys()
        for name in METRICS.keys() - of_others:
            assert policy[name] == METRICS[name].of(row, report)
        if not policy["is_bound"]:
            assert sum(policy["breakdown_s"].values()) == pytest.approx(policy["latency_s"])
            joules = [part["value"] for part in policy["energy_parts_per_video_j"].values()]
            assert sum(joules) == pytest.approx(policy["energy_per_video_j"])
    assert [policy["is_chosen"] for policy in document["policies"]].count(True) == 1
    assert document["policies"][-1]["key"] == "bound"
    assert document["design_sha256"] == report.design.sha256
    assert document["latency_with_head_s"] == pytest.approx(report.chosen.latency_s)
    assert " 960 layer-steps" in " ".join(document["notes"]), "5 x 48 x 4"


def test_summary_keeps_both_headlines_where_the_head_is_left_out():
    without, included = (
        summary(tiny_report(f"machine.include_head={w}")) for w in ("false", "true")
    )
    assert without["head_included"] is False
    for key in ("latency_without_head_s", "latency_with_head_s", "head_s"):
        assert without[key] == pytest.approx(included[key])
    assert without["head_s"] > 0


def left_by_the_dead(path, what):
    """The hidden name under which a process that is no more has left something."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    return path.with_name(f".{path.name}.{node()}.{dead.pid}.{what}")


def test_what_a_killed_process_left_goes_with_the_next(tmp_path):
    left_by_the_dead(tmp_path / "out", "unfinished").mkdir()
    left_by_the_dead(tmp_path / "a.txt", "unfinished").write_text("half")
    other = tmp_path / f".a.txt.{node()}.1.unfinished"  # the first process is never gone
    other.write_text("still at work")
    with whole_folder(tmp_path / "out", overwrite=False, ours=OURS) as into:
        (into / "a.txt").write_text("new")
    write_whole(tmp_path / "a.txt", lambda path: path.write_text("new"))
    assert leftovers(tmp_path) == [other.name, "a.txt", "out"]


def test_a_folder_whose_replacement_was_killed_midway_comes_back(old, tmp_path):
    old.rename(left_by_the_dead(old, "replaced"))
    with pytest.raises(KeyboardInterrupt), whole_folder(old, overwrite=False, ours=OURS):
        raise KeyboardInterrupt
    assert leftovers(tmp_path) == ["out"]
    assert (old / "a.txt").read_text() == "old"


CURES = {
    errno.ENOSPC: "make room",
    errno.EACCES: "name a place that may be written",
    errno.EIO: "name another place",
}


@pytest.mark.parametrize(("number", "cure"), CURES.items())
def test_the_cure_is_that_of_the_reason(tmp_path, number, cure):
    def fail(_):
        raise OSError(number, os.strerror(number))

    with pytest.raises(InputError, match=rf"; {cure}$"):
        write_whole(tmp_path / "a.txt", fail)


def test_that_phases_were_interpolated_is_said(monkeypatch):
    design, traces = tiny_design(), [tiny_trace()]
    monkeypatch.setattr(play.player, "MOST_PLAYED", 10)
    assert "2,048 were played" in " ".join(notes_of(run(design, traces, fidelity="tile")))

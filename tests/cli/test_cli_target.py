"""``carsim search --target``: one screen, a design that loads, and exit statuses."""

import json

from carsim.design import load_design

ASKED = ("search", "--workload", "video:1", "--boards", "asic_7nm_lpddr5x", "--target")


def test_the_design_of_the_answer_is_written(call, tmp_path):
    out = tmp_path / "answer.yaml"
    status, text, err = call(*ASKED, "frames_per_s >= 1", "--out", out)
    assert (status, err) == (0, "")
    assert "USD: die" in text
    assert load_design(str(out)).board.name == "ASIC 7 nm with LPDDR5X"
    status, _, err = call(*ASKED, "frames_per_s >= 1", "--out", out)
    assert status == 2
    assert "is there already" in err


def test_a_target_that_none_reaches_has_a_status_of_its_own(call):
    status, text, _ = call(*ASKED, "frames_per_s >= 1000", "--json")
    assert status == 3
    machines = json.loads(text)["machines"]
    assert machines
    assert not any(machine["reaches"] for machine in machines)


def test_decisions_of_a_trace_are_taken_at_its_scope_and_rows(call):
    asked = ("search", "--workload", "trace:vilau_8f_pair", "--boards", "asic_7nm_hbm3")
    status, text, err = call(*asked, "--target", "seconds_per_video <= 60")
    assert (status, err) == (0, "")
    assert "Decisions: captured" in text
    assert "batch of 2;" in text


def test_a_study_and_a_target_exclude_each_other(call):
    assert call(*ASKED, "frames_per_s >= 1", "study.yaml")[0] == 2
    assert call("search")[0] == 2

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
    assert "2 rows at once;" in text


def test_a_study_and_a_target_exclude_each_other(call):
    assert call(*ASKED, "frames_per_s >= 1", "study.yaml")[0] == 2
    assert call("search")[0] == 2


def test_a_target_that_makes_no_sense_is_one_line(call):
    text = ("--workload", "text:2+2", "--model", "tiny")
    for target, message, more in (
        ("frames_per_s", "--target: frames_per_s compares no metric; compare metrics", ()),
        ("frames_per_s = 2", "is no expression; compare metrics with numbers, say frames", ()),
        ("frames_per_s >= 2", "--target: frames_per_s has no value for text:2+2", text),
    ):
        status, out, err = call(*ASKED, target, *more)
        assert (status, out, err.count("\n")) == (2, "", 1), target
        assert message in err


def test_what_misses_a_price_lacks_no_speed(call):
    asked = ("--model", "llama3.2_1b", "--boards", "kv260,u280", "--minimise", "ms_per_token")
    out = call("search", "--workload", "text:2+2", *asked, "--target", "cost_usd <= 300")[1]
    assert "The fastest in less ms_per_token: u280" in out
    assert "It lacks" not in out

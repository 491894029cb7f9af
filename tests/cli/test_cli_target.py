"""``carsim search --target``: one screen, a design that loads, and exit statuses."""

import json

from carsim.design import load_design

ASKED = ("search", "--workload", "video:1", "--boards", "asic_7nm_lpddr5x", "--target")


def test_the_design_of_the_answer_is_written(prints, refuses, tmp_path):
    out = tmp_path / "answer.yaml"
    assert "USD: die" in prints(*ASKED, "frames_per_s >= 1", "--out", out)
    assert load_design(str(out)).board.name == "ASIC 7 nm with LPDDR5X"
    assert "is there already" in refuses(*ASKED, "frames_per_s >= 1", "--out", out)


def test_a_target_that_none_reaches_has_a_status_of_its_own(call):
    status, text, _ = call(*ASKED, "frames_per_s >= 1000", "--json")
    assert status == 3
    machines = json.loads(text)["machines"]
    assert machines
    assert not any(machine["reaches"] for machine in machines)


def test_decisions_of_a_trace_are_taken_at_its_scope_and_rows(prints):
    asked = ("search", "--workload", "trace:vilau_8f_pair", "--boards", "asic_7nm_hbm3")
    text = prints(*asked, "--target", "seconds_per_video <= 60")
    assert "Decisions: captured" in text
    assert "2 rows at once;" in text


def test_what_misses_a_price_lacks_no_speed(call):
    asked = ("--model", "llama3.2_1b", "--boards", "kv260,u280", "--minimise", "ms_per_token")
    out = call("search", "--workload", "text:2+2", *asked, "--target", "cost_usd <= 300")[1]
    assert "The fastest with less ms_per_token: u280" in out
    assert "It lacks" not in out

"""``carsim compare`` as a user meets it."""

import json
import re

from tiny import MISFIT, tiny_report, write_inputs

from carsim import compare
from carsim.report import save_report

CLOCK = "board.fabric_clock_mhz=500"


def test_the_command_prints_what_differs_and_what_it_did(prints, tmp_path):
    save_report(tiny_report(), tmp_path / "a")
    save_report(tiny_report(CLOCK), tmp_path / "b")
    out = prints("compare", tmp_path / "a", tmp_path / "b")
    assert re.search(r"(?s)clock_mhz +250.0 +500.0.+per video \[s\] +0\S+ +0\S+ +-0\S+ +-", out)
    for text in ("In B, a video takes ", "QKV projection"):
        assert text in out
    same = prints("compare", tmp_path / "a", tmp_path / "a")
    assert "Nothing differs in design, traces or options." in same


def test_the_command_simulates_designs_with_their_changes(call, prints, tmp_path):
    design, trace = write_inputs(tmp_path)
    both = ("compare", design, design, "--trace", trace, "--set-b")
    document = json.loads(prints(*both, CLOCK, "--json"))
    assert [each["path"] for each in document["spec"]] == ["board.fabric_clock_mhz"]
    assert document["metrics"] == json.loads(
        json.dumps(compare(tiny_report(), tiny_report(CLOCK)).document()["metrics"])
    )
    assert call(*both, MISFIT)[0] == 3
    assert call(*both, MISFIT, "--allow-misfit")[0] == 0


def test_designs_without_a_trace_are_compared_on_what_is_stated(prints, tmp_path):
    design, _ = write_inputs(tmp_path)
    out = prints("compare", design, design, "--workload", "text:2+4", "--set-b", CLOCK)
    assert "In B, a text takes " in out


def test_tricks_are_compared_on_one_machine(prints, tmp_path):
    design, _ = write_inputs(tmp_path)
    options = ("--tricks", "--workload", "video:2,replay=0.5", "--set-a")
    small = "model.video={frames: 2, tokens_per_frame: 8, prompt_tokens: 2}"
    out = prints("compare", design, *options, small)
    assert " assumed" in next(line for line in out.splitlines() if "replay by TAS" in line)
    assert json.loads(prints("compare", design, *options, small, "--json"))["tricks"]

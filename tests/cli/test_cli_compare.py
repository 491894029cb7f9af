"""``carsim compare`` as a user meets it."""

import json
import re

import pytest
from tiny import MISFIT, tiny_report, write_inputs

from carsim import compare
from carsim.report import save_report

CLOCK = "board.fabric_clock_mhz=500"


def test_the_command_prints_what_differs_and_what_it_did(call, tmp_path):
    save_report(tiny_report(), tmp_path / "a")
    save_report(tiny_report(CLOCK), tmp_path / "b")
    status, out, err = call("compare", tmp_path / "a", tmp_path / "b")
    assert (status, err) == (0, "")
    assert re.search(r"board.fabric_clock_mhz +250.0 +500.0", out)
    for text in (
        "B finishes a video in",
        "time per video [s]",
        "QKV projection",
        "Every policy, per video",
    ):
        assert text in out
    for row in tiny_report().rows:
        assert row.variant.name in out
    same = call("compare", tmp_path / "a", tmp_path / "a")[1]
    assert "Nothing differs in design, traces or options." in same


def test_the_command_simulates_designs_with_their_changes(call, tmp_path):
    design, trace = write_inputs(tmp_path)
    status, out, _ = call("compare", design, design, "--trace", trace, "--set-b", CLOCK, "--json")
    assert status == 0
    document = json.loads(out)
    assert [each["path"] for each in document["spec"]] == ["board.fabric_clock_mhz"]
    assert document["metrics"] == json.loads(
        json.dumps(compare(tiny_report(), tiny_report(CLOCK)).document()["metrics"])
    )
    assert call("compare", design, design, "--trace", trace, "--set-b", MISFIT)[0] == 3
    assert (
        call("compare", design, design, "--trace", trace, "--set-b", MISFIT, "--allow-misfit")[0]
        == 0
    )


def test_designs_without_a_trace_are_compared_on_what_is_stated(call, tmp_path):
    design, _ = write_inputs(tmp_path)
    options = ("--workload", "text:2+4", "--set-b", CLOCK)
    status, out, _ = call("compare", design, design, *options)
    assert status == 0
    assert "per text of a batch." in out, "the batch of four is finished at once"


BAD = {
    "a B of tricks": (
        ("toy.yaml", "--tricks", "--set-b", "machine.cores=2"),
        "--set-b: changes B, and --tricks has none; say --set-a",
    ),
    "an empty folder": (("empty", "toy.yaml"), "empty: holds no summary.json of a run"),
    "an unknown key": (
        ("toy.yaml", "toy.yaml", "--set-b", "machine.coers=2"),
        "--set-b machine.coers: unknown key 'coers'; did you mean 'cores'?",
    ),
    "a change of a folder": (
        ("toy.yaml", "empty", "--set-b", "machine.cores=2"),
        "--set-b: empty is a folder of results; run its design again instead",
    ),
    "one side": (("toy.yaml",), "B: is missing; name it, or say --tricks"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line(call, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    write_inputs(tmp_path)
    (tmp_path / "empty").mkdir()
    status, out, err = call("compare", *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_tricks_are_compared_on_one_machine(call, tmp_path):
    design, _ = write_inputs(tmp_path)
    options = ("--tricks", "--workload", "video:2,replay=0.5")
    small = ("--set-a", "model.video={frames: 2, tokens_per_frame: 8, prompt_tokens: 2}")
    status, out, err = call("compare", design, *options, *small)
    assert (status, err) == (0, "")
    assert " assumed" in next(line for line in out.splitlines() if "replay by TAS" in line)
    assert json.loads(call("compare", design, *options, *small, "--json")[1])["tricks"]
    assert (
        "--tricks: compares policies on one design" in call("compare", design, design, *options)[2]
    )

"""A few trials of each quick kind of tests/fuzz.py, and that it would notice."""

import fuzz
import pytest
from commands import Ended, call

TRIALS = dict.fromkeys(("designs", "traces", "metadata", "studies", "models", "recipes"), 5)
TRIALS["folders"] = 20


@pytest.fixture(scope="module")
def fuzzer(tmp_path_factory):
    return fuzz.Fuzzer(tmp_path_factory.mktemp("fuzz"))


@pytest.mark.parametrize("kind", TRIALS)
def test_nothing_is_found(fuzzer, tmp_path, kind):
    for number in range(TRIALS[kind]):
        assert fuzz.trial(fuzzer, kind, number, 1, tmp_path / str(number)) == ""


def ended(**changes) -> Ended:
    fields = {"arguments": (), "status": 2, "out": "", "err": "carsim: a: b; c\n", "seconds": 1.0}
    return Ended(**{**fields, **changes})


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        ({}, ""),
        ({"status": None}, "hangs"),
        ({"status": 1, "err": "Traceback (most recent call last):"}, "traceback"),
        ({"status": -11}, "exit status -11"),
        ({"err": "one\ntwo\n"}, "2 lines"),
        ({"err": ""}, "0 lines"),
        ({"err": "x" * 3000}, "3000 characters"),
        ({"err": "a\x1b[31m"}, "prints"),
    ],
)
def test_what_a_finding_is(changes, finding):
    assert ended(**changes).finding.startswith(finding)
    assert bool(ended(**changes).finding) == bool(finding)


def test_figures_that_cannot_be_are_found():
    policy = {"policy": "p", "is_bound": False, "is_chosen": True, "latency_s": 2.0, "busy": 0.5}
    bound = {**policy, "is_bound": True, "is_chosen": False, "latency_s": 1.0}
    run = {"fits": True, "policies": [policy, bound]}
    assert fuzz.impossible(run) == ""
    assert "busy is 1.1" in fuzz.impossible({**run, "policies": [{**policy, "busy": 1.1}, bound]})
    faster = {**run, "policies": [{**policy, "latency_s": 0.9}, bound]}
    assert "beats its bound" in fuzz.impossible(faster)


def test_a_command_that_hangs_or_breaks_is_noticed(tmp_path):
    def break_it():
        import carsim.cli

        def broken():
            raise ZeroDivisionError

        carsim.cli.main = broken

    assert call("config", "metrics", before=break_it).finding.startswith("traceback")
    import time

    assert call(
        "config", "metrics", seconds=0.3, before=lambda: time.sleep(3600)
    ).finding.startswith("hangs")


def test_a_trial_that_breaks_is_a_finding_and_not_the_end(fuzzer, tmp_path, monkeypatch):
    for how in ("spoilt_text", "spoilt", "nudged"):
        monkeypatch.setattr(fuzz, how, None)
    found = fuzz.trial(fuzzer, "designs", 0, 1, tmp_path / "0")
    assert found.startswith("the trial itself: TypeError(")

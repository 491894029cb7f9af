"""The guard against slowdowns: it counts the same each time, and it fails when code gets slower."""

import json
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from carsim.machine import phases
from carsim.machine.phases import FIDELITIES

SPEED = Path(__file__).parents[2] / "studies" / "speed"


@pytest.fixture
def guard(monkeypatch):
    monkeypatch.syspath_prepend(str(SPEED))
    yield runpy.run_path(str(SPEED / "guard.py"))
    sys.modules.pop("points", None)


def work_of_a_point(guard):
    point = guard["make_point"](steps=8)
    guard["run_point"](point)
    return lambda: guard["run_point"](point)


def test_phases_that_take_eight_times_the_work_fail(guard, monkeypatch):
    work = work_of_a_point(guard)
    before = {"python_calls": guard["count_calls"](work)}
    assert guard["compare"](before, before) == [("python_calls", 1.0, True)]
    once = FIDELITIES["fluid"]
    eight = {"fluid": lambda phase: next(reversed([once(phase) for _ in range(8)]))}
    monkeypatch.setattr(phases, "FIDELITIES", {**FIDELITIES, **eight})
    ((_, factor, is_fine),) = guard["compare"]({"python_calls": guard["count_calls"](work)}, before)
    assert factor > 2
    assert not is_fine


def test_more_time_for_as_many_calls_shows_in_the_ratio(guard, monkeypatch):
    # Such as an array that is copied over and over. The clock is the test's own.
    now = 0.0

    def takes(seconds):
        def work():
            nonlocal now
            now += seconds

        return work

    ratio = guard["ratio"]
    monkeypatch.setitem(ratio.__globals__, "time", SimpleNamespace(process_time=lambda: now))
    before = {"point_ratio": ratio(takes(3.0), takes(1.0), 5)}
    assert before == {"point_ratio": 3.0}
    for seconds, is_fine in ((5.9, True), (6.1, False)):
        found = {"point_ratio": ratio(takes(seconds), takes(1.0), 5)}
        assert guard["compare"](found, before)[0][2] is is_fine


def test_the_committed_baseline_has_the_figures_of_the_guard(guard):
    assert set(json.loads((SPEED / "baseline.json").read_text())) == {"python_calls", "point_ratio"}

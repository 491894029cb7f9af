"""The recorder, the timeline of a window of steps, and its Chrome trace."""

import json
from dataclasses import replace
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pytest
from tiny import tiny_report

from carsim.base.errors import InputError
from carsim.decisions.attention import Dense
from carsim.machine.recording import Timeline
from carsim.machine.simulate import simulate
from carsim.report.chrome import chrome_trace
from carsim.runs.timeline import MAX_LAYER_STEPS, check_window, record_timeline, usage_by_step

DESIGNS = {
    "broadcast": (),
    "private": ("machine.weight_sharing=private", "policy.schedule=static"),
    "groups": ("machine.drs.index_register_bits=2", "machine.decision_at=residual"),
    "headless": ("machine.include_head=false",),
}


def cycles_of(overrides, first, stop):
    """Cycles of steps of the first batch as the run itself counted them."""
    chosen = tiny_report(*overrides).chosen
    simulation = simulate(chosen.simulation.plan, chosen.batches, detail=True)
    layers = sum(cycles[0, first:stop].sum() for cycles in simulation.phase_cycles.values())
    head = simulation.totals.get("head")
    return int(layers) + (head.cycles // head.count * (stop - first) if head else 0)


@pytest.mark.parametrize("overrides", DESIGNS.values(), ids=DESIGNS)
def test_timeline_takes_exactly_the_cycles_of_the_run(overrides):
    timeline = record_timeline(tiny_report(*overrides).chosen, 14, 20)
    assert timeline.cycles == cycles_of(overrides, 14, 20)


class Picky(Dense):
    """Attention whose reads depend on the data."""

    records: ClassVar[bool] = True


def picky_row():
    """The tiny run, where each step reads as many keys as its own data say."""
    chosen = tiny_report().chosen
    shape = chosen.batches.replay.shape[:3]
    tokens = np.random.default_rng(0).integers(1, 50, shape)
    batches = replace(chosen.batches, reads=(tokens, np.ones(shape, np.int64)))
    plan = replace(chosen.simulation.plan, attention=Picky())
    return replace(chosen, batches=batches, simulation=simulate(plan, batches, detail=True))


def test_a_window_reads_what_its_own_steps_read():
    row = picky_row()
    cycles = sum(each[0, 14:20].sum() for each in row.simulation.phase_cycles.values())
    head = row.simulation.totals["head"]
    assert record_timeline(row, 14, 20).cycles == cycles + head.cycles // head.count * 6


@pytest.mark.parametrize("overrides", DESIGNS.values(), ids=DESIGNS)
def test_slices_of_a_track_follow_one_another(overrides):
    timeline = record_timeline(tiny_report(*overrides).chosen, 14, 20)
    assert len(timeline.tracks) >= 4
    for track in timeline.tracks:
        slices = [s for s in timeline.slices if s.track == track]
        slices.sort(key=lambda s: s.start_cycle)
        assert all(0 <= s.start_cycle < s.end_cycle <= timeline.cycles for s in slices)
        assert all(a.end_cycle <= b.start_cycle for a, b in pairwise(slices))


def test_samples_hold_from_the_start_of_each_phase():
    timeline = record_timeline(tiny_report().chosen, 14, 20)
    starts = [s.start_cycle for s in timeline.slices if s.track == "phases"]
    assert {sample.counter for sample in timeline.samples} == {"ps_ddr GB/s", "cores busy"}
    busy = [sample for sample in timeline.samples if sample.counter == "cores busy"]
    assert [sample.cycle for sample in busy] == starts
    assert all(0 < sample.value <= 1 for sample in busy)


def test_steps_and_phases_cover_the_window_without_a_gap():
    timeline = record_timeline(tiny_report().chosen, 14, 20)
    for track, count in (("steps", 6), ("phases", 6 * (4 * 4 + 1))):
        slices = [s for s in timeline.slices if s.track == track]
        assert len(slices) == count
        ends = [0, *(s.end_cycle for s in slices)]
        assert [s.start_cycle for s in slices] == ends[:-1]
        assert ends[-1] == timeline.cycles
    assert timeline.tracks[:2] == ["steps", "phases"]
    assert timeline.slices[-1].name == "step 19"


def test_observing_changes_nothing_and_nobody_observes_unasked():
    before = tiny_report().chosen.simulation.batch_cycles.copy()
    record_timeline(tiny_report().chosen, 0, 3)
    assert (tiny_report().chosen.simulation.batch_cycles == before).all()


@pytest.mark.parametrize("overrides", DESIGNS.values(), ids=DESIGNS)
def test_usage_sums_to_the_run(overrides):
    chosen = tiny_report(*overrides).chosen
    usage = usage_by_step(chosen)
    prefill = chosen.simulation.totals["prefill"]
    batch_prefill = prefill.cycles // chosen.n_batches
    assert usage.cycles.sum() == chosen.simulation.batch_cycles[0] - batch_prefill
    assert usage.cycles[14:20].sum() == cycles_of(overrides, 14, 20)
    assert ((usage.core_busy > 0) & (usage.core_busy <= 1)).all()
    for shares in usage.memory_utilisation.values():
        assert ((shares > 0) & (shares <= 1)).all()
    assert usage.replay_ratio.mean() == pytest.approx(chosen.replay_all)


def test_usage_moves_the_bytes_of_the_run():
    chosen = tiny_report().chosen  # a single batch
    usage = usage_by_step(chosen)
    path = next(p for p in chosen.simulation.plan.hw.paths if p.name == "ps_ddr")
    seconds = usage.cycles / (usage.clock_mhz * 1e6)
    moved = (usage.memory_utilisation["ps_ddr"] * path.peak_gbps * 1e9 * seconds).sum()
    prefill = sum(chosen.simulation.totals["prefill"].dram_bytes)
    assert moved + prefill == pytest.approx(chosen.dram_bytes["ps_ddr"])


@pytest.mark.parametrize(("first", "stop"), [(3, 3), (4, 3), (0, 49), (48, 49), (-1, 2)])
def test_a_window_outside_the_video_is_refused(first, stop):
    with pytest.raises(InputError, match=rf"`timeline` {first}:{stop}: is no range of the 48 st"):
        record_timeline(tiny_report().chosen, first, stop)


def test_a_window_too_large_to_look_at_is_refused_with_what_is_allowed():
    check_window(0, MAX_LAYER_STEPS // 32, 2048, 32)
    with pytest.raises(
        InputError, match="more than the limit of 8,192 layer-steps; take at most 256"
    ):
        check_window(0, MAX_LAYER_STEPS // 32 + 1, 2048, 32)


def test_slices_without_length_are_dropped():
    timeline = Timeline()
    timeline.emit("a", "nothing", 3, 3)
    assert timeline.slices == []


@pytest.fixture
def document():
    timeline = Timeline(first_tracks=("top",))
    for length in (7, 1, 3):
        timeline.sample("GB/s", length / 2)
        timeline.emit("lane", "x", 0, length)
        timeline.emit("top", "y", 0, length)
        timeline.advance(length)
    return chrome_trace(timeline, 300.0, "a title", {"fits": False})


def test_chrome_trace_names_process_and_tracks(document):
    names = {
        (event["name"], event["tid"]): event["args"]["name"]
        for event in document["traceEvents"]
        if event["ph"] == "M" and "name" in event["args"]
    }
    assert names == {
        ("process_name", 0): "a title",
        ("thread_name", 1): "top",
        ("thread_name", 2): "lane",
    }
    assert document["otherData"] == {
        "title": "a title",
        "cycles": 11,
        "clock_mhz": 300.0,
        "fits": False,
    }


def test_chrome_trace_slices_meet_in_the_nanosecond_of_their_boundary(document):
    # 300 MHz has 10/3 ns per cycle: boundaries at 0, 23.3, 26.7 and 36.7 ns.
    slices = [event for event in document["traceEvents"] if event["ph"] == "X"]
    lane = [event for event in slices if event["tid"] == 2]
    assert [int(event["ts"] * 1000) for event in lane] == [0, 23, 27]
    assert [round(event["dur"] * 1000) for event in lane] == [23, 4, 10]
    assert [event["ts"] for event in slices] == sorted(event["ts"] for event in slices)
    assert lane[1]["args"] == {"start_cycle": 7, "end_cycle": 8}


def test_a_viewer_that_truncates_to_nanoseconds_sees_no_overlap():
    timeline = Timeline()
    for _ in range(3000):
        timeline.emit("lane", "x", 0, 1)
        timeline.advance(1)
    events = chrome_trace(timeline, 1000.0, "a cycle per nanosecond", {})["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    assert [int(event["ts"] * 1000) for event in slices] == list(range(3000))
    assert {int(event["dur"] * 1000) for event in slices} == {1}


def test_chrome_trace_is_plain_json_with_the_keys_that_viewers_need(document):
    document = json.loads(json.dumps(document, allow_nan=False))
    needed = {"X": {"name", "pid", "tid", "ts", "dur"}, "C": {"name", "pid", "ts", "args"}}
    for event in document["traceEvents"]:
        assert needed.get(event["ph"], {"name", "pid", "args"}) <= set(event)
    counters = [event for event in document["traceEvents"] if event["ph"] == "C"]
    assert [event["args"]["value"] for event in counters] == [3.5, 0.5, 1.5]

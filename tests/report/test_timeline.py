"""The timeline of a window of steps, and its Chrome trace."""

import json
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pytest
from plainly import phase_cycles
from tiny import tiny_report

from carsim.base.errors import InputError
from carsim.decisions.attention import Dense
from carsim.machine.booking import accounts
from carsim.machine.phases import Phases
from carsim.machine.simulate import simulate
from carsim.report.chrome import chrome_trace
from carsim.runs.timeline import (
    MAX_LAYER_STEPS,
    Timeline,
    TrackSlice,
    check_window,
    record_timeline,
    usage_by_step,
)

DESIGNS = {
    "broadcast": (),
    "private": ("machine.weight_sharing=private", "policy.schedule=static"),
    "groups": ("machine.drs.index_register_bits=2", "machine.decision_at=residual"),
    "headless": ("machine.include_head=false",),
}
EACH = pytest.mark.parametrize("overrides", DESIGNS.values(), ids=DESIGNS)


def cycles_of(row, first, stop):
    """Cycles of steps of the first batch as the run itself counted them."""
    simulation = simulate(row.simulation.plan, row.batches, detail=True)
    layers = sum(cycles[0, first:stop].sum() for cycles in phase_cycles(simulation).values())
    head = simulation.totals.get("head")
    return int(layers) + (head.cycles // head.count * (stop - first) if head else 0)


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


@pytest.mark.parametrize("of", [*DESIGNS, "picky"])
def test_timeline_takes_exactly_the_cycles_of_the_run(of):
    row = picky_row() if of == "picky" else tiny_report(*DESIGNS[of]).chosen
    assert record_timeline(row, 14, 20).cycles == cycles_of(row, 14, 20)


@pytest.mark.parametrize("fidelity", ["fluid", "tile"])
@EACH
def test_slices_of_a_core_or_port_sum_to_what_the_run_has_booked(overrides, fidelity):
    """Busy, and waiting on each memory, on cores, instructions or replays; the rest is idle."""
    row = tiny_report(*overrides).chosen
    plan = replace(row.simulation.plan, phases=Phases(row.simulation.plan.hw, fidelity, books=True))
    run = simulate(plan, row.batches.part(np.arange(48), most=1), detail=True)
    row = replace(row, simulation=run)
    timeline = record_timeline(row, 14, 20)
    sums = [visits.spread(visits.outcome.booked) for visits in run.visits]
    booked = sum(of_kind[0, 14:20].sum(axis=(0, 1)) for of_kind in sums if of_kind.size)
    drawn = Counter()
    for each in timeline.slices:
        waits = each.name.startswith("waits for ")
        whom = each.name.removeprefix("waits for ")
        words = {"instructions": "dispatcher", "a replay": "replay"}
        state = words.get(whom, "core" if whom.startswith("core") else whom) if waits else "busy"
        state = "exchange" if each.name == "exchange" else state
        drawn[each.track, state] += each.end_cycle - each.start_cycle
    by_track = accounts(plan.hw, booked.tolist(), timeline.cycles)
    assert set(by_track) - {"port pl_ddr"} <= set(timeline.tracks)
    for track, states in by_track.items():
        assert sum(states.values()) == timeline.cycles
        assert min(states.values()) >= 0
        for state, cycles in states.items():
            assert state == "idle" or drawn[track, state] == cycles, (track, state)


def test_steps_and_phases_cover_the_window_without_a_gap():
    timeline = record_timeline(tiny_report().chosen, 14, 20)
    for track, count in (("steps", 6), ("phases", 6 * (4 * 4 + 1))):
        slices = [s for s in timeline.slices if s.track == track]
        assert len(slices) == count
        assert sum(s.end_cycle - s.start_cycle for s in slices) == timeline.cycles
    tracks = "steps,phases,DRS,core 0,core 1,DMA,port ps_ddr"
    assert timeline.tracks == tuple(tracks.split(","))
    assert timeline.slices[-1].name == "step 19"


@EACH
def test_usage_sums_to_the_run(overrides):
    row = tiny_report(*overrides).chosen
    usage = usage_by_step(row)
    totals = row.simulation.totals
    prefill = totals["prefill"].cycles // row.n_batches
    assert usage.cycles.sum() == row.simulation.batch_cycles[0] - prefill
    assert usage.cycles[14:20].sum() == cycles_of(row, 14, 20)
    assert ((usage.core_busy > 0) & (usage.core_busy <= 1)).all()
    assert usage.replay_ratio.mean() == pytest.approx(row.replay_all)
    path = next(p for p in row.simulation.plan.hw.paths if p.name == "ps_ddr")
    shares, seconds = usage.memory_utilisation["ps_ddr"], usage.cycles / (usage.clock_mhz * 1e6)
    assert ((shares > 0) & (shares <= 1)).all()
    moved = (shares * path.peak_gbps * 1e9 * seconds).sum()
    # A single batch.
    assert moved + sum(totals["prefill"].dram_bytes) == pytest.approx(row.dram_bytes["ps_ddr"])


def test_a_window_too_large_to_look_at_is_refused_with_what_is_allowed():
    check_window(0, MAX_LAYER_STEPS // 32, 2048, 32)
    with pytest.raises(
        InputError, match="more than the limit of 4,096 layer-steps; take at most 128"
    ):
        check_window(0, MAX_LAYER_STEPS // 32 + 1, 2048, 32)


def assert_valid(document):
    """As the trace-event format has it: plain JSON, needed keys, no overlap within a track.

    Returns complete events by track, in whole nanoseconds as viewers truncate: [(start, length)].
    """
    document = json.loads(json.dumps(document, allow_nan=False))
    needed, tracks = {"X": {"name", "pid", "tid", "ts", "dur"}}, defaultdict(list)
    for event in document["traceEvents"]:
        assert needed.get(event["ph"], {"name", "pid", "args"}) <= set(event)
        if event["ph"] == "X":
            place = int(event["ts"] * 1000), round(event["dur"] * 1000)
            tracks[event["tid"]].append(place)
    names = [e["args"]["name"] for e in document["traceEvents"] if e["name"] == "thread_name"]
    assert set(tracks) <= set(range(1, 1 + len(names)))
    for events in tracks.values():
        assert events == sorted(events)
        assert all(length >= 0 and start >= 0 for start, length in events)
        assert all(a + length <= b for (a, length), (b, _) in pairwise(events))
    return tracks


def test_a_chrome_trace_is_valid_and_as_long_as_the_window():
    timeline = record_timeline(tiny_report().chosen, 14, 20)
    document = chrome_trace(timeline, 300.0, "a title", {"fits": False})
    tracks = assert_valid(document)
    slices = [event["args"] for event in document["traceEvents"] if event["ph"] == "X"]
    ends = [(each["start_cycle"], -each["end_cycle"]) for each in slices]
    assert ends == sorted(ends)  # what others lie within comes first
    length = round(timeline.cycles * 1000 / 300)
    for thread in (1, 2):  # steps, phases
        assert sum(each for _, each in tracks[thread]) == length
    assert max(start + each for events in tracks.values() for start, each in events) == length
    facts = {"title": "a title", "cycles": timeline.cycles, "clock_mhz": 300.0, "fits": False}
    assert document["otherData"] == facts


def test_slices_meet_in_the_nanosecond_of_their_boundary():
    # 300 MHz has 10/3 ns per cycle: boundaries at 0, 23.3, 26.7 and 36.7 ns.
    slices = tuple(TrackSlice("core 0", "x", *ends) for ends in ((0, 7), (7, 8), (8, 11)))
    document = chrome_trace(Timeline(11, ("top", "core 0"), slices), 300.0, "", {})
    assert assert_valid(document) == {2: [(0, 23), (23, 4), (27, 10)]}
    names = [e["args"]["name"] for e in document["traceEvents"] if e["name"] == "thread_name"]
    assert names == ["top", "core 0"]
    assert document["traceEvents"][-1]["args"] == {"start_cycle": 8, "end_cycle": 11}


def test_a_viewer_that_truncates_to_nanoseconds_sees_no_overlap():
    slices = tuple(TrackSlice("core 0", "x", n, n + 1) for n in range(3000))
    document = chrome_trace(Timeline(3000, ("core 0",), slices), 1000.0, "a cycle a ns", {})
    assert assert_valid(document) == {1: [(n, 1) for n in range(3000)]}

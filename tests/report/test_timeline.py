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

from carsim.account.booking import accounts, booked
from carsim.account.simulation import simulate_policy
from carsim.base.errors import InputError
from carsim.decisions.attention import Dense
from carsim.machine.phases import Phases
from carsim.report.chrome import chrome_trace, read_timelines
from carsim.report.figures.slices import compared_rows, layer_plot, record_layer
from carsim.runs.timeline import (
    MAX_LAYER_STEPS,
    MemoryRate,
    Timeline,
    TrackSlice,
    _Recorder,
    check_window,
    mixed_layer_step,
    record_layer_step,
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
    """Cycles of steps of the first batch as the run itself counts them, tile by tile."""
    simulation = simulate_policy(tiled(row).simulation.plan, row.batches, detail=True)
    layers = sum(cycles[0, first:stop].sum() for cycles in phase_cycles(simulation).values())
    head = simulation.totals.get("head")
    return int(layers) + (head.cycles // head.count * (stop - first) if head else 0)


def tiled(row, *, books=False, fidelity="tile"):
    """The row at fidelity ``tile``, which every timeline has, or at another."""
    plan = row.simulation.plan
    plan = replace(plan, phases=Phases(plan.hw, fidelity, book=booked if books else None))
    first_batch = row.batches.at_steps(np.arange(48), n_batches=1)
    run = simulate_policy(plan, first_batch, detail=True)
    return replace(row, simulation=run)


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
    return replace(chosen, batches=batches, simulation=simulate_policy(plan, batches, detail=True))


@pytest.mark.parametrize("of", [*DESIGNS, "picky"])
def test_timeline_takes_exactly_the_cycles_of_the_run(of):
    row = picky_row() if of == "picky" else tiny_report(*DESIGNS[of]).chosen
    assert record_timeline(row, 14, 20).cycles == cycles_of(row, 14, 20)


def leaves(timeline):
    """Slices that enclose no others."""
    return [piece for piece in timeline.slices if piece.kind]


def state_of(piece):
    """The state of an account that a slice is of."""
    if piece.is_busy:
        return "busy"
    whom = piece.kind.removeprefix("waits for ")
    words = {"instructions": "dispatcher", "a replay": "replay"}
    return words.get(whom, "core" if whom.startswith("core") else whom)


@EACH
@pytest.mark.parametrize("fidelity", ["tile", "fluid"])
def test_slices_of_cores_and_ports_sum_to_what_the_run_has_booked(overrides, fidelity, monkeypatch):
    """Busy, and waiting on each memory, on cores, instructions or replays; the rest is idle.

    An account calls the fullest core of each phase core 0, so that cores are compared by their sum.
    A timeline is at fidelity fluid where no phase has few enough tiles to be played.
    """
    if fidelity == "fluid":
        monkeypatch.setattr("carsim.runs.played_phase.MOST_TILES", 0)
    row = tiled(tiny_report(*overrides).chosen, books=True, fidelity=fidelity)
    plan = row.simulation.plan
    timeline = record_timeline(row, 14, 20)
    sums = [visits.spread(visits.outcome.booked) for visits in row.simulation.visits]
    booked_cycles = sum(of_kind[0, 14:20].sum(axis=(0, 1)) for of_kind in sums if of_kind.size)

    def part(track):
        return "cores" if track.startswith("core") else track

    drawn = Counter()
    for piece in leaves(timeline):
        drawn[part(piece.track), state_of(piece)] += piece.end_cycle - piece.start_cycle
    wanted = Counter()
    for track, states in accounts(plan.machine, booked_cycles.tolist(), timeline.cycles).items():
        assert sum(states.values()) == timeline.cycles
        assert min(states.values()) >= 0
        for state, cycles in states.items():
            wanted[part(track), state] += cycles * (state != "idle")
    tracks = {"cores", *(f"port {name}" for name in plan.machine.memories)}
    kept = {key: n for key, n in drawn.items() if key[0] in tracks and n and key[1] != "idle"}
    assert kept == {key: n for key, n in wanted.items() if n}


@EACH
def test_decisions_are_those_of_the_trace_and_cores_those_of_the_schedule(overrides):
    row = tiny_report(*overrides).chosen
    step, layer = mixed_layer_step(row, 16)
    timeline = record_layer_step(row, step, layer)
    replaying = row.batches.replay[0, step, layer]
    assert 0 < replaying.sum() < len(replaying)
    decided = defaultdict(set)
    for piece in timeline.slices:
        if piece.decision and piece.track.startswith("core"):
            decided[piece.decision].update(piece.sequences)
            assert piece.layer == layer
    assert decided["computes"] == set(np.flatnonzero(~replaying))
    replays = [piece.sequences for piece in timeline.slices if piece.track == "replays"]
    assert {number for of_group in replays for number in of_group} == {*np.flatnonzero(replaying)}
    if "policy.schedule=static" in overrides:
        for piece in timeline.slices:
            if piece.decision == "computes" and piece.track.startswith("core"):
                assert {sequence % 2 for sequence in piece.sequences} == {int(piece.track[-1])}


def test_blocks_of_too_many_tiles_are_named_and_their_waits_say_for_what(monkeypatch):
    row = tiny_report().chosen
    step, layer = mixed_layer_step(row, 16)
    assert not record_layer_step(row, step, layer).unplayed
    monkeypatch.setattr("carsim.runs.played_phase.MOST_TILES", 0)
    shown = record_layer(tiny_report(), step, layer)
    plot = layer_plot(shown)
    assert "at fidelity fluid: QKV projection, attention, output projection, MLP" in plot.caption
    timeline = next(iter(shown.timelines.values()))
    waits = [piece.note for piece in leaves(timeline) if piece.note and not piece.is_busy]
    assert any("for tiles of W_" in note for note in waits)
    assert not any("for tiles of :" in note for note in waits)


PRIVATE = ("machine.weight_sharing=private", "machine.cores=3")


def test_instructions_lead_from_the_dispatcher_to_the_core_that_executes_them():
    row = tiny_report(*PRIVATE).chosen
    step, layer = mixed_layer_step(row, 16)
    timeline = record_layer_step(row, step, layer)
    arrows = [arrow for arrow in timeline.arrows if arrow.name == "instructions"]
    computing = np.flatnonzero(~row.batches.replay[0, step, layer])
    # DRS deals computing sequences to cores 0, 1, ... in their order.
    assert [arrow.to_track for arrow in arrows] == [f"core {n % 3}" for n in range(len(computing))]
    for arrow, sequence in zip(arrows, computing, strict=True):
        assert arrow.from_track == "DRS"
        assert sequence in enclosing(timeline, arrow.from_track, arrow.from_cycle).sequences
        assert sequence in enclosing(timeline, arrow.to_track, arrow.to_cycle).sequences


def enclosing(timeline, track, cycle):
    """The innermost slice of a track at a cycle."""
    found = [
        piece
        for piece in timeline.slices
        if piece.track == track and piece.start_cycle <= cycle < piece.end_cycle
    ]
    return min(found, key=lambda piece: piece.end_cycle - piece.start_cycle)


@EACH
def test_ends_of_arrows_exist_and_waits_lead_to_what_they_wait_for(overrides):
    timeline = record_timeline(tiny_report(*overrides).chosen, 14, 20)
    assert timeline.arrows
    for arrow in timeline.arrows:
        start = enclosing(timeline, arrow.from_track, arrow.from_cycle)
        enclosing(timeline, arrow.to_track, arrow.to_cycle)
        assert arrow.from_cycle <= arrow.to_cycle
        if arrow.name == "waits for" and start.kind.startswith("waits for core"):
            assert arrow.to_track == start.kind.removeprefix("waits for ")
        elif arrow.name == "waits for" and start.tiles:
            assert arrow.to_track == f"port {start.kind.removeprefix('waits for ')}"
    begun = {(arrow.from_track, arrow.from_cycle) for arrow in timeline.arrows}
    waits = [p for p in leaves(timeline) if p.tiles and not p.is_busy]
    assert all((piece.track, piece.start_cycle) in begun for piece in waits)


def test_a_wait_says_for_which_tile_and_whom_the_port_serves():
    """Three cores with buffers of their own ask at once; the port serves the first one first."""
    row = tiny_report(*PRIVATE).chosen
    timeline = record_layer_step(row, 16, 0)
    waits = [p for p in leaves(timeline) if p.track == "core 1" and p.tiles and not p.is_busy]
    wait = next(piece for piece in waits if piece.operand == "K, V")
    cycles = wait.end_cycle - wait.start_cycle
    assert wait.note.startswith(f"core 1 waits {cycles} cycles for tile 1 of K, V: port ps_ddr ")
    assert "core 0" in wait.note
    behind = next(p for p in leaves(timeline) if p.kind == "waits for core 0")
    assert behind.note.endswith("for core 0, which computes sequences 0, 3")


def test_groups_of_tiles_cover_them_all_and_keep_their_cycles():
    run = tiny_report(*PRIVATE).chosen
    for most in (1, 2, 12):
        recorder = _Recorder(run, most_groups=most)
        recorder.layer_step(16, 0)
        timeline = recorder.timeline()
        tiles = defaultdict(list)
        for piece in leaves(timeline):
            if piece.tiles and piece.is_busy and piece.track.startswith("core"):
                tiles[piece.track, piece.operand].append(piece.tiles)
        assert tiles
        for groups in tiles.values():
            assert len(groups) <= most
            assert groups[0][0] == 1
            assert all(after[0] == before[1] + 1 for before, after in pairwise(groups))


def test_counters_hold_what_the_slices_say():
    timeline = record_timeline(tiny_report(*PRIVATE).chosen, 14, 20)
    busy = [each for each in timeline.counts if each.name == "busy cores"]
    assert {each.number for each in busy} <= {0, 1, 2, 3}
    assert busy[-1].number == 0
    ends = [each.start_cycle for each in busy[1:]]
    area = sum(b.number * (end - b.start_cycle) for b, end in zip(busy, ends, strict=False))
    cores = [p for p in leaves(timeline) if p.is_busy and p.track.startswith("core")]
    assert area == sum(piece.end_cycle - piece.start_cycle for piece in cores)
    slots = [each.number for each in timeline.counts if each.name == "full slots"]
    # Three cores have buffers of four tiles for weights and as many for K and V.
    assert 0 <= min(slots) < max(slots) <= 3 * (4 + 4)


def test_static_and_drs_stand_on_one_time_axis():
    report = tiny_report(*PRIVATE)
    names = [row.variant.key for row in compared_rows(report)]
    assert names == ["replay/drs", "replay/static"]
    assert [row.variant.key for row in compared_rows(report, ["static", "dense/static"])] == [
        "replay/static",
        "dense/static",
    ]
    with pytest.raises(InputError, match="`timeline` nobody: is no policy of this run; take "):
        compared_rows(report, ["nobody"])
    timelines = {row.variant.name: record_timeline(row, 16, 17) for row in compared_rows(report)}
    document = chrome_trace(timelines, 300.0, "title", {"first_step": 16})
    assert_valid(document)
    names = [e["args"]["name"] for e in document["traceEvents"] if e["name"] == "process_name"]
    assert names == [*timelines]
    read = read_timelines(document, "a file")
    for policy, timeline in timelines.items():
        assert Counter(read[policy].slices) == Counter(timeline.slices)
        assert read[policy].arrows == timeline.arrows
        assert read[policy].tracks == timeline.tracks
        assert min(piece.start_cycle for piece in read[policy].slices) == 0
    with pytest.raises(InputError, match="a file: is broken"):
        read_timelines({"traceEvents": [{"ph": "X"}]}, "a file")


def test_steps_and_phases_cover_the_window_without_a_gap():
    timeline = record_timeline(tiny_report().chosen, 14, 20)
    for track, count in (("steps", 6), ("phases", 6 * (4 * 4 + 1))):
        slices = [s for s in timeline.slices if s.track == track]
        assert len(slices) == count
        assert sum(s.end_cycle - s.start_cycle for s in slices) == timeline.cycles
    tracks = "steps,phases,DRS,replays,core 0,core 1,DMA,port ps_ddr"
    assert timeline.tracks == tuple(tracks.split(","))
    assert timeline.slices[-1].name == "step 19"
    idle = record_layer_step(tiny_report().chosen, 0, 0)  # nothing is decided in the first frame
    assert idle.tracks == ("phases", "core 0", "core 1", "DMA", "port ps_ddr")


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


NEEDED = {
    "X": {"name", "cat", "pid", "tid", "ts", "dur"},
    "C": {"name", "pid", "ts", "args"},
    "M": {"name", "pid", "args"},
    "s": {"name", "cat", "pid", "tid", "ts", "id"},
    "f": {"name", "cat", "pid", "tid", "ts", "id", "bp"},
}
"""Keys of the events of the trace-event format."""


def assert_valid(document):
    """As the trace-event format has it: plain JSON, needed keys, slices nest, arrows have ends.

    Returns complete events by track, in whole nanoseconds as viewers truncate: [(start, length)].
    """
    document = json.loads(json.dumps(document, allow_nan=False))
    tracks = defaultdict(list)
    threads = defaultdict(set)
    flows = defaultdict(dict)
    for event in document["traceEvents"]:
        assert NEEDED[event["ph"]] <= set(event)
        if event["ph"] == "X":
            place = int(event["ts"] * 1000), round(event["dur"] * 1000)
            tracks[event["pid"], event["tid"]].append(place)
        elif event["ph"] in "sf":
            flows[event["id"]][event["ph"]] = event
        elif event["name"] == "thread_name":
            threads[event["pid"]].add(event["tid"])
    for (process, thread), events in tracks.items():
        assert thread in threads[process]
        assert events == sorted(events, key=lambda each: (each[0], -each[1]))
        assert all(length >= 0 and start >= 0 for start, length in events)
        open_ends = []
        for start, length in events:
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or start + length <= open_ends[-1]
            open_ends.append(start + length)
    for ends in flows.values():
        assert ends["s"]["ts"] <= ends["f"]["ts"]
        for end in ends.values():
            at = int(end["ts"] * 1000)
            around = tracks[end["pid"], end["tid"]]
            assert any(start <= at < start + length for start, length in around)
    if len({process for process, _ in tracks}) > 1:
        return tracks
    return {thread: events for (_, thread), events in tracks.items()}


def test_a_chrome_trace_is_valid_and_as_long_as_the_window():
    timeline = record_timeline(tiny_report().chosen, 14, 20)
    document = chrome_trace({"DRS": timeline}, 300.0, "a title", {"fits": False})
    tracks = assert_valid(document)
    slices = [event["args"] for event in document["traceEvents"] if event["ph"] == "X"]
    ends = [(each["start_cycle"], -each["end_cycle"]) for each in slices]
    assert ends == sorted(ends)  # what others lie within comes first
    length = round(timeline.cycles * 1000 / 300)
    for thread in (1, 2):  # steps, phases
        assert sum(each for _, each in tracks[thread]) == length
    assert max(start + each for events in tracks.values() for start, each in events) == length
    facts = {
        "title": "a title",
        "cycles": {"DRS": timeline.cycles},
        "clock_mhz": 300.0,
        "fits": False,
    }
    assert document["otherData"] == facts


def test_slices_meet_in_the_nanosecond_of_their_boundary():
    # 300 MHz has 10/3 ns per cycle: boundaries at 0, 23.3, 26.7 and 36.7 ns.
    slices = tuple(TrackSlice("core 0", "x", *ends) for ends in ((0, 7), (7, 8), (8, 11)))
    document = chrome_trace({"a": Timeline(11, ("top", "core 0"), slices)}, 300.0, "", {})
    assert assert_valid(document) == {2: [(0, 23), (23, 4), (27, 10)]}
    names = [e["args"]["name"] for e in document["traceEvents"] if e["name"] == "thread_name"]
    assert names == ["top", "core 0"]
    assert document["traceEvents"][-1]["args"] == {"start_cycle": 8, "end_cycle": 11}


def test_the_rate_of_a_memory_is_a_counter_from_the_beginning_of_each_phase():
    # 300 MHz has 10/3 ns per cycle: cycle 7 is at 23.3 ns.
    slices = (TrackSlice("core 0", "x", 0, 8),)
    timeline = Timeline(8, ("core 0",), slices, (MemoryRate("ddr", 7, gbps=0.5),))
    document = chrome_trace({"a": timeline}, 300.0, "", {})
    assert_valid(document)
    (counter,) = (event for event in document["traceEvents"] if event["ph"] == "C")
    assert counter["name"] == "ddr GB/s"
    assert int(counter["ts"] * 1000) == 23
    assert counter["args"] == {"value": 0.5}


def test_rates_of_memories_times_phases_are_the_bytes_that_steps_move():
    row = tiny_report().chosen
    timeline = record_timeline(row, 14, 20)
    starts = sorted({rate.start_cycle for rate in timeline.memory_rates})
    lengths = dict(zip(starts, np.diff([*starts, timeline.cycles]).tolist(), strict=True))
    clock_hz = row.design.board.fabric_clock_mhz * 1e6
    moved = sum(
        rate.gbps * 1e9 * lengths[rate.start_cycle] / clock_hz for rate in timeline.memory_rates
    )
    usage = usage_by_step(row)
    peak_gbps = {path.name: path.peak_gbps for path in row.simulation.plan.hw.paths}
    expected = sum(
        (shares * usage.cycles)[14:20].sum() / clock_hz * peak_gbps[memory] * 1e9
        for memory, shares in usage.memory_utilisation.items()
    )
    assert moved == pytest.approx(expected)
    assert {rate.memory for rate in timeline.memory_rates} == set(usage.memory_utilisation)


def test_a_viewer_that_truncates_to_nanoseconds_sees_no_overlap():
    slices = tuple(TrackSlice("core 0", "x", n, n + 1) for n in range(3000))
    document = chrome_trace({"a": Timeline(3000, ("core 0",), slices)}, 1000.0, "a cycle a ns", {})
    assert assert_valid(document) == {1: [(n, 1) for n in range(3000)]}

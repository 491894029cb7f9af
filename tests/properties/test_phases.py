"""Invariants of single phases on drawn hardware."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import hardware, masks, small_design

from carsim.hw import drs
from carsim.hw.bench import Ahead, Bench, PhaseResult
from carsim.hw.bound import Bound
from carsim.hw.hardware import Hardware
from carsim.hw.lowering import Lane, lower
from carsim.hw.phase import AttendCase, MlpCase, OutputCase, Phases
from carsim.workload.ops import Op, Slice, Stream, mlp_ops

nothing = Ahead()


def mlp_case(
    loads: Sequence[int],
    replaying: int,
    *,
    exposed: int = 0,
    early: bool = True,
    next_lead: bool = True,
) -> MlpCase:
    return MlpCase(tuple(loads), replaying, exposed, early, False, next_lead, nothing)


def first_mlp_op(hw: Hardware, index: int):  # type: ignore[no-untyped-def]
    def op(rows: int, part: Slice, streams: int) -> Op:
        return mlp_ops(hw.design.model, rows, part, streams=streams)[index]

    return op


def check_books(result: PhaseResult) -> None:
    assert sum(result.times) == result.cycles
    assert min(result.times) >= 0
    # A core that ended last has computed all the while or waited.
    assert result.compute_cycles <= result.cycles
    # Nobody beats the bound: neither its compute nor its bytes can be had in less time.
    assert result.bound_cycles <= result.cycles


@given(hw=hardware(), attended=st.integers(1, 300), scored=st.booleans(), outside=st.booleans())
def test_attention_keeps_its_books(
    hw: Hardware, attended: int, scored: bool, outside: bool
) -> None:
    check_books(Phases(hw).simulate(AttendCase(scored, attended, outside, nothing)))


@given(hw=hardware(), lead=st.booleans())
def test_output_keeps_its_books_and_takes_what_was_fetched_ahead(hw: Hardware, lead: bool) -> None:
    phases = Phases(hw)
    attended = phases.simulate(AttendCase(False, 50, False, nothing))
    with_lead = phases.simulate(OutputCase(lead, attended.ahead))
    without = phases.simulate(OutputCase(lead, nothing))
    check_books(with_lead)
    # What is in the buffer need not come again; having it can only help.
    assert with_lead.cycles <= without.cycles
    weights = hw.path_of[Stream.WEIGHTS]
    fetchers = 1 if hw.is_lockstep else sum(load > 0 for load in hw.home_loads)
    carried = with_lead.ahead.nbytes - without.ahead.nbytes
    assert without.dram_bytes[weights] - with_lead.dram_bytes[weights] == fetchers * (
        attended.ahead.nbytes - carried
    )


@given(hw=hardware(), data=st.data())
def test_mlp_keeps_its_books(hw: Hardware, data: st.DataObject) -> None:
    mask = data.draw(masks(hw.batch))
    schedule = data.draw(st.sampled_from(sorted(drs.SCHEDULES)))
    cores = hw.design.machine.cores
    loads = drs.loads_of(drs.SCHEDULES[schedule](mask, cores), cores)
    exposed, early = data.draw(st.integers(0, 500)), data.draw(st.booleans())
    result = Phases(hw).simulate(
        mlp_case(loads, hw.batch - sum(mask), exposed=exposed, early=early)
    )
    check_books(result)
    model = hw.design.model.body
    assert result.macs == sum(mask) * model.mlp_weights  # one per weight and computing sequence


@given(hw=hardware(weight_sharing="broadcast"), data=st.data())
def test_drs_is_never_later_than_static_where_traffic_does_not_depend_on_it(
    hw: Hardware, data: st.DataObject
) -> None:
    # With one stream for all cores the bytes are the same, and a balanced core computes no longer.
    mask = data.draw(masks(hw.batch))
    cores, replaying = hw.design.machine.cores, hw.batch - sum(mask)
    phases = Phases(hw)
    balanced, static = (
        phases.simulate(mlp_case(drs.loads_of(schedule(mask, cores), cores), replaying))
        for schedule in (drs.drs, drs.static)
    )
    assert balanced.cycles <= static.cycles


def test_drs_is_later_than_static_where_it_costs_streams() -> None:
    # Eight sequences, four cores, private weights, memory-bound; sequences 0 and 4 compute, which
    # share core 0: static streams the MLP once, DRS twice.
    design = small_design(
        batch=8,
        cores=4,
        weight_sharing="private",
        array={"rows": 32, "cols": 32, "pipeline_cycles": 0},
        vector={"lanes": 64, "pipeline_cycles": 0},
    )
    phases = Phases(Hardware(design))
    mask = [b % 4 == 0 for b in range(8)]
    static, balanced, packed = (
        phases.simulate(mlp_case(drs.loads_of(schedule(mask, 4), 4), 6, next_lead=False))
        for schedule in (drs.static, drs.drs, drs.pack)
    )
    assert balanced.cycles > 1.5 * static.cycles
    assert packed.cycles == static.cycles


def test_half_computing_costs_3_45_streams_under_drs_and_3_00_under_static() -> None:
    # Mean over all 256 decisions of eight sequences on four cores, each as likely as the other:
    # static 4 * (1 - 1/4) = 3; DRS E[min(n, 4)] with n binomial(8, 1/2) = 3.453.
    every = [[bool(code >> b & 1) for b in range(8)] for code in range(256)]

    def mean_streams(schedule: str) -> float:
        loads = [drs.loads_of(drs.SCHEDULES[schedule](mask, 4), 4) for mask in every]
        return sum(sum(load > 0 for load in each) for each in loads) / 256

    assert mean_streams("static") == 3.0
    assert mean_streams("drs") == pytest.approx(3.453, abs=5e-4)
    assert mean_streams("pack") < 3.0


@given(hw=hardware(), data=st.data())
def test_nothing_starts_before_its_decision_and_its_operands(
    hw: Hardware, data: st.DataObject
) -> None:
    mask = data.draw(masks(hw.batch))
    exposed, early = data.draw(st.integers(1, 500)), data.draw(st.booleans())
    cores = hw.design.machine.cores
    slices: list[tuple[str, str, int, int]] = []
    loads = drs.loads_of(drs.drs(mask, cores), cores)
    Phases(hw, lambda *event: slices.append(event)).simulate(
        mlp_case(loads, hw.batch - sum(mask), exposed=exposed, early=early)
    )
    for track, _, begin, end in slices:
        assert begin <= end
        if track != "DRS" and not track.endswith("fetch"):
            assert begin >= exposed  # the instruction that starts it has not been sent before
        if track.endswith("fetch") and not early:
            assert begin >= exposed
    for track in {track for track, *_ in slices if track.startswith("lane")} - {
        track for track, *_ in slices if track.endswith("fetch")
    }:
        computed = [(b, e) for t, _, b, e in slices if t == track]
        fetched = [(b, e) for t, _, b, e in slices if t == f"{track} fetch"]
        # Steps follow one another, and the last one outlasts its last operand.
        assert all(a[1] <= b[0] for a, b in pairwise(computed))
        assert all(a[1] <= b[0] for a, b in pairwise(fetched))
        assert not fetched or computed[-1][1] >= fetched[-1][1]


@given(hw=hardware(), data=st.data())
def test_same_input_same_event_log(hw: Hardware, data: st.DataObject) -> None:
    # Ties are broken by the order of events, never by identity or hash.
    mask = data.draw(masks(hw.batch))
    cores = hw.design.machine.cores
    case = mlp_case(drs.loads_of(drs.static(mask, cores), cores), hw.batch - sum(mask))
    logs: list[list[tuple[str, str, int, int]]] = [[], []]
    results = [
        Phases(hw, lambda *event, log=log: log.append(event)).simulate(case)  # type: ignore[misc]
        for log in logs
    ]
    assert logs[0] == logs[1]
    assert results[0] == results[1] == Phases(hw).simulate(case)  # watching changes nothing


@given(hw=hardware(), data=st.data())
def test_buffers_stay_within_capacity_and_are_drained(hw: Hardware, data: st.DataObject) -> None:
    # Nothing is fetched that has no room, and nothing is left behind that was fetched for a step.
    mask = data.draw(masks(hw.batch))
    cores = hw.design.machine.cores
    loads = drs.loads_of(drs.static(mask, cores), cores)
    assume(any(loads))
    bench = Bench(hw, None)
    for lane in lower(hw, [first_mlp_op(hw, 0), first_mlp_op(hw, 1)], loads):
        bench.add(lane, nothing, None)
    bench.run(Bound(0, ()))
    for core in bench.cores:
        capacity = core.executed[0].buffer_bytes
        assert core.weight_buffer.peak_bytes <= capacity
        assert core.weight_buffer.level_bytes == 0
        assert core.kv_buffer.level_bytes == 0


@given(hw=hardware(mapping="batch", weight_sharing="private"), data=st.data())
def test_one_lane_of_equal_cores_is_as_many_lanes_of_one(hw: Hardware, data: st.DataObject) -> None:
    # Cores with equal work cannot be told apart, so simulating one for all is exact.
    mask = data.draw(masks(hw.batch))
    cores = hw.design.machine.cores
    loads = drs.loads_of(drs.static(mask, cores), cores)
    together = lower(hw, [first_mlp_op(hw, 0), first_mlp_op(hw, 1)], loads)
    assume(together)

    def run(lanes: Sequence[Lane]) -> tuple[int, tuple[int, ...]]:
        bench = Bench(hw, None)
        for lane in lanes:
            bench.add(lane, nothing, None)
        result = bench.run(Bound(0, ()))
        return result.cycles, result.dram_bytes

    apart = [Lane(1, lane.steps) for lane in together for _ in range(lane.cores)]
    assert run(together) == run(apart)

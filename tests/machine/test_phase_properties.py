"""Invariants of single phases on drawn hardware."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import hardware, masks, small_design

from carsim.design import override
from carsim.machine import drs
from carsim.machine.bench import Ahead, Bench, PhaseResult
from carsim.machine.bound import Bound
from carsim.machine.hardware import Hardware
from carsim.machine.lane import Lead
from carsim.machine.lowering import Lane, OpOf, lower
from carsim.machine.phase import AttendCase, MlpCase, OutputCase, Phases, QkvCase
from carsim.workload.ops import Stream, mlp_ops

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


def mlp_of(hw: Hardware) -> list[OpOf]:
    """Gate and up, and down."""

    def nth(index: int) -> OpOf:
        return lambda rows, part, streams: mlp_ops(hw.design.model, rows, part, streams=streams)[
            index
        ]

    return [nth(0), nth(1)]


def capacities(hw: Hardware, at_work: int) -> tuple[int, int]:
    """Bytes of what acts as one buffer: of weights, and of keys and values, on cores at work."""
    machine = hw.design.machine
    weight = machine.weight_buffer_bytes * (machine.cores if hw.is_tensor else 1)
    filled = machine.cores if hw.is_tensor else at_work if hw.is_lockstep else 1
    return weight, machine.kv_buffer_bytes * filled


def check_books(hw: Hardware, result: PhaseResult) -> None:
    assert sum(result.times) == result.cycles
    assert min(result.times) >= 0
    # Nothing is fetched that has no room.
    weight, kv = capacities(hw, min(hw.batch, hw.design.machine.cores))
    assert result.peak_weight_buffer_bytes <= weight
    assert result.peak_kv_buffer_bytes <= kv
    # A core that ended last has computed all the while or waited.
    assert result.compute_cycles <= result.cycles
    # Nobody beats the bound: neither its compute nor its bytes can be had in less time.
    assert result.bound_cycles <= result.cycles


@given(hw=hardware(), attended=st.integers(1, 300), scored=st.booleans(), outside=st.booleans())
def test_projection_and_attention_keep_their_books(
    hw: Hardware, attended: int, scored: bool, outside: bool
) -> None:
    phases = Phases(hw)
    projected = phases.simulate(phases.qkv_case(scored, attended, nothing))
    check_books(hw.of_attention, projected)
    # A context too long for the buffers is cut short in the key, which may change nothing.
    assert projected == phases.simulate(QkvCase(scored, attended, nothing))
    attend = AttendCase(scored, attended, outside, projected.ahead)
    check_books(hw.of_attention, phases.simulate(attend))
    # No more keys and values are fetched ahead than have room.
    at_work = min(hw.batch, hw.design.machine.cores)
    assert projected.ahead.nbytes <= capacities(hw.of_attention, at_work)[1]


@given(hw=hardware(), fidelity=st.sampled_from(["fluid", "tile"]))
def test_a_prompt_without_tokens_moves_no_keys(hw: Hardware, fidelity: str) -> None:
    result = Phases(replace(hw, fidelity=fidelity)).prefill_layer(0)
    assert result.peak_kv_buffer_bytes == 0
    assert sum(result.times) == result.cycles


@given(hw=hardware())
def test_everyone_is_at_home_where_static_puts_them(hw: Hardware) -> None:
    # Attention, head and a layer without replay are shared out alike, or K and V had to move.
    cores = hw.design.machine.cores
    assert hw.home_loads == drs.loads_of(drs.static([True] * hw.batch, cores), cores)
    assert max(hw.home_loads) == hw.slots


@given(hw=hardware(), lead=st.booleans())
def test_output_keeps_its_books_and_takes_what_was_fetched_ahead(hw: Hardware, lead: bool) -> None:
    phases = Phases(hw)
    attended = phases.simulate(AttendCase(False, 50, False, nothing))
    with_lead = phases.simulate(OutputCase(lead, attended.ahead))
    without = phases.simulate(OutputCase(lead, nothing))
    check_books(hw.of_attention, with_lead)
    # What is in the buffer need not come again; having it can only help.
    assert with_lead.cycles <= without.cycles
    weights = hw.path_of[Stream.WEIGHTS]
    fetchers = 1 if hw.is_lockstep else sum(load > 0 for load in hw.home_loads)
    carried = with_lead.ahead.nbytes - without.ahead.nbytes
    assert without.dram_bytes[weights] - with_lead.dram_bytes[weights] == fetchers * (
        attended.ahead.nbytes - carried
    )


@given(
    hw=hardware(mapping="heads", weight_sharing="broadcast"),
    attended=st.integers(1, 300),
    data=st.data(),
)
def test_by_heads_attention_is_split_and_all_else_is_not(
    hw: Hardware, attended: int, data: st.DataObject
) -> None:
    def mapped(mapping: str) -> Phases:
        return Phases(replace(hw, design=override(hw.design, {"machine.mapping": mapping})))

    split, dealt, phases = mapped("tensor"), mapped("batch"), Phases(hw)
    qkv = phases.qkv_case(True, attended, nothing)
    assert qkv == split.qkv_case(True, attended, nothing)
    projected = phases.simulate(qkv)
    assert projected == split.simulate(qkv)
    cases = [AttendCase(True, attended + n, False, projected.ahead) for n in range(5)]
    assert phases.attend_all(cases) == split.attend_all(cases)
    assert [phases.simulate(case) for case in cases] == split.attend_all(cases)
    # Buffers change hands between attention and MLP: nothing is fetched ahead across. One core has
    # nothing to split, and keeps its buffers.
    cores = hw.design.machine.cores
    ahead = phases.simulate(cases[0]).ahead
    output = split.simulate(OutputCase(cores == 1, ahead))
    assert phases.simulate(OutputCase(True, ahead)) == output
    loads = drs.loads_of(drs.drs(data.draw(masks(hw.batch)), cores), cores)
    mlp = mlp_case(loads, hw.batch - sum(loads), next_lead=True)
    assert phases.simulate(mlp) == dealt.simulate(mlp._replace(next_lead=cores == 1))
    assert phases.head() == dealt.head()
    assert phases.prefill_layer(3) == dealt.prefill_layer(3)


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
    check_books(hw, result)
    model = hw.design.model.body
    assert result.macs == sum(mask) * model.mlp_weights  # one per weight and computing sequence


@given(hw=hardware(mapping="batch"), data=st.data())
def test_the_work_of_a_phase_is_that_of_its_cores(hw: Hardware, data: st.DataObject) -> None:
    # Who works beside whom changes when work is done, and not how much of it there is.
    cores = hw.design.machine.cores
    drawn = st.lists(st.integers(0, hw.slots), min_size=cores, max_size=cores)
    loads = sorted(data.draw(drawn), reverse=True)
    phases = Phases(hw)

    def work(loads: Sequence[int]) -> tuple[int, int, int]:
        result = phases.simulate(mlp_case(loads, 0))
        return result.macs, result.vector_ops, result.busy_cycles

    alone = [work([load] + [0] * (cores - 1)) for load in loads]
    assert work(loads) == tuple(map(sum, zip(*alone, strict=True)))


def partitions(n: int, cores: int, most: int) -> Iterator[tuple[int, ...]]:
    """Every way to give ``n`` sequences to cores that are alike, ``most`` to any of them."""
    if not cores:
        yield from [()] if not n else []
        return
    for load in range(min(n, most), -1, -1):
        for rest in partitions(n - load, cores - 1, load):
            yield load, *rest


@pytest.mark.parametrize("sharing", ["private", "private_per_sequence"])
@given(data=st.data())
def test_no_assignment_at_all_beats_the_bound(sharing: str, data: st.DataObject) -> None:
    # Where every core streams for itself, the best assignment is not known beforehand: few cores
    # move few bytes, many cores compute little each. All of them are tried.
    hw = data.draw(hardware(mapping="batch", weight_sharing=sharing))
    computing = data.draw(st.integers(1, hw.batch))
    phases = Phases(hw)
    results = [
        phases.simulate(mlp_case(loads, hw.batch - computing, next_lead=False))
        for loads in partitions(computing, hw.design.machine.cores, hw.slots)
    ]
    assert len({result.bound_cycles for result in results}) == 1
    assert results[0].bound_cycles <= min(result.cycles for result in results)


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
        own = [e for t, name, _, e in slices if t == f"{track} fetch" and "ahead" not in name]
        # Steps follow one another, and the last one outlasts its last operand.
        assert all(a[1] <= b[0] for a, b in pairwise(computed))
        assert all(a[1] <= b[0] for a, b in pairwise(fetched))
        assert not own or computed[-1][1] >= own[-1]


@given(hw=hardware(), data=st.data())
def test_no_step_ends_before_its_bytes_have_come_and_its_work_is_done(
    hw: Hardware, data: st.DataObject
) -> None:
    # From a cold start: one latency, then its bytes and those before it, at all of the rate.
    loads = data.draw(masks(hw.design.machine.cores))
    assume(any(loads))
    bench = Bench(hw, None)
    for lane in lower(hw, mlp_of(hw), sorted(map(int, loads), reverse=True)):
        bench.add(lane, nothing, None)
    bench.run(Bound(0, ()))
    for core in bench.cores:
        nbytes = cycles = 0
        for step, end in zip(core.executed, core.step_ends, strict=True):
            path = hw.paths[step.path]
            nbytes += core.cores * step.stream_bytes
            cycles += step.pre_cycles + step.cycles
            assert end >= path.latency_cycles + nbytes / path.rate
            assert end >= cycles


@given(
    hw=st.one_of(hardware(), hardware(mapping="batch", weight_sharing="private")), data=st.data()
)
def test_same_input_same_event_log(hw: Hardware, data: st.DataObject) -> None:
    # Ties, as between cores that stream the same bytes, are broken by the order of events, never
    # by identity or hash.
    mask = data.draw(masks(hw.batch))
    cores = hw.design.machine.cores
    case = mlp_case(drs.loads_of(drs.drs(mask, cores), cores), hw.batch - sum(mask))
    logs: list[list[tuple[str, str, int, int]]] = [[], []]
    results = [
        Phases(hw, lambda *event, log=log: log.append(event)).simulate(case)  # type: ignore[misc]
        for log in logs
    ]
    assert logs[0] == logs[1]
    assert results[0] == results[1] == Phases(hw).simulate(case)  # watching changes nothing


@given(hw=hardware(), data=st.data())
def test_buffers_stay_within_capacity_and_are_drained(hw: Hardware, data: st.DataObject) -> None:
    # Nothing is fetched that has no room, however long the array is held up, and nothing is left
    # behind that was fetched for a step.
    mask = data.draw(masks(hw.batch))
    cores = hw.design.machine.cores
    loads = drs.loads_of(drs.static(mask, cores), cores)
    assume(any(loads))
    bench = Bench(hw, None)
    dispatched = bench.dispatch(data.draw(st.sampled_from([0, 20_000])))
    for lane in lower(hw, mlp_of(hw), loads):
        bench.add(lane, nothing, None, start_gate=dispatched)
    bench.run(Bound(0, ()))
    for core in bench.cores:
        assert core.weight_buffer.peak_bytes <= capacities(hw, sum(load > 0 for load in loads))[0]
        assert core.weight_buffer.level_bytes == 0
        assert core.kv_buffer.level_bytes == 0


@given(hw=hardware(mapping="batch", weight_sharing="private"), data=st.data())
def test_no_core_is_credited_with_more_than_it_has_fetched(
    hw: Hardware, data: st.DataObject
) -> None:
    # At a barrier all are levelled to the one that has least; a byte that one of them lacks would
    # be used without ever being moved.
    mask = data.draw(masks(hw.batch))
    cores, buffer_bytes = hw.design.machine.cores, hw.design.machine.weight_buffer_bytes
    loads = drs.loads_of(drs.static(mask, cores), cores)
    assume(any(loads))
    bench = Bench(hw, None)
    lead = Lead(hw.path_of[Stream.WEIGHTS], buffer_bytes, False, 1024, buffer_bytes)
    for lane in lower(hw, mlp_of(hw), loads):
        bench.add(lane, nothing, lead)
    ahead = bench.run(Bound(0, ())).ahead
    assert all(ahead.nbytes <= core.lead_out_bytes()[0] for core in bench.cores)


@given(hw=hardware(mapping="batch", weight_sharing="private"), data=st.data())
def test_one_lane_of_equal_cores_is_as_many_lanes_of_one(hw: Hardware, data: st.DataObject) -> None:
    # Cores with equal work cannot be told apart, so simulating one for all is exact.
    mask = data.draw(masks(hw.batch))
    cores = hw.design.machine.cores
    loads = drs.loads_of(drs.static(mask, cores), cores)
    together = lower(hw, mlp_of(hw), loads)
    assume(together)

    def run(lanes: Sequence[Lane]) -> tuple[int, tuple[int, ...]]:
        bench = Bench(hw, None)
        for lane in lanes:
            bench.add(lane, nothing, None)
        result = bench.run(Bound(0, ()))
        return result.cycles, result.dram_bytes

    apart = [Lane(1, lane.steps) for lane in together for _ in range(lane.cores)]
    assert run(together) == run(apart)

"""What is told of a phase that nothing competes with is what the event loop finds, to the bit."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from ideal import ideal_hardware
from strategies import hardware

from carsim.design import load_design, override
from carsim.machine.alone import is_alone, run_alone
from carsim.machine.bench import Ahead, Bench
from carsim.machine.bound import lanes_bound
from carsim.machine.ddr import credits_of
from carsim.machine.hardware import Hardware
from carsim.machine.lane import Lead, Step
from carsim.machine.lowering import Lane
from carsim.machine.phase import AttendCase, Phases
from carsim.workload.ops import Category, Stream

CONFIGS = Path(__file__).parents[2] / "configs"


@st.composite
def alone(draw: st.DrawFn) -> tuple[Hardware, Lane, Ahead, Lead | None]:
    """One lane with one streamed step, whatever the ratio of memory, array and buffer."""
    hw = ideal_hardware()
    rates = st.fractions(Fraction(1, 8), 40, max_denominator=60)
    vars(hw)["paths"] = tuple(
        replace(path, rate=draw(rates), latency_cycles=draw(st.integers(0, 40)))
        for path in hw.paths
    )
    tile_bytes = draw(st.integers(1, 300))
    buffer_bytes = tile_bytes * draw(st.integers(2, 5))
    step = Step(
        category=Category.ATTENTION,
        pre_cycles=draw(st.integers(0, 150)),
        exchange_cycles=0,
        cycles=draw(st.integers(1, 900)),
        balanced_cycles=draw(st.integers(0, 50)),
        path=draw(st.integers(0, 1)),
        stream_bytes=draw(st.integers(1, 4000)),
        tile_bytes=tile_bytes,
        buffer_bytes=buffer_bytes,
        is_kv=draw(st.booleans()),
        sides=(),
        busy_cycles=7,
        macs=5,
        vector_ops=3,
        sram_bytes=2,
    )
    fetchable = min(step.stream_bytes, buffer_bytes)
    held_bytes = draw(st.one_of(st.just(0), st.integers(0, fetchable), st.just(fetchable)))
    before = Ahead(held_bytes, draw(st.booleans()))
    lead = Lead(draw(st.integers(0, 1)), draw(st.integers(1, 3000)), not step.is_kv, 64, 4096)
    return hw, Lane(draw(st.integers(1, 5)), (step,)), before, draw(st.sampled_from([None, lead]))


@given(alone())
def test_a_step_on_its_own_is_what_the_event_loop_makes_of_it(
    drawn: tuple[Hardware, Lane, Ahead, Lead | None],
) -> None:
    hw, lane, before, lead_out = drawn
    assert is_alone(hw, [lane], lead_out)
    bound = lanes_bound(hw, [lane])
    bench = Bench(hw, None)
    bench.add(lane, before, lead_out)
    assert run_alone(hw, lane, [before], lead_out) == [bench.run(bound)]


@given(
    hw=hardware(),
    cases=st.lists(
        st.tuples(
            st.booleans(),
            st.integers(1, 3000),
            st.booleans(),
            st.integers(0, 64),
            st.booleans(),
        ),
        min_size=1,
        max_size=8,
    ),
)
def test_many_contexts_at_once_are_each_what_the_event_loop_makes_of_it(
    hw: Hardware, cases: list[tuple[bool, int, bool, int, bool]]
) -> None:
    phases = Phases(hw)
    asked = []
    for scored, attended, outside, kilobytes, streaming in cases:
        fetched = phases.simulate(phases.qkv_case(scored, attended, Ahead())).ahead
        part = Ahead(min(1024 * kilobytes, fetched.nbytes), streaming)
        asked += [AttendCase(scored, attended, outside, before) for before in (fetched, part)]
    assert phases.attend_all(asked) == [phases.simulate(case) for case in asked]


def test_credits_beyond_64_bits_are_counted_to_the_last() -> None:
    # Ports whose rate is a ratio of large terms, and a stream of hundreds of megabytes.
    design = override(load_design(CONFIGS / "zcu102_16gb.yaml"), {"policy.batch": 8})
    phases = Phases(Hardware(design))
    path = phases.hw.paths[phases.hw.path_of[Stream.KV]]
    cases = [AttendCase(True, tokens, False, Ahead()) for tokens in (100, 2100, 9000, 40_000)]
    step = phases._attend(cases[-1])[0].steps[0]
    assert step.stream_bytes * credits_of(path.rate).per_byte > 2**64
    assert phases.attend_all(cases) == [phases.simulate(case) for case in cases]


def test_what_competes_goes_through_the_event_loop() -> None:
    hw = ideal_hardware()
    phases = Phases(hw)
    lanes = phases._attend(AttendCase(False, 8, False, Ahead()))
    step = lanes[0].steps[0]
    assert is_alone(hw, lanes, None)
    assert not is_alone(hw, [*lanes, *lanes], None)  # two lanes share the path
    assert not is_alone(hw, [Lane(1, (step, step))], None)
    assert not is_alone(hw, [Lane(1, (step._replace(sides=((1, 64),)),))], None)
    assert not is_alone(hw, [Lane(1, (step._replace(path=-1),))], None)
    assert not is_alone(hw, [Lane(1, (step._replace(cycles=0),))], None)
    # What goes to the same buffer waits for room in it.
    assert not is_alone(hw, lanes, Lead(0, 64, step.is_kv, 64, 4096))
    assert not is_alone(replace(hw, fidelity="tile"), lanes, None)

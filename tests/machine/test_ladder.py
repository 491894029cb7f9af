"""The solver against the SimPy machine: equal to the bit where it says so, near elsewhere."""

from collections.abc import Iterator
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ideal import arrays, attend, built, mlp, operand
from numpy.typing import NDArray
from strategies import RULES, hardware, masks

from carsim.account import booking
from carsim.decisions.replay import FASTCAR
from carsim.hardware.schedule import BASELINE, SCHEDULES
from carsim.machine import play
from carsim.machine.build import build
from carsim.machine.cases import Cases, RowCases
from carsim.machine.hardware import Hardware
from carsim.machine.lanes import Ints
from carsim.machine.phase import Outcome, Phase, ReplayWork, Timing, outcome
from carsim.machine.phases import Phases
from carsim.machine.solve import solver
from carsim.machine.solve.operand import MOST_ROWS, Operand
from carsim.program.head import Head
from carsim.program.prompt import PromptLayer
from carsim.program.reads import Reads

NONE = np.zeros(1, np.int64)


def is_exact(phase: Phase) -> NDArray[np.bool_]:
    """Phases, bool[n], for which the solver promises what the SimPy machine takes, to the bit.

    One lane, at most one step of several tiles beyond three buffers whose pace is clear: memory or
    array sets it, and the buffer covers the latency.
    """
    exact = np.ones(phase.n, np.bool_)
    if phase.dispatch is not None and phase.dispatch.queues is not None:
        return exact & False
    if phase.replay is not None and phase.early_fetch:
        exact &= phase.exposed_cycles == 0
    if phase.replay is not None and phase.steps:
        # Writes of the first step are asked for before the first byte of a replay can come.
        exact &= phase.replay.path not in {path for path, _, _ in phase.steps[0].sides}
    streams = [step for step in phase.steps if step.path >= 0]
    if len({(step.path, step.rate, step.is_kv) for step in streams}) > 1:
        return exact & False
    for step in phase.steps:
        if step.cycles.shape[1] > 1:
            exact &= ((step.stream_bytes > 0).sum(axis=-1) <= 1) & (phase.lanes == 1)
        if step.path < 0 or not step.stream_bytes.any():
            continue
        operand = Operand(step, phase.latencies[step.path])
        numerator, denominator = step.rate.numerator, step.rate.denominator
        service, compute = step.tile_bytes * denominator, operand.tile_cycles * numerator
        covered = (step.slots - 1) * np.maximum(service, compute) > (
            (operand.latency + 2) * numerator + np.minimum(service, compute)
        )
        clear = covered & (abs(service - compute) > numerator)
        short = (step.slots <= MOST_ROWS) & (step.stream_bytes <= 3 * step.slots * step.tile_bytes)
        exact &= (clear | short).all(axis=-1)
    return exact


def both(phase: Phase) -> tuple[Outcome, Outcome]:
    """What the solver and the machine find, of which every cycle is accounted for."""
    found = []
    for timing in (solver.solve(phase), play.play_phases(phase)):
        found.append(outcome(phase, timing))
        assert (found[-1].times.sum(axis=1) == found[-1].cycles).all()
        assert (found[-1].times >= 0).all()
    return found[0], found[1]


def assert_books_balance(hw: Hardware, phase: Phase, timing: Timing) -> None:
    """Spans of a track never overlap, cores are as busy as in all, ports as long as bytes take."""
    found = outcome(phase, timing)
    ends: dict[str, Ints] = {}
    for span in booking.spans(arrays(hw), phase, timing, found.cycles):
        before = ends.get(span.track, np.minimum(0, span.start))
        there = span.end > span.start
        assert (span.end >= span.start).all()
        assert (before <= span.start)[there].all(), span
        ends[span.track] = np.where(there, span.end, before)
        if span.track in booking.tracks_of(arrays(hw)):
            assert (span.end <= found.cycles)[there].all(), span
    books = booking.booked(arrays(hw), phase, timing, found.cycles)
    for index, cycles in enumerate(found.cycles.tolist()):
        by_track = booking.accounts(arrays(hw), books[index].tolist(), cycles)
        for states in by_track.values():
            assert sum(states.values()) == cycles
            assert min(states.values()) >= 0
        cores, ports = ([s for t, s in by_track.items() if t.startswith(k)] for k in ("co", "po"))
        assert sum(states["busy"] for states in cores) == found.busy_cycles[index]
        for path, moved, states in zip(hw.paths, found.dram_bytes[index], ports, strict=True):
            assert abs(states["busy"] - moved / path.rate) <= 2 * len(phase.steps) + 2


def assert_equal(solved: Outcome, simulated: Outcome) -> None:
    for each in fields(Outcome):
        assert (getattr(solved, each.name) == getattr(simulated, each.name)).all(), each.name


@st.composite
def phases(draw: st.DrawFn) -> Phase:
    """One lane: up to four operands of up to 60 tiles, memory- to compute-bound, with replays."""
    rate = Fraction(draw(st.integers(1, 4000)), 64)
    slots = draw(st.integers(2, 7))

    def one(value: int) -> Any:
        return np.array([[value]], np.int64)

    steps = []
    for _ in range(draw(st.integers(1, 4))):
        tile = draw(st.sampled_from([64, 100, 1000]))
        nbytes = tile * draw(st.integers(1, 60)) - draw(st.integers(0, tile - 1))
        relative = draw(st.sampled_from([0.1, 0.5, 0.95, 1.0, 1.05, 2.0, 5.0]))
        cycles = max(1, int(nbytes / float(rate) * relative))
        streamed = draw(st.integers(0, 9)) > 0
        sides = ((1, Fraction(3, 2), one(draw(st.integers(0, 300)))),)
        pre = draw(st.integers(0, 200))
        step = operand([nbytes * streamed], [cycles], tile, slots, rate)
        steps.append(
            step._replace(
                pre_cycles=one(pre),
                balanced_cycles=one(pre + cycles),
                path=0 if streamed else -1,
                sides=sides if draw(st.booleans()) else (),
                held_back=draw(st.booleans()),
            )
        )
    replay = None
    if draw(st.booleans()):
        nbytes = np.array([draw(st.integers(1, 500))])
        add_cycles = np.array([draw(st.integers(1, 500))])
        replay = ReplayWork(
            path=draw(st.integers(0, 1)),
            rate=rate,
            nbytes=nbytes,
            add_cycles=add_cycles,
            busy_cycles=NONE,
            vector_ops=NONE,
        )
    latencies = draw(st.sampled_from([0, 5, 40])), 7
    return Phase(tuple(steps), latencies, NONE, np.zeros((1, 2), np.int64), replay)


@given(phases())
def test_the_solver_equals_the_machine_where_it_says_so(phase: Phase) -> None:
    solved, simulated = both(phase)
    if is_exact(phase).all():
        assert_equal(solved, simulated)


def test_a_write_to_a_memory_that_nothing_is_read_from_waits_for_no_latency() -> None:
    step = operand([0], [7], 64, 4, Fraction(4000, 64))._replace(path=-1)
    written = step._replace(sides=((1, Fraction(3, 2), np.array([[1]])),))
    solved, simulated = both(Phase((written,), (0, 7), NONE, np.zeros((1, 2), np.int64)))
    assert solved.cycles == 7
    assert_equal(solved, simulated)


@pytest.mark.parametrize("tiles", [3, 40, 99, 100])
def test_the_last_tile_counts_in_a_buffer_of_more_slots_than_are_followed(tiles: int) -> None:
    step = operand([1000 * tiles], [100 * tiles], 1000, 100, Fraction(4))
    solved, simulated = both(Phase((step,), (5, 7), NONE, np.zeros((1, 2), np.int64)))
    assert_equal(solved, simulated)


@given(phases(), st.data())
def test_operands_of_two_memories_in_turn_take_what_the_machine_takes(phase, data):
    """As where the KV cache lies apart from the weights; of so few tiles all are played."""
    steps = tuple(
        step._replace(path=index % 2, is_kv=index % 2 == 1, slots=60, sides=(), held_back=False)
        for index, step in enumerate(phase.steps)
        if step.path >= 0
    )
    rate = Fraction(data.draw(st.integers(1, 4000)), 64)
    steps = tuple(step._replace(rate=rate) if step.path else step for step in steps)
    if steps:
        assert_equal(*both(replace(phase, steps=steps, replay=None)))


def phases_of(hw: Hardware, data: st.DataObject) -> Iterator[Phase]:
    """Every kind of phase of one hardware."""
    rule, machine = data.draw(st.sampled_from([None, *RULES])), arrays(hw)
    yield built(hw, "qkv", rule)
    attended = np.unique(data.draw(st.lists(st.integers(1, 300), min_size=1, max_size=3)))
    outside = data.draw(st.booleans())
    reads = Reads.of_tokens(attended)._replace(aligned_outside=outside)
    yield built(hw, "attention", rule, reads=reads)
    yield built(hw, "output", rule)
    steps, codes = data.draw(st.sampled_from(Phases(hw).head_passes))
    yield build(machine, Head(steps=steps), None, Cases(Reads.of_tokens(codes)))
    tokens, dense = data.draw(st.integers(0, 4)), data.draw(st.booleans())
    yield build(machine, PromptLayer(tokens=tokens, dense=dense), None, Cases())
    everyone = RowCases(np.ones((1, hw.batch), np.bool_), None)
    yield built(hw, "mlp", rule, rows=everyone, schedule=BASELINE)
    schedule = SCHEDULES[data.draw(st.sampled_from(sorted(SCHEDULES)))]
    known = np.array([data.draw(st.sampled_from([0, 50, 100_000]))])
    rows = RowCases(np.array([data.draw(masks(group(hw)))]), known)
    yield built(hw, "mlp", rule, rows=rows, schedule=schedule)


def group(hw: Hardware) -> int:
    """Sequences that are dispatched together."""
    return min(hw.batch, hw.design.machine.drs.index_register_bits)


@given(hw=hardware(), data=st.data())
def test_phases_of_machines_keep_their_books_on_both_rungs(hw: Hardware, data: st.DataObject):
    for phase in phases_of(hw, data):
        for timing in (solver.solve(phase), play.play_phases(phase)):
            assert_books_balance(hw, phase, timing)
        solved, simulated = both(phase)
        exact = is_exact(phase)
        for found in (solved, simulated):
            assert (found.compute_cycles <= found.cycles).all()
            assert (found.bound_cycles <= found.cycles).all()
            assert (found.busy_cycles <= found.cycles * hw.design.machine.cores).all()
            assert (found.macs <= found.cycles * hw.design.machine.macs_per_cycle).all()
            for path, moved in zip(hw.paths, found.dram_bytes.T, strict=True):
                assert (moved <= found.cycles * path.rate).all()
        assert (solved.cycles[exact] == simulated.cycles[exact]).all()
        assert (solved.times[exact] == simulated.times[exact]).all()


@given(hw=hardware(), data=st.data())
def test_many_phases_at_once_are_those_one_by_one(hw: Hardware, data: st.DataObject) -> None:
    attended = np.unique(data.draw(st.lists(st.integers(1, 2000), min_size=1, max_size=9)))
    together = attend(Phases(hw), attended, FASTCAR)
    for index in range(len(attended)):
        assert_equal(together.take(np.array([index])), attend(Phases(hw), attended[index], FASTCAR))
    computing = np.array(data.draw(st.lists(masks(group(hw)), min_size=1, max_size=6)))
    known = np.arange(len(computing)) * 40
    for schedule in SCHEDULES.values():
        together = mlp(Phases(hw), schedule, RowCases(computing, known))
        for index in range(len(computing)):
            cases = RowCases(computing[[index]], known[[index]])
            assert_equal(together.take(np.array([index])), mlp(Phases(hw), schedule, cases))


@given(hw=hardware(), data=st.data())
def test_the_dispatcher_of_the_machine_runs_beside_the_phase_before(hw, data):
    computing = np.array([data.draw(masks(group(hw)))])
    known = np.array([data.draw(st.integers(0, 3000))])
    schedule = SCHEDULES[data.draw(st.sampled_from(sorted(SCHEDULES)))]
    phase = built(hw, "mlp", rows=RowCases(computing, known), schedule=schedule)
    run = play.player.PhaseRun(phase, 0)
    taken = run.dispatched_at + known[0]
    assert (
        taken >= phase.dispatch.cycles if phase.dispatch.queues else taken == phase.dispatch.cycles
    )
    assert len(run.sent) == computing.sum() * hw.design.machine.drs.instructions_per_sequence

"""Cores that stream operands of their own ask a memory one by one, and it serves them in turn."""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ideal import built, operand

from carsim.design import load_design
from carsim.machine import play
from carsim.machine.hardware import Hardware
from carsim.machine.lanes import LaneOp
from carsim.machine.phase import Phase, Timing
from carsim.machine.solve import solver

ZERO = np.zeros((1, 1), np.int64)
NONE = np.zeros(1, np.int64)


@dataclass
class Requester:
    """A core of the reference: its tiles (bytes, cycles), and when each was asked for and done."""

    tiles: list[tuple[int, int]]
    asked: list[int]
    done: list[int]

    def due(self, slots: int, latency: int) -> int:
        """First byte of its next tile: a slot is free, and the tile before was asked for."""
        k = len(self.done)
        freed = self.done[k - slots] if k >= slots else 0
        return max(freed, self.asked[-1] if k else 0) + latency


def served_in_turn(
    lanes: list[list[tuple[int, int]]], slots: int, latency: int, rate: Fraction
) -> list[int]:
    """When each core is done, in plain numbers: tile after tile, round robin among those due."""
    cores = [Requester(tiles, [], []) for tiles in lanes]
    free, last = Fraction(0), -1
    while True:
        due = {
            number: core.due(slots, latency)
            for number, core in enumerate(cores)
            if len(core.done) < len(core.tiles)
        }
        if not due:
            return [core.done[-1] if core.done else 0 for core in cores]
        now = max(min(due.values()), floor(free))
        last = min((n for n in due if due[n] <= now), key=lambda n: (n <= last, n))
        core = cores[last]
        nbytes, cycles = core.tiles[len(core.done)]
        free = max(free, Fraction(due[last])) + nbytes / rate
        core.asked.append(due[last] - latency)
        core.done.append(max(ceil(free), core.done[-1] if core.done else 0) + cycles)


def tiles_of(nbytes: int, cycles: int, tile: int) -> list[tuple[int, int]]:
    """Bytes and cycles of each tile of an operand."""
    starts = range(0, nbytes, tile)
    ends = [*starts[1:], nbytes][: len(starts)]

    def until(end: int) -> int:
        return -(-cycles * end // nbytes)

    return [(b - a, until(b) - until(a)) for a, b in zip(starts, ends, strict=True)]


def phase_of(*steps: LaneOp, latency: int) -> Phase:
    return Phase(steps, (latency,), NONE, np.zeros((1, 1), np.int64))


def ends(timing: Timing) -> list[int]:
    return timing.step_end[-1][0].tolist()


@given(st.data())
def test_the_machine_serves_cores_one_by_one_and_in_turn(data: st.DataObject) -> None:
    """Alike or not, queued or not: what a loop over single requests finds, to the cycle."""
    rate = Fraction(data.draw(st.integers(1, 4000)), 64)
    slots, latency = data.draw(st.integers(2, 5)), data.draw(st.sampled_from([1, 5, 40, 300]))
    cores, tile = data.draw(st.integers(1, 5)), data.draw(st.sampled_from([64, 1000]))
    lanes: list[list[tuple[int, int]]] = [[] for _ in range(cores)]
    steps = []
    for _ in range(data.draw(st.integers(1, 3))):
        alike = data.draw(st.booleans())
        sizes = st.integers(0 if cores > 1 else 1, 20 * tile)
        drawn = [data.draw(sizes) for _ in range(1 if alike else cores)]
        nbytes = drawn * cores if alike else drawn
        relative = data.draw(st.sampled_from([0.1, 0.5, 1.0, 2.0, 5.0, 20.0]))
        cycles = [ceil(each / rate * Fraction(relative)) for each in nbytes]
        steps.append(operand(nbytes, cycles, tile, slots, rate))
        for lane, *of_core in zip(lanes, nbytes, cycles, strict=True):
            lane += tiles_of(*of_core, tile)
    found = ends(play.play_phases(phase_of(*steps, latency=latency)))
    assert found == served_in_turn(lanes, slots, latency, rate)


@given(st.data())
def test_the_solver_is_near_where_cores_stream_an_operand_each(data: st.DataObject) -> None:
    """As much on each core, or twice as much on some: within 4 %, a latency and two tiles."""
    rate = Fraction(data.draw(st.integers(400, 4000)), 64)
    slots, latency = data.draw(st.integers(2, 9)), data.draw(st.sampled_from([5, 40, 300]))
    cores, tile = data.draw(st.integers(2, 8)), 1000
    fuller = data.draw(st.integers(0, cores - 1))
    whole = data.draw(st.integers(1, 100 * tile))
    alone = float(whole / rate)
    relative = data.draw(st.sampled_from([0.1, 0.7, 1.0, 2.0, 3.0, 5.0, 9.0, 20.0]))
    times = [2] * fuller + [1] * (cores - fuller)
    cycles = [ceil(alone * relative) * each for each in times]
    step = operand([whole * each for each in times], cycles, tile, slots, rate)
    phase = phase_of(step, latency=latency)
    solved, simulated = (max(ends(rung(phase))) for rung in (solver.solve, play.play_phases))
    of_tile = ceil(tile / rate) + ceil(alone * relative * tile / whole)
    assert abs(solved - simulated) <= 0.04 * simulated + latency + 2 * of_tile
    assert solved >= sum(times) * whole / rate


def test_a_core_waits_for_its_own_tile_and_not_for_those_of_all() -> None:
    # QKV of eight private cores, two slots of 4 KiB, which do not cover the latency of 40 cycles.
    # One request of all eight cores' tiles at a time would take 251,005 cycles: each core would
    # wait for eight tiles, 25 cycles, between its own, 3 cycles.
    machine = {"weight_sharing": "private", "weight_buffer_kib": 8, "tile_kib": 4}
    design = load_design("u280", [f"machine.{name}={value}" for name, value in machine.items()])
    phase = built(Hardware(design), "qkv")
    found = max(ends(play.play_phases(phase)))
    assert found == 184_015
    assert max(ends(solver.solve(phase))) == pytest.approx(found, rel=0.02)


def every_tile(phase: Phase, lane: int) -> int:
    """When one lane of a phase is done: the three equations of the solver, tile after tile."""
    issued = array = 0
    port, freed = Fraction(0), [0] * phase.steps[0].slots
    asked = False
    for step in phase.steps:
        lanes, (tile,) = step.stream_bytes[0].tolist(), step.tile_bytes[0].tolist()
        (cycles,), (pre,) = step.cycles[0, [lane]].tolist(), step.pre_cycles[0].tolist()
        nbytes, array = lanes[lane], array + pre
        before = dict.fromkeys(range(len(lanes)), 0)  # bytes that others have been served
        for start in range(0, nbytes, tile):
            end = min(start + tile, nbytes)
            issued = max(issued, freed.pop(0), array if step.held_back and not start else 0)
            due = Fraction(issued + phase.latencies[step.path])
            served = 0
            for other, most in enumerate(lanes):
                upto = min(start + tile if other <= lane else start, most)
                served, before[other] = served + upto - before[other], upto
            port = max(port, due) if not asked else port
            port = max(port + served / step.rate, due + (end - start) / step.rate)
            asked = True
            computed = -(-cycles * end // nbytes) + (-cycles * start // nbytes)
            array = max(array, -(-port.numerator // port.denominator)) + computed
            freed.append(array)
        rest = [min(-(-nbytes // tile) * tile, most) for most in lanes]
        port += sum(upto - before[other] for other, upto in enumerate(rest)) / step.rate
        array += 0 if nbytes else cycles
    return array


@st.composite
def streamed(draw: st.DrawFn, most_tiles: int) -> Phase:
    """Up to three operands of up to four lanes: alike, or as uneven as they may be."""
    rate, lanes = Fraction(draw(st.integers(1, 4000)), 64), draw(st.integers(1, 4))
    slots, latency = draw(st.integers(2, 6)), draw(st.sampled_from([0, 5, 40, 300]))
    tile, steps = 100, []
    for _ in range(draw(st.integers(1, 3))):
        times = draw(st.lists(st.integers(0, 2), min_size=lanes, max_size=lanes))
        one = draw(st.integers(1, most_tiles * slots * tile // 2))
        cycles = int(one / rate * Fraction(draw(st.sampled_from([0.1, 0.8, 1.0, 2.5, 9.0]))))
        step = operand([one * n for n in times], [cycles * n for n in times], tile, slots, rate)
        pre = np.array([[draw(st.integers(0, 200))]])
        steps.append(step._replace(pre_cycles=pre, held_back=draw(st.booleans())))
    return phase_of(*steps, latency=latency)


@given(streamed(most_tiles=4))
def test_up_to_four_buffers_of_an_operand_are_taken_tile_by_tile(phase: Phase) -> None:
    assert ends(solver.solve(phase)) == [every_tile(phase, lane) for lane in range(phase.lanes)]


@given(streamed(most_tiles=40))
def test_a_jump_finds_nearly_what_every_tile_takes(phase: Phase) -> None:
    """Within 3 %, two latencies and a cycle a tile: where the buffer does not cover the latency."""
    expected = [every_tile(phase, lane) for lane in range(phase.lanes)]
    near = 2 * phase.latencies[0] + sum(int(step.stream_bytes.max()) // 100 for step in phase.steps)
    assert ends(solver.solve(phase)) == pytest.approx(expected, rel=0.03, abs=near)


@pytest.mark.parametrize("relative", [0.5, 0.9, 1.2, 3.0])
@pytest.mark.parametrize("slots", [80, 300, 2000])
def test_of_many_slots_some_are_followed(slots: int, relative: float) -> None:
    """Two operands of ten buffers, nearly as if each of their slots were."""
    rate, tiles = Fraction(25), 10 * slots
    step = operand([tiles * 100], [int(tiles * 100 / rate * Fraction(relative))], 100, slots, rate)
    phase = phase_of(step, step._replace(pre_cycles=ZERO + 7), latency=40)
    assert ends(solver.solve(phase))[0] == pytest.approx(every_tile(phase, 0), rel=1e-4)

"""Whole runs on drawn designs, videos and decisions; kinds from outside run like any other."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plainly import phase_cycles, simulate_plainly
from strategies import RULES, designs, draw_replay, videos
from toy_policies import EverySecondBlock

from carsim.account.simulation import Simulation, simulate_policy, simulate_policy_on_designs
from carsim.decisions.attention import ATTENTION, Ann, Dense, Draft, Streaming
from carsim.design import Design, override
from carsim.hardware.schedule import REPLAYS, SCHEDULES, slots_per_core
from carsim.hardware.schedule.static import Static
from carsim.machine.arrays import MachineArrays
from carsim.machine.batches import Batches, in_sets
from carsim.machine.hardware import Hardware, structure_of
from carsim.machine.phases import Phases
from carsim.machine.plan import Plan

Run = tuple[Design, Plan, Batches]
SHIPPED = sorted(SCHEDULES)


@st.composite
def runs(draw: st.DrawFn, rungs: tuple[str, ...] = ("fluid",)) -> Run:
    design, video = draw(designs()), draw(videos())
    sizes = [n for n in (1, 2, 3) if video.tokens_per_frame % n == 0]
    design = override(design, {"policy.tokens_per_step": draw(st.sampled_from(sizes))})
    sparse = Streaming(sinks=draw(st.integers(0, 2)), window=draw(st.integers(1, 6)))
    policy = draw(st.just(Dense()) | st.just(sparse) | st.sampled_from(POLICIES))
    replay = draw_replay(draw, draw(st.integers(1, 2)), video, design)
    plan = Plan(
        Phases(Hardware(design), draw(st.sampled_from(rungs))),
        video,
        policy,
        draw(st.sampled_from(sorted(SCHEDULES))),
        draw(st.sampled_from(RULES)) if replay.any() else None,
        range(video.n_steps // design.policy.tokens_per_step),
    )
    batches = Batches(in_sets(replay, design.policy.tokens_per_step), 1, 0, "captured", "drawn")
    if policy.records:  # what it reads differs by layer-step, and comes with the decisions
        rng = np.random.default_rng(draw(st.integers(0, 99)))
        attended = rng.integers(1, 9, batches.replay.shape[:3])
        batches = replace(batches, reads=(attended, rng.integers(1, 1 + attended)))
    return design, plan, batches


def assert_same(fast: Simulation, plain: Simulation) -> None:
    assert fast.totals == plain.totals
    assert (fast.batch_cycles == plain.batch_cycles).all()
    by_phase = phase_cycles(plain)
    for phase, cycles in phase_cycles(fast).items():
        assert (cycles == by_phase[phase]).all()
    assert (fast.first_cycles == plain.first_cycles).all()
    for figure in ("busy_cycles", "dram_bytes"):
        of_steps, of_plain = (by_step(run, figure) for run in (fast, plain))
        assert (of_steps == of_plain).all()


def by_step(run: Simulation, figure: str) -> Any:
    """Work of the first batch by step: sums over layers and kinds of phases."""
    each = [visits.spread(getattr(visits.outcome, figure))[0].sum(axis=1) for visits in run.visits]
    return sum(each)


class Mirrored(Static):
    """A schedule for which it matters which sequences compute, not only how many."""

    kind = label = "mirrored"

    def assign(self, computing, cores):  # type: ignore[no-untyped-def]
        batch = computing.shape[-1]
        cores_of_sequences = np.arange(batch)[::-1] // slots_per_core(batch, cores)
        return np.where(computing, cores_of_sequences, REPLAYS)


@pytest.fixture(scope="module", autouse=True)
def mirrored() -> Iterator[None]:
    """Is drawn as those that ship are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SCHEDULES, "mirrored", Mirrored())
        yield


POLICIES = [
    EverySecondBlock(block=2, last=1),
    Draft(block_tokens=2, keep=0.5),
    Ann(bits=2, tables=2, sinks=1, window=2),
    *(kind.model_validate({}) for kind in ATTENTION.values()),
]


@settings(max_examples=settings.default.max_examples)
@given(runs(rungs=("fluid", "tile")))
def test_distinct_phases_times_their_number_are_all_phases(run: Run) -> None:
    # A phase is taken once for all layer-steps that share it; were anything missing in what tells
    # them apart, two of them would differ when each is taken for itself.
    _, plan, batches = run
    fast = simulate_policy(plan, batches, detail=True)
    assert_same(fast, simulate_plainly(plan, batches))
    dense = simulate_policy(replace(plan, attention=Dense()), batches)
    assert fast.totals["qkv"] == dense.totals["qkv"]
    assert fast.totals["mlp"].macs == dense.totals["mlp"].macs
    steps = plan.steps_at(np.arange(len(plan.steps)))
    reads = [block.reads(steps) for block in plan.program(decided=False).blocks]
    assert all((each.contexts <= plan.contexts).all() for each in reads if each is not None)


@given(runs(), st.sampled_from(SHIPPED))
def test_the_bound_holds_for_every_schedule(run: Run, schedule: str) -> None:
    """Also for one that dispatches all sequences at once, where the register holds fewer."""
    _, plan, batches = run
    bound_cycles = simulate_policy(plan, batches).bound_cycles
    assert simulate_policy(replace(plan, schedule=schedule), batches).cycles >= bound_cycles


NUMBERS = {
    "machine.array.rows": st.integers(4, 40),
    "machine.array.cols": st.integers(4, 40),
    "machine.array.pipeline_cycles": st.integers(0, 20),
    "machine.vector.lanes": st.integers(1, 32),
    "machine.vector.pipeline_cycles": st.integers(0, 30),
    "machine.exchange_bytes_per_cycle": st.integers(1, 64),
    "machine.overheads.kernel_cycles": st.integers(0, 40),
    "machine.overheads.step_us": st.sampled_from([0.0, 1.5]),
    "machine.overheads.layer_us": st.sampled_from([0.0, 2.5]),
    "board.fabric_clock_mhz": st.sampled_from([100.0, 250.0, 333.3]),
}


@st.composite
def alike(draw: st.DrawFn, design: Design) -> list[Design]:
    """Designs that differ in numbers alone."""
    drawn = draw(st.lists(st.fixed_dictionaries(NUMBERS), min_size=2, max_size=4))
    return [override(design, each) for each in drawn]


@settings(max_examples=30)
@given(run=runs(), data=st.data())
def test_designs_and_decisions_together_are_what_each_is_alone(
    run: Run, data: st.DataObject
) -> None:
    design, plan, batches = run
    designs = data.draw(alike(design))
    assert len({structure_of(each) for each in designs}) == 1
    hardwares = [Hardware(each) for each in designs]
    members = [batches]
    if batches.reads is None:
        members += [replace(batches, replay=batches.replay[:2, :, ::-1])]
        batches = Batches.joined(members)
    together = simulate_policy_on_designs(
        replace(plan, phases=Phases(MachineArrays.of(hardwares))), batches
    )
    each = [(member, one) for member, found in zip(members, together, strict=True) for one in found]
    for hardware, (member, found) in zip(hardwares * len(members), each, strict=True):
        alone = simulate_policy(replace(plan, phases=Phases(hardware)), member)
        assert found.plan.hw is hardware
        assert found.totals == alone.totals
        assert (found.batch_cycles == alone.batch_cycles).all()
        assert (found.first_cycles == alone.first_cycles).all()

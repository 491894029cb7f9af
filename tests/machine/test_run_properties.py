"""Invariants of whole runs on drawn designs, videos and decisions."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from strategies import designs, draw_replay, small_design, videos

from carsim.design import DenseAttention, Design, StreamingAttention
from carsim.design.policy import Schedule
from carsim.machine import drs
from carsim.machine.batches import Batches
from carsim.machine.hardware import Hardware
from carsim.machine.memo import PhaseMemo
from carsim.machine.patterns import pattern_of
from carsim.machine.plan import Plan
from carsim.machine.simulate import Simulation, simulate, simulate_plainly
from carsim.workload.geometry import Video


@st.composite
def runs(draw: st.DrawFn) -> tuple[Design, Plan, Batches]:
    design, video = draw(designs()), draw(videos())
    sparse = StreamingAttention(sinks=draw(st.integers(0, 2)), window=draw(st.integers(1, 6)))
    replay = draw_replay(
        draw, draw(st.integers(1, 2)), video, design.model.body.n_layers, design.policy.batch
    )
    plan = Plan(
        PhaseMemo(Hardware(design, draw(st.sampled_from(["fluid", "tile"])))).phases,
        video,
        draw(st.sampled_from([DenseAttention(), sparse])),
        draw(st.sampled_from(["static", "drs", "pack"])),
        bool(replay.any()),
        range(video.n_steps),
    )
    return design, plan, Batches(replay, 1, 0, "captured", "drawn")


def simulated(plan: Plan, batches: Batches) -> Simulation:
    return simulate(plan, batches, PhaseMemo(plan.hw), detail=True)


@given(runs())
def test_memoisation_and_numbering_change_no_bit(run: tuple[Design, Plan, Batches]) -> None:
    # A phase's key holds all that determines it; were anything missing, two layer-steps with equal
    # keys would differ when each is simulated for itself.
    _, plan, batches = run
    fast = simulated(plan, batches)
    plain = simulate_plainly(plan, batches, PhaseMemo(plan.hw, enabled=False))
    assert fast.totals == plain.totals
    assert (fast.batch_cycles == plain.batch_cycles).all()
    for phase, cycles in fast.phase_cycles.items():
        assert (cycles == plain.phase_cycles[phase]).all()
    assert fast.work is not None
    assert plain.work is not None
    assert (fast.work.busy_cycles == plain.work.busy_cycles).all()
    assert (fast.work.dram_bytes == plain.work.dram_bytes).all()
    assert fast.unique_phases == plain.unique_phases


@given(runs())
def test_macs_are_those_that_the_decisions_ask_for(run: tuple[Design, Plan, Batches]) -> None:
    # Counted here from the shapes alone: a weight of a projection multiplies once per token, one of
    # the MLP once per token that computes, every attended token 2 d times per token.
    design, plan, batches = run
    body, video = design.model.body, plan.video
    n_batches, _, _, rows = batches.replay.shape
    tokens = n_batches * rows * (video.prompt_tokens + video.n_steps)
    projections = tokens * body.n_layers * body.attention_weights
    computed = (~batches.replay).sum() + n_batches * rows * video.prompt_tokens * body.n_layers
    mlps = int(computed) * body.mlp_weights
    pairs = video.prompt_tokens * (video.prompt_tokens + 1) // 2
    pairs += sum(plan.attended(step) for step in range(video.n_steps))
    attention = n_batches * rows * body.n_layers * pairs * 2 * body.hidden_size
    head = n_batches * rows * video.n_steps * design.model.head.streamed_weights(body)
    done = sum(total.macs for total in simulated(plan, batches).totals.values())
    assert done == projections + mlps + attention + head


@given(runs())
def test_bytes_moved_are_those_required_and_those_declared_as_waste(
    run: tuple[Design, Plan, Batches],
) -> None:
    # Counted here from the decisions and the schedule alone.
    design, plan, batches = run
    totals = simulated(plan, batches).totals
    moved = sum(sum(total.dram_bytes) for name, total in totals.items() if name != "prefill")
    wasted = sum(total.wasted_bytes for total in totals.values())
    assert moved == _required_bytes(design, plan, batches) + wasted
    if design.machine.prefetch != "speculative":
        assert wasted == 0


def _required_bytes(design: Design, plan: Plan, batches: Batches) -> int:
    model, body = design.model, design.model.body
    hw, d = plan.hw, body.hidden_size
    n_batches, n_steps, n_layers, rows = batches.replay.shape
    qkv = model.weights.bytes_of(d * (d + 2 * body.kv_size))
    out = model.weights.bytes_of(d * d)
    gate_up = model.weights.bytes_of(2 * d * body.ffn_size)
    down = model.weights.bytes_of(d * body.ffn_size)
    home = _streams(design, list(hw.home_loads))
    per_step = 0
    for step in range(n_steps):
        scored = plan.scored(step)
        early = int(scored and design.machine.decision_at == "q")
        late_outside = int(
            scored
            and not early
            and isinstance(plan.attention, StreamingAttention)
            and plan.attention.window <= plan.video.tokens_per_frame
        )
        kv = rows * model.kv.bytes_of((2 * plan.attended(step) + late_outside) * body.kv_size)
        kv += rows * model.kv.bytes_of(2 * body.kv_size)
        kv += rows * model.kv.bytes_of(early * body.kv_size)
        per_step += n_layers * (home * (qkv + out) + kv)
    head = n_steps * home * model.weights.bytes_of(d * model.head.vocabulary)  # type: ignore[union-attr]
    mlps = 0
    for g in range(n_batches):
        for step in range(n_steps):
            for layer in range(n_layers):
                replay = batches.replay[g, step, layer]
                for loads, _ in pattern_of(plan, replay, plan.scored(step)):
                    mlps += _streams(design, list(loads)) * (gate_up + down)
                mlps += rows * model.replay.bytes_of(d)
    return n_batches * (per_step + head) + mlps


def _streams(design: Design, loads: list[int]) -> int:
    """Times that the weights of a matrix are fetched for these loads."""
    if design.machine.mapping == "tensor" or design.machine.weight_sharing == "broadcast":
        return int(any(loads))
    if design.machine.weight_sharing == "private":
        return sum(load > 0 for load in loads)
    return sum(loads)


@given(runs())
def test_no_run_beats_compute_bandwidth_or_bound(run: tuple[Design, Plan, Batches]) -> None:
    _, plan, batches = run
    simulation = simulated(plan, batches)
    assert simulation.cycles >= simulation.bound_cycles
    for total in simulation.totals.values():
        assert total.cycles >= total.compute_cycles
        assert sum(total.times) == total.cycles
        assert total.busy_cycles <= total.cycles * plan.hw.design.machine.cores
        assert total.macs <= total.cycles * plan.hw.design.machine.macs_per_cycle
    moved = [0] * len(plan.hw.paths)
    for total in simulation.totals.values():
        moved = [a + b for a, b in zip(moved, total.dram_bytes, strict=True)]
    for nbytes, path in zip(moved, plan.hw.paths, strict=True):
        assert nbytes <= simulation.cycles * path.rate


@given(runs(), st.sampled_from(sorted(drs.SCHEDULES)))
def test_a_bound_holds_for_every_schedule(
    run: tuple[Design, Plan, Batches], schedule: Schedule
) -> None:
    """Also for one that dispatches all sequences at once, where the register holds fewer."""
    _, plan, batches = run
    bound_cycles = simulated(plan, batches).bound_cycles
    assert simulated(replace(plan, schedule=schedule), batches).cycles >= bound_cycles


@given(runs())
def test_no_run_beats_its_critical_path(run: tuple[Design, Plan, Batches]) -> None:
    # The phases of a layer-step follow each other, and each lasts as long as its fullest core has
    # MACs to do, at all of its array; nothing is done side by side that depends on each other.
    design, plan, batches = run
    body, array, hw = design.model.body, design.machine.array, plan.hw
    one = body.attention_weights, body.mlp_weights  # MACs per sequence
    least = 0
    for g, s, layer in np.ndindex(batches.replay.shape[:3]):
        step = plan.steps[s]
        attention = one[0] + 2 * body.hidden_size * plan.attended(step)
        pattern = pattern_of(plan, batches.replay[g, s, layer], plan.scored(step))
        if hw.is_tensor:
            mlps = sum(sum(loads) for loads, _ in pattern)
            least += (hw.batch * attention + mlps * one[1]) // design.machine.cores
        else:
            least += (
                max(hw.home_loads) * attention + sum(max(loads) for loads, _ in pattern) * one[1]
            )
    layers = ("qkv", "attention", "output", "mlp")
    cycles = sum(simulated(plan, batches).totals[name].cycles for name in layers)
    assert cycles * array.macs_per_cycle >= least


@given(runs())
def test_batch_latencies_add_up(run: tuple[Design, Plan, Batches]) -> None:
    _, plan, batches = run
    simulation = simulated(plan, batches)
    assert int(simulation.batch_cycles.sum()) == simulation.cycles


@given(runs())
def test_batches_do_not_know_of_each_other(run: tuple[Design, Plan, Batches]) -> None:
    # Batches run one after the other from the same start, so their order cannot matter.
    _, plan, batches = run
    turned = replace(batches, replay=batches.replay[::-1])
    forward, backward = simulated(plan, batches), simulated(plan, turned)
    assert (forward.batch_cycles == backward.batch_cycles[::-1]).all()
    assert forward.totals == backward.totals


def test_a_longer_video_is_a_shorter_one_and_more() -> None:
    # No state depends on absolute time: the first steps take what they take in a longer video.
    design = small_design()
    short, long = Video(1, 4, 3), Video(2, 4, 3)
    times = []
    for video in (short, long):
        replay = np.zeros((1, video.n_steps, design.model.body.n_layers, 4), bool)
        memo = PhaseMemo(Hardware(design))
        plan = Plan(memo.phases, video, DenseAttention(), "static", False, range(video.n_steps))
        simulation = simulate(plan, Batches(replay, 1, 0, "", ""), memo, detail=True)
        times.append(sum(cycles for cycles in simulation.phase_cycles.values()))
    assert (times[0] == times[1][:, :4]).all()

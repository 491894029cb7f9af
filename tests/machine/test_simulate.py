"""Whole runs on drawn designs, videos and decisions; kinds from outside run like any other."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plainly import simulate_plainly
from strategies import RULES, designs, draw_replay, small_design, videos

from carsim.decisions.attention import AttentionPolicy, Dense, KvReads, SideWork, Streaming
from carsim.decisions.replay import FASTCAR, InputChange, Tas
from carsim.design import Design, override
from carsim.hardware.mapping import MAPPINGS
from carsim.hardware.schedule import BASELINE, REPLAYS, SCHEDULES
from carsim.hardware.schedule.static import Static
from carsim.machine.batches import Batches, in_sets
from carsim.machine.cases import core_loads
from carsim.machine.hardware import Columns, Hardware, structure_of
from carsim.machine.phases import Phases
from carsim.machine.plan import Plan
from carsim.machine.simulate import Simulation, simulate, simulate_designs
from carsim.workload.body import Body
from carsim.workload.geometry import Video

Run = tuple[Design, Plan, Batches]


@st.composite
def runs(draw: st.DrawFn, rungs: tuple[str, ...] = ("fluid",)) -> Run:
    design, video = draw(designs()), draw(videos())
    sizes = [n for n in (1, 2, 3) if video.tokens_per_frame % n == 0]
    design = override(design, {"policy.tokens_per_step": draw(st.sampled_from(sizes))})
    sparse = Streaming(sinks=draw(st.integers(0, 2)), window=draw(st.integers(1, 6)))
    replay = draw_replay(
        draw, draw(st.integers(1, 2)), video, design.model.body.n_layers, design.policy.batch
    )
    plan = Plan(
        Phases(Hardware(design), draw(st.sampled_from(rungs))),
        video,
        draw(st.sampled_from([Dense(), sparse])),
        draw(st.sampled_from(sorted(SCHEDULES))),
        draw(st.sampled_from(RULES)) if replay.any() else None,
        range(video.n_steps // design.policy.tokens_per_step),
    )
    replay = in_sets(replay, design.policy.tokens_per_step)
    return design, plan, Batches(replay, 1, 0, "captured", "drawn")


def assert_same(fast: Simulation, plain: Simulation) -> None:
    assert fast.totals == plain.totals
    assert (fast.batch_cycles == plain.batch_cycles).all()
    for phase, cycles in fast.phase_cycles.items():
        assert (cycles == plain.phase_cycles[phase]).all()
    assert (fast.first_cycles == plain.first_cycles).all()
    for figure in ("busy_cycles", "dram_bytes"):
        of_steps, of_plain = (by_step(run, figure) for run in (fast, plain))
        assert (of_steps == of_plain).all()


def by_step(run: Simulation, figure: str) -> Any:
    """Work of the first batch by step: sums over layers and kinds of phases."""
    each = [visits.spread(getattr(visits.outcome, figure))[0].sum(axis=1) for visits in run.visits]
    return sum(each)


@given(runs(rungs=("fluid", "tile")))
def test_distinct_phases_times_their_number_are_all_phases(run: Run) -> None:
    # A phase is taken once for all layer-steps that share it; were anything missing in what tells
    # them apart, two of them would differ when each is taken for itself.
    _, plan, batches = run
    assert_same(simulate(plan, batches, detail=True), simulate_plainly(plan, batches))


@pytest.fixture
def outside() -> Iterator[str]:
    """A schedule from outside, for which it matters which sequences compute, not only how many."""

    class Mirrored(Static):
        kind = label = "mirrored"

        def assign(self, computing, cores):  # type: ignore[no-untyped-def]
            home = np.arange(computing.shape[-1])[::-1] // 2 % cores
            return np.where(computing, home, REPLAYS)

    SCHEDULES["mirrored"] = Mirrored()
    yield "mirrored"
    del SCHEDULES["mirrored"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(run=runs())
def test_a_schedule_from_outside_runs_and_equals_the_slow_way(outside: str, run: Run) -> None:
    _, plan, batches = run
    plan = replace(plan, schedule=outside, rule=FASTCAR)
    assert_same(simulate(plan, batches, detail=True), simulate_plainly(plan, batches))


class EveryOther(AttentionPolicy):
    """A kind of attention from outside: every other block of four keys, scored one per block."""

    label: ClassVar[str] = "every other block"
    kind: Literal["every_other"] = "every_other"

    def reads(self, context: Any) -> KvReads:
        whole, rest = np.divmod(np.asarray(context), 4)
        return KvReads(4 * (whole // 2) + rest + 4 * (whole % 2) * (rest == 0), whole // 2 + 1)

    def side_work(self, context: Any, n_heads: int, n_kv_heads: int, head_dim: int) -> SideWork:
        blocks = -(-np.asarray(context) // 4)
        return SideWork(macs=blocks * n_heads * head_dim, bytes_read=blocks, scan_cycles=blocks)


@given(run=runs(rungs=("fluid", "tile")), depends=st.booleans(), seed=st.integers(0, 99))
def test_an_attention_policy_from_outside_runs_and_equals_the_slow_way(
    run: Run, depends: bool, seed: int
) -> None:
    _, plan, batches = run
    plan = replace(plan, attention=EveryOther())
    if depends:  # what it reads differs by layer-step, and comes with the decisions
        plan = replace(plan, attention=DataDependent())
        rng = np.random.default_rng(seed)
        attended = rng.integers(1, 9, batches.replay.shape[:3])
        batches = replace(batches, reads=(attended, rng.integers(1, 1 + attended)))
    fast = simulate(plan, batches, detail=True)
    assert_same(fast, simulate_plainly(plan, batches))
    dense = simulate(replace(plan, attention=Dense()), batches)
    assert fast.totals["qkv"] == dense.totals["qkv"]
    assert fast.totals["mlp"].macs == dense.totals["mlp"].macs


class DataDependent(EveryOther):
    """The same, choosing by the data."""

    kind: Literal["data_dependent"] = "data_dependent"  # type: ignore[assignment]
    records: ClassVar[bool] = True
    follows_reads: ClassVar[bool] = True

    def frame_work(
        self, context: Any, tokens_per_frame: int, n_kv_heads: int, head_dim: int
    ) -> SideWork:
        return SideWork(kv_elements=context * head_dim, bytes_written=tokens_per_frame)


@given(runs())
def test_macs_are_those_that_the_decisions_ask_for(run: Run) -> None:
    # Counted here from the shapes alone: a weight of a projection multiplies once per token, one of
    # the MLP once per token that computes, every attended token 2 d times per token.
    design, plan, batches = run
    body, video = design.model.body, plan.video
    n_batches, rows, at_once = len(batches.replay), plan.hw.batch, plan.tokens_per_step
    tokens = n_batches * rows * (video.prompt_tokens + video.n_steps)
    projections = tokens * body.n_layers * body.attention_weights
    mlps = pairs = prompt = 0
    for layer in range(body.n_layers):
        computed = (~batches.replay[:, :, layer]).sum() + n_batches * rows * video.prompt_tokens
        mlps += int(computed) * _mlp_weights(body, layer)
        window = body.window_of(layer)
        prompt += sum(min(1 + token, window or 1 + token) for token in range(video.prompt_tokens))
        pairs += at_once * int(plan.reads(window).attended.sum())
    of_prompt = of_pair = 2 * body.head_dim
    if body.latent is not None:  # which decodes in another form than it takes a prompt
        of_prompt = body.own_size + body.latent.rotary_size + body.latent.value_size
        of_pair = 2 * body.latent.rank + body.latent.rotary_size
    attention = n_batches * rows * body.n_heads * (prompt * of_prompt + pairs * of_pair)
    head = n_batches * rows * video.n_steps * design.model.head.streamed_weights(body)
    done = sum(total.macs for total in simulate(plan, batches).totals.values())
    assert done == projections + mlps + attention + head


def _mlp_weights(body: Body, layer: int) -> int:
    """Weights of a layer's MLP that multiply one token."""
    if body.is_dense(layer):
        return 3 * body.hidden_size * body.dense_ffn_size
    assert body.experts is not None
    width = body.experts.active * body.ffn_size + body.experts.shared_ffn_size
    return body.hidden_size * (3 * width + body.experts.count)


@given(runs())
def test_bytes_moved_are_those_required(run: Run) -> None:
    # Counted here from the decisions and the schedule alone.
    design, plan, batches = run
    totals = simulate(plan, batches).totals
    moved = sum(sum(total.dram_bytes) for name, total in totals.items() if name != "prefill")
    assert moved == _required_bytes(design, plan, batches)


def _required_bytes(design: Design, plan: Plan, batches: Batches) -> int:
    model, body = design.model, design.model.body
    hw, d = plan.hw, body.hidden_size
    n_batches, _, n_layers, rows = batches.replay.shape
    sequences, at_once = plan.hw.batch, plan.tokens_per_step
    qkv = model.weights.bytes_of(d * (d + 2 * body.kv_size))
    out = model.weights.bytes_of(d * d)
    if (latent := body.latent) is not None:
        inputs, heads = latent.query_rank or d, body.n_heads
        asked = inputs * heads * (body.own_size + latent.rotary_size)
        held = d * (latent.rank + latent.rotary_size + (latent.query_rank or 0))
        each = (held, asked, heads * body.own_size * latent.rank)
        qkv = sum(map(model.weights.bytes_of, each))
        values = heads * latent.rank * latent.value_size
        out = sum(map(model.weights.bytes_of, (values, heads * latent.value_size * d)))
    width = body.dense_ffn_size
    mlp = model.weights.bytes_of(2 * d * width) + model.weights.bytes_of(d * width)
    # Where inputs are polished, 6 bytes for each come with the weights.
    tables = {"qkv": d, "out": d, "gate_up": d, "down": width}
    # A bias takes 2 bytes.
    biased = {"qkv": d + 2 * body.kv_size, "out": d, "gate_up": 2 * width, "down": d}
    beside = {
        each: 6 * tables[each] * (each in model.polished) + 2 * biased[each] * (each in body.biases)
        for each in tables
    }
    qkv, out = qkv + beside["qkv"], out + beside["out"]
    mlp += beside["gate_up"] + beside["down"]
    home = _streams(design, hw.home_loads.tolist())
    held = 0
    if isinstance(plan.rule, InputChange):
        bits = plan.rule.bits
        elements = plan.rule.elements or d
        held = 2 * elements if bits is None else -(-(elements * bits + 16) // 8)
    per_step = 0
    for layer, (index, scored) in product(range(n_layers), enumerate(plan.scored)):
        window = body.window_of(layer)
        attended = int(plan.reads(window).attended[index])
        early = int(scored and design.machine.decision_at == "q")
        late_outside = int(scored and not early and plan.aligned_outside(window))
        key = 0
        if isinstance(plan.rule, Tas):
            key = body.kv_size if plan.rule.head is None else body.head_dim
        late = at_once * late_outside * key
        kv = sequences * model.kv.bytes_of(attended * body.kv_elements + late)
        kv += sequences * model.kv.bytes_of(at_once * body.kv_elements)
        kv += rows * model.kv.bytes_of(early * key)
        per_step += home * (qkv + out) + kv + scored * rows * held
    head = len(plan.steps) * home * model.weights.bytes_of(d * model.head.vocabulary)  # type: ignore[union-attr]
    mlps = 0
    for at in np.ndindex(batches.replay.shape[:3]):
        scored = bool(plan.scored[at[1]])
        for group in plan.groups(scored):
            computing = ~batches.replay[at][None, group]
            loads, _ = core_loads(plan.schedule_of(scored), computing, design.machine.cores)
            if body.is_dense(at[2]):
                mlps += _streams(design, loads[0].tolist()) * mlp
            else:
                mlps += sum(_expert_bytes(design, m) for m in _fed(design, loads[0].tolist()))
        mlps += rows * model.replay.bytes_of(d) + int((~batches.replay[at]).sum()) * held
    return n_batches * (per_step + head) + mlps


def _expert_bytes(design: Design, tokens: int) -> int:
    """Bytes of router, touched experts and shared experts, for the tokens of one stream."""
    weights, body = design.model.weights, design.model.body
    assert body.experts is not None
    count, active = body.experts.count, body.experts.active
    shared = body.experts.shared_ffn_size
    parts = round(4096 * count * (1 - (1 - active / count) ** tokens))
    total = weights.bytes_of(body.hidden_size * count)
    for matrices in (2, 1):  # gate and up, down
        total += -(-parts * weights.bytes_of(matrices * body.hidden_size * body.ffn_size) // 4096)
        total += weights.bytes_of(matrices * body.hidden_size * shared)
    return int(total)


def _fed(design: Design, loads: list[int]) -> list[int]:
    """Tokens that each stream of weights feeds."""
    machine = design.machine
    if MAPPINGS[machine.mapping].splits_mlp or machine.weight_sharing == "broadcast":
        return [sum(loads)] if any(loads) else []
    if machine.weight_sharing == "private":
        return [load for load in loads if load]
    return [1] * sum(loads)


def _streams(design: Design, loads: list[int]) -> int:
    """Times that the weights of a matrix are fetched for these loads."""
    machine = design.machine
    if MAPPINGS[machine.mapping].splits_mlp or machine.weight_sharing == "broadcast":
        return int(any(loads))
    if machine.weight_sharing == "private":
        return sum(load > 0 for load in loads)
    return sum(loads)


@given(runs())
def test_no_run_beats_compute_bandwidth_or_bound(run: Run) -> None:
    _, plan, batches = run
    simulation = simulate(plan, batches)
    assert simulation.cycles >= simulation.bound_cycles
    machine = plan.hw.design.machine
    for total in simulation.totals.values():
        assert total.cycles >= total.compute_cycles
        assert total.busy_cycles <= total.cycles * machine.cores
        assert total.macs <= total.cycles * machine.macs_per_cycle
    bounds = list(simulation.totals.values())
    for index, path in enumerate(plan.hw.paths):
        assert sum(t.dram_bytes[index] for t in bounds) <= simulation.cycles * path.rate
        # The bound itself is possible: its bytes come at no more than the sustained rate.
        assert sum(t.bound_dram_bytes[index] for t in bounds) <= simulation.bound_cycles * path.rate


@given(runs(), st.sampled_from(sorted(SCHEDULES)))
def test_the_bound_holds_for_every_schedule(run: Run, schedule: str) -> None:
    """Also for one that dispatches all sequences at once, where the register holds fewer."""
    _, plan, batches = run
    bound_cycles = simulate(plan, batches).bound_cycles
    assert simulate(replace(plan, schedule=schedule), batches).cycles >= bound_cycles


@given(runs())
def test_no_run_beats_its_critical_path(run: Run) -> None:
    # The phases of a layer-step follow each other, and each lasts as long as its fullest core has
    # MACs to do, at all of its array; what is split is spread over all cores.
    design, plan, batches = run
    body, cores = design.model.body, design.machine.cores
    mapping, least = plan.hw.mapping, 0.0
    for at in np.ndindex(batches.replay.shape[:3]):
        scored = bool(plan.scored[at[1]])
        splits = mapping.splits_attention or mapping.splits_remainder
        rows = plan.hw.rows / cores if splits else max(plan.hw.home_loads)
        least += rows * body.attention_weights
        sequences = plan.hw.batch / cores if splits else max(plan.hw.home_sequences)
        keys = plan.tokens_per_step * int(plan.reads(body.window_of(at[2])).attended[at[1]])
        value_size = body.latent.rank if body.latent else body.head_dim
        least += sequences * keys * body.n_heads * (body.head_dim + value_size)
        for group in plan.groups(scored):
            computing = ~batches.replay[at][None, group]
            loads = core_loads(plan.schedule_of(scored), computing, cores)[0][0]
            splits = mapping.splits_mlp or mapping.splits_remainder
            mlps = loads.sum() / cores if splits else loads.max()
            least += mlps * _mlp_weights(body, at[2])
    layers = ("qkv", "attention", "output", "mlp")
    cycles = sum(simulate(plan, batches).totals[name].cycles for name in layers)
    assert cycles * design.machine.array.macs_per_cycle >= least * (1 - 1e-12)


@given(runs())
def test_batches_do_not_know_of_each_other(run: Run) -> None:
    _, plan, batches = run
    turned = replace(batches, replay=batches.replay[::-1])
    forward, backward = simulate(plan, batches), simulate(plan, turned)
    assert (forward.batch_cycles == backward.batch_cycles[::-1]).all()
    assert forward.totals == backward.totals
    assert int(forward.batch_cycles.sum()) == forward.cycles


def test_a_longer_video_is_a_shorter_one_and_more() -> None:
    # No state depends on absolute time: the first steps take what they take in a longer video.
    design = small_design()
    times = []
    for video in (Video(1, 4, 3), Video(2, 4, 3)):
        replay = np.zeros((1, video.n_steps, design.model.body.n_layers, 4), bool)
        phases = Phases(Hardware(design))
        plan = Plan(phases, video, Dense(), BASELINE.kind, None, range(video.n_steps))
        simulation = simulate(plan, Batches(replay, 1, 0, "", ""), detail=True)
        times.append(sum(cycles for cycles in simulation.phase_cycles.values()))
    assert (times[0] == times[1][:, :4]).all()


def test_drs_is_later_than_static_where_it_costs_streams() -> None:
    # Eight sequences, four cores, private weights, memory-bound; sequences 0 and 4 compute, which
    # share core 0: static streams the MLP once, DRS twice.
    from carsim.machine.cases import MlpCases

    design = small_design(
        batch=8,
        cores=4,
        weight_sharing="private",
        array={"rows": 32, "cols": 32, "pipeline_cycles": 0},
        vector={"lanes": 64, "pipeline_cycles": 0},
    )
    phases = Phases(Hardware(design))
    cases = MlpCases(np.array([[b % 4 == 0 for b in range(8)]]), np.array([10**6]))
    static, balanced, packed = (
        int(phases.mlp(SCHEDULES[kind], cases).cycles[0]) for kind in ("static", "drs", "pack")
    )
    assert balanced > 1.5 * static
    assert packed <= static + 40  # the way to the mapped core and back


NUMBERS = {
    "machine.array.rows": st.integers(4, 40),
    "machine.array.cols": st.integers(4, 40),
    "machine.array.pipeline_cycles": st.integers(0, 20),
    "machine.vector.lanes": st.integers(1, 32),
    "machine.vector.pipeline_cycles": st.integers(0, 30),
    "machine.exchange_bytes_per_cycle": st.integers(1, 64),
    "machine.overheads.kernel_cycles": st.integers(0, 40),
    "machine.overheads.step_us": st.sampled_from([0.0, 1.5]),
    "board.fabric_clock_mhz": st.sampled_from([100.0, 250.0, 333.3]),
}


@st.composite
def alike(draw: st.DrawFn, design: Design) -> list[Design]:
    """Designs that differ in numbers alone."""
    unit = design.machine.attention_unit
    fixed = (
        {} if unit is None else {"machine.attention_unit.rows": 4, "machine.attention_unit.cols": 4}
    )
    drawn = draw(st.lists(st.fixed_dictionaries(NUMBERS), min_size=2, max_size=4))
    return [override(design, {**each, **fixed}) for each in drawn]


@settings(max_examples=30)
@given(run=runs(), data=st.data())
def test_designs_in_columns_are_what_each_is_alone(run: Run, data: st.DataObject) -> None:
    design, plan, batches = run
    designs = data.draw(alike(design))
    assert len({structure_of(each) for each in designs}) == 1
    hardwares = [Hardware(each) for each in designs]
    together = simulate_designs(replace(plan, phases=Phases(Columns.of(hardwares))), batches)
    for hardware, found in zip(hardwares, together, strict=True):
        alone = simulate(replace(plan, phases=Phases(hardware)), batches)
        assert found.plan.hw is hardware
        assert found.totals == alone.totals
        assert (found.batch_cycles == alone.batch_cycles).all()
        assert (found.first_cycles == alone.first_cycles).all()

"""Limits, elasticities and sums: what they say where the answer is known."""

from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
import pytest
from ideal import ideal_hardware
from strategies import Case, small_design

from carsim.decisions.attention import Dense
from carsim.decisions.replay import FASTCAR
from carsim.design import load_design
from carsim.machine.batches import Batches
from carsim.machine.elasticity import bandwidth_ends, elasticities, latency_factors
from carsim.machine.hardware import Hardware
from carsim.machine.limits import PhaseLimit, fetch_ahead_share, phase_limits
from carsim.machine.phases import Phases
from carsim.machine.plan import Plan
from carsim.machine.simulate import LAYER_PHASES, Simulation, simulate
from carsim.workload.geometry import Video

VIDEO = Video(n_frames=2, tokens_per_frame=4, prompt_tokens=7)


def dense(hw: Hardware) -> tuple[Plan, Batches, Simulation]:
    plan = Plan(Phases(hw), VIDEO, Dense(), "static", None, range(VIDEO.n_steps))
    layers = hw.design.model.body.n_layers
    batches = Batches(np.zeros((1, VIDEO.n_steps, layers, hw.batch), bool), 1, 0, "", "")
    return plan, batches, simulate(plan, batches)


def limits_with(rate: int, dram_gbps: float, port_gbps: float) -> dict[str, PhaseLimit]:
    """Of the ideal machine, at 200 MHz: 8 bytes a cycle are 1.6 GB/s."""
    hw = ideal_hardware(rate=rate)
    vars(hw)["paths"] = tuple(
        replace(path, dram_gbps=dram_gbps, port_gbps=port_gbps) for path in hw.paths
    )
    return {limit.phase: limit for limit in phase_limits(dense(hw)[2])}


def test_the_lesser_of_memory_and_ports_is_the_limit() -> None:
    memory = limits_with(8, dram_gbps=1.6, port_gbps=3.2)["mlp"]
    assert memory.limited_by == "memory"
    # 4864 bytes of each MLP; 7 cycles of compute.
    assert memory.memory_share / memory.port_share == pytest.approx(2)
    assert memory.memory_share / memory.compute_share == pytest.approx(4864 / 8 / 7)
    assert memory.dependency_share == pytest.approx(1 - memory.memory_share)
    assert limits_with(8, dram_gbps=3.2, port_gbps=1.6)["mlp"].limited_by == "port"


def test_the_flip_is_where_compute_and_bytes_take_the_same_time() -> None:
    limit = limits_with(8, dram_gbps=1.6, port_gbps=3.2)["mlp"]
    # 4864 bytes in 7 cycles at 200 MHz; an array smaller by 7 / 608.
    assert limit.flip_gbps == pytest.approx(4864 / 7 * 0.2)
    assert limit.flip_macs_per_cycle == pytest.approx(2 * 32 * 96 * 7 / 608)


def test_what_fetching_ahead_may_save_is_what_buffers_hold() -> None:
    """Where compute is the limit, memory idles for long enough in every phase."""
    slow = small_design(cores=1, weight_buffer_kib=2, array={"rows": 1, "cols": 1})
    run = Case(slow, Video(1, 4, 200)).simulate()
    # 3072 bytes of QKV and of gate and up are more than the buffer; so are 203 tokens of keys.
    held = {"qkv": 2048, "attention": 4096, "output": 1024, "mlp": 2048}
    rate = run.plan.hw.paths[0].rate
    saved = sum(run.totals[name].count * ceil(size / rate) for name, size in held.items())
    assert fetch_ahead_share(run) == saved / run.cycles


def test_dependency_is_the_limit_where_neither_bytes_nor_compute_explain_the_time() -> None:
    # Cold, QKV waits for a latency of 10 and has 5 cycles of compute; 3072 bytes come in one.
    limit = limits_with(100_000, dram_gbps=20_000.0, port_gbps=40_000.0)["qkv"]
    assert limit.limited_by == "dependency"
    assert limit.dependency_share == pytest.approx(1 - limit.compute_share)
    assert limit.dependency_share > limit.compute_share


def test_compute_is_the_limit_of_a_slow_array() -> None:
    design = small_design(array={"rows": 1, "cols": 1, "pipeline_cycles": 0})
    limits = phase_limits(dense(Hardware(design))[2])
    assert {limit.limited_by for limit in limits} == {"compute"}
    assert [limit.phase for limit in limits] == ["prefill", *LAYER_PHASES, "head"]


def changes(**machine: Any) -> dict[str, float]:
    plan, batches, _ = dense(Hardware(small_design(**machine)))
    return {e.resource: e.latency_change_per_10_percent for e in elasticities(plan, batches)}


@pytest.mark.parametrize(
    ("array", "gains"),
    [
        # A third column is the least that two grow by: 50 % for a third less time, 0.067 a tenth.
        ((1, 2), {"memory and port bandwidth": 0, "fabric clock": 1 / 1.1 - 1, "array": -0.067}),
        ((64, 64), {"memory and port bandwidth": 1 / 1.1 - 1, "array": 0, "cores": 0}),
    ],
)
def test_a_machine_gains_from_what_limits_it(array: Any, gains: dict[str, float]) -> None:
    """Bound by compute, from clock and array; bound by memory, from bandwidth only."""
    sizes = dict(zip(("rows", "cols"), array, strict=True))
    vector = {"lanes": 1024, "pipeline_cycles": 0}
    found = changes(array={**sizes, "pipeline_cycles": 0}, vector=vector)
    assert {name: found[name] for name in gains} == pytest.approx(gains, abs=0.01)


@pytest.mark.parametrize(("cores", "more"), [(2, "2 to 3 cores"), (30, "30 to 33 cores")])
def test_a_count_grows_by_a_tenth_but_by_one_at_least(cores: int, more: str) -> None:
    plan, batches, _ = dense(Hardware(small_design(cores=cores)))
    assert more in [each.simulated for each in elasticities(plan, batches)]


def test_a_resource_at_the_limit_of_the_spec_is_left_out() -> None:
    assert set(changes(cores=1000)) == {"memory and port bandwidth", "fabric clock", "array"}


def factors_at_half(hw: Hardware, half: Hardware) -> tuple[tuple[float, float], ...]:
    """Latency and bound at the same and at half the bandwidth, over that of the first."""
    plan, batches, _ = dense(hw)
    return latency_factors(plan, batches, (plan.phases, Phases(half)))


def test_what_memory_limits_takes_as_much_longer_as_bandwidth_is_less() -> None:
    whole, half = (ideal_hardware(rate=rate, latency=0) for rate in (2, 1))
    # 5 of 1536 cycles of a QKV projection, and 7 of 2432 of an MLP, are not spent on bytes.
    latency, bound = factors_at_half(whole, half)
    assert latency == (1.0, pytest.approx(2, abs=0.01))
    assert bound == (1.0, pytest.approx(2, abs=0.001))


def test_a_sample_of_steps_has_the_interval_of_all_steps() -> None:
    # 80 steps, of which 32 are sampled; the prompt is what bandwidth moves least.
    video = replace(VIDEO, n_frames=20, prompt_tokens=900)
    phases = [Phases(ideal_hardware(rate=rate)) for rate in (8, 5)]
    plans = [Plan(each, video, Dense(), "drs", FASTCAR, range(video.n_steps)) for each in phases]
    layers = phases[0].hw.design.model.body.n_layers
    replay = np.random.default_rng(0).random((2, video.n_steps, layers, 4)) < 0.5
    replay[:, : video.tokens_per_frame] = False
    batches = Batches(replay, 1, 0, "", "")
    before, after = (simulate(plan, batches).cycles for plan in plans)
    (_, slow), _ = latency_factors(plans[0], batches, (phases[0], phases[1]))
    assert slow == pytest.approx(after / before, rel=0.005)


def test_the_ends_of_bandwidth_are_those_of_the_board() -> None:
    assert bandwidth_ends(Phases(Hardware(load_design("u280")))) is None
    phases = Phases(Hardware(load_design("zcu102")))
    ends = bandwidth_ends(phases)
    # The ports sustain 15.63 of 17.06 GB/s: 92 % are out of their reach.
    assert ends[0] is phases
    rate = ends[1].hw.paths[1].rate
    assert float(rate) * 0.25 == pytest.approx(0.75 * 17.064, rel=1e-4)
    assert rate / phases.hw.paths[1].rate == phases.hw.bandwidth_interval[0]


def test_of_the_phases_that_are_kept_the_longest_unused_goes_first(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("carsim.machine.phases.MOST_KEPT", 2)
    phases = Phases(ideal_hardware())
    for tokens in (1, 2, 1, 3, 1):
        phases.prefill_layer(tokens)
    assert phases.simulated == 3
    phases.prefill_layer(2)
    assert phases.simulated == 4

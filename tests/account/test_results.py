"""Limits, elasticities and sums: what they say where the answer is known."""

from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
import pytest
from ideal import ideal_hardware
from strategies import Case, small_design

from carsim.account.elasticity import (
    BandwidthFactors,
    at_bandwidth_ends,
    bandwidth_factors,
    elasticities,
)
from carsim.account.limits import PhaseLimit, fetch_ahead_share, phase_limits
from carsim.account.simulation import Simulation, simulate_policy
from carsim.decisions.attention import Dense
from carsim.decisions.replay import FASTCAR
from carsim.design import load_design, override
from carsim.machine.arrays import MachineArrays
from carsim.machine.batches import Batches
from carsim.machine.hardware import Hardware
from carsim.machine.phases import Phases
from carsim.machine.plan import Plan
from carsim.workload.geometry import Video

VIDEO = Video(n_frames=2, tokens_per_frame=4, prompt_tokens=7)


def dense(hw: Hardware, video: Video = VIDEO) -> tuple[Plan, Batches, Simulation]:
    """Dense decoding on a machine: its plan, its decisions, and its simulation."""
    plan = Plan.of_video(Phases(hw), video, attention=Dense(), schedule="static", rule=None)
    layers = hw.design.model.body.n_layers
    nobody_replays = np.zeros((1, video.n_steps, layers, hw.batch), bool)
    batches = Batches(nobody_replays, 1, 0, "", "")
    return plan, batches, simulate_policy(plan, batches)


def limits_with(rate: int, dram_gbps: float, port_gbps: float) -> dict[str, PhaseLimit]:
    """Of the ideal machine, at 200 MHz: 8 bytes a cycle are 1.6 GB/s."""
    hw = ideal_hardware(rate=rate)
    vars(hw)["paths"] = tuple(
        replace(path, dram_gbps=dram_gbps, port_gbps=port_gbps) for path in hw.paths
    )
    _, _, simulation = dense(hw)
    return {limit.phase: limit for limit in phase_limits(simulation)}


def test_the_lesser_of_memory_and_ports_is_the_limit() -> None:
    memory = limits_with(8, dram_gbps=1.6, port_gbps=3.2)["mlp"]
    assert memory.limited_by == "memory"
    # 4608 bytes of each MLP, as nothing replays; 7 cycles of compute.
    assert memory.memory_share / memory.port_share == pytest.approx(2)
    assert memory.memory_share / memory.compute_share == pytest.approx(4608 / 8 / 7)
    assert memory.dependency_share == pytest.approx(1 - memory.memory_share)
    assert limits_with(8, dram_gbps=3.2, port_gbps=1.6)["mlp"].limited_by == "port"


def test_the_flip_is_where_compute_and_bytes_take_the_same_time() -> None:
    limit = limits_with(8, dram_gbps=1.6, port_gbps=3.2)["mlp"]
    # 4608 bytes in 7 cycles at 200 MHz; an array smaller by 7 / 576.
    assert limit.flip_gbps == pytest.approx(4608 / 7 * 0.2)
    assert limit.flip_macs_per_cycle == pytest.approx(2 * 32 * 96 * 7 / 576)


def test_what_fetching_ahead_may_save_is_what_buffers_hold() -> None:
    """Where compute is the limit, memory idles for long enough in every phase."""
    slow = small_design(cores=1, weight_buffer_kib=2, array={"rows": 1, "cols": 1})
    run = Case(slow, Video(1, 4, 200)).simulate()
    # 3072 bytes of QKV and of gate and up are more than the buffer; so are 203 tokens of keys.
    bytes_ahead = {"qkv": 2048, "attention": 4096, "output": 1024, "mlp": 2048}
    rate = run.plan.hw.paths[0].rate
    saved = sum(
        run.totals[phase].count * ceil(nbytes / rate) for phase, nbytes in bytes_ahead.items()
    )
    assert fetch_ahead_share(run) == saved / run.cycles


def test_dependency_is_the_limit_where_neither_bytes_nor_compute_explain_the_time() -> None:
    # Cold, QKV waits for a latency of 10 and has 5 cycles of compute; 3072 bytes come in one.
    limit = limits_with(100_000, dram_gbps=20_000.0, port_gbps=40_000.0)["qkv"]
    assert limit.limited_by == "dependency"
    assert limit.dependency_share == pytest.approx(1 - limit.compute_share)
    assert limit.dependency_share > limit.compute_share


def test_compute_is_the_limit_of_a_slow_array() -> None:
    design = small_design(array={"rows": 1, "cols": 1, "pipeline_cycles": 0})
    _, _, simulation = dense(Hardware(design))
    limited_by = {limit.phase: limit.limited_by for limit in phase_limits(simulation)}
    phases = ("prefill", "qkv", "attention", "output", "mlp", "head")
    assert limited_by == dict.fromkeys(phases, "compute")
    assert tuple(limited_by) == phases, "in the order of a video"


def changes(**machine: Any) -> dict[str, float]:
    """Change of latency with a tenth more of each resource."""
    plan, batches, _ = dense(Hardware(small_design(**machine)))
    return {
        elasticity.resource: elasticity.latency_change_per_10_percent
        for elasticity in elasticities(plan, batches)
    }


@pytest.mark.parametrize(
    ("rows", "cols", "expected"),
    [
        # A third column is the least that two grow by: 50 % for a third less time, 0.067 a tenth.
        (1, 2, {"memory and port bandwidth": 0, "fabric clock": 1 / 1.1 - 1, "array": -0.067}),
        (64, 64, {"memory and port bandwidth": 1 / 1.1 - 1, "array": 0, "cores": 0}),
    ],
)
def test_a_machine_gains_from_what_limits_it(
    rows: int, cols: int, expected: dict[str, float]
) -> None:
    """Bound by compute, from clock and array; bound by memory, from bandwidth only."""
    array = {"rows": rows, "cols": cols, "pipeline_cycles": 0}
    by_resource = changes(array=array, vector={"lanes": 1024, "pipeline_cycles": 0})
    for resource, change in expected.items():
        assert by_resource[resource] == pytest.approx(change, abs=0.01), resource


@pytest.mark.parametrize(("cores", "enlarged"), [(2, "2 to 3 cores"), (30, "30 to 33 cores")])
def test_a_count_grows_by_a_tenth_but_by_one_at_least(cores: int, enlarged: str) -> None:
    plan, batches, _ = dense(Hardware(small_design(cores=cores)))
    assert enlarged in [elasticity.simulated for elasticity in elasticities(plan, batches)]


def test_a_resource_at_the_limit_of_the_spec_is_left_out() -> None:
    resources = set(changes(cores=1000))
    assert {"memory and port bandwidth", "fabric clock", "array"} < resources
    assert "cores" not in resources


def test_buffers_grow_by_whole_tiles_and_the_prompt_has_its_own_changes() -> None:
    """The prompt passes over the weights once for each block that the activation buffer holds."""
    long_prompt = Video(n_frames=1, tokens_per_frame=4, prompt_tokens=200)

    def with_activation_buffer(kib: int) -> Hardware:
        return Hardware(
            small_design(
                activation_buffer_kib=kib,
                weight_buffer_kib=8,
                tile_kib=2,
                array={"rows": 64, "cols": 64},  # memory is the limit
                vector={"lanes": 1024},
            )
        )

    plan, batches, before = dense(with_activation_buffer(2), long_prompt)
    by_resource = {elasticity.resource: elasticity for elasticity in elasticities(plan, batches)}
    assert by_resource["weight buffer"].simulated == "8 to 10 KiB"
    assert by_resource["weight buffer"].enlargement == pytest.approx(0.25)
    assert by_resource["activation buffer"].simulated == "2 to 3 KiB"
    _, _, after = dense(with_activation_buffer(3), long_prompt)
    change = after.totals["prefill"].cycles / before.totals["prefill"].cycles - 1
    assert change < -0.1
    # Half a buffer more is scaled to a tenth.
    prompt_change = by_resource["activation buffer"].prompt_change_per_10_percent
    assert prompt_change == pytest.approx(change / 5)


def test_without_a_prompt_there_is_no_change_of_it() -> None:
    plan, batches, _ = dense(Hardware(small_design()), Video(1, 4, 0))
    for elasticity in elasticities(plan, batches):
        assert elasticity.prompt_change_per_10_percent is None


def factors_at_half(hw: Hardware, half: Hardware) -> BandwidthFactors:
    """Times at the same and at half the bandwidth, over those of the first."""
    plan, batches, _ = dense(hw)
    return bandwidth_factors(plan, batches, Phases(MachineArrays.of([hw, hw, half])))


def test_what_memory_limits_takes_as_much_longer_as_bandwidth_is_less() -> None:
    whole, half = (ideal_hardware(rate=rate, latency=0) for rate in (2, 1))
    # 5 of 1536 cycles of a QKV projection, and 7 of 2432 of an MLP, are not spent on bytes.
    factors = factors_at_half(whole, half)
    assert factors.latency == (1.0, pytest.approx(2, abs=0.01))
    assert factors.latency_bound == (1.0, pytest.approx(2, abs=0.001))
    assert factors.decode == (1.0, pytest.approx(2, abs=0.01))


def test_a_sample_of_steps_has_the_interval_of_all_steps() -> None:
    # 80 steps, of which 32 are sampled; the prompt is what bandwidth moves least.
    video = replace(VIDEO, n_frames=20, prompt_tokens=900)
    hardwares = [ideal_hardware(rate=rate) for rate in (8, 5)]
    phases = [Phases(hardware) for hardware in hardwares]
    plans = [Plan(each, video, Dense(), "drs", FASTCAR, range(video.n_steps)) for each in phases]
    layers = phases[0].hw.design.model.body.n_layers
    replay = np.random.default_rng(0).random((2, video.n_steps, layers, 4)) < 0.5
    replay[:, : video.tokens_per_frame] = False
    batches = Batches(replay, 1, 0, "", "")
    before, after = (simulate_policy(plan, batches).cycles for plan in plans)
    ends = Phases(MachineArrays.of([hardwares[0], *hardwares]))
    _, slow = bandwidth_factors(plans[0], batches, ends).latency
    assert slow == pytest.approx(after / before, rel=0.005)


def test_the_ends_of_bandwidth_are_those_of_the_board() -> None:
    assert at_bandwidth_ends(Hardware(load_design("u280"))) is None
    hw = Hardware(load_design("zcu102"))
    phases = at_bandwidth_ends(hw)
    assert phases is not None
    expected, upper, lower = phases.machine.hardwares
    # The ports sustain 15.63 of 17.06 GB/s: 92 % are out of their reach.
    assert upper == expected == hw
    rate = lower.paths[1].rate
    assert float(rate) * 0.25 == pytest.approx(0.75 * 17.064, rel=1e-4)
    assert rate / hw.paths[1].rate == hw.bandwidth_interval[0]


def test_more_of_a_resource_has_the_effect_that_a_simulation_of_its_own_has() -> None:
    """Resources are simulated together, and phases that do not use a buffer are taken over."""
    small_buffers = {
        "machine.include_head": True,
        "machine.tile_kib": 16,
        "machine.weight_buffer_kib": 32,
        "machine.kv_buffer_kib": 32,
        "machine.activation_buffer_kib": 16,
    }
    hw = Hardware(override(load_design("u280_compute_bound"), small_buffers))
    video = Video(n_frames=4, tokens_per_frame=256, prompt_tokens=500)
    plan = Plan(Phases(hw), video, Dense(), "drs", FASTCAR, range(video.n_steps))
    shape = (1, video.n_steps, hw.design.model.body.n_layers, hw.batch)
    replay = np.random.default_rng(1).random(shape) < 0.5
    batches = Batches(replay, 1, 0, "", "")
    sample = np.linspace(0, video.n_steps - 1, 32).astype(int)

    def seconds(hardware: Hardware) -> float:
        sampled = replace(plan, phases=Phases(hardware), steps=tuple(sample.tolist()))
        simulation = simulate_policy(sampled, batches.at_steps(sample))
        prompt = simulation.totals["prefill"].cycles
        decode = (simulation.cycles - prompt) * video.n_steps / len(sample)
        return (prompt + decode) / (hardware.design.board.fabric_clock_mhz * 1e6)

    larger = {
        "fabric clock": {"board.fabric_clock_mhz": 300 * 1.1},
        "array": {"machine.array.cols": 35},
        "cores": {"machine.cores": 5},
        "weight buffer": {"machine.weight_buffer_kib": 48},
        "KV buffer": {"machine.kv_buffer_kib": 48},
        "activation buffer": {"machine.activation_buffer_kib": 18},
    }
    hardwares = {
        resource: replace(hw, design=override(hw.design, changes))
        for resource, changes in larger.items()
    }
    wider = replace(hw, bandwidth_factor=Fraction(11, 10))
    hardwares = {"memory and port bandwidth": wider, **hardwares}
    found = elasticities(plan, batches)
    assert [one.resource for one in found] == [*hardwares]
    for one in found:
        change = seconds(hardwares[one.resource]) / seconds(hw) - 1
        assert one.latency_change_per_10_percent == pytest.approx(
            change * 0.1 / one.enlargement, rel=1e-12, abs=1e-15
        )
    # Each resource has an effect, which a phase that was wrongly taken over would hide.
    assert all(one.latency_change_per_10_percent < 0 for one in found)


def test_of_the_phases_that_are_kept_the_longest_unused_goes_first(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("carsim.machine.phases.MOST_KEPT", 2)
    phases = Phases(ideal_hardware())
    for tokens in (1, 2, 1, 3, 1):
        phases.prefill_layer(tokens)
    assert phases.simulated == 3
    phases.prefill_layer(2)
    assert phases.simulated == 4

"""Elasticities: the change of latency per +10 % of bandwidth, clock, array, cores or a buffer.

Model: each resource is enlarged and a sample of the steps is simulated again. Arrays grow by whole
columns, machines by whole cores, buffers of weights and of keys by whole tiles, and the activation
buffer by whole KiB. The effect of the enlargement is scaled to 10 %.

The interval of a latency comes from the interval of the bandwidth
(``Hardware.bandwidth_interval``): the sample is simulated at both of its ends.

Hardwares of one structure are simulated together, and a larger buffer changes only the blocks that
use it. Both together take half of the time of one simulation after the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import NamedTuple

import numpy as np

from carsim.account.simulation import Simulation, simulate_policy_on_designs
from carsim.base.errors import InputError
from carsim.base.groups import grouped
from carsim.design import override
from carsim.machine.arrays import MachineArrays
from carsim.machine.batches import Batches
from carsim.machine.hardware import Hardware, structure_of
from carsim.machine.lanes import Buffer
from carsim.machine.phases import Phases
from carsim.machine.plan import Plan

SAMPLED_STEPS = 32
"""Steps simulated per resource, spread evenly over the video."""


@dataclass(frozen=True, slots=True)
class Elasticity:
    """Change of latency per +10 % of a resource.

    Attributes:
        resource: The resource that was enlarged.
        latency_change_per_10_percent: Relative change of latency, negative if it falls.
        simulated: The change that was simulated, in words.
        enlargement: The share by which the resource was enlarged, such as 0.125 for one core more
            of eight.
        prompt_change_per_10_percent: Relative change of the time of the prompt; None without one.
    """

    resource: str
    latency_change_per_10_percent: float
    simulated: str
    enlargement: float = 0.1
    prompt_change_per_10_percent: float | None = None


class _Enlarged(NamedTuple):
    """A hardware with more of one resource.

    Attributes:
        resource: Name of the resource.
        hardware: The hardware.
        simulated: The change, in words.
        enlargement: The share by which the resource was enlarged.
        buffer: The buffer that is larger, if the resource is one.
    """

    resource: str
    hardware: Hardware
    simulated: str
    enlargement: float
    buffer: Buffer | None = None


def _enlarged_hardwares(hw: Hardware) -> list[_Enlarged]:
    """Hardwares with 10 % more of a resource, or with the least step beyond."""
    clock = hw.design.board.fabric_clock_mhz
    machine = hw.design.machine
    cols = machine.array.cols
    cores = machine.cores
    more_cols = max(1, round(cols * 0.1))
    more_cores = max(1, round(cores * 0.1))
    enlarged = [
        _Enlarged(
            resource="memory and port bandwidth",
            hardware=replace(hw, bandwidth_factor=hw.bandwidth_factor * Fraction(11, 10)),
            simulated="+10 %",
            enlargement=0.1,
        )
    ]

    def enlarge(  # noqa: PLR0913 - a field before and after, and how it is called
        resource: str,
        path: str,
        *,
        before: float,
        after: float,
        unit: str,
        buffer: Buffer | None = None,
    ) -> None:
        try:
            design = override(hw.design, {path: after})
        except InputError:
            return  # the spec allows no more of it
        larger = _Enlarged(
            resource=resource,
            hardware=replace(hw, design=design),
            simulated=f"{before:g} to {after:g} {unit}",
            enlargement=after / before - 1,
            buffer=buffer,
        )
        enlarged.append(larger)

    enlarge("fabric clock", "board.fabric_clock_mhz", before=clock, after=clock * 1.1, unit="MHz")
    enlarge("array", "machine.array.cols", before=cols, after=cols + more_cols, unit="columns")
    enlarge("cores", "machine.cores", before=cores, after=cores + more_cores, unit="cores")
    # A part of a tile holds nothing.
    steps_kib: dict[Buffer, int] = {
        "weight": machine.tile_kib,
        "KV": machine.tile_kib,
        "activation": 1,
    }
    for buffer, step_kib in steps_kib.items():
        field = f"{buffer.lower()}_buffer_kib"
        kib = getattr(machine, field)
        more_kib = step_kib * max(1, ceil(kib * 0.1 / step_kib))
        enlarge(
            f"{buffer} buffer",
            f"machine.{field}",
            before=kib,
            after=kib + more_kib,
            unit="KiB",
            buffer=buffer,
        )
    return enlarged


def elasticities(plan: Plan, batches: Batches) -> tuple[Elasticity, ...]:
    """Relative change of latency per 10 % more of each resource, from sampled decode steps.

    Resources at the limit of the spec are left out.
    For a text, changes of the latency are about its new tokens alone: the prompt has its own
    limits, comes once, and has its own change.

    Args:
        plan: The policy on its machine.
        batches: Its decisions.
    """
    sample = _SampledSteps(plan, batches)
    (before,) = sample.simulated(plan.phases)
    enlarged = _enlarged_hardwares(plan.hw)
    times: dict[str, _Times] = {}
    # The buffers decide how many tiles are on their way, so that each makes a structure of its own.
    together = grouped((structure_of(one.hardware.design), one) for one in enlarged)
    for of_one_structure in together.values():
        times |= _times_of(sample, of_one_structure)
    with_prompt = plan.video.kind == "video"
    return tuple(
        _change_per_10_percent(one, before, times[one.resource], with_prompt=with_prompt)
        for one in enlarged
        if one.resource in times
    )


def _times_of(sample: "_SampledSteps", enlarged: Sequence[_Enlarged]) -> dict[str, "_Times"]:
    """Times of hardwares of one structure, by resource; without those beyond 64 bits."""
    phases = sample.plan.phases
    try:
        if len(enlarged) == 1 and enlarged[0].buffer is not None:
            larger = phases.with_larger(enlarged[0].buffer, enlarged[0].hardware)
        else:
            larger = Phases(MachineArrays.of([one.hardware for one in enlarged]))
        times = sample.simulated(larger)
    except InputError:
        if len(enlarged) == 1:
            return {}
        by_resource: dict[str, _Times] = {}
        for one in enlarged:
            by_resource |= _times_of(sample, [one])
        return by_resource
    return {one.resource: after for one, after in zip(enlarged, times, strict=True)}


def _change_per_10_percent(
    enlarged: _Enlarged, before: "_Times", after: "_Times", *, with_prompt: bool
) -> Elasticity:
    """The effect of an enlargement, scaled to 10 %."""
    scale = 0.1 / enlarged.enlargement
    prompt_change = None
    if before.prompt_s:
        prompt_change = (after.prompt_s / before.prompt_s - 1) * scale
    if with_prompt:
        latency_change = after.latency_s / before.latency_s - 1
    else:
        latency_change = after.decode_s / before.decode_s - 1
    return Elasticity(
        resource=enlarged.resource,
        latency_change_per_10_percent=latency_change * scale,
        simulated=enlarged.simulated,
        enlargement=enlarged.enlargement,
        prompt_change_per_10_percent=prompt_change,
    )


def at_bandwidth_ends(hw: Hardware) -> Phases | None:
    """Phases at the expected bandwidth, and at its upper and lower end; None if no ends are known.

    Rows of one hardware share them, and what they cache.
    """
    weight_memory = hw.design.board.memories[hw.design.machine.placement.weights]
    if not weight_memory.has_bandwidth_interval:
        return None
    low, high = hw.bandwidth_interval
    ends = [replace(hw, bandwidth_factor=hw.bandwidth_factor * factor) for factor in (high, low)]
    return Phases(MachineArrays.of([hw, *ends]))


Factors = tuple[float, float]
"""Time at the upper and at the lower end of the bandwidth over the expected time: one factor of at
most 1, and one of at least 1."""


class BandwidthFactors(NamedTuple):
    """Times at the ends of the bandwidth, over the expected ones.

    Attributes:
        latency: Of the latency.
        latency_bound: Of its bound.
        decode: Of a decode step, without the prompt.
        decode_bound: Of its bound.
    """

    latency: Factors
    latency_bound: Factors
    decode: Factors
    decode_bound: Factors


def bandwidth_factors(plan: Plan, batches: Batches, ends: Phases) -> BandwidthFactors:
    """Times at the upper and at the lower end of the bandwidth, over the expected times.

    Args:
        plan: The policy on its machine.
        batches: Its decisions.
        ends: Phases of :func:`at_bandwidth_ends`.
    """
    expected, fast, slow = _SampledSteps(plan, batches).simulated(ends)
    return BandwidthFactors(
        latency=_factors(fast.latency_s, expected.latency_s, slow=slow.latency_s),
        latency_bound=_factors(
            fast.latency_bound_s, expected.latency_bound_s, slow=slow.latency_bound_s
        ),
        decode=_factors(fast.decode_s, expected.decode_s, slow=slow.decode_s),
        decode_bound=_factors(
            fast.decode_bound_s, expected.decode_bound_s, slow=slow.decode_bound_s
        ),
    )


def _factors(fast: float, expected: float, *, slow: float) -> Factors:
    return min(1.0, fast / expected), max(1.0, slow / expected)


class _Times(NamedTuple):
    """Times of a video in seconds.

    Attributes:
        latency_s: Of prompt and steps.
        latency_bound_s: Its lower bound.
        decode_s: Of the steps.
        decode_bound_s: Its lower bound.
        prompt_s: Of the prompt.
    """

    latency_s: float
    latency_bound_s: float
    decode_s: float
    decode_bound_s: float
    prompt_s: float


class _SampledSteps:
    """A sample of the steps of a policy, which is simulated on changed hardware.

    Args:
        plan: The policy.
        batches: Its decisions.

    Attributes:
        plan: The policy.
    """

    def __init__(self, plan: Plan, batches: Batches) -> None:
        evenly = np.linspace(0, plan.n_steps - 1, min(SAMPLED_STEPS, plan.n_steps))
        # np.unique would import more of NumPy.
        self._steps = sorted(set(evenly.astype(int).tolist()))
        self.plan = plan
        self._batches = batches.at_steps(np.array(self._steps))

    def simulated(self, phases: Phases) -> list[_Times]:
        """Simulate the sample on each design of some phases; times are scaled to all steps."""
        plan = replace(self.plan, phases=phases, steps=tuple(self._steps))
        (simulations,) = simulate_policy_on_designs(plan, self._batches)
        return [self._times(simulation) for simulation in simulations]

    def _times(self, simulation: Simulation) -> _Times:
        prompt = simulation.totals["prefill"]
        clock_hz = simulation.plan.hw.design.board.fabric_clock_mhz * 1e6
        decode = self._all_steps(simulation.cycles - prompt.cycles)
        decode_bound = self._all_steps(simulation.bound_cycles - prompt.bound_cycles)
        return _Times(
            latency_s=(prompt.cycles + decode) / clock_hz,
            latency_bound_s=(prompt.bound_cycles + decode_bound) / clock_hz,
            decode_s=decode / clock_hz,
            decode_bound_s=decode_bound / clock_hz,
            prompt_s=prompt.cycles / clock_hz,
        )

    def _all_steps(self, cycles: int) -> float:
        """Cycles of all steps from those of the sample."""
        return cycles * self.plan.n_steps / len(self._steps)

"""Elasticities: change of latency per +10 % of bandwidth, clock, array, cores; its interval.

Each resource is really changed and a sample of the steps solved again. Arrays and cores come in
whole columns and cores; what the smallest step of at least 10 % brings is scaled to 10 %.

The interval of a latency is what the ends of the interval of bandwidth
(``Hardware.bandwidth_interval``) make of it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from carsim.base.errors import InputError
from carsim.design import override
from carsim.machine.batches import Batches
from carsim.machine.phases import Phases
from carsim.machine.plan import Plan
from carsim.machine.simulate import simulate

SAMPLED_STEPS = 32
"""Steps simulated per resource, spread evenly over the video."""


@dataclass(frozen=True, slots=True)
class Elasticity:
    """Change of latency per +10 % of a resource.

    Attributes:
        resource: The resource that was enlarged.
        latency_change_per_10_percent: Relative change of latency, negative if it falls.
        simulated: The change that was simulated, in words.
    """

    resource: str
    latency_change_per_10_percent: float
    simulated: str


def elasticities(plan: Plan, batches: Batches) -> tuple[Elasticity, ...]:
    """Elasticities of the latency of a policy; resources at the limit of the spec are left out.

    Those of a text are of its new tokens alone: the prompt has its own limits, and comes once.

    Args:
        plan: The policy on its machine.
        batches: Its decisions.
    """
    hw, design = plan.hw, plan.hw.design
    clock, machine = design.board.fabric_clock_mhz, design.machine
    cols, cores = machine.array.cols, machine.cores
    more_cols, more_cores = max(1, round(cols * 0.1)), max(1, round(cores * 0.1))
    enlarged = {
        "fabric clock": ("board.fabric_clock_mhz", clock, clock * 1.1, "MHz"),
        "array": ("machine.array.cols", cols, cols + more_cols, "columns"),
        "cores": ("machine.cores", cores, cores + more_cores, "cores"),
    }
    seconds = _sampled(plan, batches, with_prompt=plan.video.kind == "video")
    base = seconds(plan.phases)[0]
    wider = replace(hw, bandwidth_factor=hw.bandwidth_factor * Fraction(11, 10))
    change = seconds(Phases(wider))[0] / base - 1
    found = [Elasticity("memory and port bandwidth", change, "+10 %")]
    for resource, (path, before, after, unit) in enlarged.items():
        try:
            changed = replace(hw, design=override(design, {path: after}))
            change = seconds(Phases(changed))[0] / base - 1
        except InputError:
            continue  # the spec, or 64 bits, allow no more of it
        simulated = f"{before:g} to {after:g} {unit}"
        found.append(Elasticity(resource, change * 0.1 / (after / before - 1), simulated))
    return tuple(found)


def bandwidth_ends(phases: Phases) -> list[Phases] | None:
    """The same phases at the upper and the lower end of the bandwidth; None if none are known."""
    hw = phases.hw
    if hw.design.board.memories[hw.design.machine.placement.weights].efficiency_low is None:
        return None
    low, high = hw.bandwidth_interval
    changed = [replace(hw, bandwidth_factor=hw.bandwidth_factor * end) for end in (high, low)]
    return [phases if each == hw else Phases(each) for each in changed]


def latency_factors(
    plan: Plan, batches: Batches, ends: Sequence[Phases]
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Latency at the upper and at the lower end of the bandwidth, over that between them.

    Args:
        plan: The policy on its machine.
        batches: Its decisions.
        ends: As of :func:`bandwidth_ends`; rows of one hardware share them, and what they cache.

    Returns:
        One at most 1 and one at least 1: of the latency, and of its bound.
    """
    seconds = _sampled(plan, batches)
    base = seconds(plan.phases)
    found = [base if end is plan.phases else seconds(end) for end in ends]
    latency, bound = (
        (min(1.0, fast / now), max(1.0, slow / now))
        for now, fast, slow in zip(base, *found, strict=True)
    )
    return latency, bound


def _sampled(
    plan: Plan, batches: Batches, *, with_prompt: bool = True
) -> Callable[[Phases], list[float]]:
    """Time of a sample of the steps on other hardware, and its bound, scaled to the video."""
    evenly = np.linspace(0, plan.n_steps - 1, min(SAMPLED_STEPS, plan.n_steps))
    steps = np.array(sorted({*evenly.astype(int).tolist()}))  # np.unique imports more of NumPy
    sample = batches.part(steps)

    def seconds(phases: Phases) -> list[float]:
        simulation = simulate(replace(plan, phases=phases, steps=tuple(steps.tolist())), sample)
        times = []
        for figure in ("cycles", "bound_cycles"):
            once = getattr(simulation.totals["prefill"], figure)
            decoding = (getattr(simulation, figure) - once) * plan.n_steps / len(steps)
            times.append(once * with_prompt + decoding)
        return [cycles / (phases.hw.design.board.fabric_clock_mhz * 1e6) for cycles in times]

    return seconds

"""LongLive with reuse, and what all tests of forwards whose tokens reuse outputs have in common."""

from typing import Any

from plainly import simulate_plainly

from carsim import load_design, run
from carsim.account.simulation import simulate_policy
from carsim.decisions.attention import Dense
from carsim.design import Design, override
from carsim.design.load import for_work
from carsim.machine.batches import Batches
from carsim.machine.hardware import Hardware
from carsim.machine.phases import FIDELITIES, Phases
from carsim.machine.plan import Plan
from carsim.runs.report import Report
from carsim.workload.geometry import Video
from carsim.workload.workload import workload_of

D, F, LAYERS, FRAME, CHUNK = 1536, 8960, 30, 1560, 4680
"""Width, width of the MLP, layers; tokens of a latent frame and of a chunk."""


def longlive(work: str, **policy: Any) -> Design:
    """LongLive on a 7 nm chip of 8 cores."""
    design = for_work(load_design("asic_7nm_hbm3"), workload_of(work))
    return override(design, {f"policy.{name}": value for name, value in policy.items()})


def report_of(work: str, **policy: Any) -> Report:
    """A run without elasticities."""
    return run(longlive(work, **policy), workload=work, what_if=False, allow_misfit=True)


def plan_of(design: Design, batches: Batches, fidelity: str = "fluid") -> Plan:
    """All forwards of a design."""
    sample = design.model.sample
    assert sample is not None
    assert batches.tokens is not None
    return Plan.of_video(
        Phases(Hardware(design), fidelity),
        Video(sample.forwards, 1, 0),
        attention=Dense(),
        schedule=design.policy.schedule,
        rule=batches.rule,
        reuse=batches.tokens.reuse,
    )


def check_forwards_one_by_one(design: Design, batches: Batches) -> None:
    """Forwards one after the other give the same as all at once, and none beats its bound."""
    plan = plan_of(design, batches)
    together = simulate_policy(plan, batches)
    plainly = simulate_plainly(plan, batches)
    assert together.cycles == plainly.cycles
    assert together.activity == plainly.activity
    assert together.cycles >= together.bound_cycles


def check_fluid_is_near_tile(design: Design, batches: Batches) -> None:
    """Cycles of both fidelity levels are within 5 %."""
    cycles = [
        simulate_policy(plan_of(design, batches, fidelity), batches).cycles
        for fidelity in FIDELITIES
    ]
    assert max(cycles) / min(cycles) < 1.05

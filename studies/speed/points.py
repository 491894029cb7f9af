"""One design point: FastCar + DRS with dense attention on ``configs/zcu102_16gb.yaml``.

Decisions are those of ``traces/vilau_8f.npz``: broadcast weights, 64 KiB tiles, bound by DDR.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from carsim.account.simulation import Simulation, simulate_policy
from carsim.decisions.trace import load_trace
from carsim.design import load_design
from carsim.machine.batches import Batches, make_batches
from carsim.machine.hardware import Hardware
from carsim.machine.phases import Phases
from carsim.machine.plan import Plan
from carsim.runs.pipeline import sources_of

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Point:
    """Everything that is simulated: a plan and the decisions of one batch."""

    plan: Plan
    batches: Batches


def make_point(steps: int | None = None) -> Point:
    """The point, or some steps of it that are spread evenly over the video."""
    design = load_design(ROOT / "configs" / "zcu102_16gb.yaml")
    sources = sources_of(design, [load_trace(ROOT / "traces" / "vilau_8f.npz")])
    video, attention = sources.video, design.policy.attention
    whole = make_batches(sources.decisions(attention, replays=True), design.policy.batch)
    taken = np.arange(video.n_steps)
    if steps is not None:
        taken = np.unique(np.linspace(0, video.n_steps - 1, steps).astype(int))
    phases = Phases(Hardware(design))
    plan = Plan(phases, video, attention, "drs", whole.rule, tuple(taken.tolist()))
    return Point(plan, whole.at_steps(taken, n_batches=1))


def run_point(point: Point) -> Simulation:
    """Simulate it from nothing."""
    plan = point.plan
    fresh = Phases(Hardware(plan.hw.design))
    again = Plan(fresh, plan.video, plan.attention, plan.schedule, plan.rule, plan.steps)
    return simulate_policy(again, point.batches)

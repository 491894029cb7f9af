"""The reference of a run: its layer-steps one after the other, each phase taken for itself."""

import numpy as np
from numpy.typing import NDArray

from carsim.machine.batches import Batches
from carsim.machine.cases import MlpCases
from carsim.machine.phase import Outcome
from carsim.machine.plan import Plan
from carsim.machine.simulate import (
    LAYER_PHASES,
    Simulation,
    Visits,
    prefill,
    simulations,
    step_ends,
)


def simulate_plainly(plan: Plan, batches: Batches) -> Simulation:
    """Simulate a plan, one layer-step after the other: slow, obvious, and equal to the bit."""
    phases, hw = plan.phases, plan.hw
    visits = []

    def visit(name: str, at: tuple[int, ...], outcome: Outcome) -> int:
        counts = np.zeros((1, len(batches.replay), 1), np.int64)
        counts[0, at[0]] = 1
        outcome_of = np.full(batches.replay.shape[:3], -1, np.intp)
        outcome_of[at] = 0
        visits.append(Visits(name, outcome, counts, counts * (at[1] == 0), outcome_of))
        return int(outcome.cycles[0])

    for at in np.ndindex(batches.replay.shape[:3]):
        step = at[1]
        scored = bool(plan.scored[step])
        rule = plan.rule if scored else None
        visit("qkv", at, phases.qkv(rule))
        body = hw.design.model.body
        cases = plan.reads[body.window_of(at[2])].take([step])
        if batches.reads is not None and plan.attention.records:
            attended, runs = (each[at][None] for each in batches.reads)
            cases = cases._replace(attended=attended, runs=runs)
        attention = visit("attention", at, phases.attention(rule, cases))
        output = visit("output", at, phases.output(rule))
        known = plan.known_cycles(np.array([attention]), output)
        for number, (group, home) in enumerate(plan.groups(scored)):
            computing = ~batches.replay[at][None, group]
            start = known * (number == 0) if scored else None
            mlps = MlpCases(computing, start, home, body.is_dense(at[2]))
            visit("mlp", at, phases.mlp(plan.schedule_of(scored), mlps, plan.rule))
    every = [*prefill(plan), *visits, *step_ends(plan)]
    ((found,),) = simulations(plan, batches, every, detail=True)
    return found


def phase_cycles(simulation: Simulation) -> dict[str, NDArray[np.int64]]:
    """Cycles of each layer-step by kind, int64[G, S, L], of a simulation in detail."""
    found: dict[str, NDArray[np.int64]] = {}
    for visits in simulation.visits:
        if visits.name in LAYER_PHASES:
            cycles = visits.spread(visits.outcome.cycles)
            found[visits.name] = found.get(visits.name, np.int64(0)) + cycles
    return found

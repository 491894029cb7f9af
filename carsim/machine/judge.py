"""The SimPy machine as the judge of the solver: one drawn phase of a run, on both rungs.

Tests hold the two together on drawn machines; this holds them together on the designs that a user
really explores, where tests have not been. Compared is what the solver promises to the bit
(:func:`carsim.machine.solver.is_exact`); of other phases it promises nothing. Phases of more than
:data:`MOST_TILES` tiles are let pass, as playing them would take longer than the points.
"""

from dataclasses import fields

import numpy as np

from carsim.machine import solver
from carsim.machine.batches import Batches
from carsim.machine.builders import BUILDERS
from carsim.machine.cases import AttendCases, MlpCases
from carsim.machine.phase import Outcome, Phase, outcome
from carsim.machine.plan import Plan
from carsim.machine.simulate import LAYER_PHASES

MOST_TILES = 2048
"""Tiles of a phase that is played: some 30 ms."""


def disagreement(plan: Plan, batches: Batches, seed: int) -> str | None:
    """Difference between the two rungs in one phase of a run; None if there is none.

    Args:
        plan: The policy on its machine.
        batches: Its decisions.
        seed: Draws kind of phase, step, layer and batch.
    """
    from carsim.machine import parts

    rng = np.random.default_rng(seed)
    name = LAYER_PHASES[rng.integers(len(LAYER_PHASES))]
    at = tuple(int(rng.integers(size)) for size in batches.replay.shape[:3])
    phase = _phase(plan, batches, name, at)
    tiles = sum(int((-(-step.stream_bytes // step.tile_bytes)).sum()) for step in phase.steps)
    if tiles > MOST_TILES or not solver.is_exact(phase).all():
        return None
    solved, simulated = (outcome(phase, rung(phase)) for rung in (solver.solve, parts.simulate))
    for each in fields(Outcome):
        ours, theirs = (getattr(found, each.name) for found in (solved, simulated))
        if (ours != theirs).any():
            return (
                f"the solver finds {each.name} {ours.tolist()} and the SimPy machine "
                f"{theirs.tolist()} for phase {name} of (batch, step, layer) {at}"
            )
    return None


def _phase(plan: Plan, batches: Batches, name: str, at: tuple[int, ...]) -> Phase:
    """One phase of the layer-step (batch, step, layer)."""
    phases, step = plan.phases, at[1]
    scored = bool(plan.scored[step])
    rule = plan.rule if scored else None
    if name == "qkv":
        return BUILDERS["qkv"](plan.hw, rule)
    if name == "output":
        return BUILDERS["output"](plan.hw, rule)
    window = plan.hw.design.model.body.window_of(at[2])
    cases = plan.reads(window).take(np.array([step]))
    if batches.reads is not None and plan.attention.records:
        attended, runs = (each[at][None] for each in batches.reads)
        cases = AttendCases(attended, runs, cases.contexts)
    outside = plan.aligned_outside(window)
    if name == "attention":
        outside = outside and rule is not None
        return BUILDERS["attention"](
            plan.hw, rule, cases, plan.attention, outside, plan.frame_steps
        )
    attention = phases.attention(rule, cases, plan.attention, outside, plan.frame_steps)
    known = plan.known_cycles(attention.cycles, int(phases.output(rule).cycles[0]))
    computing = ~batches.replay[at][None, plan.groups(scored)[0]]
    dense = plan.hw.design.model.body.is_dense(at[2])
    mlps = MlpCases(computing, known if scored else None, dense=dense)
    return BUILDERS["mlp"](plan.hw, plan.schedule_of(scored), mlps, plan.rule)

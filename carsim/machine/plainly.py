"""The reference of a run: its layer-steps one after the other, each phase taken for itself."""

import numpy as np

from carsim.machine.batches import Batches
from carsim.machine.cases import AttendCases, MlpCases
from carsim.machine.lanes import Ints
from carsim.machine.phase import Outcome
from carsim.machine.plan import Plan
from carsim.machine.ranges import check_plan
from carsim.machine.simulate import (
    LAYER_PHASES,
    Simulation,
    StepWork,
    outside_of_layers,
    with_mlp_bound,
)
from carsim.machine.totals import totals_of


def simulate_plainly(plan: Plan, batches: Batches) -> Simulation:
    """Simulate a plan, one layer-step after the other: slow, obvious, and equal to the bit."""
    check_plan(plan)
    phases, hw = plan.phases, plan.hw
    n_batches, n_steps, n_layers, _ = shape = batches.replay.shape
    taken = {name: np.zeros(shape[:3], np.int64) for name in LAYER_PHASES}
    work = StepWork(np.zeros(n_steps, np.int64), np.zeros((len(hw.paths), n_steps), np.int64))
    seen: dict[str, list[tuple[Outcome, Ints]]] = {name: [] for name in LAYER_PHASES}
    once = np.ones((1, 1), np.int64)

    def book(name: str, at: tuple[int, int, int], outcome: Outcome) -> int:
        seen[name].append((outcome, once))
        taken[name][at] += outcome.cycles[0]
        if at[0] == 0:
            work.busy_cycles[at[1]] += outcome.busy_cycles[0]
            work.dram_bytes[:, at[1]] += outcome.dram_bytes[0]
        return int(outcome.cycles[0])

    for at in np.ndindex(n_batches, n_steps, n_layers):
        step = at[1]
        scored = bool(plan.scored[step])
        rule = plan.rule if scored else None
        book("qkv", at, phases.qkv(rule))
        body = hw.design.model.body
        window = body.window_of(at[2])
        cases = plan.reads(window).take(np.array([step]))
        if batches.reads is not None and plan.attention.records:
            attended, runs = (each[at][None] for each in batches.reads)
            cases = AttendCases(attended, runs, cases.contexts)
        attention = book(
            "attention",
            at,
            phases.attention(
                rule, cases, plan.attention, plan.aligned_outside(window), plan.frame_steps
            ),
        )
        output = book("output", at, phases.output(rule))
        known = plan.known_cycles(np.array([attention]), output)
        schedule = plan.schedule_of(scored)
        for number, group in enumerate(plan.groups(scored)):
            computing = ~batches.replay[at][None, group]
            start = known * (number == 0) if scored else None
            home = group.start % hw.design.machine.cores
            mlps = MlpCases(computing, start, home, body.is_dense(at[2]))
            book("mlp", at, phases.mlp(schedule, mlps, plan.rule))
    totals = {name: totals_of(pairs) for name, pairs in seen.items()}
    totals["mlp"] = with_mlp_bound(totals["mlp"], plan, batches)
    outside = outside_of_layers(plan, n_batches)
    of_steps = sum(taken.values(), np.zeros(1, np.int64)).sum(axis=2)
    totals = {"prefill": outside.totals["prefill"], **totals} | outside.totals
    cycles = of_steps.sum(axis=1) + outside.cycles
    first_cycles = of_steps[:, 0] + outside.first_cycles
    of_kind = {name: each[0] for name, each in totals.items()}
    return Simulation(plan, of_kind, cycles, first_cycles, taken, work, 0)

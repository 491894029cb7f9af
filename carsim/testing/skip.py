"""The contract of a skip, on a small machine."""

from collections import Counter
from dataclasses import replace

import numpy as np

from carsim.account.simulation import simulate_policy
from carsim.decisions.attention import PLAIN
from carsim.decisions.replay import FASTCAR
from carsim.design import Design
from carsim.hardware.schedule import SCHEDULES, Schedule
from carsim.machine.batches import Batches
from carsim.machine.cases import Cases
from carsim.machine.hardware import Hardware
from carsim.machine.layer_step import take_layer_step
from carsim.machine.phase import Outcome
from carsim.machine.phases import FIDELITIES, Phases
from carsim.machine.plan import Plan
from carsim.program.block import Block
from carsim.program.layers import plain_layers
from carsim.program.skips import Skip
from carsim.testing.machines import small_design
from carsim.testing.promise import holds
from carsim.workload.geometry import Video

TRIED_LAYERS = 256
"""Layers in which a kind must skip something somewhere; no network of today has as many."""

VIDEO = Video(n_frames=3, tokens_per_frame=4, prompt_tokens=3)


def design_that_skips(skip: Skip) -> Design:
    """The small design, with decisions that are known at the query."""
    changes = ["machine.decision_at=q", "policy.batch=4", "machine.cores=2"]
    design = small_design(*changes)
    policy = design.policy.model_copy(update={"skip": skip})
    return design.model_copy(update={"policy": policy})


def marks(skip: Skip) -> None:
    """Blocks keep their order and their work; equal layers of one number are marked equally."""
    model = design_that_skips(skip).model
    marked = [skip.mark(layer, number) for number, layer in enumerate(plain_layers(model))]
    for layer, plain_layer in zip(marked, plain_layers(model), strict=True):
        names = [block.name for block in layer]
        holds(names == [block.name for block in plain_layer], "blocks keep their order")
        unmarked = tuple(replace(block, follows=None, holds=False) for block in layer)
        holds(unmarked == plain_layer, "marks change nothing but `follows` and `holds`")
        holds([block.follows or not block.holds for block in layer], "what is held is skipped")
    # A kind may skip later layers alone, which the small model does not have.
    last_layer = plain_layers(model)[-1]
    deeper = [skip.mark(last_layer, number) for number in range(len(marked), TRIED_LAYERS)]
    skipped = any(block.follows for layer in [*marked, *deeper] for block in layer)
    tried = f"layers 0 to {TRIED_LAYERS - 1} were tried"
    holds(skipped, f"a block of some layer is skipped; {tried}")
    # Once more, the last layer first, with copies of the blocks.
    for number, plain_layer in reversed(list(enumerate(plain_layers(model)))):
        marked_again = skip.mark(plain_layer, number)
        holds(marked_again == marked[number], "equal layers of one number are marked equally")


def sums_layer_steps(skip: Skip) -> None:
    """A run takes as long as its layer-steps one after the other, at both fidelity levels."""
    design = design_that_skips(skip)
    replay = (
        np.random.default_rng(0).random((1, VIDEO.n_steps, design.model.body.n_layers, 4)) < 0.6
    )
    replay[:, : VIDEO.tokens_per_frame] = False
    batches = Batches(replay, 1, 0, "drawn", "drawn")
    work = []
    for fidelity in FIDELITIES:
        for kind in SCHEDULES:
            phases = Phases(Hardware(design), fidelity)
            plan = Plan(
                phases,
                VIDEO,
                attention=PLAIN,
                schedule=kind,
                rule=FASTCAR,
                steps=range(VIDEO.n_steps),
            )
            cycles: Counter[str] = Counter()

            def take(block: Block, cases: Cases, schedule: Schedule | None) -> Outcome:
                outcome = phases.of(block, cases, schedule)  # noqa: B023
                cycles[block.name] += int(outcome.cycles[0])  # noqa: B023
                return outcome

            for batch_step_layer in np.ndindex(replay.shape[:3]):
                take_layer_step(plan, batches, batch_step_layer, take)
            simulation = simulate_policy(plan, batches)
            for name, total in cycles.items():
                holds(simulation.totals[name].cycles == total, f"{kind}, {fidelity}: {name}")
            holds(simulation.bound_cycles <= simulation.cycles, "no run is faster than its bound")
            activity = simulation.activity
            work.append((activity.macs, activity.vector_ops, activity.dram_bytes))
    holds(work == [work[0]] * len(work), "work depends on no schedule and no fidelity")


SKIP_CHECKS = (marks, sums_layer_steps)

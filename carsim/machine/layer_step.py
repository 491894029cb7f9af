"""One layer-step, phase by phase in the order in which the machine takes them.

A run counts how often each phase occurs (:mod:`carsim.machine.walk`). A timeline shows single
layer-steps instead.
"""

from collections.abc import Callable

import numpy as np

from carsim.hardware.schedule import Schedule
from carsim.machine.batches import Batches
from carsim.machine.cases import Cases, RowCases, TokenCases
from carsim.machine.phase import Outcome
from carsim.machine.plan import Plan
from carsim.machine.walk import first_unsplit
from carsim.program.block import Block
from carsim.program.program import sections_of
from carsim.program.reads import Reads

Take = Callable[[Block, Cases, Schedule | None], Outcome]
"""Takes a phase of a block."""


def take_layer_step(plan: Plan, batches: Batches, at: tuple[int, int, int], take: Take) -> None:
    """Take the phases of one layer-step.

    Args:
        plan: Policy and machine of a single design.
        batches: Decisions.
        at: Batch, step and layer.
        take: Takes a phase; called in the order of the phases.
    """
    _, step, layer = at
    machine = plan.machine
    (part,) = (part for part in plan.parts(batches) if step in part.steps)
    plan = part.plan
    program = part.program
    batches = part.batches
    blocks = program.layers[layer]
    schedule = plan.schedule_of(program.decided)
    dispatch_cycles = machine.dispatch_cycles(schedule)
    by_name = batches.by_name(program.decisions)
    cycles_at = [0] * len(blocks)
    for position, section in sections_of(blocks):
        decision = section[0].follows
        if decision is None:
            outcome = take(section[0], Cases(_reads(plan, batches, section[0], at)), None)
            cycles_at[position] = int(outcome.cycles[0])
            continue
        tokens = by_name[decision].tokens
        if tokens is not None:
            loads, _ = tokens.loads(machine, schedule, tokens.computing[at][None, None, None])
            for offset, block in enumerate(section):
                cases = Cases(
                    reads=_reads(plan, batches, block, at),
                    arrives=offset == 0,
                    tokens=TokenCases(loads, of=tokens.tokens),
                )
                cycles_at[position + offset] = int(take(block, cases, schedule).cycles[0])
            continue
        known_cycles = 0
        if program.decided:
            known_cycles = sum(cycles_at[program.known_from(blocks, decision) : position])
        arrives_at = first_unsplit(machine, section)
        for number, (group, home) in enumerate(plan.groups(program.decided)):
            # The next group is dispatched when the one before has left the section.
            now = known_cycles if number == 0 else 0
            for offset, block in enumerate(section):
                rows = RowCases(
                    computing=~by_name[decision].replay[at][None, group],
                    known_cycles=np.array([now]) if program.decided else None,
                    home=home,
                )
                reads = _reads(plan, batches, block, at)
                outcome = take(block, Cases(reads, rows, arrives=block is arrives_at), schedule)
                block_cycles = int(outcome.cycles[0])
                cycles_at[position + offset] += block_cycles
                now = max(0, now + block_cycles - dispatch_cycles)


def _reads(plan: Plan, batches: Batches, block: Block, at: tuple[int, int, int]) -> Reads | None:
    """Tokens that a block reads in a layer-step; as recorded, where they depend on data."""
    if not block.reads_tokens:
        return None
    reads = block.reads(plan.steps_at(np.array([at[1]])))
    if reads is not None and batches.reads is not None and plan.attention.records:
        tokens, runs = batches.reads
        reads = reads._replace(attended=tokens[at][None], runs=runs[at][None])
    return reads

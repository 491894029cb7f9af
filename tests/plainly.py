"""The reference of a run: its layer-steps one after the other, each phase taken for itself."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from carsim.account.simulation import Simulation, add_up
from carsim.hardware.schedule import BASELINE, Schedule
from carsim.machine.batches import Batches
from carsim.machine.cases import Cases, RowCases, TokenCases
from carsim.machine.phase import Outcome
from carsim.machine.plan import Plan
from carsim.machine.run import visit_prompt, visit_step_ends
from carsim.machine.token_batches import TokenBatches, expected_loads
from carsim.machine.visits import Visits
from carsim.program.block import Block
from carsim.program.reads import Reads


def simulate_plainly(plan: Plan, batches: Batches) -> Simulation:
    """Simulate a plan, one layer-step after the other: slow, obvious, and equal to the bit."""
    machine = plan.machine
    splits = {"attention": machine.mapping.splits_attention, "mlp": machine.mapping.splits_mlp}
    visits = list(visit_prompt(plan))

    def visit(at: tuple[int, ...], block: Block, outcome: Outcome) -> int:
        batch, step, _ = at
        counts = np.zeros((1, len(batches.replay), 1), np.int64)
        counts[0, batch, 0] = 1
        outcome_of = np.full(batches.replay.shape[:3], -1, np.intp)
        outcome_of[at] = 0
        visited = Visits(
            name=block.name,
            outcome=outcome,
            counts=counts,
            counts_to_first_token=counts * (step < plan.first_steps),
            outcome_of=outcome_of,
        )
        visits.append(visited)
        return int(outcome.cycles[0])

    def reads_at(at: tuple[int, ...], block: Block) -> Reads | None:
        reads = block.reads(plan.steps_at(np.array([at[1]])))
        if reads is not None and batches.reads is not None and plan.attention.records:
            tokens, runs = batches.reads
            return reads._replace(attended=tokens[at][None], runs=runs[at][None])
        return reads

    for at in np.ndindex(batches.replay.shape[:3]):
        kinds = [kind for kind, steps in plan.forward_kinds if at[1] in steps]
        program = plan.program(decided=bool(plan.decided[at[1]]), kind=kinds[0])
        schedule = plan.schedule_of(program.decided)
        of_step = batches
        if batches.whole_forwards(len(plan.steps))[at[1]]:
            # All rows leave out all layers, and no token is dealt.
            program = plan.phases.program(plan.rule, decided=True)
            schedule = BASELINE
            of_step = replace(batches, tokens=None)
        layer = program.layers[at[2]]
        dispatch_cycles = machine.dispatch_cycles(schedule)
        block_cycles = [0] * len(layer)
        decisions = of_step.by_name(program.decisions)
        position = 0
        while position < len(layer):
            block = layer[position]
            if block.follows is None:
                cases = Cases(reads_at(at, block))
                block_cycles[position] = visit(at, block, plan.phases.of(block, cases))
                position += 1
                continue
            end = position  # of the blocks that follow one decision
            while end < len(layer) and layer[end].follows == block.follows:
                end += 1
            tokens = decisions[block.follows].tokens
            if tokens is not None:
                loads = core_loads(tokens, at, machine.cores, schedule)
                for in_section in range(position, end):
                    reads = reads_at(at, layer[in_section])
                    cases = Cases(
                        reads,
                        arrives=in_section == position,
                        tokens=TokenCases(loads[None], tokens.tokens),
                    )
                    outcome = plan.phases.of(layer[in_section], cases, schedule)
                    block_cycles[in_section] = visit(at, layer[in_section], outcome)
                position = end
                continue
            known_cycles = sum(block_cycles[program.known_from(layer, block.follows) : position])
            for number, (group, home) in enumerate(plan.groups(program.decided)):
                elapsed = known_cycles if number == 0 else 0  # since the decision
                has_arrived = False
                for in_section in range(position, end):
                    # The dispatcher first works through the instructions of the blocks before.
                    before = (in_section - position) * dispatch_cycles
                    now = min(max(0, elapsed - before), dispatch_cycles)
                    known_now = np.array([now]) if program.decided else None
                    computing = ~decisions[block.follows].replay[at][None, group]
                    rows = RowCases(computing, known_now, home)
                    arrives = not has_arrived and not splits[layer[in_section].split]
                    has_arrived |= arrives
                    cases = Cases(reads_at(at, layer[in_section]), rows, arrives)
                    outcome = plan.phases.of(layer[in_section], cases, schedule)
                    cycles = visit(at, layer[in_section], outcome)
                    block_cycles[in_section] += cycles
                    elapsed += cycles
            position = end
    visits += visit_step_ends(plan, batches)
    ((simulation,),) = add_up(plan, batches, visits, detail=True)
    return simulation


def core_loads(
    tokens: TokenBatches, at: tuple[int, ...], cores: int, schedule: Schedule
) -> NDArray[np.int64]:
    """Tokens that each core computes in a layer-step, token by token, most first."""
    line = []  # a share of a computing token for every token of the batch
    for computing in tokens.computing[at].tolist():
        line += [Fraction(computing, tokens.per_range)] * tokens.per_range
    if schedule.central:
        total = int(sum(line))
        loads = [len(range(core, total, cores)) for core in range(cores)]
    elif schedule.interleaves_tokens and tokens.per_range > 1:
        return expected_loads(tokens.computing[at][None], tokens.per_range, cores)[0]
    elif schedule.interleaves_tokens:
        loads = [int(sum(line[core::cores])) for core in range(cores)]
    else:
        ends = [len(line) * core // cores for core in range(cores + 1)]
        up_to = [floor_of_ranges(line[:end], tokens.per_range) for end in ends]
        loads = [after - before for before, after in itertools.pairwise(up_to)]
    return np.array(sorted(loads, reverse=True), np.int64)


def floor_of_ranges(line: list[Fraction], per_range: int) -> int:
    """Tokens that compute in the first tokens of a line; of each range a whole number."""
    ranges = [line[first : first + per_range] for first in range(0, len(line), per_range)]
    return sum(math.floor(sum(of_range)) for of_range in ranges)


def phase_cycles(simulation: Simulation) -> dict[str, NDArray[np.int64]]:
    """Cycles of each layer-step by block, int64[G, S, L], of a simulation in detail."""
    plan = simulation.plan
    names = {block.name for block in plan.program(decided=False).blocks}
    found: dict[str, NDArray[np.int64]] = {}
    for visits in simulation.visits:
        if visits.name in names:
            cycles = visits.spread(visits.outcome.cycles)
            found[visits.name] = found.get(visits.name, np.int64(0)) + cycles
    return found

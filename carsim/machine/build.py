"""The phases of a block on D designs: one builder for all kinds of blocks.

Simplifications: a barrier at the end of every phase, so that cores with fewer rows wait for the
fullest one after each block; where attention is split and MLPs are not, the exchange that brings an
MLP's outputs to all cores is charged under a central schedule only, and there with the way to the
mapped core, which the gather after the output projection has made needless; where leftover
sequences are split, Q, K, V and attention outputs change cores for free (against a static schedule,
less than 0.2 % of a dense layer-step of the shipped designs), and so do those of a set of tokens,
which its sequence's own core attends with; every token of a set reads what the last one of it reads
(a policy of its own work pays that for each); where what is read depends on the data, cores share
it evenly.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from carsim.hardware.schedule import Schedule
from carsim.machine.across import sum_across
from carsim.machine.array import vector_cycles
from carsim.machine.arrays import MachineArrays
from carsim.machine.bounds import Bound, bound_of, home_bound
from carsim.machine.cases import CONTIGUOUS_BYTES, Cases, RowCases, TokenCases, chunk_bytes
from carsim.machine.lanes import Ints, lower, operations_of, splits, with_moves
from carsim.machine.numbering import Index, distinct
from carsim.machine.phase import Dispatch, Phase, ReplayWork
from carsim.machine.tabled import CoreReplays, tabled
from carsim.program.block import Block
from carsim.program.reads import Reads
from carsim.workload.ops import Count, Share

FEW_CASES = 256
"""As many cases are built one by one: to find those with equal work takes longer."""


def build(machine: MachineArrays, block: Block, schedule: Schedule | None, cases: Cases) -> Phase:
    """N phases of a block on each of D designs, one design after the other.

    Reads of one call are of one length class (:func:`carsim.machine.cases.chunk_bytes`).

    Args:
        machine: The numbers of D designs.
        block: The block.
        schedule: Who computes, where some rows do not.
        cases: What each phase reads, and who computes in it.
    """
    if cases.tokens is not None:
        assert schedule is not None
        return _computed_by_tokens(machine, block, schedule, cases.tokens, cases)
    if cases.rows is not None:
        assert schedule is not None
        return _computed_by_some(machine, block, schedule, cases.rows, cases)
    return _computed_by_all(machine, block, cases)


def _computed_by_all(machine: MachineArrays, block: Block, cases: Cases) -> Phase:
    """Phases that all rows compute, each on its own core or split over all."""
    split = splits(machine, block)
    reads = cases.reads
    if reads is not None:
        machine, case = machine.for_cases_on_each_design(cases.n)
        reads = reads.take(case)
    ops = operations_of(machine, block, reads)
    loads = machine.home_loads
    if block.deals == "sequences":
        loads = machine.even_loads(machine.batch)
    elif block.deals == "all_tokens":
        loads = machine.even_loads(machine.batch * block.tokens)
    steps = lower(machine, ops, loads[None, :], split=split)
    n = max(cases.n, machine.n_laid_out)
    bound = home_bound(machine, ops, steps, split=split, home=loads, n=n)
    phase = Phase(
        steps=steps,
        latencies=machine.latencies,
        bound_cycles=bound.cycles,
        bound_dram_bytes=bound.nbytes,
    )
    if _is_tabled(machine, block):
        return tabled(
            machine, block, phase, np.broadcast_to(loads, (n, machine.home_loads.size)), reads
        )
    return _at_gather_rate(machine, phase, reads)


def _computed_by_some(
    machine: MachineArrays, block: Block, schedule: Schedule, rows: RowCases, cases: Cases
) -> Phase:
    """Phases that some rows skip."""
    split = splits(machine, block)
    n_rows = rows.computing.shape[1]
    n_computing = sum_across(rows.computing.astype(np.int64))
    loads, moved = rows.loads(machine, schedule, split=split)
    if block.deals == "all_tokens":  # tokens of the rows that compute are dealt anew
        loads = machine.even_loads(n_computing * block.tokens)
        moved = np.zeros_like(moved)
    example_of, work_of = _different_work(machine, [*loads.T], cases.reads)
    phase = _of_loads(
        machine,
        block,
        schedule,
        loads=loads[example_of],
        n_rows=n_rows,
        n_computing=n_computing[example_of],
        reads=None if cases.reads is None else cases.reads.take(example_of),
    )
    if len(example_of) < cases.n:
        phase = phase.take(work_of)
    known_cycles = rows.known_cycles
    if known_cycles is not None:
        known_cycles = np.broadcast_to(known_cycles, (machine.n_designs, cases.n)).ravel()
    machine, case = machine.for_cases_on_each_design(cases.n)
    if cases.arrives and not _is_tabled(machine, block):  # the time of a table includes moves
        phase = replace(phase, steps=with_moves(machine, phase.steps, moved[case]))
    if known_cycles is not None:
        rows = rows._replace(computing=rows.computing[case])
        phase = replace(phase, dispatch=Dispatch(machine, schedule, rows, known_cycles))
    return phase


def _different_work(
    machine: MachineArrays, loads: Sequence[Ints], reads: Reads | None
) -> tuple[Index, Index]:
    """Different work among n cases: as cores are alike, many sets of rows ask for the same.

    Of several designs, or of few cases, every case is taken for different.

    Args:
        machine: The numbers of D designs.
        loads: Numbers of each case that say who computes how much, [n] each.
        reads: What each case reads.

    Returns:
        An example of each different work; the work of each case, [n].
    """
    n = len(loads[0])
    if machine.n_designs > 1 or n <= FEW_CASES:
        return np.arange(n), np.arange(n)
    columns = [*loads]
    if reads is not None:
        columns += [reads.attended, reads.runs, reads.contexts]
    example_of, work_of = distinct(np.array(columns))
    if len(example_of) == n:
        return np.arange(n), np.arange(n)
    return example_of, work_of


def _of_loads(  # noqa: PLR0913 - what rows of a block ask for, by name
    machine: MachineArrays,
    block: Block,
    schedule: Schedule,
    *,
    loads: Ints,
    n_rows: int,
    n_computing: Ints,
    reads: Reads | None,
) -> Phase:
    """Phases of n cases on D designs, before anything is dispatched or changes cores.

    Args:
        machine: The numbers of D designs.
        block: The block.
        schedule: Who computes.
        loads: Sequences or tokens of each core, most loaded first, int64[n, C].
        n_rows: Rows of each case.
        n_computing: Those that compute, int64[n].
        reads: What each case reads.
    """
    split = splits(machine, block)
    laid_out, case = machine.for_cases_on_each_design(len(loads))
    loads = loads[case]
    replaying = n_rows - n_computing[case]
    reads_of_phases = None if reads is None else reads.take(case)
    ops = operations_of(laid_out, block, reads_of_phases)
    steps = lower(laid_out, ops, loads, split=split)
    replay = None
    if block.holds and replaying.any():
        replay = _replay(laid_out, block, replaying, loads)
    # Without reads, the bound is known by how many rows compute: see bounds.skip_bound.
    bound = Bound(
        cycles=np.zeros(len(loads), np.int64),
        nbytes=np.zeros((len(loads), len(machine.memories)), np.int64),
    )
    if reads is not None:
        even_loads = _even_loads(machine, block, n_computing)[case]
        if np.array_equal(loads, even_loads):
            replay_bytes = 0 if replay is None else replay.nbytes
            bound = bound_of(laid_out, steps, len(loads), replay_bytes=replay_bytes)
        else:
            bound = _even_bound(machine, block, n_rows, n_computing=n_computing, reads=reads)
    phase = Phase(
        steps=steps,
        latencies=laid_out.latencies,
        bound_cycles=bound.cycles,
        bound_dram_bytes=bound.nbytes,
        replay=replay,
        # A core that owns its rows, or shares its weights with all, knows what to fetch.
        early_fetch=machine.is_lockstep(split) or not schedule.central,
    )
    if _is_tabled(machine, block):
        replays = CoreReplays.of(laid_out, schedule, loads, replaying)
        return tabled(laid_out, block, phase, loads, reads_of_phases, replays)
    return _at_gather_rate(laid_out, phase, reads_of_phases)


def _even_bound(
    machine: MachineArrays, block: Block, n_rows: int, *, n_computing: Ints, reads: Reads
) -> Bound:
    """Bound of n cases on each of D designs: rows that compute are spread evenly over the cores.

    Args:
        machine: The numbers of D designs.
        block: The block.
        n_rows: Rows of each case.
        n_computing: Those that compute, int64[n].
        reads: What each case reads.
    """
    example_of, work_of = _different_work(machine, [n_computing], reads)
    n_computing = n_computing[example_of]
    laid_out, case = machine.for_cases_on_each_design(len(example_of))
    ops = operations_of(laid_out, block, reads.take(example_of[case]))
    loads = _even_loads(machine, block, n_computing)[case]
    evenly = lower(laid_out, ops, loads, split=splits(machine, block))
    replay_bytes: Count = 0
    if block.holds:
        replaying = Share(n_rows - n_computing[case], tokens=block.tokens)
        replay_bytes = block.replay(machine.model, replaying).replay_bytes
    bound = bound_of(laid_out, evenly, len(loads), replay_bytes=replay_bytes)
    if len(example_of) == len(work_of):
        return bound
    return Bound(cycles=bound.cycles[work_of], nbytes=bound.nbytes[work_of])


def _even_loads(machine: MachineArrays, block: Block, n_computing: Ints) -> Ints:
    """Sequences or tokens of each core, were rows spread evenly, int64[n] -> int64[n, C]."""
    tokens = block.tokens if block.deals == "all_tokens" else 1
    return machine.even_loads(n_computing * tokens)


def _is_tabled(machine: MachineArrays, block: Block) -> bool:
    """The time of a block is that of a table."""
    return machine.kernels is not None and block.name in machine.kernels


def _computed_by_tokens(
    machine: MachineArrays, block: Block, schedule: Schedule, tokens: TokenCases, cases: Cases
) -> Phase:
    """Phases that some tokens skip; text tokens beside them compute.

    The list of tokens that compute is made in front of the first block of a section, and delays it.
    A block whose work is that of rows, and not of tokens, is computed if any token is.
    """
    split = splits(machine, block)
    reusing = tokens.of - tokens.computing
    loads = machine.home_loads * (tokens.computing > 0)[:, None]
    if block.deals == "all_tokens":
        loads = tokens.loads + machine.even_loads(machine.batch * block.tokens - tokens.of)
    listing_cycles = machine.listing_cycles(schedule, tokens.of) * cases.arrives
    machine, case = machine.for_cases_on_each_design(cases.n)
    loads = loads[case]
    reads = None if cases.reads is None else cases.reads.take(case)
    ops = operations_of(machine, block, reads)
    first, *further = lower(machine, ops, loads, split=split)
    first = first._replace(pre_cycles=first.pre_cycles + listing_cycles)
    replay = None
    if block.holds and reusing.any():
        replay = _replay(machine, replace(block, tokens=1), reusing[case], loads)
    evenly = lower(machine, ops, machine.even_loads(loads.sum(axis=1)), split=split)
    replay_bytes = 0 if replay is None else replay.nbytes
    bound = bound_of(machine, evenly, len(loads), replay_bytes=replay_bytes)
    phase = Phase(
        steps=(first, *further),
        latencies=machine.latencies,
        bound_cycles=bound.cycles,
        bound_dram_bytes=bound.nbytes,
        replay=replay,
    )
    if _is_tabled(machine, block):
        return tabled(machine, block, phase, loads, reads)
    return _at_gather_rate(machine, phase, reads)


def _at_gather_rate(machine: MachineArrays, phase: Phase, reads: Reads | None) -> Phase:
    """Phases whose last step reads runs of keys of one length class."""
    if reads is None:
        return phase
    chunk = int(chunk_bytes(machine, reads)[0])
    *before, step = phase.steps
    if chunk == CONTIGUOUS_BYTES or step.path < 0:
        return phase
    in_runs = step._replace(rate=machine.gather_rate(step.path, chunk))
    return replace(phase, steps=(*before, in_runs))


def _replay(machine: MachineArrays, block: Block, replaying: Ints, loads: Ints) -> ReplayWork:
    """Rows that skip a block; cores that compute nothing in it add their residuals, [n]."""
    split = splits(machine, block)
    of_all = block.replay(machine.model, Share(replaying, tokens=block.tokens))
    share = Share(
        rows=machine.rows_of_fullest_core(replaying, split=split),
        of=machine.cores_per_matrix(split=split),
        tokens=block.tokens,
    )
    of_fullest = block.replay(machine.model, share)
    vector_ops = np.asarray(of_fullest.vector_ops, np.int64)
    add_cycles = np.asarray(vector_cycles(machine.vector, vector_ops[:, None]), np.int64)[:, 0]
    free = loads == 0
    if machine.is_lockstep(split):
        free &= free.all(axis=1, keepdims=True)
    free_cores = free.sum(axis=1)
    busy_cores = free_cores if split else np.minimum(replaying, free_cores)
    return ReplayWork(
        path=machine.replay_path,
        rate=machine.rates[machine.replay_path],
        nbytes=np.asarray(of_all.replay_bytes, np.int64),
        add_cycles=add_cycles,
        busy_cycles=busy_cores * add_cycles,
        vector_ops=np.asarray(of_all.vector_ops, np.int64),
    )

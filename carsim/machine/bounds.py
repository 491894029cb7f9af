"""Lower bounds of phases: the later of compute and bytes.

No core is over 100 % busy, no memory over its rate, and no core has more sequences than it has room
for. Nothing is charged for latency, dispatch, exchange or imbalance.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.hardware.schedule import slots_per_core
from carsim.machine.across import most_across
from carsim.machine.arrays import MachineArrays
from carsim.machine.hardware import served
from carsim.machine.kernels import cycles_of
from carsim.machine.lanes import Ints, LaneOp, lower, operations_of, splits
from carsim.machine.phase import moved_bytes
from carsim.machine.tabled import least_block_us
from carsim.program.block import Block, OpsOf
from carsim.workload.ops import Count, Share


class Bound(NamedTuple):
    """Least cycles [n], and the bytes that go with them [n, memories]; of D designs [D, n] each."""

    cycles: Ints
    nbytes: Ints


def bound_of(  # noqa: PLR0913 - three of them are for special spreads
    machine: MachineArrays,
    steps: Sequence[LaneOp],
    n: int,
    *,
    replay_bytes: Count = 0,
    fetched: Sequence[LaneOp] | None = None,
    cores_per_lane: Ints | int = 1,
) -> Bound:
    """Bound of steps on the cores that they are given.

    Args:
        machine: The numbers of D designs.
        steps: The steps.
        n: Phases.
        replay_bytes: Bytes of replays beside them.
        fetched: Steps whose bytes are charged instead, where another spread moves fewer.
        cores_per_lane: Cores that each lane stands for, [K].
    """
    compute = np.zeros((n, 1), np.int64)
    for step in steps:
        compute = compute + step.pre_cycles + step.cycles - step.exchange_cycles
    cycles = most_across(compute)
    charged = steps if fetched is None else fetched
    nbytes = moved_bytes(charged, n, len(machine.memories), cores_per_lane)
    nbytes[:, machine.replay_path] += replay_bytes
    for rate, moved in zip(machine.fastest_rates, nbytes.T, strict=True):
        cycles = np.maximum(cycles, served(rate, moved))
    return Bound(cycles, nbytes)


def home_bound(  # noqa: PLR0913 - phases as they are, and what other spreads are made of
    machine: MachineArrays, ops: OpsOf, steps: Sequence[LaneOp], *, split: bool, home: Ints, n: int
) -> Bound:
    """The least over spreads of all sequences: private weights cost a stream for each core.

    Args:
        machine: The numbers of D designs.
        ops: Operations of the phases.
        steps: Their steps, where sequences are spread over all cores.
        split: Matrices are split over the cores.
        home: Sequences of each core, [C].
        n: Phases.
    """
    best = bound_of(machine, steps, n)
    if machine.is_lockstep(split) or all(step.is_kv or step.path < 0 for step in steps):
        return best  # bytes do not depend on the spread: the widest wins
    batch = int(home.sum())
    cores = machine.cores
    fewest = -(-batch // slots_per_core(batch, cores))
    for used in range(fewest, min(cores, batch)):
        even, remainder = divmod(batch, used)
        # Two lanes: cores with one sequence more than an even share, and cores with an even share.
        cores_per_lane = np.array([remainder, used - remainder])
        loads = np.array([[even + 1, even]]) * (cores_per_lane > 0)
        steps_of_spread = lower(machine, ops, loads, split=split)
        bound = bound_of(machine, steps_of_spread, n, cores_per_lane=cores_per_lane)
        is_less = bound.cycles < best.cycles
        best = Bound(
            cycles=np.where(is_less, bound.cycles, best.cycles),
            nbytes=np.where(is_less[:, None], bound.nbytes, best.nbytes),
        )
    return best


def skip_bound(machine: MachineArrays, block: Block, n_rows: int) -> Bound:
    """Lower bound of a block over assignments of whole rows, [D, B + 1]: by how many compute.

    The least over spreading n rows evenly over u cores: with broadcast weights or split matrices
    bytes do not depend on u and the widest spread wins; with private weights each further core
    costs a stream. Of experts, that stream is least where all rows but one for each further core
    are together, as they share what they choose.

    Args:
        machine: The numbers of D designs.
        block: The block, which reads no cache. Where a score needs its norm, that is charged with
            the score, and nowhere here, although the first frame has no score.
        n_rows: B, rows of a layer-step; those that do not compute skip the block.
    """
    if block.deals == "all_tokens":
        return _dealt_bound(machine, block, n_rows)
    split = splits(machine, block)
    cores = machine.cores
    computing, used = _spreads(machine, n_rows, split=split)
    core = np.arange(cores)
    even = computing // used
    loads = even[:, None] + (core < (computing - even * used)[:, None])
    loads = np.where(core < used[:, None], loads, 0)
    # Rows of one core share the experts that they choose.
    together = np.where(core < used[:, None], 1, 0)
    together[:, 0] += computing - together.sum(axis=1)
    n = len(loads)
    designs = machine.n_designs
    machine, spread = machine.for_cases_on_each_design(n)
    ops = operations_of(machine, block, None)
    replay_bytes: Count = 0
    if block.holds:
        replaying = Share(n_rows - computing[spread], tokens=block.tokens)
        replay_bytes = block.replay(machine.model, replaying).replay_bytes
    fetched = None
    if machine.model.body.experts is not None and not machine.is_lockstep(split):
        fetched = lower(machine, ops, together[spread], split=split)
    steps = lower(machine, ops, loads[spread], split=split)
    bound = bound_of(machine, steps, len(spread), replay_bytes=replay_bytes, fetched=fetched)
    design = np.repeat(np.arange(designs), n)
    # Of each design and number of rows, the spread of least cycles, and of these of fewest cores.
    order = np.lexsort((used[spread], bound.cycles, computing[spread], design))
    case = design * (n_rows + 1) + computing[spread]
    best = order[np.searchsorted(case[order], np.arange(designs * (n_rows + 1)))]
    best = best.reshape(designs, n_rows + 1)
    cycles = bound.cycles[best]
    table = machine.kernels
    if table is not None and block.name in table:
        # Rows that replay take no time in this bound.
        least_us = [0.0]
        least_us += [
            float(least_block_us(machine, table, block, rows)[0]) for rows in range(1, n_rows + 1)
        ]
        cycles = cycles_of(np.array(least_us), machine.clocks_mhz[:, None])
    return Bound(cycles, bound.nbytes[best])


def _dealt_bound(machine: MachineArrays, block: Block, n_rows: int) -> Bound:
    """Bound of a block whose tokens are dealt evenly over all cores, [D, B + 1]."""
    split = splits(machine, block)
    designs = machine.n_designs
    machine, case = machine.for_cases_on_each_design(n_rows + 1)
    loads = machine.even_loads(case * block.tokens)
    steps = lower(machine, operations_of(machine, block, None), loads, split=split)
    replay_bytes: Count = 0
    if block.holds:
        replaying = Share(n_rows - case, tokens=block.tokens)
        replay_bytes = block.replay(machine.model, replaying).replay_bytes
    bound = bound_of(machine, steps, len(case), replay_bytes=replay_bytes)
    nbytes = bound.nbytes.reshape(designs, n_rows + 1, -1)
    return Bound(bound.cycles.reshape(designs, n_rows + 1), nbytes)


def _spreads(machine: MachineArrays, n_rows: int, *, split: bool) -> tuple[Ints, NDArray[np.int64]]:
    """Rows that compute, from 0 to B, and the numbers of cores over which they may be spread."""
    slots = slots_per_core(n_rows, machine.cores)
    spreads = [(0, 1)]
    for n in range(1, n_rows + 1):
        most = min(machine.cores, n)
        least = most if machine.is_lockstep(split) else -(-n // slots)
        spreads += [(n, used) for used in range(least, most + 1)]
    columns = np.array(spreads, np.int64)
    return columns[:, 0], columns[:, 1]

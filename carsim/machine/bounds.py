"""Lower bounds of phases: the later of compute and bytes.

No core is over 100 % busy, no memory over its rate, and no core has more sequences than it has room
for. Nothing is charged for latency, dispatch, exchange or imbalance.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from carsim.decisions.replay import ReplayRule
from carsim.hardware.schedule import slots_per_core
from carsim.machine.hardware import Hardware, served
from carsim.machine.lanes import Ints, OpsOf, Step, lower
from carsim.machine.phase import moved_bytes
from carsim.machine.phase_ops import at_residual, mlp_ops
from carsim.workload.mlp import replay_op
from carsim.workload.ops import Share


class Bound(NamedTuple):
    """Least cycles [n], and the bytes that go with them [n, memories]; of D designs [D, n] each."""

    cycles: Ints
    nbytes: Ints


def bound_of(
    hw: Hardware,
    steps: Sequence[Step],
    n: int,
    replay_bytes: Ints | int = 0,
    fetched: Sequence[Step] | None = None,
    alike: Ints | int = 1,
) -> Bound:
    """Bound of steps on the cores that they are given.

    Args:
        hw: The hardware.
        steps: The steps.
        n: Phases.
        replay_bytes: Bytes of replays beside them.
        fetched: Steps whose bytes are charged instead, where another spread moves fewer.
        alike: Cores that each lane stands for, [K].
    """
    own = (step.pre_cycles + step.cycles - step.exchange_cycles for step in steps)
    compute = sum(own, np.zeros((n, 1), np.int64))
    nbytes = moved_bytes(steps if fetched is None else fetched, n, len(hw.paths), alike)
    nbytes[:, hw.replay_path] += replay_bytes
    cycles = compute.max(axis=-1)
    for rate, moved in zip(hw.fastest_rates, nbytes.T, strict=True):
        cycles = np.maximum(cycles, served(rate, moved))
    return Bound(cycles, nbytes)


def home_bound(
    hw: Hardware, ops: OpsOf, steps: Sequence[Step], split: bool, home: Ints, n: int
) -> Bound:
    """The least over spreads of all sequences: private weights cost a stream for each core."""
    cycles, nbytes = bound_of(hw, steps, n)
    if hw.is_lockstep(split) or all(step.is_kv or step.path < 0 for step in steps):
        return Bound(cycles, nbytes)  # bytes do not depend on the spread: the widest wins
    batch, cores = int(home.sum()), hw.design.machine.cores
    for used in range(-(-batch // slots_per_core(batch, cores)), min(cores, batch)):
        each, more = divmod(batch, used)
        alike = np.array([more, used - more])  # cores with a sequence more than the others, others
        loads = np.array([[each + 1, each]]) * (alike > 0)
        other = bound_of(hw, lower(hw, ops, loads, split=split), n, alike=alike)
        less = other.cycles < cycles
        cycles = np.where(less, other.cycles, cycles)
        nbytes = np.where(less[:, None], other.nbytes, nbytes)
    return Bound(cycles, nbytes)


def mlp_bound(hw: Hardware, batch: int, rule: ReplayRule | None, dense: bool) -> Bound:
    """Lower bound of an MLP over assignments of whole sequences, [D, B + 1]: by how many compute.

    The least over spreading n sequences evenly over u cores: with broadcast weights or split
    matrices bytes do not depend on u and the widest spread wins; with private weights each
    further core costs a stream. Of experts, that stream is least where all sequences but one
    for each further core are together, as they share what they choose.

    Args:
        hw: The hardware of D designs.
        batch: B, sequences of a layer-step; those that do not compute replay.
        rule: Rule of replay. Where its score needs the norm, that is charged with the score,
            and nowhere here, although the first frame has no score.
        dense: The layer has one MLP for all tokens.
    """
    split, cores = hw.mapping.splits_mlp, hw.design.machine.cores
    slots, spreads = slots_per_core(batch, cores), [(0, 1)]
    for n in range(1, batch + 1):
        most = min(cores, n)
        least = most if hw.is_lockstep(split) else -(-n // slots)
        spreads += [(n, used) for used in range(least, most + 1)]
    computing, used = np.array(spreads, np.int64).T
    core = np.arange(cores)
    even = computing // used
    loads = even[:, None] + (core < (computing - even * used)[:, None])
    loads = np.where(core < used[:, None], loads, 0)
    designs, n = len(hw.designs), len(loads)
    hw = hw.spread(np.repeat(np.arange(designs), n))
    computing, used = np.tile(computing, designs), np.tile(used, designs)
    loads = np.tile(loads, (designs, 1))
    ops = mlp_ops(hw, dense=dense, normed=at_residual(rule), rule=rule)
    model, damped = hw.design.model, rule is not None and rule.damps
    replayed = replay_op(model, Share(batch - computing), damped=damped).replay_bytes
    fetched = None
    if model.body.experts is not None and not dense and not hw.is_lockstep(split):
        together = np.where(core < used[:, None], 1, 0)
        together[:, 0] += computing - together.sum(axis=1)
        fetched = lower(hw, ops, together, split=split)
    cycles, nbytes = bound_of(hw, lower(hw, ops, loads, split=split), len(loads), replayed, fetched)
    design = np.repeat(np.arange(designs), n)
    order = np.lexsort((used, cycles, computing, design))
    case = design * (batch + 1) + computing
    best = order[np.searchsorted(case[order], np.arange(designs * (batch + 1)))]
    best = best.reshape(designs, batch + 1)
    return Bound(cycles[best], nbytes[best])

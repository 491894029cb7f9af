"""Phases on one hardware, built from cases: one table of builders.

A layer-step is QKV projection, attention, output projection, then dispatch, MLP and replay.
Attention is a phase of its own because only it depends on the context.

Simplifications: a barrier at the end of every phase, so that cores with fewer sequences wait for
the fullest one four times a layer-step; where attention is split and MLPs are not, the exchange
that brings an MLP's outputs to all cores is charged under a central schedule only, and there with
the way to the mapped core, which the gather after the output projection has made needless; where
leftover sequences are split, Q, K, V and attention outputs change cores for free (against
a static schedule, less than 0.2 % of a dense layer-step of the shipped designs), and so do those of
a set of tokens, which its sequence's own core attends with; every token of a set reads what the
last one of it reads (a policy of its own work pays that for each); where what is read depends on
the data, cores share it evenly.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from carsim.decisions.replay import ReplayRule
from carsim.hardware.schedule import Schedule
from carsim.machine import phase_ops
from carsim.machine.array import vector_cycles
from carsim.machine.bounds import home_bound
from carsim.machine.cases import CONTIGUOUS_BYTES, AttendCases, MlpCases
from carsim.machine.hardware import Hardware
from carsim.machine.lanes import Ints, OpsOf, lower
from carsim.machine.phase import Dispatch, Phase, ReplayWork
from carsim.workload.head import HeadStep
from carsim.workload.mlp import replay_op
from carsim.workload.ops import Share


def _every(hw: Hardware, n: int) -> tuple[Hardware, Any]:
    """The hardware of n phases of each design, one after the other, and the case of each phase."""
    designs = len(hw.designs)
    if designs == 1:
        return hw, slice(None)
    return hw.spread(np.repeat(np.arange(designs), n)), np.tile(np.arange(n), designs)


def _home(hw: Hardware, ops: OpsOf, split: bool, loads: Ints, n: int = 1) -> Phase:
    """N phases of all tokens or sequences, each on its own core or split over all."""
    n = max(n, hw.height)
    steps = lower(hw, ops, loads[None, :], split=split)
    return Phase(steps, hw.latencies, *home_bound(hw, ops, steps, split, loads, n))


def _qkv(hw: Hardware, rule: ReplayRule | None) -> Phase:
    return _home(hw, phase_ops.qkv_ops(hw, rule), hw.mapping.splits_attention, hw.home_loads)


def _attention(hw: Hardware, rule: ReplayRule | None, cases: AttendCases) -> Phase:
    """Runs of keys are of one length class."""
    hw, case = _every(hw, len(cases.attended))
    cases = cases.take(case)
    ops, loads = phase_ops.attend_ops(hw, rule, cases), hw.even_loads(hw.batch)
    phase = _home(hw, ops, hw.mapping.splits_attention, loads, len(cases.attended))
    chunk = int(cases.chunk_bytes(hw)[0])
    if chunk == CONTIGUOUS_BYTES:
        return phase
    *before, step = phase.steps
    return replace(phase, steps=(*before, step._replace(rate=hw.gather_rate(step.path, chunk))))


def _output(hw: Hardware, rule: ReplayRule | None) -> Phase:
    return _home(hw, phase_ops.output_ops(hw, rule), hw.mapping.splits_attention, hw.home_loads)


def _head(hw: Hardware, steps: Sequence[HeadStep], codes: Ints) -> Phase:
    hw, case = _every(hw, len(codes))
    ops = phase_ops.head_ops(hw, steps, codes[case, None])
    return _home(hw, ops, hw.mapping.splits_mlp, hw.home_loads, len(codes))


def _prefill(hw: Hardware, tokens: int, window: int | None, dense: bool) -> Phase:
    ops = phase_ops.prefill_ops(hw, tokens, window, dense)
    return _home(hw, ops, hw.mapping.splits_mlp, hw.even_loads(hw.batch))


def _mlp(
    hw: Hardware, schedule: Schedule, cases: MlpCases, rule: ReplayRule | None = None
) -> Phase:
    n = len(cases.computing)
    known, decided = cases.known_cycles, cases.known_cycles is not None
    if known is not None:
        known = np.broadcast_to(known, (len(hw.designs), n)).ravel()
    hw, case = _every(hw, n)
    split = hw.mapping.splits_mlp
    loads, moved = (each[case] for each in cases.loads(hw, schedule))
    cases = cases._replace(computing=cases.computing[case])
    normed = decided and phase_ops.at_residual(rule)
    ops = phase_ops.mlp_ops(hw, dense=cases.dense, normed=normed, rule=rule)
    replaying = (~cases.computing).sum(axis=1)
    damped = rule is not None and rule.damps
    return Phase(
        steps=lower(hw, ops, loads, split=split, moved=moved),
        latencies=hw.latencies,
        # The bound of MLPs knows no groups of sequences: see bounds.mlp_bound.
        bound_cycles=np.zeros(len(loads), np.int64),
        bound_dram_bytes=np.zeros((len(loads), len(hw.paths)), np.int64),
        replay=_replay(hw, replaying, loads, damped) if replaying.any() else None,
        dispatch=None if known is None else Dispatch(hw, schedule, cases, known),
        # A core that owns its sequences, or shares its weights with all, knows what to fetch.
        early_fetch=hw.is_lockstep(split) or not schedule.central,
    )


def _replay(hw: Hardware, replaying: Ints, loads: Ints, damped: bool) -> ReplayWork:
    """Replaying sequences; cores that compute an MLP add their residuals beside it, [n]."""
    machine, split = hw.design.machine, hw.mapping.splits_mlp
    whole = replay_op(hw.design.model, Share(replaying), damped=damped)
    share = Share(machine.sequences_per_core(replaying, split=split), machine.sharing(split=split))
    slowest = replay_op(hw.design.model, share, damped=damped)
    (cycles,) = vector_cycles(machine.vector, slowest.vector_ops[:, None]).T
    free = loads == 0
    if hw.is_lockstep(split):
        free &= free.all(axis=1, keepdims=True)
    free_cores = free.sum(axis=1)
    busy_cores = free_cores if split else np.minimum(replaying, free_cores)
    return ReplayWork(
        path=hw.replay_path,
        rate=hw.rates[hw.replay_path],
        nbytes=whole.replay_bytes,
        cycles=cycles,
        busy_cycles=busy_cores * cycles,
        vector_ops=whole.vector_ops,
    )


BUILDERS: Mapping[str, Callable[..., Phase]] = {
    "qkv": _qkv,
    "attention": _attention,
    "output": _output,
    "mlp": _mlp,
    "head": _head,
    "prefill": _prefill,
}
"""Kinds of phases: (hardware, cases of the kind) -> n phases, as the rungs are given them."""

"""The ops of each kind of phase, as functions of a core's share of it."""

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from carsim.cost.capacity import machine_shape
from carsim.cost.fit import activation_bytes_per_token
from carsim.decisions.attention import SideWork
from carsim.decisions.replay import NO_WORK, Point, ReplayRule, RuleWork, later
from carsim.machine.cases import AttendCases
from carsim.machine.hardware import Hardware
from carsim.machine.lanes import OpsOf
from carsim.workload import attention, head, mlp
from carsim.workload.body import Latent
from carsim.workload.elements import NORM_OPS
from carsim.workload.head import HeadStep
from carsim.workload.model import Model
from carsim.workload.ops import Category, Count, Gemm, Op, Share, Stream


def qkv_ops(hw: Hardware, rule: ReplayRule | None) -> OpsOf:
    """The ops of a QKV projection."""
    model = hw.design.model

    def ops(share: Share) -> list[Op]:
        score, rows = _score(hw, rule, "q", share), share.rows
        op = _with(
            attention.qkv_op(model, share),
            vector_ops=rows * score.vector_ops,
            kv_side_bytes=rows * model.kv.bytes_of(score.key_elements),
            replay_bytes=rows * score.held_bytes,
        )
        return [*_latent_ops(model, attention.compress_op, share), op]

    return ops


def attend_ops(hw: Hardware, rule: ReplayRule | None, cases: AttendCases) -> OpsOf:
    """The ops of attention; see :meth:`carsim.machine.phases.Phases.attention`."""
    model, tokens, reads = hw.design.model, hw.design.policy.tokens_per_step, cases.attended
    side = _side_work(hw, cases)
    macs, vector_ops, read, written, scan, elements = (
        tokens * np.reshape(getattr(side, each.name), (-1, 1)) for each in fields(side)
    )
    written = written + model.kv.bytes_of(elements)
    chooses = bool(scan.any())  # what is fetched hangs on this work, and waits for it

    def ops(share: Share) -> list[Op]:
        rows, hd = share.rows, model.body.head_dim
        score = _score(hw, rule, "attention", share)
        keys = tokens * score.key_elements if cases.aligned_outside else 0
        set_of = share._replace(tokens=tokens)
        attend = attention.attend_op(model, set_of, reads[:, None], key_elements=keys)
        attend = _with(
            attend,
            vector_ops=rows * tokens * score.vector_ops,
            replay_bytes=rows * tokens * score.held_bytes,
            kv_side_bytes=rows * written,
        )
        # The policy's own products, one head dimension each, are spread over the heads of all.
        gemms = (Gemm(1, hd, share.columns(-(-macs // hd)), rows),) if macs.any() else ()
        own = {"gemms": gemms, "vector_ops": rows * share.columns(vector_ops)}
        if not chooses:
            return [_with(attend, **own, kv_side_bytes=rows * read)]
        choose = Op(Category.ATTENTION, **own, stream=Stream.KV, stream_bytes=rows * read)
        return [choose, attend._replace(scan_cycles=rows * share.columns(scan), held_back=True)]

    return ops


def output_ops(hw: Hardware, rule: ReplayRule | None) -> OpsOf:
    """The ops of an output projection; a rule may look at the residual behind it."""
    model = hw.design.model

    def ops(share: Share) -> list[Op]:
        score, rows = _score(hw, rule, "residual", share), share.rows
        project = _with(
            attention.output_op(model, share),
            kv_side_bytes=rows * model.kv.bytes_of(score.key_elements),
            replay_bytes=rows * score.held_bytes,
        )
        found = [*_latent_ops(model, attention.values_op, share), project]
        if at_residual(rule):  # every core norms whole residuals, as it does for a split MLP
            normed = rows * model.body.hidden_size * NORM_OPS
            own = rows * score.vector_ops
            found.append(Op(Category.REPLAY, serial_vector_ops=normed, vector_ops=own))
        return found

    return ops


def _with(op: Op, **more: Any) -> Op:
    """An op with more work of some kinds."""
    return op._replace(**{name: getattr(op, name) + each for name, each in more.items()})


def _latent_ops(
    model: Model, op_of: Callable[[Model, Latent, Share], Op], share: Share
) -> list[Op]:
    """An op that latent attention alone has, if the model has it."""
    latent = model.body.latent
    return [] if latent is None else [op_of(model, latent, share)]


def mlp_ops(
    hw: Hardware, *, dense: bool = False, normed: bool = False, rule: ReplayRule | None = None
) -> OpsOf:
    """The ops of an MLP, and what the rule stores for the place."""

    def ops(share: Share) -> list[Op]:
        *before, last = mlp.mlp_ops(hw.design.model, share, dense=dense, normed=normed)
        held_bytes = _work(hw, rule, share.of).held_bytes
        return [*before, _with(last, replay_bytes=share.rows * held_bytes)]

    return ops


def head_ops(hw: Hardware, steps: Sequence[HeadStep], codes: Count) -> OpsOf:
    """The ops of a pass of the head."""
    return lambda share: [head.head_op(hw.design.model, step, share, codes) for step in steps]


def prefill_ops(hw: Hardware, tokens: int, window: int | None, dense: bool) -> OpsOf:
    """The ops of a layer of a prompt.

    Where the activation buffer holds the widest activations of fewer tokens than a core has,
    they are taken in several passes and the weights are streamed once per pass.
    """
    model, machine = hw.design.model, hw.design.machine
    of_core = machine.sequences_per_core(hw.batch, split=machine.splits_mlp) * tokens
    nbytes = of_core * activation_bytes_per_token(model, machine)
    passes = -(-nbytes // machine.activation_buffer_bytes)

    def ops(share: Share) -> list[Op]:
        share = share._replace(streams=passes * share.streams, tokens=tokens)
        return [
            *_latent_ops(model, attention.compress_op, share),
            attention.qkv_op(model, share),
            attention.attend_op(model, share, tokens, causal=True, window=window),
            *_latent_ops(model, attention.values_op, share),
            attention.output_op(model, share),
            *mlp.mlp_ops(model, share, dense=dense, cached=False),
        ]

    return ops


def _score(hw: Hardware, rule: ReplayRule | None, point: Point, share: Share) -> RuleWork:
    """Work of a row's score on a core, if it is taken at this point of the layer."""
    return _work(hw, rule, share.of) if decided_at(hw, rule) == point else NO_WORK


def decided_at(hw: Hardware, rule: ReplayRule | None) -> Point | None:
    """The point of the layer at which rows are scored, if they are.

    It is as early as the design says, if the rule is known by then; else, what can be known before
    attention is taken beside it.
    """
    if rule is None:
        return None
    if at_residual(rule):
        return "residual"
    return "q" if later(hw.design.machine.decision_at, rule.known_at) == "q" else "attention"


def _work(hw: Hardware, rule: ReplayRule | None, of: int = 1) -> RuleWork:
    """Work of a rule for one row on one of so many cores that share it."""
    return NO_WORK if rule is None else rule.work(machine_shape(hw.design.model, of))


def felt_by_mlp(hw: Hardware, rule: ReplayRule | None) -> ReplayRule | None:
    """A rule that norms what the MLP reads, holds data that it writes, or damps; else None."""
    if rule is None or at_residual(rule) or rule.damps:
        return rule
    return rule if _work(hw, rule).held_bytes else None


def _side_work(hw: Hardware, cases: AttendCases) -> SideWork:
    """A policy's own work in a step, with its share of what is done after each frame."""
    body, policy, frame_steps = hw.design.model.body, cases.policy, cases.frame_steps
    at = cases.attended if policy.follows_reads else cases.contexts
    side = policy.side_work(at, body.n_heads, body.n_kv_heads, body.head_dim)
    if not frame_steps:
        return side
    frame = policy.frame_work(at, frame_steps, body.n_kv_heads, body.head_dim)
    shares = {name: -(-whole // frame_steps) for name, whole in vars(frame).items()}
    return SideWork(**{name: each + shares[name] for name, each in vars(side).items()})


def at_residual(rule: ReplayRule | None) -> bool:
    """The rule looks at the residual stream after attention, normed as for the MLP."""
    return rule is not None and rule.known_at == "residual"

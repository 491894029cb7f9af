"""The ops of each kind of phase, as functions of a core's rows and its share of the matrices."""

from collections.abc import Callable, Sequence
from dataclasses import fields

import numpy as np

from carsim.cost.capacity import machine_shape
from carsim.cost.fit import activation_bytes_per_token, sequences_per_core
from carsim.decisions.attention import AttentionPolicy, SideWork
from carsim.decisions.replay import NO_WORK, Point, ReplayRule, RuleWork, later
from carsim.machine.cases import AttendCases
from carsim.machine.hardware import Hardware
from carsim.machine.lanes import OpsOf
from carsim.workload import attention, head, mlp
from carsim.workload.head import HeadStep
from carsim.workload.model import Model
from carsim.workload.ops import Count, Op, Slice


def qkv_ops(hw: Hardware, rule: ReplayRule | None) -> OpsOf:
    """The ops of a QKV projection."""
    model = hw.design.model

    def ops(rows: Count, part: Slice, streams: Count) -> list[Op]:
        score = _score(hw, rule, "q", part)
        op = attention.qkv_op(
            model,
            rows,
            part,
            streams=streams,
            score_ops=score.vector_ops,
            key_elements=score.key_elements,
            held_bytes=score.held_bytes,
        )
        return [*_latent_ops(model, attention.compress_op, rows, part, streams), op]

    return ops


def attend_ops(
    hw: Hardware,
    rule: ReplayRule | None,
    cases: AttendCases,
    policy: AttentionPolicy,
    aligned_outside: bool,
    frame_steps: int = 0,
) -> OpsOf:
    """The ops of attention; see :meth:`carsim.machine.phases.Phases.attention`."""
    model, reads, tokens = (
        hw.design.model,
        cases.attended[:, None],
        hw.design.policy.tokens_per_step,
    )
    side = _side_work(hw, policy, cases, frame_steps)
    macs, vector_ops, read, written, scan, elements = (
        tokens * np.reshape(getattr(side, each.name), (-1, 1)) for each in fields(side)
    )
    written = written + model.kv.bytes_of(elements)
    chooses = bool(scan.any())  # what is fetched hangs on this work, and waits for it

    def ops(rows: Count, part: Slice, streams: Count) -> list[Op]:
        score = _score(hw, rule, "attention", part)
        attend = attention.attend_op(
            model,
            rows,
            reads,
            part,
            tokens=tokens,
            score_ops=tokens * score.vector_ops,
            key_elements=tokens * score.key_elements if aligned_outside else 0,
            held_bytes=tokens * score.held_bytes,
            side_macs=0 if chooses else macs,
            side_vector_ops=0 if chooses else vector_ops,
            side_bytes=written if chooses else read + written,
            scan_cycles=scan,
            held_back=chooses,
        )
        if not chooses:
            return [attend]
        choose = attention.choose_op(
            model, rows, part, macs=macs, vector_ops=vector_ops, read_bytes=read
        )
        return [choose, attend]

    return ops


def output_ops(hw: Hardware, rule: ReplayRule | None) -> OpsOf:
    """The ops of an output projection."""
    model = hw.design.model

    def ops(rows: Count, part: Slice, streams: Count) -> list[Op]:
        read = _score(hw, rule, "residual", part)
        project = attention.output_op(
            model,
            rows,
            part,
            streams=streams,
            key_elements=read.key_elements,
            held_bytes=read.held_bytes,
        )
        found = [*_latent_ops(model, attention.values_op, rows, part, streams), project]
        if at_residual(rule):
            found.append(attention.score_op(model, rows, part, score_ops=read.vector_ops))
        return found

    return ops


def _latent_ops(
    model: Model,
    op_of: Callable[..., Op],
    rows: Count,
    part: Slice,
    streams: Count,
    tokens: int = 1,
) -> list[Op]:
    """An op that latent attention alone has, if the model has it."""
    latent = model.body.latent
    if latent is None:
        return []
    return [op_of(model, latent, rows, part, streams=streams, tokens=tokens)]


def mlp_ops(
    hw: Hardware,
    *,
    dense: bool = False,
    normed: bool = False,
    rule: ReplayRule | None = None,
) -> OpsOf:
    """The ops of an MLP."""
    model = hw.design.model

    def ops(rows: Count, part: Slice, streams: Count) -> list[Op]:
        held = _work(hw, rule, part).held_bytes
        found = mlp.mlp_ops(
            model, rows, part, streams=streams, dense=dense, normed=normed, held_bytes=held
        )
        return [*found]

    return ops


def head_ops(hw: Hardware, steps: Sequence[HeadStep], codes: Count) -> OpsOf:
    """The ops of a pass of the head."""
    model = hw.design.model

    def ops(rows: Count, part: Slice, streams: Count) -> list[Op]:
        return [head.head_op(model, step, rows, part, streams, codes=codes) for step in steps]

    return ops


def prefill_ops(hw: Hardware, tokens: int, window: int | None, dense: bool) -> OpsOf:
    """The ops of a layer of a prompt.

    Where the activation buffer holds the widest activations of fewer tokens than a core has,
    they are taken in several passes and the weights are streamed once per pass.
    """
    model, machine = hw.design.model, hw.design.machine
    of_core = sequences_per_core(machine, hw.batch, split=hw.mapping.splits_mlp) * tokens
    passes = -(
        -of_core * activation_bytes_per_token(model, machine) // machine.activation_buffer_bytes
    )

    def ops(rows: Count, part: Slice, streams: Count) -> list[Op]:
        latent = rows, part, passes * streams, tokens
        weights = {"streams": passes * streams, "tokens": tokens}
        return [
            *_latent_ops(model, attention.compress_op, *latent),
            attention.qkv_op(model, rows, part, **weights),
            attention.attend_op(
                model, rows, tokens, part, tokens=tokens, causal=True, window=window
            ),
            *_latent_ops(model, attention.values_op, *latent),
            attention.output_op(model, rows, part, **weights),
            *mlp.mlp_ops(model, rows, part, **weights, dense=dense, cached=False),
        ]

    return ops


def _score(hw: Hardware, rule: ReplayRule | None, point: Point, part: Slice) -> RuleWork:
    """Work of a row's score on a core, if it is taken at this point of the layer.

    It is taken as early as the design says, if the rule is known by then; else, what can be
    known before attention is taken beside it.
    """
    if rule is None:
        return NO_WORK
    taken: Point = "residual" if at_residual(rule) else "attention"
    if later(hw.design.machine.decision_at, rule.known_at) == "q":
        taken = "q"
    return _work(hw, rule, part) if taken == point else NO_WORK


def _work(hw: Hardware, rule: ReplayRule | None, part: Slice) -> RuleWork:
    """Work of a rule for one row on a core."""
    return NO_WORK if rule is None else rule.work(machine_shape(hw.design.model, part.of))


def felt_by_mlp(hw: Hardware, rule: ReplayRule | None) -> ReplayRule | None:
    """A rule that norms what the MLP reads, holds data that it writes, or damps; else None."""
    if rule is None or at_residual(rule) or rule.damps:
        return rule
    return rule if _work(hw, rule, Slice()).held_bytes else None


def _side_work(
    hw: Hardware, policy: AttentionPolicy, cases: AttendCases, frame_steps: int
) -> SideWork:
    """A policy's own work in a step, with its share of what is done after each frame."""
    body = hw.design.model.body
    at = cases.attended if policy.follows_reads else cases.contexts
    side = policy.side_work(at, body.n_heads, body.n_kv_heads, body.head_dim)
    if not frame_steps:
        return side
    frame = policy.frame_work(at, frame_steps, body.n_kv_heads, body.head_dim)
    return SideWork(
        **{
            name: each + -(-getattr(frame, name) // frame_steps)
            for name, each in vars(side).items()
        }
    )


def at_residual(rule: ReplayRule | None) -> bool:
    """The rule looks at the residual stream after attention, normed as for the MLP."""
    return rule is not None and rule.known_at == "residual"

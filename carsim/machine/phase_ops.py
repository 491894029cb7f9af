"""The ops of each kind of phase, as functions of a core's rows and its share of the matrices."""

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial

import numpy as np

from carsim.cost.capacity import machine_shape
from carsim.cost.fit import activation_bytes_per_token, sequences_per_core
from carsim.decisions.attention import AttentionPolicy, SideWork
from carsim.decisions.replay import NO_WORK, Point, ReplayRule, RuleWork, later
from carsim.machine.cases import AttendCases
from carsim.machine.hardware import Hardware
from carsim.machine.lanes import OpOf
from carsim.workload import attention, head, mlp
from carsim.workload.head import HeadStep
from carsim.workload.model import Model
from carsim.workload.ops import Count, Op, Slice


def qkv_ops(hw: Hardware, rule: ReplayRule | None) -> list[OpOf]:
    """The ops of a QKV projection."""

    def op(rows: Count, part: Slice, streams: Count) -> Op:
        score = _score(hw, rule, "q", part)
        return attention.qkv_op(
            hw.design.model,
            rows,
            part,
            streams=streams,
            score_ops=score.vector_ops,
            key_elements=score.key_elements,
            held_bytes=score.held_bytes,
        )

    return [*_latent_ops(hw.design.model, attention.compress_op), op]


def attend_ops(
    hw: Hardware,
    rule: ReplayRule | None,
    cases: AttendCases,
    policy: AttentionPolicy,
    aligned_outside: bool,
    frame_steps: int = 0,
) -> list[OpOf]:
    """The ops of attention; see :meth:`carsim.machine.phases.Phases.attention`."""
    reads, tokens = cases.attended[:, None], hw.design.policy.tokens_per_step
    side = _side_work(hw, policy, cases, frame_steps)
    macs, vector_ops, read, written, scan, elements = (
        tokens * np.reshape(getattr(side, each.name), (-1, 1)) for each in fields(side)
    )
    written = written + hw.design.model.kv.bytes_of(elements)
    chooses = bool(scan.any())  # what is fetched hangs on this work, and waits for it

    def choose(rows: Count, part: Slice, streams: Count) -> Op:
        return attention.choose_op(
            hw.design.model, rows, part, macs=macs, vector_ops=vector_ops, read_bytes=read
        )

    def attend(rows: Count, part: Slice, streams: Count) -> Op:
        score = _score(hw, rule, "attention", part)
        return attention.attend_op(
            hw.design.model,
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

    return [choose, attend] if chooses else [attend]


def output_ops(hw: Hardware, rule: ReplayRule | None) -> list[OpOf]:
    """The ops of an output projection."""
    model = hw.design.model

    def project(rows: Count, part: Slice, streams: Count) -> Op:
        read = _score(hw, rule, "residual", part)
        return attention.output_op(
            model,
            rows,
            part,
            streams=streams,
            key_elements=read.key_elements,
            held_bytes=read.held_bytes,
        )

    def score(rows: Count, part: Slice, streams: Count) -> Op:
        read = _score(hw, rule, "residual", part)
        return attention.score_op(model, rows, part, score_ops=read.vector_ops)

    values = _latent_ops(model, attention.values_op)
    return [*values, project, score] if at_residual(rule) else [*values, project]


def _latent_ops(
    model: Model, op_of: Callable[..., Op], *, passes: int = 1, tokens: int = 1
) -> list[OpOf]:
    """An op that latent attention alone has, if the model has it."""
    latent = model.body.latent
    if latent is None:
        return []
    return [
        lambda rows, part, n: op_of(model, latent, rows, part, streams=n * passes, tokens=tokens)
    ]


def mlp_ops(
    hw: Hardware,
    *,
    passes: int = 1,
    tokens: int = 1,
    dense: bool = False,
    cached: bool = True,
    normed: bool = False,
    rule: ReplayRule | None = None,
) -> list[OpOf]:
    """The ops of an MLP and of the MLPs of a prompt."""

    def nth(index: int) -> OpOf:
        def op(rows: Count, part: Slice, streams: Count) -> Op:
            return mlp.mlp_ops(
                hw.design.model,
                rows,
                part,
                streams=streams * passes,
                tokens=tokens,
                dense=dense,
                cached=cached,
                normed=normed,
                held_bytes=_work(hw, rule, part).held_bytes,
            )[index]

        return op

    return [
        nth(index) for index in range(len(mlp.mlp_ops(hw.design.model, 1, Slice(), dense=dense)))
    ]


def head_ops(hw: Hardware, steps: Sequence[HeadStep], codes: Count) -> list[OpOf]:
    """The ops of a pass of the head."""
    return [partial(head.head_op, hw.design.model, step, codes=codes) for step in steps]


def prefill_ops(hw: Hardware, tokens: int, window: int | None, dense: bool = False) -> list[OpOf]:
    """The ops of a layer of a prompt.

    Where the activation buffer holds the widest activations of fewer tokens than a core has,
    they are taken in several passes and the weights are streamed once per pass.
    """
    model = hw.design.model
    batch, split = hw.batch, hw.mapping.splits_mlp
    rows = sequences_per_core(hw.design.machine, batch, split=split) * tokens
    row_bytes = activation_bytes_per_token(model, hw.design.machine)
    passes = -(-rows * row_bytes // hw.design.machine.activation_buffer_bytes)
    of_latents = partial(_latent_ops, model, passes=passes, tokens=tokens)
    return [
        *of_latents(attention.compress_op),
        lambda rows, part, n: attention.qkv_op(
            model, rows, part, streams=n * passes, tokens=tokens
        ),
        lambda rows, part, n: attention.attend_op(
            model, rows, tokens, part, tokens=tokens, causal=True, window=window
        ),
        *of_latents(attention.values_op),
        lambda rows, part, n: attention.output_op(
            model, rows, part, streams=n * passes, tokens=tokens
        ),
        *mlp_ops(hw, passes=passes, tokens=tokens, dense=dense, cached=False),
    ]


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

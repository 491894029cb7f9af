"""What an MLP asks of a core, one for all tokens or a choice of experts, and a replay of one."""

import numpy as np

from carsim.workload import elements
from carsim.workload.body import EXPERT_PARTS, Experts
from carsim.workload.model import Model
from carsim.workload.ops import Category, Count, Op, Share, Stream, linear_op, weight_gemm

SILU_OPS = 4
"""Per element of SiLU(gate) * up: exponential, add, divide, multiply."""
ROUTER_OPS = 1
"""Per score of a router, and chosen expert: a comparison, the best being found one by one."""
MIX_OPS = 1
"""Per element of an expert's output: a multiply-add with the router's weight."""


def mlp_ops(
    model: Model, share: Share, *, dense: bool = False, cached: bool = True, normed: bool = False
) -> tuple[Op, ...]:
    """Gate and up (or up alone), then down, of one layer; writes the replay cache.

    Where the layer has experts, their router comes first.

    Args:
        model: The model.
        share: The share of a core.
        dense: The layer has one MLP for all tokens, whatever others have.
        cached: Outputs are written to the replay cache.
        normed: The norm is done already, as a score needed it.
    """
    body, m, d = model.body, share.m, model.body.hidden_size
    norm = 0 if normed else m * d * elements.NORM_OPS
    columns = share.columns(d)
    written = share.rows * model.replay.bytes_of(columns) * cached
    if body.experts is not None and not dense:
        return _expert_ops(model, body.experts, share, norm, written)
    width, ff = body.dense_ffn_size, share.columns(body.dense_ffn_size)
    activated = m * ff * _inner_ops(model) + elements.logarithms(model, "down", m * ff)
    gate_up = linear_op(model, "gate_up", share, d, body.inner_matrices * ff)
    down = linear_op(model, "down", share, width, columns)
    return gate_up._replace(
        vector_ops=gate_up.vector_ops + activated,
        serial_vector_ops=norm + elements.logarithms(model, "gate_up", m * d),
        gathered_elements=m * width,
    ), down._replace(
        vector_ops=down.vector_ops + m * columns * elements.residual_ops(model),
        replay_bytes=written,
        gathered_elements=m * d,
    )


def _inner_ops(model: Model) -> int:
    """Element operations per element of the inner layer."""
    return SILU_OPS if model.body.mlp == "gated" else elements.GELU_OPS


def _expert_ops(
    model: Model, experts: Experts, share: Share, norm_ops: Count, replay_bytes: Count
) -> tuple[Op, ...]:
    """Router, then gate and up, then down, of the experts that tokens choose.

    Which experts are fetched is known when the router's scores are in and the best are found, so
    that the first of them is asked for then. Every expert that one of the tokens of a stream
    chooses is fetched once for all of them; tokens are spread over these experts evenly.

    Simplifications: see :meth:`~carsim.workload.model.Experts.touched`; all experts of a product
    are one or two launches.

    Args:
        model: The model.
        experts: Its experts.
        share: The core's share of every matrix, each expert's among them.
        norm_ops: Element operations of the norm before the router.
        replay_bytes: Bytes that go to the replay cache.
    """
    body, m, d = model.body, share.m, model.body.hidden_size
    wide, wide_shared, columns = body.ffn_size, experts.shared_ffn_size, share.columns(d)
    ff, shared = share.columns(wide), share.columns(wide_shared)
    pairs, inner = m * experts.active, body.inner_matrices
    router = linear_op(model, "gate_up", share, d, share.columns(experts.scores))._replace(
        serial_vector_ops=norm_ops, gathered_elements=m * experts.scores
    )
    gate_up = _chosen_op(model, experts, share, (d, inner * ff), (d, inner * shared))._replace(
        serial_vector_ops=m * experts.count * (elements.SOFTMAX_OPS + experts.active * ROUTER_OPS),
        vector_ops=(pairs * ff + m * shared) * _inner_ops(model),
        gathered_elements=pairs * wide + m * wide_shared,
        held_back=True,
    )
    mixed = pairs * MIX_OPS + m * MIX_OPS * (shared > 0)
    down = _chosen_op(model, experts, share, (wide, columns), (wide_shared, columns))._replace(
        vector_ops=columns * (m * elements.residual_ops(model) + mixed),
        replay_bytes=replay_bytes,
        gathered_elements=m * d,
    )
    return router, gate_up, down


def _chosen_op(
    model: Model, experts: Experts, share: Share, chosen: tuple[int, int], shared: tuple[int, int]
) -> Op:
    """A product of experts, given rows and columns of one, and of all shared ones together.

    So many of the chosen ones have a token more than the others, which have the same number each.
    """
    m, streams = share.m, share.streams
    touched = -(-experts.touched(m) // EXPERT_PARTS)
    each, more = divmod(m * experts.active, touched + (touched == 0))
    gemms = [
        weight_gemm(model, each + 1, *chosen, more),
        weight_gemm(model, each, *chosen, touched - more),
    ]
    if all(shared):
        gemms.append(weight_gemm(model, m, *shared))
    one, beside = (int(model.weights.bytes_of(k * n)) for k, n in (chosen, shared))
    parts = experts.touched(m / np.maximum(streams, 1)) * one
    nbytes = streams * (-(-parts // EXPERT_PARTS) + beside)
    return Op(Category.MLP, tuple(gemms), stream=Stream.WEIGHTS, stream_bytes=nbytes)


def replay_op(model: Model, share: Share, *, damped: bool = False) -> Op:
    """Read the cached outputs of replaying sequences and add them to the residual.

    Damped outputs are scaled, an operation an element, and written back.
    """
    rows, columns = share.rows, share.columns(model.body.hidden_size)
    return Op(
        Category.REPLAY,
        vector_ops=rows * columns * (elements.RESIDUAL_OPS + damped),
        replay_bytes=rows * model.replay.bytes_of(columns) * (1 + damped),
    )

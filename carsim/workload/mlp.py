"""Operations of an MLP, for all tokens or of chosen experts, and of a replayed MLP."""

from typing import NamedTuple

import numpy as np

from carsim.workload import elements
from carsim.workload.body import EXPERT_PARTS, Experts
from carsim.workload.model import BIAS_BYTES, Model
from carsim.workload.ops import Category, Count, Gemm, Op, Share, Stream, linear_op, weight_gemm

SILU_OPS = 4
"""Per element of SiLU(gate) * up: exponential, add, divide, multiply."""
ROUTER_OPS = 1
"""Per score of a router and chosen expert: a comparison, as the best are found one by one."""
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
    body = model.body
    m = share.m
    hidden_size = body.hidden_size
    norm_ops = 0 if normed else m * hidden_size * elements.NORM_OPS
    columns = share.columns(hidden_size)
    cached_bytes = share.rows * model.replay.bytes_of(columns) if cached else 0
    if body.experts is not None and not dense:
        return _expert_ops(
            model, body.experts, share=share, norm_ops=norm_ops, replay_bytes=cached_bytes
        )
    width = body.dense_ffn_size
    inner = share.columns(width)
    activation_ops = m * inner * _inner_ops(model)
    activation_ops += elements.logarithms(model, "down", m * inner)
    polishing_ops = elements.logarithms(model, "gate_up", m * hidden_size)
    residual_ops = m * columns * elements.residual_ops(model)
    gate_up = linear_op(model, "gate_up", share, hidden_size, body.inner_matrices * inner)
    down = linear_op(model, "down", share, width, columns)
    gate_up = gate_up._replace(
        vector_ops=gate_up.vector_ops + activation_ops,
        serial_vector_ops=norm_ops + polishing_ops,
        gathered_elements=m * width,
    )
    down = down._replace(
        vector_ops=down.vector_ops + residual_ops,
        replay_bytes=cached_bytes,
        gathered_elements=m * hidden_size,
    )
    return gate_up, down


def _inner_ops(model: Model) -> int:
    """Element operations per element of the inner layer."""
    return SILU_OPS if model.body.mlp == "gated" else elements.GELU_OPS


class _Matrix(NamedTuple):
    """Inputs k and outputs n of a weight matrix on one core."""

    k: int
    n: int

    @property
    def weights(self) -> int:
        """Number of its weights."""
        return self.k * self.n


def _expert_ops(
    model: Model, experts: Experts, *, share: Share, norm_ops: Count, replay_bytes: Count
) -> tuple[Op, ...]:
    """Router, then gate and up, then down, of the experts that tokens choose.

    The chosen experts are known when the router's scores are in and the best are found. The first
    of them is requested then. Every expert that one of the tokens of a stream chooses is fetched
    once for all of them. Tokens are spread over these experts evenly.

    Simplifications: see :meth:`~carsim.workload.model.Experts.touched`. All experts of a product
    are one or two launches.

    Args:
        model: The model.
        experts: Its experts.
        share: The core's share of every matrix, those of each expert included.
        norm_ops: Element operations of the norm before the router.
        replay_bytes: Bytes that go to the replay cache.
    """
    m = share.m
    router = linear_op(
        model,
        "gate_up",
        share,
        model.body.hidden_size,
        share.columns(experts.scores),
        role="router",
    )
    router = router._replace(serial_vector_ops=norm_ops, gathered_elements=m * experts.scores)
    gate_up = _experts_gate_up(model, experts, share)
    down = _experts_down(model, experts, share)._replace(replay_bytes=replay_bytes)
    return router, gate_up, down


def _experts_gate_up(model: Model, experts: Experts, share: Share) -> Op:
    """Gate and up projections of the experts; before them, the best experts are found."""
    body = model.body
    m = share.m
    hidden_size = body.hidden_size
    inner = share.columns(body.ffn_size)
    shared_inner = share.columns(experts.shared_ffn_size)
    pairs = m * experts.active  # of a token and an expert that it chooses
    gate_up = _experts_op(
        model,
        experts,
        share=share,
        chosen=_Matrix(hidden_size, body.inner_matrices * inner),
        shared=_Matrix(hidden_size, body.inner_matrices * shared_inner),
    )
    choice_ops = elements.SOFTMAX_OPS + experts.active * ROUTER_OPS
    inner_elements = pairs * inner + m * shared_inner
    return gate_up._replace(
        serial_vector_ops=m * experts.count * choice_ops,
        vector_ops=gate_up.vector_ops + inner_elements * _inner_ops(model),
        gathered_elements=pairs * body.ffn_size + m * experts.shared_ffn_size,
        held_back=True,
        operand="experts' W_gate, W_up" if body.mlp == "gated" else "experts' W_up",
    )


def _experts_down(model: Model, experts: Experts, share: Share) -> Op:
    """Down projections of the experts; then their outputs are mixed and added to the residual."""
    body = model.body
    m = share.m
    columns = share.columns(body.hidden_size)
    down = _experts_op(
        model,
        experts,
        share=share,
        chosen=_Matrix(body.ffn_size, columns),
        shared=_Matrix(experts.shared_ffn_size, columns),
    )
    mixed_outputs = m * experts.active
    if share.columns(experts.shared_ffn_size) > 0:
        mixed_outputs = mixed_outputs + m
    ops_of_column = m * elements.residual_ops(model) + mixed_outputs * MIX_OPS
    return down._replace(
        vector_ops=down.vector_ops + columns * ops_of_column,
        gathered_elements=m * body.hidden_size,
        operand="experts' W_down",
    )


def _experts_op(
    model: Model, experts: Experts, *, share: Share, chosen: _Matrix, shared: _Matrix
) -> Op:
    """A product of experts.

    Tokens are spread evenly: a remainder of the chosen experts has one token more than the others.

    Args:
        model: The model.
        experts: Its experts.
        share: The share of a core.
        chosen: The matrix of one chosen expert.
        shared: The matrix of all shared experts together; without outputs if there are none.
    """
    of_experts = model.precision_of("experts")
    of_shared = model.precision_of("shared_experts")

    def expert_gemm(rows: Count, copies: Count) -> Gemm:
        return weight_gemm(model, "experts", m=rows, k=chosen.k, n=chosen.n, copies=copies)

    m = share.m
    touched = -(-experts.touched(m) // EXPERT_PARTS)
    tokens, remainder = divmod(m * experts.active, touched + (touched == 0))
    gemms = [
        expert_gemm(tokens + 1, copies=remainder),
        expert_gemm(tokens, copies=touched - remainder),
    ]
    if shared.weights:
        gemms.append(weight_gemm(model, "shared_experts", m=m, k=shared.k, n=shared.n))
    biases = chosen.n if experts.biases else 0
    expert_bytes = int(of_experts.bytes_of(chosen.weights)) + BIAS_BYTES * biases
    shared_bytes = int(of_shared.bytes_of(shared.weights))
    tokens_per_stream = m / np.maximum(share.streams, 1)
    touched_parts = experts.touched(tokens_per_stream) * expert_bytes
    stream_bytes = share.streams * (-(-touched_parts // EXPERT_PARTS) + shared_bytes)
    return Op(
        Category.MLP,
        gemms=tuple(gemms),
        vector_ops=m * experts.active * biases * elements.BIAS_OPS,
        stream=Stream.WEIGHTS,
        stream_bytes=stream_bytes,
    )


def replay_op(model: Model, share: Share, *, damped: bool = False) -> Op:
    """Read the cached outputs of replaying sequences and add them to the residual.

    Damped outputs are scaled, which takes one operation per element, and written back.
    """
    columns = share.columns(model.body.hidden_size)
    ops_per_element = elements.RESIDUAL_OPS + damped
    transfers = 1 + damped
    return Op(
        Category.REPLAY,
        vector_ops=share.rows * columns * ops_per_element,
        replay_bytes=share.rows * model.replay.bytes_of(columns) * transfers,
    )

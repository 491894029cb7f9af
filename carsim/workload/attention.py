"""What a layer asks of a core before its MLP: projections, attention, scores of replay.

Latent attention (:class:`~carsim.workload.body.Latent`) decodes in its absorbed form: queries are
multiplied into the space of the latents, which all heads then read as one key and one value head,
and the mixed latent of each head is turned into its values afterwards. A prompt is taken in the
plain form, in which the products of the latents give keys and values head by head; projections
have as many products in either form. Of a prompt the latents are read; the keys and values that are
made of them are assumed to stay on chip.
"""

from typing import NamedTuple

import numpy as np

from carsim.workload.body import Latent
from carsim.workload.model import Model
from carsim.workload.ops import (
    NORM_OPS,
    SOFTMAX_OPS,
    Category,
    Count,
    Gemm,
    Op,
    Slice,
    Stream,
    linear_op,
    logarithms,
    residual_ops,
    weight_gemm,
)

ROTARY_OPS = 3
"""Per element of rotary embedding: two multiplies and an add."""


def compress_op(
    model: Model, latent: Latent, rows: Count, part: Slice, *, streams: Count = 1, tokens: int = 1
) -> Op:
    """Norm, and the products that compress keys, values and perhaps queries of latent attention.

    Args:
        model: The model.
        latent: Its latent attention.
        rows: Sequences that this core works on.
        part: The core's share of every matrix.
        streams: How often the weights are streamed to this core.
        tokens: Tokens per sequence (more than one in prefill).
    """
    m, d = rows * tokens, model.body.hidden_size
    outputs = model.body.kv_size + (latent.query_rank or 0)
    return linear_op(model, "qkv", m, d, part.columns(outputs), streams=streams)._replace(
        serial_vector_ops=m * d * NORM_OPS, gathered_elements=m * outputs
    )


def qkv_op(
    model: Model,
    rows: Count,
    part: Slice,
    *,
    streams: Count = 1,
    tokens: int = 1,
    score_ops: int = 0,
    key_elements: int = 0,
    held_bytes: int = 0,
) -> Op:
    """Norm, Q, K and V projections, norms of Q and K, and rotary embedding of one layer.

    In latent attention it follows :func:`compress_op`.

    Args:
        model: The model.
        rows: Sequences that this core works on.
        part: The core's share of every matrix.
        streams: How often the weights are streamed to this core.
        tokens: Tokens per sequence (more than one in prefill).
        score_ops: Element operations per row of a score of replay that is taken here.
        key_elements: Elements per row of a cached key that it reads, ahead of attention.
        held_bytes: Bytes per row that it reads of what is held for the place.
    """
    body, m = model.body, rows * tokens
    if body.latent is not None:
        op = _queries_op(model, body.latent, m, part.columns(body.n_heads), streams)
    else:
        q = part.columns(body.n_heads) * body.head_dim
        kv = part.columns(body.n_kv_heads) * body.head_dim
        op = linear_op(model, "qkv", m, body.hidden_size, q, 2 * kv, streams=streams)
        normed = m * body.hidden_size
        op = op._replace(
            serial_vector_ops=normed * NORM_OPS + logarithms(model, "qkv", normed),
            vector_ops=op.vector_ops + m * (q + kv) * (ROTARY_OPS + NORM_OPS * body.qk_norm),
        )
    return op._replace(
        vector_ops=op.vector_ops + rows * score_ops,
        kv_side_bytes=rows * model.kv.bytes_of(key_elements),
        replay_bytes=rows * held_bytes,
    )


def _queries_op(model: Model, latent: Latent, m: Count, heads: int, streams: Count) -> Op:
    """Queries of some heads: norms of what is compressed, the heads' products, and absorption."""
    body = model.body
    inputs, normed = latent.query_rank or body.hidden_size, latent.rank + (latent.query_rank or 0)
    queries = heads * (body.own_size + latent.rotary_size)
    op = linear_op(model, "qkv", m, inputs, queries, streams=streams)
    absorbing = weight_gemm(model, m, body.own_size, latent.rank, heads)
    nbytes = streams * model.weights.bytes_of(heads * body.own_size * latent.rank)
    return op._replace(
        gemms=(*op.gemms, absorbing),
        serial_vector_ops=m * normed * NORM_OPS,
        vector_ops=m * (heads + 1) * latent.rotary_size * ROTARY_OPS,
        stream_bytes=op.stream_bytes + nbytes,
    )


def choose_op(
    model: Model, rows: Count, part: Slice, *, macs: Count, vector_ops: Count, read_bytes: Count
) -> Op:
    """Scores of a policy's own data, by which the keys are chosen that attention reads.

    Args:
        model: The model.
        rows: Sequences that this core works on.
        part: The core's share of the heads.
        macs: Products per row, one head dimension each.
        vector_ops: Element operations per row.
        read_bytes: Bytes of that data per row, which lie side by side.
    """
    return Op(
        Category.ATTENTION,
        gemms=_side_gemms(model, rows, part, macs),
        vector_ops=rows * part.columns(vector_ops),
        stream=Stream.KV,
        stream_bytes=rows * read_bytes,
    )


def _side_gemms(model: Model, rows: Count, part: Slice, macs: Count) -> tuple[Gemm, ...]:
    """Products of a policy, one head dimension each, spread over the heads of all cores."""
    hd = model.body.head_dim
    return (Gemm(1, hd, part.columns(-(-macs // hd)), rows),) if np.any(macs) else ()


class _Heads(NamedTuple):
    """Heads of attention on a core: key heads, query heads of each, elements of key and value."""

    key_heads: int
    queries: int
    key_size: int
    value_size: int


def _heads(model: Model, part: Slice, *, causal: bool) -> _Heads:
    """Heads as keys are read; those of a prompt with latent attention have keys of their own."""
    body, heads = model.body, part.columns(model.body.n_heads)
    if body.latent is None or not causal:
        key_heads = part.columns(body.n_kv_heads)
        value_size = body.latent.rank if body.latent else body.head_dim
        return _Heads(key_heads, -(-heads // key_heads), body.head_dim, value_size)
    return _Heads(heads, 1, body.own_size + body.latent.rotary_size, body.latent.value_size)


def _causal_pairs(tokens: int, attended: Count, window: int | None) -> Count:
    """Pairs of a query and a key where each of so many queries leaves out the later ones."""
    beyond = max(0, tokens - window) if window is not None else 0
    return tokens * attended - tokens * (tokens - 1) // 2 - beyond * (beyond + 1) // 2


def attend_op(
    model: Model,
    rows: Count,
    attended: Count,
    part: Slice,
    *,
    tokens: int = 1,
    causal: bool = False,
    window: int | None = None,
    score_ops: int = 0,
    key_elements: int = 0,
    held_bytes: int = 0,
    side_macs: Count = 0,
    side_vector_ops: Count = 0,
    side_bytes: Count = 0,
    scan_cycles: Count = 0,
    held_back: bool = False,
) -> Op:
    """Attention over the KV cache of one layer: scores, softmax, weighted sum; writes K and V.

    Args:
        model: The model.
        rows: Sequences that this core works on.
        attended: Tokens of the KV cache that the last query reads, itself included.
        part: The core's share of the heads.
        tokens: Queries per sequence.
        causal: Each attends to all but the later ones of its block; else all read alike.
        window: Newest tokens that each reads, where queries are causal; None: all.
        score_ops: Element operations per row of a score of replay that is taken here.
        key_elements: Elements per row of a cached key that it reads besides the attended ones.
        held_bytes: Bytes per row that it reads of what is held for the place.
        side_macs: Products per row of a policy's own work, one head dimension each.
        side_vector_ops: Its element operations per row.
        side_bytes: Bytes that it moves per row.
        scan_cycles: Its serial cycles per row before the array may start.
        held_back: Keys are fetched after these cycles.
    """
    body = model.body
    of = _heads(model, part, causal=causal)
    pairs = _causal_pairs(tokens, attended, window) if causal else tokens * attended
    queries, keys = (of.queries, pairs) if causal else (of.queries * tokens, attended)
    held = part.columns(body.n_kv_heads) * body.kv_elements // body.n_kv_heads
    heads = part.columns(body.n_heads)
    return Op(
        Category.ATTENTION,
        gemms=(
            Gemm(queries, of.key_size, keys, rows * of.key_heads),
            Gemm(queries, keys, of.value_size, rows * of.key_heads),
            *_side_gemms(model, rows, part, side_macs),
        ),
        vector_ops=rows * (heads * pairs * SOFTMAX_OPS + score_ops + part.columns(side_vector_ops))
        + logarithms(model, "out", rows * tokens * heads * body.head_dim),
        scan_cycles=rows * part.columns(scan_cycles),
        held_back=held_back,
        stream=Stream.KV,
        stream_bytes=rows * model.kv.bytes_of(attended * held + key_elements),
        kv_side_bytes=rows * (model.kv.bytes_of(tokens * held) + side_bytes),
        replay_bytes=rows * held_bytes,
        gathered_elements=rows * tokens * body.q_size * (body.latent is None),
    )


def values_op(
    model: Model, latent: Latent, rows: Count, part: Slice, *, streams: Count = 1, tokens: int = 1
) -> Op:
    """The values of all heads of latent attention; arguments as in :func:`compress_op`."""
    m, heads = rows * tokens, part.columns(model.body.n_heads)
    return Op(
        Category.OUTPUT,
        gemms=(weight_gemm(model, m, latent.rank, latent.value_size, heads),),
        stream=Stream.WEIGHTS,
        stream_bytes=streams * model.weights.bytes_of(heads * latent.rank * latent.value_size),
        gathered_elements=m * model.body.attended_size,
    )


def output_op(
    model: Model,
    rows: Count,
    part: Slice,
    *,
    streams: Count = 1,
    tokens: int = 1,
    key_elements: int = 0,
    held_bytes: int = 0,
) -> Op:
    """Output projection of attention and its residual sum; arguments as in :func:`qkv_op`.

    A cached key and what is held are read beside it, for the score that :func:`score_op` takes.
    """
    m, d = rows * tokens, model.body.hidden_size
    columns = part.columns(d)
    op = linear_op(model, "out", m, model.body.attended_size, columns, streams=streams)
    return op._replace(
        vector_ops=op.vector_ops + m * columns * residual_ops(model),
        kv_side_bytes=rows * model.kv.bytes_of(key_elements),
        replay_bytes=rows * held_bytes,
        gathered_elements=m * d,
    )


def score_op(model: Model, rows: Count, part: Slice, *, score_ops: int) -> Op:
    """Norm of the residual of all sequences, then a score of the MLP's input.

    Args:
        model: The model.
        rows: Sequences that this core works on.
        part: The core's share; every core norms whole residuals, as it does for a split MLP.
        score_ops: Element operations per row of this core's share of the score.
    """
    return Op(
        Category.REPLAY,
        serial_vector_ops=rows * model.body.hidden_size * NORM_OPS,
        vector_ops=rows * score_ops,
    )

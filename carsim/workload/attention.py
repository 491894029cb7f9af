"""What a layer asks of a core before its MLP: projections and attention.

Latent attention (:class:`~carsim.workload.body.Latent`) decodes in its absorbed form: queries are
multiplied into the space of the latents, which all heads then read as one key and one value head,
and the mixed latent of each head is turned into its values afterwards. A prompt is taken in the
plain form, in which the products of the latents give keys and values head by head; projections
have as many products in either form. Of a prompt the latents are read; the keys and values that are
made of them are assumed to stay on chip.
"""

from carsim.workload.body import Latent
from carsim.workload.elements import NORM_OPS, SOFTMAX_OPS, logarithms, residual_ops
from carsim.workload.model import Model
from carsim.workload.ops import Category, Count, Gemm, Op, Share, Stream, linear_op, weight_gemm

ROTARY_OPS = 3
"""Per element of rotary embedding: two multiplies and an add."""


def compress_op(model: Model, latent: Latent, share: Share) -> Op:
    """Norm, and the products that compress keys, values and perhaps queries of latent attention."""
    m, d = share.m, model.body.hidden_size
    outputs = model.body.kv_size + (latent.query_rank or 0)
    return linear_op(model, "qkv", share, d, share.columns(outputs))._replace(
        serial_vector_ops=m * d * NORM_OPS, gathered_elements=m * outputs
    )


def qkv_op(model: Model, share: Share) -> Op:
    """Norm, Q, K and V projections, norms of Q and K, and rotary embedding of one layer.

    In latent attention it follows :func:`compress_op`.
    """
    body, m = model.body, share.m
    if body.latent is not None:
        return _queries_op(model, body.latent, share)
    q, kv = (share.columns(heads) * body.head_dim for heads in (body.n_heads, body.n_kv_heads))
    op, normed = linear_op(model, "qkv", share, body.hidden_size, q, 2 * kv), m * body.hidden_size
    return op._replace(
        serial_vector_ops=normed * NORM_OPS + logarithms(model, "qkv", normed),
        vector_ops=op.vector_ops + m * (q + kv) * (ROTARY_OPS + NORM_OPS * body.qk_norm),
    )


def _queries_op(model: Model, latent: Latent, share: Share) -> Op:
    """Queries of latent attention: norms of what is compressed, heads' products, absorption."""
    body, m, heads = model.body, share.m, share.columns(model.body.n_heads)
    inputs, normed = latent.query_rank or body.hidden_size, latent.rank + (latent.query_rank or 0)
    op = linear_op(model, "qkv", share, inputs, heads * (body.own_size + latent.rotary_size))
    nbytes = share.streams * model.weights.bytes_of(heads * body.own_size * latent.rank)
    return op._replace(
        gemms=(*op.gemms, weight_gemm(model, m, body.own_size, latent.rank, heads)),
        serial_vector_ops=m * normed * NORM_OPS,
        vector_ops=m * (heads + 1) * latent.rotary_size * ROTARY_OPS,
        stream_bytes=op.stream_bytes + nbytes,
    )


def _causal_pairs(tokens: int, attended: Count, window: int | None) -> Count:
    """Pairs of a query and a key where each of so many queries leaves out the later ones."""
    beyond = max(0, tokens - window) if window is not None else 0
    return tokens * attended - tokens * (tokens - 1) // 2 - beyond * (beyond + 1) // 2


def attend_op(
    model: Model,
    share: Share,
    attended: Count,
    *,
    causal: bool = False,
    window: int | None = None,
    key_elements: int = 0,
) -> Op:
    """Attention over the KV cache of one layer: scores, softmax, weighted sum; writes K and V.

    Args:
        model: The model.
        share: The core's share of rows and heads; its tokens are the queries of a sequence.
        attended: Tokens of the KV cache that the last query reads, itself included.
        causal: Each attends to all but the later ones of its block; else all read alike.
        window: Newest tokens that each reads, where queries are causal; None: all.
        key_elements: Elements per row of a cached key that is scored besides the attended ones.
    """
    body, rows, tokens = model.body, share.rows, share.tokens
    heads, key_heads = share.columns(body.n_heads), share.columns(body.n_kv_heads)
    key_size, value_size = body.head_dim, body.latent.rank if body.latent else body.head_dim
    if body.latent is not None and causal:  # each head of a prompt has keys of its own
        key_heads, value_size = heads, body.latent.value_size
        key_size = body.own_size + body.latent.rotary_size
    sharing = -(-heads // key_heads)  # query heads of a key head
    pairs = _causal_pairs(tokens, attended, window) if causal else tokens * attended
    queries, keys = (sharing, pairs) if causal else (sharing * tokens, attended)
    held = share.columns(body.n_kv_heads) * body.kv_elements // body.n_kv_heads
    return Op(
        Category.ATTENTION,
        gemms=(
            Gemm(queries, key_size, keys, rows * key_heads),
            Gemm(queries, keys, value_size, rows * key_heads),
        ),
        vector_ops=rows * heads * pairs * SOFTMAX_OPS
        + logarithms(model, "out", share.m * heads * body.head_dim),
        stream=Stream.KV,
        stream_bytes=rows * model.kv.bytes_of(attended * held + key_elements),
        kv_side_bytes=rows * model.kv.bytes_of(tokens * held),
        gathered_elements=share.m * body.q_size * (body.latent is None),
    )


def values_op(model: Model, latent: Latent, share: Share) -> Op:
    """The values of all heads of latent attention."""
    m, heads = share.m, share.columns(model.body.n_heads)
    weights = heads * latent.rank * latent.value_size
    return Op(
        Category.OUTPUT,
        gemms=(weight_gemm(model, m, latent.rank, latent.value_size, heads),),
        stream=Stream.WEIGHTS,
        stream_bytes=share.streams * model.weights.bytes_of(weights),
        gathered_elements=m * model.body.attended_size,
    )


def output_op(model: Model, share: Share) -> Op:
    """Output projection of attention and its residual sum."""
    m, d = share.m, model.body.hidden_size
    columns = share.columns(d)
    op = linear_op(model, "out", share, model.body.attended_size, columns)
    summed = op.vector_ops + m * columns * residual_ops(model)
    return op._replace(vector_ops=summed, gathered_elements=m * d)

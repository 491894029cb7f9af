"""Operations of a layer before its MLP: projections and attention.

Latent attention (:class:`~carsim.workload.body.Latent`) decodes in its absorbed form. Queries are
multiplied into the space of the latents. All heads read the latents as one key and one value head.
The mixed latent of each head is turned into its values afterwards.

A prompt is taken in the plain form, in which the products of the latents give keys and values head
by head. Projections have as many products in either form. The latents of a prompt are read; the
keys and values that are made of them are assumed to stay on chip.
"""

from typing import NamedTuple

from carsim.workload.body import Latent
from carsim.workload.elements import NORM_OPS, SOFTMAX_OPS, logarithms, residual_ops
from carsim.workload.model import Model
from carsim.workload.ops import Category, Count, Gemm, Op, Share, Stream, linear_op, weight_gemm

ROTARY_OPS = 3
"""Per element of rotary embedding: two multiplies and an add."""


def compress_op(model: Model, latent: Latent, share: Share) -> Op:
    """Norm, and the products that compress keys, values and perhaps queries of latent attention."""
    inputs = model.body.hidden_size
    outputs = model.body.kv_size + (latent.query_rank or 0)
    products = linear_op(model, "qkv", share, inputs, share.columns(outputs))
    return products._replace(
        serial_vector_ops=share.m * inputs * NORM_OPS, gathered_elements=share.m * outputs
    )


def qkv_op(model: Model, share: Share, *, queries_alone: bool = False) -> Op:
    """Norm, Q, K and V projections, norms of Q and K, and rotary embedding of one layer.

    In latent attention it follows :func:`compress_op`.

    Args:
        model: The model.
        share: The core's share of rows and heads.
        queries_alone: The layer reads the keys and values of another one.
    """
    body = model.body
    if body.latent is not None:
        return _queries_op(model, body.latent, share)
    queries = share.columns(body.n_heads) * body.head_dim
    keys = 0 if queries_alone else share.columns(body.n_kv_heads) * body.head_dim
    columns = (queries,) if queries_alone else (queries, 2 * keys)
    products = linear_op(model, "qkv", share, body.hidden_size, *columns)
    inputs = share.m * body.hidden_size
    ops_per_output = ROTARY_OPS + NORM_OPS * body.qk_norm
    return products._replace(
        serial_vector_ops=inputs * NORM_OPS + logarithms(model, "qkv", inputs),
        vector_ops=products.vector_ops + share.m * (queries + keys) * ops_per_output,
    )


def _queries_op(model: Model, latent: Latent, share: Share) -> Op:
    """Queries of latent attention: norms of compressed vectors, heads' products, absorption."""
    body = model.body
    precision = model.precision_of("attention_qkv")
    heads = share.columns(body.n_heads)
    inputs = latent.query_rank or body.hidden_size
    query_size = body.own_size + latent.rotary_size
    products = linear_op(model, "qkv", share, inputs, heads * query_size)
    absorption = weight_gemm(
        model, "attention_qkv", m=share.m, k=body.own_size, n=latent.rank, copies=heads
    )
    absorption_bytes = precision.bytes_of(heads * body.own_size * latent.rank)
    compressed_size = latent.rank + (latent.query_rank or 0)
    # The rotary key, which all heads share, is rotated like the query of one more head.
    rotated = (heads + 1) * latent.rotary_size
    return products._replace(
        gemms=(*products.gemms, absorption),
        serial_vector_ops=share.m * compressed_size * NORM_OPS,
        vector_ops=share.m * rotated * ROTARY_OPS,
        stream_bytes=products.stream_bytes + share.streams * absorption_bytes,
    )


def causal_pairs(tokens: int, attended: Count, window: int | None) -> Count:
    """Pairs of a query and a key in causal attention of a block.

    Args:
        tokens: Queries of the block, one after the other.
        attended: Keys that the last of them reads.
        window: Newest keys that each query reads; None: all.
    """
    all_pairs = tokens * attended
    later_keys = tokens * (tokens - 1) // 2
    beyond = max(0, tokens - window) if window is not None else 0
    older_keys = beyond * (beyond + 1) // 2
    return all_pairs - later_keys - older_keys


def attend_op(  # noqa: PLR0913 - the options of one operation, by name
    model: Model,
    share: Share,
    attended: Count,
    *,
    causal: bool = False,
    window: int | None = None,
    key_elements: int = 0,
    streamed: Count | None = None,
    new_tokens: int | None = None,
    pairs_read: Count | None = None,
    completes: bool = True,
) -> Op:
    """Attention over the KV cache of one layer: scores, softmax, weighted sum; writes K and V.

    Args:
        model: The model.
        share: The core's share of rows and heads; its tokens are the queries of a sequence.
        attended: Tokens of the KV cache that the last query reads, itself included.
        causal: Each query reads no later keys of its block; else all queries read the same keys.
        window: Newest tokens that each query reads, if queries are causal; None: all.
        key_elements: Elements per row of a cached key that is scored besides the attended keys.
        streamed: Tokens at the precision of the cache whose bytes are read; those attended, unless
            some are kept in fewer bits.
        new_tokens: Tokens of a sequence whose keys and values are written; all of the share, unless
            others write them.
        pairs_read: Pairs of a query and a key, if queries are causal; all, unless an operation
            before has read other keys.
        completes: The outputs are complete, and go on; else an operation behind adds to them.
    """
    body = model.body
    rows = share.rows
    tokens = share.tokens
    heads = share.columns(body.n_heads)
    sizes = _head_sizes(model, share, causal=causal)
    queries_per_key_head = -(-heads // sizes.key_heads)
    if causal:
        pairs = causal_pairs(tokens, attended, window) if pairs_read is None else pairs_read
        queries = queries_per_key_head
        keys = pairs
    else:
        pairs = tokens * attended
        queries = queries_per_key_head * tokens
        keys = attended
    copies = rows * sizes.key_heads
    softmax_ops = rows * heads * pairs * SOFTMAX_OPS
    complete_rows = share.m * completes
    polishing_ops = logarithms(model, "out", complete_rows * heads * body.head_dim)
    # Elements of K and V of one token that this core holds.
    cached = share.columns(body.n_kv_heads) * body.kv_elements // body.n_kv_heads
    read_tokens = attended if streamed is None else streamed
    written_tokens = tokens if new_tokens is None else new_tokens
    return Op(
        Category.ATTENTION,
        gemms=(
            Gemm(queries, k=sizes.key_size, n=keys, copies=copies),
            Gemm(queries, k=keys, n=sizes.value_size, copies=copies),
        ),
        vector_ops=softmax_ops + polishing_ops,
        stream=Stream.KV,
        stream_bytes=rows * model.kv.bytes_of(read_tokens * cached + key_elements),
        kv_side_bytes=rows * model.kv.bytes_of(written_tokens * cached),
        gathered_elements=complete_rows * body.q_size if body.latent is None else 0,
        operand="K, V",
    )


class _HeadSizes(NamedTuple):
    """Heads of keys on a core, and the elements of a key and of a value of one head."""

    key_heads: int
    key_size: int
    value_size: int


def _head_sizes(model: Model, share: Share, *, causal: bool) -> _HeadSizes:
    """Sizes of keys and values as the products of attention read them."""
    body = model.body
    latent = body.latent
    if latent is None:
        key_heads = share.columns(body.n_kv_heads)
        return _HeadSizes(key_heads, key_size=body.head_dim, value_size=body.head_dim)
    if causal:  # each head of a prompt has its own keys and values
        return _HeadSizes(
            key_heads=share.columns(body.n_heads),
            key_size=body.own_size + latent.rotary_size,
            value_size=latent.value_size,
        )
    key_heads = share.columns(body.n_kv_heads)
    return _HeadSizes(key_heads, key_size=body.head_dim, value_size=latent.rank)


def values_op(model: Model, latent: Latent, share: Share) -> Op:
    """The values of all heads of latent attention.

    Their matrix is part of the one that expands keys, too, and has its precision.
    """
    precision = model.precision_of("attention_qkv")
    heads = share.columns(model.body.n_heads)
    product = weight_gemm(
        model, "attention_qkv", m=share.m, k=latent.rank, n=latent.value_size, copies=heads
    )
    weights = heads * latent.rank * latent.value_size
    return Op(
        Category.OUTPUT,
        gemms=(product,),
        stream=Stream.WEIGHTS,
        stream_bytes=share.streams * precision.bytes_of(weights),
        gathered_elements=share.m * model.body.attended_size,
        operand="W_v of the latents",
    )


def output_op(model: Model, share: Share) -> Op:
    """Output projection of attention and its residual sum."""
    hidden_size = model.body.hidden_size
    columns = share.columns(hidden_size)
    product = linear_op(model, "out", share, model.body.attended_size, columns)
    sum_ops = share.m * columns * residual_ops(model)
    return product._replace(
        vector_ops=product.vector_ops + sum_ops, gathered_elements=share.m * hidden_size
    )

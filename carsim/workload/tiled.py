"""Operations on many tokens at once, which pass the buffers of a core in tiles.

A forward of a diffusion transformer takes tens of thousands of tokens through each layer. Neither
they nor the weights of a layer fit on chip, so the *loop order* decides what moves:

* ``tokens`` stay: as many tokens as the activation buffer holds (inputs and outputs of the widest
  product) go through all products of a block. Weights stream once for each such tile of tokens.
  What enters and leaves the block moves once.
* ``weights`` stay: a slice of a matrix, as large as half of the weight buffer, stays while all
  tokens pass. Weights stream once. The inputs of a product move once for each of its slices, its
  outputs once, also between two products of one block.
* ``best`` takes the one that moves fewer bytes in a block.

Attention goes head by head. A *query tile* of one head stays, with the running maximum, sum and
mixed values of each query, while all keys and values of the head stream past (Dao et al., arXiv
2205.14135). Keys and values stream once for each tile of queries. Scores are never stored.

If all tokens of a block fit in the activation buffer, none of them moves.

Simplifications: a tile of tokens has its inputs and outputs in one buffer; nothing is kept on chip
from one block to the next unless all of it fits; where tokens of a group skip attention, those that
compute fill as few groups as they can; rescaling of mixed values between blocks of keys is part of
the unit that takes exponentials; spilled activations lie in the memory of K and V; a matrix is cut
into slices by columns, without partial sums.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.workload.body import Product as LayerProduct
from carsim.workload.elements import BIAS_OPS, polishing_ops
from carsim.workload.model import BIAS_BYTES, TABLE_BYTES, Model
from carsim.workload.ops import Category, Count, Gemm, OnChip, Op, Share, Stream, weight_gemm
from carsim.workload.precision import Role

ACCUMULATOR_BYTES = 4
"""Bytes of a mixed value under way: 32 bits."""

QUERY_STATE_BYTES = 8
"""Bytes of the running maximum and sum of a query of one head."""


class Product(NamedTuple):
    """A product of tokens with a weight matrix.

    Attributes:
        k: Inputs.
        n: Outputs of the whole matrix.
        role: Role of the weights.
        category: Category of its time.
        biased: A bias is added.
        ops_per_output: Element operations for each output.
        ops_per_input: Element operations for each input (norm and modulation before it).
        part: Tokens of a row that pass, and all tokens of the row; None: all pass.
        name: Name by which inputs are polished; None: they never are.
    """

    k: int
    n: int
    role: Role
    category: Category
    biased: bool = True
    ops_per_output: int = 0
    ops_per_input: int = 0
    part: tuple[int, int] | None = None
    name: LayerProduct | None = None

    def rows(self, share: Share) -> Count:
        """Tokens of the share that pass this product."""
        if self.part is None:
            return share.m
        tokens_here, tokens_in_all = self.part
        return -(-share.m * tokens_here // tokens_in_all)


def on_chip_of(share: Share) -> OnChip:
    """The buffers of a share; without any, all tokens fit."""
    return share.on_chip or OnChip(1 << 60, 1 << 60, query_tile=0, loop_order="tokens")


def product_ops(
    model: Model,
    share: Share,
    products: Sequence[Product],
    *,
    entering: int,
    leaving_bytes: Count,
) -> list[Op]:
    """Products of a block one after the other, with the activations that move.

    Args:
        model: The model.
        share: Tokens of a core, and its part of every matrix.
        products: The products, in order; the outputs of each enter the next.
        entering: Elements of a token that enter the block, the residual included.
        leaving_bytes: Bytes of a token that leave it.
    """
    on_chip = on_chip_of(share)
    bytes_of = model.activations.bytes_of
    tokens = share.m
    tokens_of_core = -(-tokens // on_chip.deals)
    widest = max(product.k + -(-product.n // on_chip.columns) for product in products)
    widest_bytes = int(bytes_of(widest))
    held_tokens = np.maximum(1, on_chip.activation_bytes // widest_bytes)
    tiles = np.maximum(1, -(-tokens_of_core // held_tokens))
    spills = tiles > 1
    weight_bytes = [_weight_bytes(model, product) for product in products]
    block_bytes = tokens * (bytes_of(entering) + leaving_bytes)
    if_tokens = tiles * sum(weight_bytes) + spills * block_bytes
    slices = [
        np.maximum(1, -(-nbytes // (on_chip.columns * on_chip.weight_bytes)))
        for nbytes in weight_bytes
    ]
    between_bytes = sum(
        tokens * bytes_of(product.k) * (passes - (number == 0))
        for number, (product, passes) in enumerate(zip(products, slices, strict=True))
    )
    between_bytes = between_bytes + sum(tokens * bytes_of(product.n) for product in products[:-1])
    if_weights = sum(weight_bytes) + spills * (block_bytes + between_bytes)
    stays = _tokens_stay(on_chip, if_tokens, if_weights)
    passes = np.where(stays, tiles, 1)
    moved_bytes = spills * (block_bytes + np.where(stays, 0, between_bytes))
    ops = []
    for number, (product, nbytes) in enumerate(zip(products, weight_bytes, strict=True)):
        m = product.rows(share)
        columns = share.columns(product.n)
        op = Op(
            product.category,
            gemms=(weight_gemm(model, product.role, m=m, k=product.k, n=columns),),
            vector_ops=m * columns * (product.ops_per_output + product.biased * BIAS_OPS)
            + m * product.k * product.ops_per_input
            + _polishing_ops(model, product, m),
            stream=Stream.WEIGHTS,
            stream_bytes=share.streams * passes * nbytes,
            kv_side_bytes=moved_bytes if number == len(products) - 1 else 0,
            gathered_elements=m * product.n,
        )
        ops.append(op)
    return ops


def _tokens_stay(
    on_chip: OnChip, if_tokens: Count, if_weights: Count
) -> NDArray[np.bool_] | np.bool_:
    """Tokens stay on chip, given the bytes that either loop order moves."""
    if on_chip.loop_order == "best":
        return np.asarray(if_tokens <= if_weights)
    return np.bool_(on_chip.loop_order == "tokens")


def _polishing_ops(model: Model, product: Product, m: Count) -> Count:
    """Element operations of the polished inputs of m tokens."""
    if product.name is None:
        return 0
    return polishing_ops(model, product.name, m * product.k)


def _weight_bytes(model: Model, product: Product) -> int:
    """Bytes of the whole matrix, with its bias and the tables of polished inputs."""
    biases = product.n if product.biased else 0
    nbytes = int(model.precision_of(product.role).bytes_of(product.k * product.n))
    tables = TABLE_BYTES * product.k if product.name in model.polished else 0
    return nbytes + BIAS_BYTES * biases + tables


def queries_on_chip(model: Model, on_chip: OnChip) -> Count:
    """Queries of one head that stay on chip while its keys and values stream past."""
    if on_chip.query_tile:
        return on_chip.query_tile
    return np.maximum(1, on_chip.activation_bytes // query_bytes(model))


def query_bytes(model: Model) -> int:
    """Bytes of a query of one head under way: itself, its mixed values, maximum and sum."""
    head_size = model.body.head_dim
    return (
        int(model.activations.bytes_of(head_size))
        + ACCUMULATOR_BYTES * head_size
        + (QUERY_STATE_BYTES)
    )


def attend_ops(  # noqa: PLR0913 - the options of one operation, by name
    model: Model,
    share: Share,
    keys: Count,
    *,
    scored: Count | None = None,
    more_ops: Count = 0,
    streams_keys: bool = True,
    group: int | None = None,
) -> Op:
    """Attention of many queries, each to all keys, or to those of its own group.

    Args:
        model: The model.
        share: Queries of a core (of all heads), and its part of the heads.
        keys: Keys that a query may attend to.
        scored: Keys that each query does score, of block-sparse masks; None: all.
        more_ops: Further element operations: those of making a mask.
        streams_keys: Keys and values come from memory; else they stay on chip.
        group: Queries that attend to the same ``keys``, their own; None: all of a row do. Groups
            are dealt to cores whole where there are as many; a core with a part of a group has
            all of its keys.
    """
    body = model.body
    on_chip = on_chip_of(share)
    queries = share.m
    heads = share.columns(body.n_heads)
    scored = keys if scored is None else scored
    queries_of_core = -(-queries // on_chip.deals)
    groups: Count = 1
    groups_of_core: Count = 1
    queries_of_group = queries
    together = queries_of_core
    if group is not None:
        groups = np.maximum(1, -(-queries // group))
        groups_of_core = np.maximum(1, -(-queries_of_core // group))
        queries_of_group = -(-queries // groups)
        together = np.minimum(group, queries_of_core)
    tiles = -(-together // queries_on_chip(model, on_chip))
    kv_bytes = model.kv.bytes_of(scored * body.kv_elements)
    query_elements = body.q_size + body.attended_size
    side_bytes = queries * model.activations.bytes_of(query_elements)
    alive_bytes = queries_of_core * model.activations.bytes_of(query_elements)
    alive_bytes = alive_bytes + groups_of_core * kv_bytes
    spills = alive_bytes > on_chip.activation_bytes
    return Op(
        Category.ATTENTION,
        gemms=(
            Gemm(queries_of_group, k=body.head_dim, n=scored, copies=groups * heads),
            Gemm(queries_of_group, k=scored, n=body.head_dim, copies=groups * heads),
        ),
        vector_ops=queries * heads * body.head_dim + more_ops,
        exponentials=queries * heads * scored,
        stream=Stream.KV if streams_keys else Stream.NONE,
        stream_bytes=spills * groups * tiles * kv_bytes * streams_keys,
        kv_side_bytes=spills * side_bytes * streams_keys,
        gathered_elements=queries * body.attended_size,
        is_shared=group is None,
    )

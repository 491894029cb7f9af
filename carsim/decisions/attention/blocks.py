"""What is kept of blocks of keys, and how well a query fits it: the scorers of draft attention.

A scorer is one class with a line in :data:`SCORERS`. Its instance is the state of one decoding, and
``cost`` says what the machine pays for it.
"""

from abc import ABC, abstractmethod
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from carsim.base.registry import Registry
from carsim.decisions.attention.base import Array, CacheShape, SelectionUnit
from carsim.decisions.attention.search import (
    few_bits,
    hash_macs,
    hyperplanes,
    signatures,
    sorter,
    vector_bytes,
)

if TYPE_CHECKING:
    from carsim.decisions.attention.draft import Draft

MOST_UNION_BITS = 6
"""Of a signature whose union over a block is kept: 64 bits."""


class BlockCost(NamedTuple):
    """What scores of blocks cost in one layer of one row.

    Attributes:
        head_bytes: Bytes that are kept of one block in one key head.
        score_macs: Products of one query head with one block.
        token_macs: Products of each new token, all heads.
        token_ops: Element operations of each new token, all key heads.
        unit: Logic of a core.
    """

    head_bytes: int
    score_macs: int
    token_macs: int
    token_ops: int
    unit: SelectionUnit


class Scorer(ABC):
    """State of one decoding: what is kept of its blocks.

    Args:
        policy: Fields that scorers use.
        cache: The cache of the decoding.

    Class attributes:
        kind: Name in YAML.
        uses: Fields of the policy that mean something here, and to no other scorer.
    """

    kind: ClassVar[str]
    uses: ClassVar[tuple[str, ...]]

    @abstractmethod
    def __init__(self, policy: "Draft", cache: CacheShape) -> None: ...

    @abstractmethod
    def append(self, layer: int, token: int, key: Array) -> None:
        """Learn of the rotated key of the n-th video token, [B, KV, hd]."""

    @abstractmethod
    def scores(self, layer: int, complete: int, q: Array) -> Array:
        """Scores of the first complete blocks for queries [B, KV, g, hd]: [B, KV, g, complete]."""

    @classmethod
    @abstractmethod
    def cost(cls, policy: "Draft", n_heads: int, n_kv_heads: int, head_dim: int) -> BlockCost:
        """Cost of the scores."""


class _Vectors(Scorer):
    """Vectors that gather the keys of a block as they come, and are cut to few bits at its end.

    Attributes:
        running: Of the block under way, [vectors, L, B, KV, hd].
        kept: Of complete blocks, [vectors, L, B, KV, blocks, hd].
    """

    uses = ("pooled_bits",)
    vectors: ClassVar[int] = 1

    def __init__(self, policy: "Draft", cache: CacheShape) -> None:
        self.policy = policy
        size = self.vectors, cache.n_layers, cache.n_rows, cache.n_kv_heads
        n_blocks = (cache.n_slots - cache.prompt_slots) // policy.block_tokens
        self.running = np.zeros((*size, cache.head_dim), cache.dtype)
        self.kept = np.zeros((*size, n_blocks, cache.head_dim), cache.dtype)

    def append(self, layer: int, token: int, key: Array) -> None:
        """Add the key to its block."""
        block, place = divmod(token, self.policy.block_tokens)
        running = self.running[:, layer]
        if place == 0:
            running[:] = key
        else:
            self._gather(running, key)
        if place == self.policy.block_tokens - 1:
            self.kept[:, layer, :, :, block] = self._cut(running)

    @abstractmethod
    def _gather(self, running: Array, key: Array) -> None:
        """Take one more key into the vectors [vectors, B, KV, hd]."""

    @abstractmethod
    def _cut(self, running: Array) -> Array:
        """Vectors as they are kept."""

    @classmethod
    def cost(cls, policy: "Draft", n_heads: int, n_kv_heads: int, head_dim: int) -> BlockCost:
        """The vectors of a block, and their sums."""
        return BlockCost(
            head_bytes=cls.vectors * vector_bytes(head_dim, policy.pooled_bits),
            score_macs=cls.vectors * head_dim,
            token_macs=0,
            token_ops=cls.vectors * n_kv_heads * head_dim,
            unit=sorter(),
        )


class Mean(_Vectors):
    """The mean of the keys: a block's score is the mean of its keys' scores."""

    kind = "mean"

    def _gather(self, running: Array, key: Array) -> None:
        running += key

    def _cut(self, running: Array) -> Array:
        return few_bits(running / self.policy.block_tokens, self.policy.pooled_bits)

    def scores(self, layer: int, complete: int, q: Array) -> Array:
        """<q, mean of the block's keys>; 1 / sqrt(hd) changes no order."""
        means = self.kept[0, layer, :, :, :complete]
        scores: Array = q @ means.swapaxes(-1, -2)
        return scores


class MinMax(_Vectors):
    """Least and largest of each channel (Quest, arXiv 2406.10774): no key's score is above.

    Cut to few bits, they are rounded outwards, so that the bound stays one. On the array the score
    is a product of twice the length: positive parts of the query with the largest, negative ones
    with the least.
    """

    kind = "minmax"
    vectors = 2

    def _gather(self, running: Array, key: Array) -> None:
        np.minimum(running[0], key, out=running[0])
        np.maximum(running[1], key, out=running[1])

    def _cut(self, running: Array) -> Array:
        least, largest = running
        bits = self.policy.pooled_bits
        return np.stack([few_bits(least, bits, np.floor), few_bits(largest, bits, np.ceil)])

    def scores(self, layer: int, complete: int, q: Array) -> Array:
        """The sum over channels of max(q * least, q * largest)."""
        least, largest = self.kept[:, layer, :, :, :complete]
        upper: Array = np.maximum(q, 0) @ largest.swapaxes(-1, -2)
        upper += np.minimum(q, 0) @ least.swapaxes(-1, -2)
        return upper


class Signatures(Scorer):
    """Signatures of the keys: in how many tables a key of the block has that of the query.

    The approximate search of AnnSA (arXiv 2602.01801) as a score of blocks: 0 to ``tables``, of
    which the newer counts as higher. The union of a block's signatures is kept, a bit for each that
    there can be; a multiplexer for each table looks up the query's, one block a cycle.

    Attributes:
        unions: Of all blocks, uint64[L, B, KV, tables, blocks].
    """

    kind = "lsh"
    uses = ("tables", "bits", "seed")

    def __init__(self, policy: "Draft", cache: CacheShape) -> None:
        self.policy = policy
        self._planes = hyperplanes(policy.tables, policy.bits, cache.head_dim, policy.seed)
        size = cache.n_layers, cache.n_rows, cache.n_kv_heads, policy.tables
        n_blocks = -(-(cache.n_slots - cache.prompt_slots) // policy.block_tokens)
        self.unions = np.zeros((*size, n_blocks), np.uint64)

    def append(self, layer: int, token: int, key: Array) -> None:
        """Set the bits of its signatures."""
        codes = signatures(key, self._planes).astype(np.uint64)
        self.unions[layer, ..., token // self.policy.block_tokens] |= np.uint64(1) << codes

    def scores(self, layer: int, complete: int, q: Array) -> Array:
        """Tables in which the query meets a key of the block."""
        unions = self.unions[layer][:, :, None, :, :complete]  # [B, KV, 1, t, complete]
        codes = signatures(q, self._planes).astype(np.uint64)[..., None]  # [B, KV, g, t, 1]
        scores: Array = (unions >> codes & np.uint64(1)).sum(axis=-2).astype(np.float32)
        return scores

    @classmethod
    def cost(cls, policy: "Draft", n_heads: int, n_kv_heads: int, head_dim: int) -> BlockCost:
        """A union of signatures for each table, and signatures of the new token."""
        union_bits = policy.tables * 2**policy.bits
        top = sorter()
        return BlockCost(
            head_bytes=-(-union_bits // 8),
            score_macs=0,
            token_macs=hash_macs(n_heads, n_kv_heads, head_dim, policy.tables * policy.bits),
            token_ops=0,
            # A LUT chooses among four bits: a bit of a multiplexer is half a bit of a comparator.
            unit=replace(top, comparator_bits=top.comparator_bits + union_bits // 2),
        )


SCORERS: Registry[type[Scorer]] = Registry("scorer", attrgetter("kind"), (Mean, MinMax, Signatures))
"""Scorers by the name that YAML gives them."""

"""Policies that evict: a base for kinds that drop cached keys and values at the end of each frame.

A kind derives from :class:`Evicting` and says how much each cached token is worth
(:meth:`Evicting.learn`), and how many to keep (the field ``keep``). At the end of a frame, each
layer, row and key head drops the tokens of least worth. The newest frame always stays, as rules of
replay read its keys, and so do the first ``sinks`` tokens of the row.

Model of the machine, of one row in one layer and key head: an operation for each cached token in
each step, to add to its worth, which has 16 bits; after each frame, an operation for each token and
level of a tournament that finds the least, and compaction, which reads and writes all keys and
values that stay once, in sequence. After it the cache is one run. Where all heads keep the same
tokens (``heads_alike``), a token has one worth and one place in the tournament.

Simplification: the work of a frame is spread evenly over its steps.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from pydantic import Field

from carsim.base.sizes import MOST, NonNegativeInt, PositiveInt
from carsim.decisions.attention.base import (
    Array,
    AttentionPolicy,
    Bools,
    CacheShape,
    Ints,
    Query,
    Selection,
    SideWork,
)

WORTH_BYTES = 2
"""Of the worth of a token."""


@dataclass(frozen=True, eq=False)
class Kept:
    """Tokens that a cache still holds, and their worth.

    Attributes:
        cache: The cache.
        stored: bool[L, B, KV, slots], False where a token was evicted.
        worth: [L, B, KV, slots], what the kind adds up.
    """

    cache: CacheShape
    stored: Bools
    worth: Array


class Evicting(AttentionPolicy):
    """Evicts the tokens of least worth at the end of each frame."""

    records: ClassVar[bool] = True
    follows_reads: ClassVar[bool] = True

    keep: PositiveInt = Field(MOST, description="tokens that stay, beside the newest frame")
    sinks: NonNegativeInt = Field(4, description="first tokens, which always stay")

    def learn(self, worth: Array, layer: int, weights: Array) -> None:
        """Add to the worth of cached tokens, in place.

        Args:
            worth: [B, KV, end]; what is evicted has no say any more.
            layer: Layer.
            weights: Attention of the newest token, summed over the query heads that share a key
                head, [B, KV, end].
        """
        raise NotImplementedError

    def kept_tokens(self, layer: int, n_layers: int) -> int:
        """Tokens that stay in a layer, beside the newest frame."""
        return self.keep

    def begin(self, cache: CacheShape) -> Kept:
        """Everything is stored, and worth nothing yet."""
        shape = cache.n_layers, cache.n_rows, cache.n_kv_heads, cache.n_slots
        return Kept(cache, np.ones(shape, np.bool_), np.zeros(shape, cache.dtype))

    def select(self, state: Kept, layer: int, query: Query) -> Selection:
        """Everything that is stored."""
        stored = state.stored[layer, :, :, : query.end]
        return Selection() if stored.all() else Selection(stored=stored)

    def attended(self, state: Kept, layer: int, weights: Array) -> None:
        """Let the kind learn from the newest token's attention."""
        rows, _, end = weights.shape
        by_key_head = weights.reshape(rows, state.cache.n_kv_heads, -1, end).sum(axis=2)
        self.learn(state.worth[layer, :, :, :end], layer, by_key_head)

    def end_of_frame(self, state: Kept, layer: int, keys: Array, values: Array) -> Ints | None:
        """Evict the tokens of least worth."""
        cache = state.cache
        end = keys.shape[2]
        old = end - cache.tokens_per_frame  # slots before the newest frame
        stored = state.stored[layer, :, :, :old]
        token = np.arange(old) - cache.padding[:, None]  # [B, old]; below 0 for padding
        is_candidate = stored & (token >= 0)[:, None]  # [B, KV, old]
        is_sink = is_candidate & (token < self.sinks)[:, None]
        worth = np.where(is_candidate, state.worth[layer, :, :, :old], -np.inf)
        worth = np.where(is_sink, np.inf, worth)
        most_kept = min(old, self.kept_tokens(layer, cache.n_layers))
        best_first = np.argsort(-worth, axis=-1, kind="stable")
        rank = np.argsort(best_first, axis=-1, kind="stable")
        is_kept = (rank < most_kept) | (worth == np.inf)
        state.stored[layer, :, :, :old] = is_candidate & is_kept
        if self.keep >= end:
            return None
        # Padding is not stored any more; the newest frame has none.
        tokens_of_heads = np.count_nonzero(state.stored[layer, :, :, :end], axis=-1)  # [B, KV]
        return np.asarray(tokens_of_heads.max(axis=1))

    @property
    def reads_all_held(self) -> bool:
        """Every step reads what is left."""
        return True

    def reads_aligned(self, distance: int) -> bool:
        """The newest frame is never evicted."""
        return True

    def side_work(self, reads: Ints, n_heads: int, n_kv_heads: int, head_dim: int) -> SideWork:
        """Worth is read, added to, and written."""
        moved = reads * self._worths(n_kv_heads) * WORTH_BYTES
        return SideWork(element_ops=reads * n_heads, bytes_read=moved, bytes_written=moved)

    def frame_work(
        self, reads: Ints, tokens_per_frame: int, n_kv_heads: int, head_dim: int
    ) -> SideWork:
        """A tournament over all tokens, and compaction."""
        levels = np.ceil(np.log2(np.maximum(2, np.asarray(reads, np.int64)))).astype(np.int64)
        elements = 2 * (2 * reads * n_kv_heads * head_dim)
        compared = reads * self._worths(n_kv_heads)
        return SideWork(element_ops=compared * levels, kv_elements=elements)

    def side_bytes(self, held: Ints, n_kv_heads: int, head_dim: int) -> Ints:
        """Worth of each token."""
        return held * self._worths(n_kv_heads) * WORTH_BYTES

    def _worths(self, n_kv_heads: int) -> int:
        """Numbers that a token is worth: one for each key head, or one for all."""
        return 1 if self.heads_alike else n_kv_heads

"""DraftAttention: a draft of the attention map, of pooled keys, says which blocks are read.

After arXiv 2505.14708, which pools queries and keys of a diffusion transformer over patches of
8 x 16, takes the best entries of the whole low-resolution map, and moves patches together so that
blocks are contiguous. Here one query comes at a time, so that each step chooses for itself: in each
layer, row and key head, a block of the cache has the score

    <q, mean of the block's rotated keys> / sqrt(head_dim),

and the best ceil(keep * blocks) of the complete blocks are read, with the prompt and the block
under way. Blocks are runs of ``block_tokens`` video tokens in raster order, so that nothing is
moved. Where several query heads share a key head, a block is as good as the best of them finds it.

Model of the machine: the keys of the block under way are read for attention in any case; they are
added up as they pass, and once the block is complete, what is left of it is written in
``pooled_bits`` an element. Each step reads all of that, multiplies it with the queries on the
array, and finds the best with the unit of :mod:`carsim.policy.search`: one score a cycle.
Simplification: the machine is not told how long the prompt is, and counts its blocks, too.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from carsim.policy.base import (
    Array,
    AttentionPolicy,
    Bools,
    CacheShape,
    Ints,
    KvReads,
    Query,
    Selection,
    SideWork,
    Unit,
)
from carsim.policy.search import (
    EXACT_BITS,
    best,
    few_bits,
    grouped,
    heap,
    most_runs,
    share_of,
    vector_bytes,
)


@dataclass(eq=False)
class Pooled:
    """What is left of the blocks of one decoding; nb blocks.

    Attributes:
        first: Slot of the first video token.
        running: Of the block under way, [L, B, KV, hd].
        blocks: Of complete blocks, in few bits, [L, B, KV, nb, hd].
    """

    first: int
    running: Array
    blocks: Array


class Draft(AttentionPolicy):
    """DraftAttention: the blocks of cached tokens whose pooled keys fit the query best."""

    label: ClassVar[str] = "draft attention"
    paper: ClassVar[str] = "arXiv 2505.14708"
    records: ClassVar[bool] = True

    kind: Literal["draft"] = "draft"
    block_tokens: Annotated[int, Field(gt=0, le=4096)] = 16
    keep: Annotated[float, Field(gt=0, le=1)] = Field(
        0.25, description="share of the complete blocks that is read"
    )
    pooled_bits: Annotated[int, Field(ge=2, le=EXACT_BITS)] = Field(
        8, description=f"per element of a pooled key; {EXACT_BITS} keeps it as it is"
    )

    @classmethod
    def trivial(cls) -> "Draft":
        """All blocks are kept."""
        return cls(keep=1.0)

    # What the decoder asks.

    def begin(self, cache: CacheShape) -> Pooled:
        """Nothing is pooled yet."""
        size = cache.n_layers, cache.n_rows, cache.n_kv_heads
        n_blocks = (cache.n_slots - cache.prompt_slots) // self.block_tokens
        return Pooled(
            cache.prompt_slots,
            np.zeros((*size, cache.head_dim), cache.dtype),
            np.zeros((*size, n_blocks, cache.head_dim), cache.dtype),
        )

    def append(
        self, state: Pooled, layer: int, slots: slice, k: Array, k_rotated: Array, v: Array
    ) -> None:
        """Add the new key to its block; the prompt is not pooled."""
        if slots.start < state.first:
            return
        block, place = divmod(slots.start - state.first, self.block_tokens)
        running = state.running[layer]
        if place == 0:
            running[:] = 0
        running += k_rotated[:, :, 0]
        if place == self.block_tokens - 1:
            state.blocks[layer, :, :, block] = few_bits(
                running / self.block_tokens, self.pooled_bits
            )

    def select(self, state: Pooled, layer: int, query: Query) -> Selection:
        """The prompt, the best of the complete blocks, and the newest token's own block."""
        complete = self._complete(query.end - state.first)
        k = share_of(self.keep, complete)
        if k == complete:
            return Selection()
        pooled = state.blocks[layer, :, :, :complete]  # [B, KV, complete, hd]
        q = grouped(query.q_rotated, pooled.shape[1])
        scores = (q @ pooled.swapaxes(-1, -2)).max(axis=2)  # the same order with 1 / sqrt(hd)
        mask = np.ones((*scores.shape[:2], query.end), np.bool_)
        chosen = best(scores, k)[..., None].repeat(self.block_tokens, axis=-1)
        pooled_slots = slice(state.first, state.first + complete * self.block_tokens)
        mask[..., pooled_slots] = chosen.reshape(*scores.shape[:2], -1)
        return Selection(mask=mask)

    def _complete(self, video_tokens: Any) -> Any:
        """Complete blocks that are scored, while the newest token's own is under way."""
        return (video_tokens - 1) // self.block_tokens

    # What the machine and a trace ask.

    def reads(self, context: Ints) -> KvReads:
        """All of a prompt that is the whole context; runs are most where the prompt is shortest."""
        complete = self._complete(context)
        kept = share_of(self.keep, complete)
        return KvReads(context, most_runs(kept + 2, complete - kept))

    def check_reads(
        self, prompt: Ints, context: Ints, reads: KvReads
    ) -> Iterator[tuple[str, str, Bools]]:
        """Every head reads exactly so many blocks and what is read in any case."""
        complete = self._complete(context - prompt)
        kept = share_of(self.keep, complete)
        exactly = context - (complete - kept) * self.block_tokens
        yield (
            "kv_tokens",
            f"not the keys of the prompt, of the best blocks of {self.text} and of its last one",
            reads.tokens != exactly,
        )
        yield (
            "kv_runs",
            f"more runs than the blocks of {self.text} can form",
            reads.runs > most_runs(kept + 2, complete - kept),
        )

    def side_work(self, context: Ints, n_heads: int, n_kv_heads: int, head_dim: int) -> SideWork:
        """A draft product for each block and query head; sums of the newest key; the top-k."""
        blocks = context // self.block_tokens
        of_block = n_kv_heads * vector_bytes(head_dim, self.pooled_bits)
        return SideWork(
            macs=blocks * n_heads * head_dim,
            element_ops=n_kv_heads * head_dim,
            bytes_read=blocks * of_block,
            bytes_written=-(-of_block // self.block_tokens),
            scan_cycles=blocks * n_heads,
        )

    def unit(self) -> Unit:
        """A heap."""
        return heap()

    def side_bytes(self, context: Ints, n_kv_heads: int, head_dim: int) -> Ints:
        """Pooled keys."""
        pooled: Ints = -(-context // self.block_tokens) * n_kv_heads
        return pooled * vector_bytes(head_dim, self.pooled_bits)

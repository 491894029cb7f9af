"""DraftAttention: a draft of the attention map, of pooled keys, says which blocks are read.

After arXiv 2505.14708, which pools queries and keys of a diffusion transformer over patches of
8 x 16, takes the best entries of the whole low-resolution map, and moves patches together so that
blocks are contiguous. Here one query comes at a time, so that each step chooses for itself: in each
layer, row and key head, a block of the cache has the score

    <q, mean of the block's rotated keys> / sqrt(head_dim),

which is the mean of the scores of its keys. The best ceil(keep * blocks) of the complete blocks are
read, with the prompt and the block under way. Blocks are runs of ``block_tokens`` video tokens in
raster order, so that nothing is moved. Where several query heads share a key head, a block is as
good as the best of them finds it.

In a forward of a diffusion transformer, the policy is that of the paper. Queries and keys are
pooled over blocks of ``block_tokens`` (128 there: 8 x 16), all blocks are scored against each
other, and the best ``keep`` of these pairs are computed. Q, K and V move so that blocks are
contiguous, and the output moves back. The first quarter of the denoising steps is dense.

Model of the machine: the keys of the block under way are read for attention in any case; they are
summed up as they pass, and once the block is complete, its mean is written in few bits. Each step
reads all means, multiplies them with the queries on the array, and finds the best with the unit of
:mod:`carsim.decisions.attention.search`: one score a cycle. Simplification: the machine is not told
how long the prompt is, and counts its blocks, too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from carsim.decisions.attention import search
from carsim.decisions.attention.base import (
    Array,
    AttentionPolicy,
    CacheShape,
    ForwardShape,
    Ints,
    KvReads,
    Query,
    Selection,
    SelectionUnit,
    SideWork,
)

DENSE_SHARE = 0.25
"""Share of the denoising steps, the first ones, that are dense (arXiv 2505.14708)."""


@dataclass(eq=False)
class Drafts:
    """State of one decoding.

    Attributes:
        first: Slot of the first video token.
        running: Sums of the keys of the block under way, [L, B, KV, hd].
        means: Means of the keys of complete blocks, [L, B, KV, blocks, hd].
    """

    first: int
    running: Array
    means: Array

    def scores(self, layer: int, complete: int, q: Array) -> Array:
        """Products of queries [B, KV, g, hd] and the first means; 1 / sqrt(hd) changes no order."""
        return q @ self.means[layer, :, :, :complete].swapaxes(-1, -2)


class Draft(AttentionPolicy):
    """DraftAttention: the blocks of cached tokens whose pooled keys fit the query best."""

    masks_forwards: ClassVar[bool] = True
    has_dense_steps: ClassVar[bool] = True
    label: ClassVar[str] = "draft attention"
    paper: ClassVar[str] = "arXiv 2505.14708"
    records: ClassVar[bool] = True
    obsolete: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("tables", "bits", "seed"), "scores of blocks are means"
    )

    kind: Literal["draft"] = "draft"
    block_tokens: Annotated[int, Field(gt=0, le=4096)] = Field(
        16, description="video tokens of a block"
    )
    keep: search.Share = Field(0.25, description="share of the complete blocks that is read")
    scorer: Literal["mean"] = Field("mean", description="a block stands for the mean of its keys")
    pooled_bits: search.KeyBits = Field(
        8, description=f"per element of a mean; {search.EXACT_BITS} keeps it as it is"
    )

    @classmethod
    def trivial(cls) -> "Draft":
        """All blocks are kept."""
        return cls(keep=1.0)

    # What the decoder asks.

    def begin(self, cache: CacheShape) -> Drafts:
        """Nothing is kept yet."""
        size = cache.n_layers, cache.n_rows, cache.n_kv_heads
        n_blocks = (cache.n_slots - cache.prompt_slots) // self.block_tokens
        running = np.zeros((*size, cache.head_dim), cache.dtype)
        means = np.zeros((*size, n_blocks, cache.head_dim), cache.dtype)
        return Drafts(cache.prompt_slots, running, means)

    def append(
        self, state: Drafts, layer: int, slots: slice, k: Array, k_rotated: Array, v: Array
    ) -> None:
        """Take the new key into its block; the prompt is in none."""
        if slots.start < state.first:
            return
        block, token = divmod(slots.start - state.first, self.block_tokens)
        key = k_rotated[:, :, 0]
        running = state.running[layer]  # a view
        running[:] = key if token == 0 else running + key
        if token == self.block_tokens - 1:
            mean = search.few_bits(running / self.block_tokens, self.pooled_bits)
            state.means[layer, :, :, block] = mean

    def select(self, state: Drafts, layer: int, query: Query) -> Selection:
        """The prompt, the best of the complete blocks, and the newest token's own block."""
        complete = self._complete(query.end - state.first)
        k = search.share_of(self.keep, complete)
        if k == complete:
            return Selection()
        q = search.grouped(query.q_rotated, query.keys.shape[1])
        scores = state.scores(layer, complete, q).max(axis=2)  # [B, KV, complete]
        mask = np.ones((*scores.shape[:2], query.end), np.bool_)
        chosen = search.best(scores, k)[..., None].repeat(self.block_tokens, axis=-1)
        in_blocks = slice(state.first, state.first + complete * self.block_tokens)
        mask[..., in_blocks] = chosen.reshape(*scores.shape[:2], -1)
        return Selection(mask=mask)

    def _complete(self, video_tokens: Any) -> Any:
        """Complete blocks that are scored, while the newest token's own is under way."""
        return (video_tokens - 1) // self.block_tokens

    # What the machine and a trace ask.

    def forward_keys(self, queries: int, keys: Ints, share_done: Array) -> Ints:
        """Keys in the blocks that are kept; all in the first quarter of the steps."""
        blocks = -(-keys // self.block_tokens)
        keys_in_best = search.share_of(self.keep, blocks) * self.block_tokens
        return np.where(share_done < DENSE_SHARE, keys, np.minimum(keys_in_best, keys))

    def forward_work(self, shape: ForwardShape, keys: Ints) -> SideWork:
        """Pooling, the draft map and its best pairs; Q, K, V and output are read and written."""
        queries = shape.queries
        width = shape.width
        pairs = -(-queries // self.block_tokens) * -(-keys // self.block_tokens)
        moved_elements = 2 * (queries * width + keys * width)
        return SideWork(
            macs=pairs * width,
            element_ops=(queries + keys) * width,
            activation_elements=2 * moved_elements,
            scan_cycles=pairs * shape.n_heads,
        )

    def reads(self, context: Ints) -> KvReads:
        """All of a prompt that is the whole context; runs are most where the prompt is shortest."""
        complete = self._complete(context)
        best = search.share_of(self.keep, complete)
        return KvReads(context, search.most_runs(best + 2, complete - best))

    def side_work(self, context: Ints, n_heads: int, n_kv_heads: int, head_dim: int) -> SideWork:
        """Scores of all blocks, the newest key, and the top-k."""
        blocks = context // self.block_tokens
        block_bytes = self._block_bytes(n_kv_heads, head_dim)
        return SideWork(
            macs=blocks * n_heads * head_dim,
            element_ops=n_kv_heads * head_dim,
            bytes_read=blocks * block_bytes,
            bytes_written=-(-block_bytes // self.block_tokens),
            scan_cycles=blocks * n_heads,
        )

    def unit(self) -> SelectionUnit:
        """A sorter."""
        return search.sorter()

    def side_bytes(self, context: Ints, n_kv_heads: int, head_dim: int) -> Ints:
        """Bytes of the means."""
        return -(-context // self.block_tokens) * self._block_bytes(n_kv_heads, head_dim)

    def _block_bytes(self, n_kv_heads: int, head_dim: int) -> int:
        return n_kv_heads * search.vector_bytes(head_dim, self.pooled_bits)

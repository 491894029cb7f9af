"""DraftAttention: a draft of the attention map, of pooled keys, says which blocks are read.

After arXiv 2505.14708, which pools queries and keys of a diffusion transformer over patches of
8 x 16, takes the best entries of the whole low-resolution map, and moves patches together so that
blocks are contiguous. Here one query comes at a time, so that each step chooses for itself: in each
layer, row and key head, a block of the cache has the score

    <q, mean of the block's rotated keys> / sqrt(head_dim),

or another of :mod:`carsim.decisions.attention.blocks`, and the best ceil(keep * blocks) of the
complete blocks are read, with the prompt and the block under way. Blocks are runs of
``block_tokens`` video tokens in raster order, so that nothing is moved. Where several query heads
share a key head, a block is as good as the best of them finds it.

Model of the machine: the keys of the block under way are read for attention in any case; they are
gathered as they pass, and once the block is complete, what is kept of it is written. Each step
reads all of that, multiplies it with the queries on the array, and finds the best with the unit of
:mod:`carsim.decisions.attention.search`: one score a cycle. Simplification: the machine is not told
how long the prompt is, and counts its blocks, too.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from carsim.base.registry import OneOf
from carsim.base.section import NonNegativeInt
from carsim.decisions.attention.base import (
    Array,
    AttentionPolicy,
    CacheShape,
    Ints,
    KvReads,
    Query,
    Selection,
    SelectionUnit,
    SideWork,
)
from carsim.decisions.attention.blocks import MOST_UNION_BITS, SCORERS, BlockCost, Scorer
from carsim.decisions.attention.search import EXACT_BITS, Tables, best, grouped, most_runs, share_of


@dataclass(eq=False)
class Drafts:
    """State of one decoding.

    Attributes:
        first: Slot of the first video token.
        scorer: What is kept of the blocks.
    """

    first: int
    scorer: Scorer


class Draft(AttentionPolicy):
    """DraftAttention: the blocks of cached tokens whose pooled keys fit the query best."""

    label: ClassVar[str] = "draft attention"
    paper: ClassVar[str] = "arXiv 2505.14708"
    mode: ClassVar[str] = "scorer"
    records: ClassVar[bool] = True

    kind: Literal["draft"] = "draft"
    block_tokens: Annotated[int, Field(gt=0, le=4096)] = Field(
        16, description="video tokens of a block"
    )
    keep: Annotated[float, Field(gt=0, le=1)] = Field(
        0.25, description="share of the complete blocks that is read"
    )
    scorer: Annotated[str, OneOf(SCORERS)] = Field(
        "mean",
        description="what is kept of a block: the mean of its keys, their least and largest "
        "channels (minmax: Quest), or their signatures (lsh: AnnSA)",
    )
    pooled_bits: Annotated[int, Field(ge=2, le=EXACT_BITS)] = Field(
        8, description=f"per element of what is kept; {EXACT_BITS} keeps it as it is"
    )
    tables: Tables = 4
    bits: Annotated[int, Field(gt=0, le=MOST_UNION_BITS)] = Field(
        6, description="with scorer lsh: bits of a signature"
    )
    seed: NonNegativeInt = Field(0, description="with scorer lsh: of the hyperplanes")

    @classmethod
    def trivial(cls) -> "Draft":
        """All blocks are kept."""
        return cls(keep=1.0)

    @property
    def used(self) -> dict[str, Any]:
        """The fields without those that only other scorers use."""
        others = {name for each in SCORERS.values() for name in each.uses}
        others -= set(SCORERS[self.scorer].uses)
        return {name: value for name, value in self if name not in others}

    # What the decoder asks.

    def begin(self, cache: CacheShape) -> Drafts:
        """Nothing is kept yet."""
        return Drafts(cache.prompt_slots, SCORERS[self.scorer](self, cache))

    def append(
        self, state: Drafts, layer: int, slots: slice, k: Array, k_rotated: Array, v: Array
    ) -> None:
        """Take the new key into its block; the prompt is in none."""
        if slots.start >= state.first:
            state.scorer.append(layer, slots.start - state.first, k_rotated[:, :, 0])

    def select(self, state: Drafts, layer: int, query: Query) -> Selection:
        """The prompt, the best of the complete blocks, and the newest token's own block."""
        complete = self._complete(query.end - state.first)
        k = share_of(self.keep, complete)
        if k == complete:
            return Selection()
        q = grouped(query.q_rotated, query.keys.shape[1])
        scores = state.scorer.scores(layer, complete, q).max(axis=2)  # [B, KV, complete]
        mask = np.ones((*scores.shape[:2], query.end), np.bool_)
        chosen = best(scores, k)[..., None].repeat(self.block_tokens, axis=-1)
        whole = slice(state.first, state.first + complete * self.block_tokens)
        mask[..., whole] = chosen.reshape(*scores.shape[:2], -1)
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

    def side_work(self, context: Ints, n_heads: int, n_kv_heads: int, head_dim: int) -> SideWork:
        """Scores of all blocks, the newest key, and the top-k."""
        blocks = context // self.block_tokens
        cost = self._cost(n_heads, n_kv_heads, head_dim)
        of_block = n_kv_heads * cost.head_bytes
        return SideWork(
            macs=blocks * n_heads * cost.score_macs + cost.token_macs,
            element_ops=cost.token_ops,
            bytes_read=blocks * of_block,
            bytes_written=-(-of_block // self.block_tokens),
            scan_cycles=blocks * n_heads,
        )

    def unit(self) -> SelectionUnit:
        """That of the scorer."""
        return self._cost(1, 1, 1).unit

    def side_bytes(self, context: Ints, n_kv_heads: int, head_dim: int) -> Ints:
        """Bytes that are kept of the blocks."""
        cost = self._cost(n_kv_heads, n_kv_heads, head_dim)
        nbytes: Ints = -(-context // self.block_tokens) * n_kv_heads * cost.head_bytes
        return nbytes

    def _cost(self, n_heads: int, n_kv_heads: int, head_dim: int) -> BlockCost:
        return SCORERS[self.scorer].cost(self, n_heads, n_kv_heads, head_dim)

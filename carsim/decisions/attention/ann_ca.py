"""AnnCA: keys of the prompt that the last frame's queries did not look for are left out.

Model (FAST-AR, arXiv 2602.01801, section on AnnCA; adapted). In the paper, cross-attention keeps
the prompt's tokens that share a bucket with at least one query of the frame. Here the prompt stands
in the cache as all else does, and a frame's queries come one by one: the queries of the frame
*before* decide, and the first frame reads everything. Buckets are those of random hyperplanes: a
signature has ``bits`` signs, and two vectors share a bucket if all bits of one of ``tables``
signatures agree. Queries and keys are hashed as attention multiplies them, after the rotary
embedding; each key head has the queries that it serves. The first ``sinks`` tokens of a row are
always read. Nothing is dropped from the cache: a frame later the key may be looked for again.

Its gain is capped by the prompt's share of what attention reads: 62 tokens of a mean context of
1,086.5 are 5.7 % of VILA-U's bytes of K and V for 8 frames of 256 tokens. Long prompts and short
videos are where it could pay.

Work of the machine, of one row in one layer: ``tables`` x ``bits`` products of a head's length for
every query head in each step, with an operation for each sign and one to mark each bucket.

In cross-attention of forwards, the paper's own setting, the queries of a forward decide for it.
Every head hashes all queries and marks their buckets; each token of the prompt is looked up, and
only those that were met are scored. ``density`` states their share, as it follows from data.

Simplifications: hashing the prompt's keys once, and looking them up once a frame, are left out (62
of either against 256 steps of hashing), as are buckets and signatures, which stay on chip.
"""

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from carsim.base.section import FieldError
from carsim.base.sizes import NonNegativeInt
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
    SideWork,
)


class Buckets:
    """State of one decoding; all of the prompt is read in the first frame.

    Args:
        cache: The cache.
        policy: Its fields.

    Attributes:
        cache: As given.
        planes: Normals of the hyperplanes, [tables, bits, hd].
        codes: Signatures of the prompt's keys, uint16[L, B, KV, P, tables].
        met: bool[L, B, KV, tables, 2^bits], buckets that queries of the frame under way fell into.
        read: bool[L, B, KV, P], keys of the prompt that are read.
    """

    def __init__(self, cache: CacheShape, policy: "AnnCa") -> None:
        self.cache = cache
        tables = policy.tables
        self.planes = search.hyperplanes(tables, policy.bits, cache.head_dim, policy.seed)
        heads = (cache.n_layers, cache.n_rows, cache.n_kv_heads)
        self.codes = np.zeros((*heads, cache.prompt_slots, tables), np.uint16)
        self.met = np.zeros((*heads, tables, 1 << policy.bits), np.bool_)
        self.read = np.ones((*heads, cache.prompt_slots), np.bool_)


class AnnCa(AttentionPolicy):
    """AnnCA: keys of the prompt that no query of the last frame looked for are left out."""

    label: ClassVar[str] = "AnnCA"
    paper: ClassVar[str] = "arXiv 2602.01801"
    records: ClassVar[bool] = True
    follows_reads: ClassVar[bool] = True  # its work is the same in every step

    masks_forwards: ClassVar[bool] = True
    later: ClassVar[frozenset[str]] = frozenset({"density"})
    forward_fields: ClassVar[frozenset[str]] = frozenset({"density"})

    kind: Literal["ann_ca"] = "ann_ca"
    bits: Annotated[int, Field(ge=0, le=12)] = Field(
        8, description="signs in a signature; 0: all keys share a bucket"
    )
    tables: search.Tables = 2
    sinks: NonNegativeInt = Field(4, description="first tokens, which are always read")
    seed: NonNegativeInt = Field(0, description="of the hyperplanes")
    density: search.Share | None = Field(
        None, description="cross-attention: share of the prompt that is scored; stated"
    )

    @classmethod
    def trivial(cls) -> "AnnCa":
        """One bucket."""
        return cls(bits=0)

    def begin(self, cache: CacheShape) -> Buckets:
        """All of the prompt is read in the first frame."""
        return Buckets(cache, self)

    def append(
        self, state: Buckets, layer: int, slots: slice, k: Array, k_rotated: Array, v: Array
    ) -> None:
        """Hash the prompt's keys."""
        if slots.start < state.cache.prompt_slots:
            state.codes[layer, :, :, slots] = search.signatures(k_rotated, state.planes)

    def select(self, state: Buckets, layer: int, query: Query) -> Selection:
        """Keys that are read of the prompt, and all after it; marks the query's buckets."""
        rows, kv_heads = state.codes.shape[1:3]
        q = search.grouped(query.q_rotated, kv_heads)
        codes = search.signatures(q, state.planes)  # [B, KV, g, tables]
        row, head, _, table = np.ogrid[tuple(slice(n) for n in codes.shape)]
        state.met[layer, row, head, table, codes] = True
        mask = np.ones((rows, kv_heads, query.end), np.bool_)
        mask[..., : state.cache.prompt_slots] = state.read[layer]
        return Selection(mask=mask)

    def end_of_frame(self, state: Buckets, layer: int, keys: Array, values: Array) -> None:
        """Look up which keys of the prompt the frame's queries met."""
        codes = state.codes[layer]
        met = state.met[layer]
        row, head, _, table = np.ogrid[tuple(slice(n) for n in codes.shape)]
        slots = np.arange(state.cache.prompt_slots)
        is_sink = slots < state.cache.padding[:, None] + self.sinks  # [B, P]
        state.read[layer] = met[row, head, table, codes].any(axis=-1) | is_sink[:, None]
        met[:] = False

    def reads(self, context: Ints) -> KvReads:
        """All, or with gaps in the prompt."""
        return KvReads(context, (context + 1) // 2)

    def reads_aligned(self, distance: int) -> bool:
        """Only the prompt is ever left out."""
        return True

    # Cross-attention of forwards: what the machine asks.

    def check_forwards(self, *, in_chunks: bool) -> None:
        """The share of the prompt that is met follows from data, so that it has to be stated."""
        if self.bits and self.density is None:
            problem = "is missing: how much of the prompt is met follows from the data"
            raise FieldError("density", problem, "state it; FAST-AR reports 0.331")

    def cross_keys(self, text: int) -> int:
        """The stated share of the prompt, and sinks."""
        if not self.bits or self.density is None:
            return text
        return max(min(text, self.sinks), int(search.share_of(self.density, text)))

    def cross_work(self, shape: ForwardShape, text: int) -> SideWork:
        """Hash all queries, mark their buckets, look up the prompt, and move what is met."""
        planes = self.tables * self.bits
        marks = shape.queries * shape.n_heads * (planes + self.tables)
        looked_up = text * shape.n_kv_heads * self.tables
        code_bytes = -(-planes // 8)
        return SideWork(
            macs=search.hash_macs(shape.n_heads, 0, shape.head_dim, planes) * shape.queries,
            element_ops=marks + looked_up,
            bytes_read=text * shape.n_kv_heads * code_bytes,
        )

    def side_work(self, context: Ints, n_heads: int, n_kv_heads: int, head_dim: int) -> SideWork:
        """Hash the query of every head."""
        if not self.bits:
            return SideWork()
        planes = self.tables * self.bits
        return SideWork(
            macs=search.hash_macs(n_heads, 0, head_dim, planes),
            element_ops=n_heads * (planes + self.tables),
        )

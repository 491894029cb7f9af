"""AnnSA: each query reads the keys that an approximate search finds for it, token by token.

After the sparse self-attention of FAST-AR (arXiv 2602.01801), which buckets queries and keys by
what they have in common with the prompt's. Here no cross-attention seeds buckets, so that they are
those of random hyperplanes. In each layer, row and key head, a query reads

* ``lsh``: the keys that share its signature in at least one of ``tables``;
* ``quantised``: the best ceil(keep * tokens) by their product with the query, all keys taken in
  ``key_bits`` an element;

and in any case ``sinks``, the first tokens of the row, and ``window``, the newest ones. So a query
whose buckets are empty falls back to those. Where several query heads share a key head, it reads
what any of them finds (``lsh``), or by the best of their scores (``quantised``). What is read is
read exactly: keys and values of the cache.

In forwards of diffusion, the paper's own setting, all queries search at once. ``lsh`` hashes the
queries and keys of the forward; signatures of earlier chunks are kept and read. Queries and keys
are sorted into buckets by counting. Q, K and V move so that buckets are contiguous, and the output
moves back. ``density`` states the share of the keys that a query scores. ``quantised`` multiplies
all queries with all keys in few bits, and takes the best ``keep`` of them by a threshold, an
element operation for each score; ``key_bits: 32`` is the exact search. ``sinks`` and ``window``
mean nothing there. Simplifications: codes are read once in each forward; products in few bits take
as long as whole ones.

Model of the machine: each step reads the signatures, or the keys in few bits, of the whole context.
Signatures are compared in the unit of :mod:`carsim.decisions.attention.search`, 16 keys a cycle and
query head; products with keys of few bits run on the array, and their scores enter the sorter, one
a cycle.
"""

from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from carsim.base.section import FieldError
from carsim.base.sizes import NonNegativeInt, PositiveInt
from carsim.decisions.attention import search as searching
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

USED_BY = dict.fromkeys(("tables", "bits", "seed", "density"), "lsh")
USED_BY |= dict.fromkeys(("keep", "key_bits"), "quantised")
"""Fields that only one search uses."""


SORT_OPS = 2
"""Per signature that is sorted into buckets: counted, and placed."""


class Ann(AttentionPolicy):
    """AnnSA: the keys that an approximate search finds for each query."""

    label: ClassVar[str] = "nearest-key attention"
    paper: ClassVar[str] = "arXiv 2602.01801"
    mode: ClassVar[str] = "search"
    records: ClassVar[bool] = True
    masks_forwards: ClassVar[bool] = True
    later: ClassVar[frozenset[str]] = frozenset({"density"})
    forward_fields: ClassVar[frozenset[str]] = frozenset({"density"})

    kind: Literal["ann"] = "ann"
    search: Literal["lsh", "quantised"] = Field(
        "lsh", description="by signatures, or by products with keys in few bits"
    )
    tables: searching.Tables = 4
    bits: Annotated[int, Field(ge=0, le=searching.MOST_BITS)] = Field(
        6, description="with search lsh: bits of a signature"
    )
    seed: NonNegativeInt = Field(0, description="with search lsh: of the hyperplanes")
    keep: searching.Share = Field(0.25, description="share of the tokens between sinks and window")
    key_bits: searching.KeyBits = Field(
        4, description=f"per element of a key that is searched; {searching.EXACT_BITS}: as it is"
    )
    sinks: NonNegativeInt = Field(4, description="first tokens that are always read")
    window: PositiveInt = Field(16, description="newest tokens that are always read")
    density: searching.Share | None = Field(
        None, description="forwards, with search lsh: share of the keys that a query scores; stated"
    )

    @classmethod
    def trivial(cls) -> "Ann":
        """Signatures without a bit are all alike."""
        return cls(bits=0)

    @property
    def used(self) -> dict[str, Any]:
        """The fields without those of the other search."""
        return {
            name: value
            for name, value in super().used.items()
            if USED_BY.get(name, self.search) == self.search
        }

    # What the decoder asks.

    def begin(self, cache: CacheShape) -> Any:
        """Signatures of all keys, [L, B, KV, tables, slots], or their few bits, [.., hd, slots]."""
        heads = (cache.n_layers, cache.n_rows, cache.n_kv_heads)
        if self.search == "lsh":
            return np.zeros((*heads, self.tables, cache.n_slots), np.uint16)
        return np.zeros((*heads, cache.head_dim, cache.n_slots), cache.dtype)

    def append(
        self, state: Any, layer: int, slots: slice, k: Array, k_rotated: Array, v: Array
    ) -> None:
        """Keep the signatures of new keys, or their few bits."""
        if self.search == "lsh":
            searched: Any = searching.signatures(k_rotated, self._planes(k.shape[-1]))
        else:
            searched = searching.few_bits(k_rotated, self.key_bits)
        state[layer, ..., slots] = searched.swapaxes(-1, -2)

    def select(self, state: Any, layer: int, query: Query) -> Selection:
        """Sinks, what is found between them and the window, and the window."""
        end = query.end
        slots = np.arange(end)
        position = slots - query.padding[:, None]  # [B, end]; below 0: padding
        forced = (position < self.sinks) | (slots >= end - self.window)
        q = searching.grouped(query.q_rotated, query.keys.shape[1])  # [B, KV, g, hd]
        keys = state[layer, ..., :end]
        if self.search == "lsh":
            # Codes of queries are [B, KV, g, t].
            codes = searching.signatures(q, self._planes(q.shape[-1]))
            is_met = keys[:, :, None] == codes[..., None]
            return Selection(mask=is_met.any(axis=(2, 3)) | forced[:, None])
        scores = (q @ keys).max(axis=2)  # [B, KV, end]
        np.copyto(scores, -np.inf, where=(forced | (position < 0))[:, None])
        count = self._kept(end - query.padding)[:, None]  # [B, 1]
        return Selection(mask=searching.best(scores, count) | forced[:, None])

    def _planes(self, head_dim: int) -> Any:
        return searching.hyperplanes(self.tables, self.bits, head_dim, self.seed)

    def _kept(self, context: Any) -> Any:
        """Tokens that ``quantised`` reads besides sinks and window."""
        return searching.share_of(self.keep, context - self._forced(context))

    def _forced(self, context: Any) -> Any:
        """Tokens that are read in any case."""
        return np.minimum(context, self.sinks + self.window)

    # What the machine and a trace ask.

    def reads(self, context: Ints) -> KvReads:
        """All keys may share a bucket, or every other one; of few bits, a share is read."""
        if self.search == "lsh":
            return KvReads(context, (context - self._forced(context) + 2 + (self.sinks > 0)) // 2)
        chosen = self._kept(context)
        tokens = self._forced(context) + chosen
        pieces = chosen + 1 + (self.sinks > 0)  # sinks and window form two runs at most
        return KvReads(tokens, searching.most_runs(pieces, context - tokens))

    def side_work(self, context: Ints, n_heads: int, n_kv_heads: int, head_dim: int) -> SideWork:
        """The search over the whole context, and what is kept of the newest key."""
        key_bytes = n_kv_heads * self._key_bytes(head_dim)
        if self.search == "lsh":
            rounds = -(-context // searching.BANK_TOKENS)
            return SideWork(
                macs=searching.hash_macs(n_heads, n_kv_heads, head_dim, self.tables * self.bits),
                bytes_read=context * key_bytes,
                bytes_written=key_bytes,
                scan_cycles=rounds * n_heads,
            )
        scores = context * n_heads
        return SideWork(
            macs=scores * head_dim,
            element_ops=n_kv_heads * head_dim,
            bytes_read=context * key_bytes,
            bytes_written=key_bytes,
            scan_cycles=scores,
        )

    # Forwards: what the machine asks.

    def check_forwards(self, *, in_chunks: bool) -> None:
        """The share that a bucket holds follows from data, so that it has to be stated."""
        if self.search == "lsh" and self.bits and self.density is None:
            problem = "is missing: how many keys share a bucket follows from the data"
            raise FieldError("density", problem, "state it; FAST-AR reports 0.276")

    def forward_keys(self, queries: int, keys: Ints, share_done: Array) -> Ints:
        """The stated share of the keys, or the best of them."""
        if self.search == "lsh":
            share = 1.0 if self.density is None else self.density
        else:
            share = self.keep
        return np.asarray(searching.share_of(share, keys))

    def forward_work(self, shape: ForwardShape, keys: Ints) -> SideWork:
        """Buckets of all queries and keys, or all their products in few bits."""
        n = shape.queries
        heads = shape.n_heads
        kv_heads = shape.n_kv_heads
        code_bytes = kv_heads * self._key_bytes(shape.head_dim)
        if self.search == "lsh":
            signs = n * (heads + kv_heads) * self.tables * self.bits
            sorted_codes = self.tables * (n * heads + keys * kv_heads)
            moved_elements = 2 * (n * shape.width + keys * shape.kv_size)
            return SideWork(
                macs=signs * shape.head_dim,
                element_ops=signs + SORT_OPS * sorted_codes,
                bytes_read=keys * code_bytes,
                bytes_written=n * code_bytes,
                activation_elements=2 * moved_elements,
            )
        scores = n * keys * heads
        return SideWork(
            macs=scores * shape.head_dim,
            element_ops=scores + n * shape.kv_size,
            bytes_read=keys * code_bytes,
            bytes_written=n * code_bytes,
        )

    def forward_side_bytes(self, shape: ForwardShape, keys: Ints) -> Ints:
        """Signatures, or keys in few bits."""
        return np.asarray(keys * shape.n_kv_heads * self._key_bytes(shape.head_dim))

    def unit(self) -> SelectionUnit:
        """A bank of gates and a list, or a sorter."""
        is_lsh = self.search == "lsh"
        return searching.bank(self.tables * self.bits) if is_lsh else searching.sorter()

    def side_bytes(self, context: Ints, n_kv_heads: int, head_dim: int) -> Ints:
        """Signatures, or keys in few bits."""
        return context * n_kv_heads * self._key_bytes(head_dim)

    def _key_bytes(self, head_dim: int) -> int:
        """Bytes that are kept of one key of one head."""
        if self.search == "lsh":
            return -(-self.tables * self.bits // 8)
        return searching.vector_bytes(head_dim, self.key_bits)

"""TempCache: keys of earlier frames that are nearly alike are kept once.

Model (FAST-AR, arXiv 2602.01801, section on TempCache; adapted). When a frame has been decoded, the
frame before it *ages*: each of its keys looks, in its own layer, row and key head, for the most
similar key of still earlier frames, and joins that key's group if the similarity is at least
``theta``. A group of m keys is held as one: as the rotated key of its newest member, the mean of
the members' values, and m. Attention adds log m to the group's score, as if the m keys were there;
that is exact for keys that are equal where attention reads them, after the rotary embedding (lemma
5.1 of the paper). The prompt is never merged. The newest frame is not merged either: rules of
replay read the key of the same place one frame ago.

Similarity is the cosine of keys as they were before the rotary embedding, which pushes equal keys
of different places apart. Nothing is kept for it: the cached key is turned back. The new
representative stands where and as it was rotated, so that there is nothing to rotate again.

Search: ``aligned`` looks at the same place of the frame before, so that a group is one place that
stays alike. ``window3x3`` looks at the 3 x 3 places around it, ``full`` at all representatives of
earlier frames (the paper's aim; it finds them approximately). Every key takes the nearest, whoever
else takes it; the first of equals wins. Keys of one frame are no candidates for each other. Under
``aligned`` and ``window3x3``, a key that found no successor is never looked at again.

Work of the machine, of one row in one layer, for N tokens a frame, G keys held and kv elements of a
key of all key heads. In each step: log m from a table, and its sum with the score, is an element
operation per score; m has 16 bits. After each frame:

* similarities: N (``aligned``), 9 N or N G (``full``) times kv products, and N kv for lengths; a
  comparison for each, per key head;
* turning back: 3 operations an element (a product, and one with a sum) of the 2 N keys of two
  frames, or of N + G (``full``), which are read for it. Lengths of representatives are kept, 16
  bits each;
* means: 3 operations an element of N values (difference, product with 1 / m, sum), and N divisions
  per key head;
* compaction: all G keys and values, and their 16 bits of m and of length, are read and written
  once, in sequence. After it the cache is one run.

In videos in chunks (auto-regressive diffusion, the paper's own setting), a chunk stands for the
frame. While the next chunk is denoised, its clean keys look for representatives among those of all
earlier chunks, and compaction follows; that work is spread evenly over the forwards of the next
chunk. How many tokens stay follows from data: ``density`` states it, and the reference decoder
measures it on a small network (:mod:`carsim.decoder.chunked.thin`). ``match`` says by what keys
are compared:

* ``exact``: by whole keys, before the rotary embedding, as above;
* ``quantised``: by ``match_bits`` an element, which are kept beside the cache;
* ``lsh``: by signatures of ``match_bits`` signs, 16 of which are compared in a cycle.

``representative: mean`` takes 3 operations an element more, and ``medoid`` 7: it compares the
newcomer and the old key with the running mean of the group.

Simplifications: the work of a frame is spread evenly over its N steps and hides where a step has
room, as if each step merged one key; first frames, which have nothing to merge, are charged as all
others; G is taken as the keys read in the step, which include up to two frames of unmerged ones.
Logic is not charged to the board: per core a divider of 16 bits, a table of logarithms (1024 x 16
bits, half a BRAM36), a comparator, and for ``full`` a buffer of one head's aged keys (N x head size
x 16 bits: 64 KiB for 256 x 128).
"""

from math import isqrt
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from carsim.base.errors import InputError
from carsim.base.section import FieldError
from carsim.base.sizes import NonNegativeFloat
from carsim.decisions.attention import search as searching
from carsim.decisions.attention.base import (
    Array,
    AttentionPolicy,
    Bools,
    CacheShape,
    ForwardShape,
    Ints,
    Query,
    Selection,
    SideWork,
)

COUNT_BYTES = LENGTH_BYTES = 2
"""Of the number of members of a group, and of the length of its key."""

MERGING = frozenset({"density", "representative", "match", "match_bits"})
"""Fields of chunks alone."""

TURN_OPS = 3
"""Per element of a key that is turned back: a product, and one with a sum."""

MEAN_OPS = 3
"""Per element of a running mean: difference, product with 1 / m, sum."""

DISTANCE_OPS = 2
"""Per element of a distance: difference; its square, accumulated."""

MOST_MEMBERS = 2 ** (8 * COUNT_BYTES) - 1


class Groups:
    """Groups of one decoding; a slot of the cache stands for the group whose newest member it has.

    Beside the 8 hd bytes a token and key head of a cache in single precision, it takes 6: 3 % for
    a head size of 24. For 64 frames of 256 tokens in 32 layers of 4 key heads, that is 13 MB a row.

    Args:
        cache: The cache, in which every token is a group of its own.

    Attributes:
        cache: As given.
        members: uint16[L, B, KV, slots], members of each group; 0 where the token has merged into a
            newer one.
        bias: Their log, [L, B, KV, slots].
        merged: bool[L], layers in which anything has merged.
        cos: Cosines of the rotary embedding by position, [slots, hd / 2].
        sin: Sines.
    """

    def __init__(self, cache: CacheShape) -> None:
        self.cache = cache
        shape = (cache.n_layers, cache.n_rows, cache.n_kv_heads, cache.n_slots)
        self.members = np.ones(shape, np.uint16)
        self.bias = np.zeros(shape, cache.dtype)
        self.merged = np.zeros(cache.n_layers, bool)
        turns = cache.rope_theta ** -(np.arange(0, cache.head_dim, 2) / cache.head_dim)
        angles = np.arange(cache.n_slots)[:, None] * turns
        self.cos = np.cos(angles).astype(cache.dtype)
        self.sin = np.sin(angles).astype(cache.dtype)

    def directions(self, keys: Array, positions: Ints) -> Array:
        """Keys as before the rotary embedding (halves of a head are pairs), of length 1.

        Args:
            keys: Rotated keys, [.., n, hd].
            positions: Of each, broadcast to [.., n].
        """
        first, second = np.split(keys, 2, axis=-1)
        cos = self.cos[positions]
        sin = self.sin[positions]
        plain = np.concatenate([first * cos + second * sin, second * cos - first * sin], axis=-1)
        length = np.sqrt(np.einsum("...d,...d->...", plain, plain))[..., None]
        return plain / np.maximum(length, np.finfo(plain.dtype).tiny)

    def join(self, layer: int, values: Array, first: int, joined: Ints) -> None:
        """Merge tokens into groups, and move these to their newest member.

        Args:
            layer: Layer.
            values: Cached values, [B, KV, end, hd]; those of changed groups become means.
            first: Slot of the first of the n tokens.
            joined: int[B, KV, n], slot of the group that each joins; -1: none.
        """
        members = self.members[layer]
        bias = self.bias[layer]
        # Tokens that merge, one after the other: row, key head, slot, and slot of the group.
        row, head, token = np.nonzero(joined >= 0)
        if not len(row):
            return
        self.merged[layer] = True
        slot = first + token
        group = joined[row, head, token]
        # Groups that grow, and the group of each token among them.
        codes = np.ravel_multi_index((row, head, group), members.shape)
        _, one_token, group_of = np.unique(codes, return_index=True, return_inverse=True)
        group_row = row[one_token]
        group_head = head[one_token]
        old_slot = group[one_token]
        newest_slot = np.zeros(len(one_token), np.intp)
        np.maximum.at(newest_slot, group_of, slot)
        count_before = members[group_row, group_head, old_slot].astype(np.intp)
        count = count_before + np.bincount(group_of)
        mean_before = values[group_row, group_head, old_slot]
        total = mean_before * count_before[:, None].astype(values.dtype)
        np.add.at(total, group_of, values[row, head, slot])
        # Of all slots of a group, the newest stands for it.
        members[row, head, slot] = 0
        members[group_row, group_head, old_slot] = 0
        members[group_row, group_head, newest_slot] = count
        bias[group_row, group_head, newest_slot] = np.log(count)
        mean = total / count[:, None].astype(values.dtype)
        values[group_row, group_head, newest_slot] = mean


class TempCache(AttentionPolicy):
    """TempCache: keys of earlier frames that are nearly alike are merged."""

    label: ClassVar[str] = "TempCache"
    paper: ClassVar[str] = "arXiv 2602.01801"
    records: ClassVar[bool] = True
    follows_reads: ClassVar[bool] = True

    masks_forwards: ClassVar[bool] = True
    later: ClassVar[frozenset[str]] = MERGING
    forward_fields: ClassVar[frozenset[str]] = MERGING

    kind: Literal["temp_cache"] = "temp_cache"
    theta: NonNegativeFloat = Field(
        0.9, description="least cosine of keys that are merged; beyond 1, none are"
    )
    search: Literal["aligned", "window3x3", "full"] = Field(
        "aligned",
        description="where to look for a like key: in the same place of the frame before, in the "
        "3 x 3 places around it, or among all keys of earlier frames",
    )
    density: searching.Share | None = Field(
        None, description="chunks: share of the tokens of earlier chunks that stay; stated"
    )
    representative: Literal["latest", "mean", "medoid"] = Field(
        "latest", description="chunks: the key that stands for a group; its value is the mean"
    )
    match: Literal["exact", "quantised", "lsh"] = Field(
        "exact", description="chunks: search by whole keys, by few bits of them, or by signatures"
    )
    match_bits: searching.KeyBits = Field(
        8, description="chunks: bits of an element of a quantised key, or of a signature"
    )

    @classmethod
    def trivial(cls) -> "TempCache":
        """A similarity that no key reaches."""
        return cls(theta=2.0)

    @property
    def merges(self) -> bool:
        """A cosine can reach ``theta``."""
        return self.theta <= 1

    def begin(self, cache: CacheShape) -> Groups:
        """Every token by itself."""
        per_frame = cache.tokens_per_frame
        if cache.n_slots > MOST_MEMBERS:
            problem = f"{cache.n_slots:,} tokens are more than a count of 16 bits holds"
            cure = f"decode at most {MOST_MEMBERS:,} tokens, prompt included"
            raise InputError(f"attention {self.kind}", problem, cure)
        if self.search == "window3x3" and isqrt(per_frame) ** 2 != per_frame:
            problem = f"{self.search!r} needs square frames, got {per_frame} tokens a frame"
            raise InputError("attention temp_cache: search", problem, "take 'aligned' or 'full'")
        return Groups(cache)

    def select(self, state: Groups, layer: int, query: Query) -> Selection:
        """Everything that is held, with log m added."""
        if not state.merged[layer]:
            return Selection()
        members = state.members[layer, :, :, : query.end]
        return Selection(bias=state.bias[layer, :, :, : query.end], stored=members > 0)

    def end_of_frame(self, state: Groups, layer: int, keys: Array, values: Array) -> Ints | None:
        """Merge the frame before the newest one into earlier ones."""
        end = keys.shape[2]
        aged = end - 2 * state.cache.tokens_per_frame  # its first slot
        if not self.merges or aged <= state.cache.prompt_slots:
            return None
        nearest, similarity = self._nearest(state, layer, keys, aged)
        state.join(layer, values, aged, np.where(similarity >= self.theta, nearest, -1))
        groups = np.count_nonzero(state.members[layer, :, :, :end], axis=-1)  # [B, KV]
        return np.asarray(groups.max(axis=1) - state.cache.padding)

    def _nearest(
        self, state: Groups, layer: int, keys: Array, aged: int
    ) -> tuple[Ints, Array]:  # [B, KV, N] each
        """The most similar representative that may be looked at: its slot and cosine.

        Row by row and head by head, as each has representatives of its own; the largest array is
        [N, G].
        """
        per_frame = state.cache.tokens_per_frame
        near = self._near(per_frame)
        first = state.cache.prompt_slots if near is None else aged - per_frame
        aged_slots = np.arange(aged, aged + per_frame)
        nearest = np.empty((*keys.shape[:2], per_frame), np.intp)
        best = np.empty(nearest.shape, keys.dtype)
        for row, head in np.ndindex(keys.shape[:2]):
            head_keys = keys[row, head]
            padding = state.cache.padding[row]
            groups = first + np.flatnonzero(state.members[layer, row, head, first:aged])
            representatives = state.directions(head_keys[groups], groups - padding)
            aged_keys = state.directions(head_keys[aged_slots], aged_slots - padding)
            cosine = aged_keys @ representatives.T  # [N, G]
            if near is not None:
                cosine[~near[:, groups - first]] = -np.inf
            index = cosine.argmax(axis=1)
            nearest[row, head] = groups[index]
            best[row, head] = np.take_along_axis(cosine, index[:, None], axis=1)[:, 0]
        return nearest, best

    def _near(self, per_frame: int) -> Bools | None:
        """Which places of the frame before each place looks at, bool[N, N]; None: all frames."""
        if self.search == "full":
            return None
        if self.search == "aligned":
            return np.eye(per_frame, dtype=np.bool_)
        y, x = np.divmod(np.arange(per_frame), isqrt(per_frame))
        near_in_y = abs(y[:, None] - y) <= 1
        near_in_x = abs(x[:, None] - x) <= 1
        near: Bools = near_in_y & near_in_x
        return near

    @property
    def reads_all_held(self) -> bool:
        """Every step reads the key of each group."""
        return True

    def reads_aligned(self, distance: int) -> bool:
        """Rules look back a frame at most, and so much is never merged."""
        return True

    def side_work(self, reads: Ints, n_heads: int, n_kv_heads: int, head_dim: int) -> SideWork:
        """Log m is added to every score."""
        if not self.merges:
            return SideWork()
        return SideWork(element_ops=reads * n_heads, bytes_read=reads * n_kv_heads * COUNT_BYTES)

    def frame_work(
        self, reads: Ints, tokens_per_frame: int, n_kv_heads: int, head_dim: int
    ) -> SideWork:
        """Search, means and compaction."""
        if not self.merges:
            return SideWork()
        kv = n_kv_heads * head_dim
        candidates: dict[str, Ints | int] = {"aligned": 1, "window3x3": 9, "full": reads}
        compared = tokens_per_frame * candidates[self.search]
        turned_back: Ints | int = 2 * tokens_per_frame
        if self.search == "full":
            turned_back = tokens_per_frame + reads
        mean_ops = tokens_per_frame * (3 * kv + n_kv_heads)
        side_bytes = reads * n_kv_heads * (COUNT_BYTES + LENGTH_BYTES)
        return SideWork(
            macs=(compared + tokens_per_frame) * kv,
            element_ops=3 * turned_back * kv + compared * n_kv_heads + mean_ops,
            bytes_read=side_bytes,
            bytes_written=side_bytes,
            kv_elements=turned_back * kv + 2 * (2 * reads * kv),
        )

    # Chunks: what the machine asks.

    def check_forwards(self, *, in_chunks: bool) -> None:
        """The share that stays follows from data, so that it has to be stated."""
        if not in_chunks:
            problem = f"{self.kind!r} merges keys of earlier chunks, and the sample is made at once"
            raise FieldError("kind", problem, "take 'ann', or a workload chunks:MODEL")
        if self.merges and self.density is None:
            problem = "is missing: how many tokens of earlier chunks stay follows from the data"
            raise FieldError("density", problem, "state it; FAST-AR reports 0.168")

    def forward_keys(self, queries: int, keys: Ints, share_done: Array) -> Ints:
        """Keys of the chunk, and representatives of earlier ones."""
        return self.forward_held(queries, keys)

    def forward_held(self, queries: int, keys: Ints) -> Ints:
        """The chunk, and the stated share of the tokens of earlier ones."""
        if not self.merges or self.density is None:
            return keys
        earlier = np.asarray(keys) - queries
        return np.asarray(queries + searching.share_of(self.density, earlier))

    def forward_work(self, shape: ForwardShape, keys: Ints) -> SideWork:
        """Log m on every score, and a forward's part of what a chunk merges."""
        if not self.merges:
            return SideWork()
        groups = self.forward_held(shape.queries, keys) - shape.queries
        search = self._search(shape, groups)
        forwards = shape.forwards
        has_merged = (groups > 0).astype(np.int64)

        def of_forward(figure: Ints | int) -> Ints | int:
            return -(-np.asarray(figure) * has_merged // forwards)

        of_counts = groups * shape.n_kv_heads * (COUNT_BYTES + LENGTH_BYTES)
        means = shape.queries * (MEAN_OPS * shape.kv_size + shape.n_kv_heads)
        means += self._representing(shape)
        biases = shape.queries * groups * shape.n_heads
        compacted = 2 * (2 * groups * shape.kv_size)
        return SideWork(
            macs=of_forward(search.macs),
            element_ops=biases + of_forward(search.element_ops + means),
            bytes_read=groups * shape.n_kv_heads * COUNT_BYTES
            + of_forward(search.bytes_read + of_counts),
            bytes_written=of_forward(search.bytes_written + of_counts),
            scan_cycles=of_forward(search.scan_cycles),
            kv_elements=of_forward(compacted + search.kv_elements),
        )

    def forward_side_bytes(self, shape: ForwardShape, keys: Ints) -> Ints:
        """Members and lengths, and what is searched."""
        groups = self.forward_held(shape.queries, keys) - shape.queries
        code_bytes = 0 if self.match == "exact" else self._code_bytes(shape.head_dim)
        of_group = shape.n_kv_heads * (COUNT_BYTES + LENGTH_BYTES + code_bytes)
        return np.asarray(groups * of_group * self.merges)

    def _candidates(self, groups: Ints) -> Ints:
        """Representatives that a key is compared with."""
        if self.search == "full":
            return groups
        return np.minimum(groups, 9 if self.search == "window3x3" else 1)

    def _search(self, shape: ForwardShape, groups: Ints) -> SideWork:
        """The search of all keys of a chunk, before the rotary embedding, among representatives."""
        n = shape.queries
        heads = shape.n_kv_heads
        compared = n * self._candidates(groups) * heads
        looked_at = groups if self.search == "full" else np.minimum(groups, n)
        turned = (n + looked_at) * shape.kv_size
        turning_ops = TURN_OPS * turned
        if self.match == "lsh":
            signs = n * heads * self.match_bits
            rounds = -(-compared // searching.BANK_TOKENS)
            code_bytes = heads * self._code_bytes(shape.head_dim)
            return SideWork(
                macs=signs * shape.head_dim,
                element_ops=TURN_OPS * n * shape.kv_size + signs,
                bytes_read=looked_at * code_bytes,
                bytes_written=n * code_bytes,
                scan_cycles=rounds,
                kv_elements=n * shape.kv_size,
            )
        if self.match == "quantised":
            code_bytes = heads * self._code_bytes(shape.head_dim)
            rounding_ops = n * shape.kv_size
            return SideWork(
                macs=compared * shape.head_dim,
                element_ops=TURN_OPS * n * shape.kv_size + rounding_ops + compared,
                bytes_read=looked_at * code_bytes,
                bytes_written=n * code_bytes,
                kv_elements=n * shape.kv_size,
            )
        lengths = n * shape.kv_size
        return SideWork(
            macs=compared * shape.head_dim + lengths,
            element_ops=turning_ops + compared,
            kv_elements=turned,
        )

    def _representing(self, shape: ForwardShape) -> int:
        """Element operations that make the keys that stand for groups, of a chunk."""
        if self.representative == "latest":
            return 0
        if self.representative == "mean":
            return shape.queries * (MEAN_OPS * shape.kv_size + shape.n_kv_heads)
        # The newcomer and the old representative, each against the running mean of the group.
        compared = shape.queries * 2 * DISTANCE_OPS * shape.kv_size
        return compared + shape.queries * MEAN_OPS * shape.kv_size

    def _code_bytes(self, head_dim: int) -> int:
        """Bytes of what is searched of a key of one head."""
        if self.match == "lsh":
            return -(-self.match_bits // 8)
        return searching.vector_bytes(head_dim, self.match_bits)

    def side_bytes(self, held: Ints, n_kv_heads: int, head_dim: int) -> Ints:
        """Members and lengths."""
        return held * n_kv_heads * (COUNT_BYTES + LENGTH_BYTES) * self.merges

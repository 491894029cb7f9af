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
from carsim.base.sizes import NonNegativeFloat
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

COUNT_BYTES = LENGTH_BYTES = 2
"""Of the number of members of a group, and of the length of its key."""

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
        shape = cache.n_layers, cache.n_rows, cache.n_kv_heads, cache.n_slots
        self.members, self.bias = np.ones(shape, np.uint16), np.zeros(shape, cache.dtype)
        self.merged = np.zeros(cache.n_layers, bool)
        turns = cache.rope_theta ** -(np.arange(0, cache.head_dim, 2) / cache.head_dim)
        angles = np.arange(cache.n_slots)[:, None] * turns
        self.cos, self.sin = (each(angles).astype(cache.dtype) for each in (np.cos, np.sin))

    def directions(self, keys: Array, positions: Ints) -> Array:
        """Keys as before the rotary embedding (halves of a head are pairs), of length 1.

        Args:
            keys: Rotated keys, [.., n, hd].
            positions: Of each, broadcast to [.., n].
        """
        first, second = np.split(keys, 2, axis=-1)
        cos, sin = self.cos[positions], self.sin[positions]
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
        members, bias = self.members[layer], self.bias[layer]
        row, head, token = np.nonzero(joined >= 0)
        if not len(row):
            return
        self.merged[layer] = True
        group, slot = joined[row, head, token], first + token
        place = np.ravel_multi_index((row, head, group), members.shape)
        _, example, index = np.unique(place, return_index=True, return_inverse=True)
        newest = np.zeros(len(example), np.intp)
        np.maximum.at(newest, index, slot)
        row_of, head_of, old = row[example], head[example], group[example]
        before = members[row_of, head_of, old].astype(np.intp)
        count = before + np.bincount(index)
        total = values[row_of, head_of, old] * before[:, None].astype(values.dtype)
        np.add.at(total, index, values[row, head, slot])
        members[row, head, slot] = members[row_of, head_of, old] = 0
        members[row_of, head_of, newest] = count
        bias[row_of, head_of, newest] = np.log(count)
        values[row_of, head_of, newest] = total / count[:, None].astype(values.dtype)


class TempCache(AttentionPolicy):
    """TempCache: keys of earlier frames that are nearly alike are merged."""

    label: ClassVar[str] = "TempCache"
    paper: ClassVar[str] = "arXiv 2602.01801"
    records: ClassVar[bool] = True
    follows_reads: ClassVar[bool] = True

    kind: Literal["temp_cache"] = "temp_cache"
    theta: NonNegativeFloat = Field(
        0.9, description="least cosine of keys that are merged; beyond 1, none are"
    )
    search: Literal["aligned", "window3x3", "full"] = Field(
        "aligned",
        description="where to look for a like key: in the same place of the frame before, in the "
        "3 x 3 places around it, or among all keys of earlier frames",
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
        end, per_frame = keys.shape[2], state.cache.tokens_per_frame
        aged = end - 2 * per_frame  # its first slot
        if not self.merges or aged <= state.cache.prompt_slots:
            return None
        nearest, similarity = self._nearest(state, layer, keys, aged)
        state.join(layer, values, aged, np.where(similarity >= self.theta, nearest, -1))
        held = np.count_nonzero(state.members[layer, :, :, :end], axis=-1).max(axis=1)
        return np.asarray(held - state.cache.padding)

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
        own = np.arange(aged, aged + per_frame)
        nearest = np.empty((*keys.shape[:2], per_frame), np.intp)
        best = np.empty(nearest.shape, keys.dtype)
        for row, head in np.ndindex(keys.shape[:2]):
            of_head, padding = keys[row, head], state.cache.padding[row]
            held = first + np.flatnonzero(state.members[layer, row, head, first:aged])
            old = state.directions(of_head[held], held - padding)
            cosine = state.directions(of_head[own], own - padding) @ old.T  # [N, G]
            if near is not None:
                cosine[~near[:, held - first]] = -np.inf
            index = cosine.argmax(axis=1)
            nearest[row, head] = held[index]
            best[row, head] = np.take_along_axis(cosine, index[:, None], axis=1)[:, 0]
        return nearest, best

    def _near(self, per_frame: int) -> Bools | None:
        """Which places of the frame before each place looks at, bool[N, N]; None: all frames."""
        if self.search == "full":
            return None
        reach, side = (1, isqrt(per_frame)) if self.search == "window3x3" else (0, 1)
        places = np.divmod(np.arange(per_frame), side)
        y, x = (abs(place[:, None] - place) <= reach for place in places)
        return y & x

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
        kv, full = n_kv_heads * head_dim, self.search == "full"
        candidates: Ints | int = reads if full else 9 if self.search == "window3x3" else 1
        compared = tokens_per_frame * candidates
        turned = tokens_per_frame + (reads if full else tokens_per_frame)
        means = tokens_per_frame * (3 * kv + n_kv_heads)
        own_bytes = reads * n_kv_heads * (COUNT_BYTES + LENGTH_BYTES)
        return SideWork(
            macs=(compared + tokens_per_frame) * kv,
            element_ops=3 * turned * kv + compared * n_kv_heads + means,
            bytes_read=own_bytes,
            bytes_written=own_bytes,
            kv_elements=turned * kv + 2 * (2 * reads * kv),
        )

    def side_bytes(self, held: Ints, n_kv_heads: int, head_dim: int) -> Ints:
        """Members and lengths."""
        return held * n_kv_heads * (COUNT_BYTES + LENGTH_BYTES) * self.merges

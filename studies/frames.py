"""Attention policies on whole frames: the kinds of carsim.decisions.attention, all tokens at once.

Model: that of ``carsim.decoder.decode`` under teacher forcing, with the policies' own states. Where
tokens are given, all queries of a frame are known in a layer before anything of the frame is
decoded above it; what a query may see is masked. Tests hold losses and counts of every kind to the
step-by-step decoder. Beside what is read, the share of dense attention's mass on it is kept
(recall): of each query head's softmax over all cached keys, the sum over the keys that are read.

*Chance* is the floor of a policy: as many keys (``ann``, ``streaming``, ``temp_cache``), blocks
(``draft``) or keys of the prompt (``ann_ca``) as the policy chooses for a query, drawn at random;
what it reads in any case stays: sinks, and the newest token. Keys that ``temp_cache`` merged stand
for themselves alone there.
"""

from typing import Any, ClassVar

import numpy as np

from carsim.decisions.attention.base import Bools, Ints
from carsim.decisions.attention.search import best, share_of, signatures
from carsim.decoder.structures import Array, Config

_BLOCK = 64  # queries at a time, so that what is computed of them stays near the processor


class Reader:
    """One row under a policy: attention of whole frames, and what it has read.

    An instance is the ``attention`` of :meth:`studies.whole.Decoder.decode`, for one
    decoding.

    Args:
        policy: The policy.
        config: Shapes and arithmetic.
        prompt: P, tokens of the row's prompt.
        chance: Seed of a floor; None is the policy itself.

    Attributes:
        tokens: int32[S, L, KV], keys that were read.
        runs: int32[S, L, KV], runs of the cache in which they lay.
        held: int32[T, L], tokens held after each frame, of the head with most.
        mass: [S, L], share of dense attention's mass on the keys read, mean over query heads.
    """

    has_floor: ClassVar[bool] = True

    def __init__(self, policy: Any, config: Config, prompt: int, chance: int | None = None) -> None:
        shape, self.policy, self.prompt = config.geometry, policy, prompt
        self._n, self._steps = config.tokens_per_frame, config.n_steps
        heads = self._steps, shape.n_layers, shape.n_kv_heads
        self.tokens, self.runs = np.zeros(heads, np.int32), np.zeros(heads, np.int32)
        self.held = np.zeros((config.n_frames, shape.n_layers), np.int32)
        self.mass = np.zeros(heads[:2], np.float32)
        self._padding = np.zeros(1, np.int64)
        self._random = None if chance is None else np.random.default_rng([chance, prompt])
        self.state = policy.begin(config.cache_shape(prompt, self._padding))

    def __call__(self, layer: int, q: Array, keys: Array, values: Array) -> Array:
        """Attention of the newest positions, as :data:`studies.whole.Attend` has it."""
        n, end = len(q), len(keys)
        k, v = (each.swapaxes(0, 1)[None] for each in (keys, values))  # [1, KV, end, hd], views
        begin = end - n
        if begin < self.prompt:  # frame 0 brings the prompt
            self._append(layer, slice(begin, self.prompt), k, v)
            begin = self.prompt
        self._append(layer, slice(begin, end), k, v)
        queries = _by_head(q, k.shape[1])
        out = np.empty_like(queries)
        k, v = (np.ascontiguousarray(each[0]) for each in (k, v))  # [KV, end, hd]
        for first in range(end - n, end, _BLOCK):
            last = min(first + _BLOCK, end)
            rows = slice(first - (end - n), last - (end - n))
            out[:, :, rows] = self._attend(layer, queries[:, :, rows], k, v, first)
        frame = (end - self.prompt) // self._n - 1
        kept = self.policy.end_of_frame(
            self.state, layer, keys.swapaxes(0, 1)[None], values.swapaxes(0, 1)[None]
        )
        self.held[frame, layer] = self.policy.held(np.array(end)) if kept is None else kept[0]
        attended: Array = out.transpose(2, 0, 1, 3).reshape(n, -1)
        return attended

    def _attend(self, layer: int, q: Array, k: Array, v: Array, first: int) -> Array:
        """Attention of the queries [KV, g, n, hd] of the slots from ``first`` on."""
        last = first + q.shape[2]
        k, v = k[:, :last], v[:, :last]
        slots = np.arange(last)
        seen = slots <= np.arange(first, last)[:, None]  # [n, last]
        of_prompt = min(max(0, self.prompt - first), q.shape[2])
        seen[:of_prompt] = self._prompt_reads(seen[:of_prompt], first)
        scores = (q * q.dtype.type(q.shape[-1] ** -0.5)) @ k[:, None].swapaxes(-1, -2)
        np.copyto(scores, -np.inf, where=~seen)
        scores -= scores.max(axis=-1, keepdims=True)
        weights = np.exp(scores, out=scores)  # [KV, g, n, last]
        if of_prompt < q.shape[2]:
            mine = slice(of_prompt, None)
            read = self._reads(layer, q[:, :, mine], seen[mine], first + of_prompt)
            if read is not None:
                all_of_it = weights[:, :, mine].sum(axis=-1)
                weights[:, :, mine] *= read[:, None]
                mass = weights[:, :, mine].sum(axis=-1) / all_of_it
                self._count(layer, read, first + of_prompt, mass.mean(axis=(0, 1)))
            else:
                self._count(layer, seen[None, mine], first + of_prompt, 1.0)
            bias = self._members(layer, last)
            if bias is not None:
                weights[:, :, mine] *= bias[:, None, None]
        out: Array = weights @ v[:, None] / weights.sum(axis=-1, keepdims=True)
        return out

    def _count(self, layer: int, read: Bools, first: int, mass: Any) -> None:
        """Count what video tokens from slot ``first`` on have read, bool[KV, n, last]."""
        steps = slice(first - self.prompt, first - self.prompt + read.shape[1])
        self.tokens[steps, layer] = np.count_nonzero(read, axis=-1).T
        begins = np.count_nonzero(read[..., 1:] & ~read[..., :-1], axis=-1) + read[..., 0]
        self.runs[steps, layer] = begins.T
        self.mass[steps, layer] = mass

    def _append(self, layer: int, slots: slice, k: Array, v: Array) -> None:
        """Tell the policy of new keys and values; none of them looks at unrotated keys."""
        new, values = k[:, :, slots], v[:, :, slots]
        self.policy.append(self.state, layer, slots, new, new, values)

    def _reads(self, layer: int, q: Array, seen: Bools, first: int) -> Bools | None:
        """What queries read, bool[KV, n, last]; None: all that they see.

        Args:
            layer: Layer.
            q: Their rotated queries, [KV, g, n, hd].
            seen: What they see, bool[n, last].
            first: Slot of the first of them.
        """
        return None

    def _prompt_reads(self, seen: Bools, first: int) -> Bools:
        """What the prompt's own queries read of what they see, bool[n, last]."""
        return seen

    def _members(self, layer: int, last: int) -> Array | None:
        """For how many tokens each key stands, [KV, last]; None: for itself."""
        return None

    def _or_chance(self, read: Bools, seen: Bools, forced: Bools) -> Bools:
        """What is read, bool[KV, n, last]; for a floor as many keys, drawn from what is seen."""
        if self._random is None:
            return read
        n, last = seen.shape
        forced = forced | (np.arange(last) == np.arange(last - n, last)[:, None])
        scores = np.where(seen & ~forced, self._drawn(read.shape), -np.inf)
        return best(scores, np.count_nonzero(read & ~forced, axis=-1)) | forced

    def _drawn(self, shape: tuple[int, ...]) -> Array:
        assert self._random is not None
        drawn: Array = self._random.random(shape, np.float32)
        return drawn


def _by_head(q: Array, n_kv_heads: int) -> Array:
    """Queries [n, H, hd] by the key head that serves them, [KV, g, n, hd]."""
    n, n_heads, head_dim = q.shape
    served = q.reshape(n, n_kv_heads, n_heads // n_kv_heads, head_dim)
    return np.ascontiguousarray(served.transpose(1, 2, 0, 3))


class OfDense(Reader):
    """All keys: nothing is chosen that chance could choose."""

    has_floor = False


class OfStreaming(Reader):
    """Sinks and window."""

    def _reads(self, layer: int, q: Array, seen: Bools, first: int) -> Bools | None:
        read = np.broadcast_to(self._prompt_reads(seen, first), (len(q), *seen.shape))
        sinks = seen & (np.arange(seen.shape[1]) < self.policy.sinks)
        return self._or_chance(read, seen, sinks)

    def _prompt_reads(self, seen: Bools, first: int) -> Bools:
        slots, own = np.arange(seen.shape[1]), np.arange(first, first + len(seen))[:, None]
        return seen & ((slots < self.policy.sinks) | (own - slots < self.policy.window))


class OfDraft(Reader):
    """The prompt, the best of the complete blocks, and the newest token's own block."""

    def _append(self, layer: int, slots: slice, k: Array, v: Array) -> None:
        for slot in range(max(slots.start, self.prompt), slots.stop):
            super()._append(layer, slice(slot, slot + 1), k, v)

    def _reads(self, layer: int, q: Array, seen: Bools, first: int) -> Bools | None:
        size, last = self.policy.block_tokens, seen.shape[1]
        complete = (np.arange(first, last) - self.prompt) // size  # [n], of each query
        most = int(complete[-1])
        if not most:
            return None
        if self._random is None:
            heads, served, n, head_dim = q.shape
            flat = q.reshape(1, heads, served * n, head_dim)
            scores = self.state.scores(layer, most, flat)[0]
            scores = scores.reshape(heads, served, n, most).max(axis=1)  # [KV, n, most]
        else:
            scores = self._drawn((len(q), q.shape[2], most))
        scores = np.where(np.arange(most) < complete[:, None], scores, -np.inf)
        chosen = best(scores, share_of(self.policy.keep, complete))
        chosen |= np.arange(most) >= complete[:, None]
        read = np.broadcast_to(seen, (len(q), *seen.shape)).copy()
        whole = slice(self.prompt, self.prompt + most * size)
        read[..., whole] &= chosen.repeat(size, axis=-1)
        return read


class OfAnn(Reader):
    """Sinks, window, and what is found between them."""

    def _reads(self, layer: int, q: Array, seen: Bools, first: int) -> Bools | None:
        policy, last = self.policy, seen.shape[1]
        slots, own = np.arange(last), np.arange(first, last)[:, None]
        forced = seen & ((slots < policy.sinks) | (own - slots < policy.window))  # [n, last]
        free = seen & ~forced
        scores: Array | None = None
        kept = self.state[layer, 0, ..., :last]  # [KV, t, last], or [KV, hd, last]
        if policy.search == "lsh":
            planes = policy._planes(q.shape[-1])
            codes = signatures(q, planes)  # [KV, g, n, t]
            found = np.zeros((len(q), *seen.shape), bool)
            for served in range(q.shape[1]):
                for table in range(policy.tables):
                    found |= codes[:, served, :, table, None] == kept[:, table, None]
            found &= free
            if self._random is None:
                return found | forced
            wanted: Ints = np.count_nonzero(found, axis=-1)  # [KV, n]
        else:
            wanted = policy._kept(np.arange(first, last) + 1)
            scores = (q @ kept[:, None]).max(axis=1)  # [KV, n, last]
        if self._random is not None:
            scores = self._drawn((len(q), *seen.shape))
        assert scores is not None
        return best(np.where(free, scores, -np.inf), wanted) | forced


class OfTempCache(Reader):
    """All that is held; merged after each frame."""

    def _reads(self, layer: int, q: Array, seen: Bools, first: int) -> Bools | None:
        if not self.state.merged[layer]:
            return None
        stored = self.state.members[layer, 0, :, : seen.shape[1]] > 0  # [KV, last]
        return self._or_chance(seen & stored[:, None], seen, np.zeros_like(seen))

    def _count(self, layer: int, read: Bools, first: int, mass: Any) -> None:
        super()._count(layer, read, first, mass)
        self.runs[first - self.prompt : first - self.prompt + read.shape[1], layer] = 1

    def _members(self, layer: int, last: int) -> Array | None:
        if not self.state.merged[layer] or self._random is not None:
            return None
        found: Array = np.exp(self.state.bias[layer, 0, :, :last])
        return found


class OfAnnCa(Reader):
    """What the last frame's queries looked for of the prompt, and all after it."""

    def __init__(self, policy: Any, config: Config, prompt: int, chance: int | None = None) -> None:
        super().__init__(policy, config, prompt, chance)
        shape = config.geometry
        self._read = np.ones((shape.n_layers, shape.n_kv_heads, prompt), bool)
        self._sinks = np.arange(prompt) < policy.sinks

    def _reads(self, layer: int, q: Array, seen: Bools, first: int) -> Bools | None:
        codes = signatures(q, self.state.planes)  # [KV, g, n, t]
        head, _, _, table = np.ogrid[tuple(slice(size) for size in codes.shape)]
        self.state.met[layer, 0, head, table, codes] = True
        if (first - self.prompt) % self._n == 0:  # the frame before has decided
            self._read[layer] = self._of_frame(layer)
        read = np.broadcast_to(seen, (len(q), *seen.shape)).copy()
        read[..., : self.prompt] &= self._read[layer][:, None]
        return read

    def _of_frame(self, layer: int) -> Bools:
        """Keys of the prompt that a frame reads, bool[KV, P]."""
        found: Bools = self.state.read[layer, 0]
        if self._random is None:
            return found
        free = found & ~self._sinks
        scores = np.where(self._sinks, -np.inf, self._drawn(found.shape))
        return best(scores, np.count_nonzero(free, axis=-1)) | self._sinks


READERS: dict[str, type[Reader]] = {
    "dense": OfDense,
    "streaming": OfStreaming,
    "draft": OfDraft,
    "ann": OfAnn,
    "temp_cache": OfTempCache,
    "ann_ca": OfAnnCa,
}
"""Readers by the kind of their policy."""

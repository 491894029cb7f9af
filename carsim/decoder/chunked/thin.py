"""TempCache, AnnSA and AnnCA executed on a video in chunks, and what they leave out, measured.

They are policies of attention with the fields that a design gives them. Keys are merged per layer
and head, by their cosine before the rotary embedding (FAST-AR, arXiv 2602.01801, adapted).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.decisions.attention import Ann, AnnCa, AttentionPolicy, Stack, TempCache, search
from carsim.decoder.chunked.forward import Bools, KeysValues, Thinning, rotate
from carsim.decoder.chunked.model import Array, ChunkShape

TIE = 1e-9
"""Relative difference below which two distances are equal, and the newer key stays: two members
are always equally far from their mean."""


class Measured(NamedTuple):
    """Shares that a policy leaves in, means over layers, heads and forwards; None: not measured.

    Attributes:
        held: Of the tokens of earlier chunks, those that the cache holds after the last chunk.
        scored: Of the keys that are held, those that a query scores.
        prompt: Of the tokens of the prompt, those that are scored.
    """

    held: float | None
    scored: float | None
    prompt: float | None


@dataclass(eq=False)
class ThinningOf(Thinning):
    """Policies of attention, of which each does one thing.

    Attributes:
        shape: The network.
        merging: Merges the keys of earlier chunks; None: none are.
        searching: Finds keys for each query; None: all are scored.
        choosing: Chooses tokens of the prompt; None: all are scored.
    """

    shape: ChunkShape
    merging: TempCache | None = None
    searching: Ann | None = None
    choosing: AnnCa | None = None
    _plain: dict[int, Array] = field(default_factory=dict)  # keys before rotation, by layer
    _means: dict[int, Array] = field(default_factory=dict)  # of members, by layer
    _held: dict[int, float] = field(default_factory=dict)  # of earlier chunks, by layer
    _scored: list[float] = field(default_factory=list)
    _of_prompt: list[float] = field(default_factory=list)

    @property
    def measured(self) -> Measured:
        """Means over all that was decoded so far."""
        return Measured(
            held=_mean(list(self._held.values())),
            scored=_mean(self._scored),
            prompt=_mean(self._of_prompt),
        )

    def scored(self, layer: int, queries: Array, keys_values: KeysValues) -> Bools | None:
        """Keys that share a bucket, or the best; the token's own key in any case.

        Only keys that stand for tokens are searched: those that have merged into others are gone.
        """
        policy = self.searching
        if policy is None:
            return None
        keys = keys_values.keys
        is_held = keys_values.members.T > 0  # [H, m]
        held = is_held.sum(axis=1)  # [H]
        if policy.search == "lsh":
            planes = search.hyperplanes(
                policy.tables, policy.bits, self.shape.head_dim, policy.seed
            )
            of_queries = search.signatures(queries, planes).swapaxes(0, 1)  # [H, n, tables]
            of_keys = search.signatures(keys, planes).swapaxes(0, 1)  # [H, m, tables]
            found = (of_queries[:, :, None] == of_keys[:, None]).any(axis=-1)
        else:
            rounded = search.few_bits(keys, policy.key_bits)
            products = np.einsum("nhd,mhd->hnm", queries, rounded)
            products = np.where(is_held[:, None], products, -np.inf)
            found = search.best(products, search.share_of(policy.keep, held)[:, None])
        found &= is_held[:, None]
        own = np.arange(len(queries))
        found[:, own, len(keys) - len(queries) + own] = True
        shares = found.sum(axis=2) / held[:, None]  # [H, n]
        self._scored.append(float(shares.mean()))
        return np.asarray(found, np.bool_)

    def scored_of_prompt(self, layer: int, queries: Array, keys: Array) -> Bools | None:
        """Tokens of the prompt that share a bucket with any query of the chunk, and sinks."""
        policy = self.choosing
        if policy is None:
            return None
        planes = search.hyperplanes(policy.tables, policy.bits, self.shape.head_dim, policy.seed)
        of_queries = search.signatures(queries, planes).swapaxes(0, 1)  # [H, n, tables]
        of_keys = search.signatures(keys, planes).swapaxes(0, 1)  # [H, t, tables]
        met = (of_queries[:, :, None] == of_keys[:, None]).any(axis=(1, 3))  # [H, t]
        met[:, : policy.sinks] = True
        met[:, 0] |= ~met.any(axis=1)  # a head scores one token at least
        self._of_prompt.append(float(met.mean()))
        return np.asarray(met[:, None], np.bool_)

    def written(self, layer: int, cached: KeysValues, own: KeysValues) -> KeysValues:
        """Merge the keys of a chunk with those of earlier ones, head by head."""
        held = cached.then(own)
        policy = self.merging
        if policy is None:
            return held
        first = len(cached.keys)
        frames = np.arange(len(held.keys)) // self.shape.frame_tokens
        plain = rotate(own.keys, -frames[first:])
        nothing = np.zeros((0, *plain.shape[1:]))
        groups = Groups(
            keys=held.keys.copy(),
            values=held.values.copy(),
            members=held.members.copy(),
            plain=np.concatenate([self._plain.get(layer, nothing), plain]),
            means=np.concatenate([self._means.get(layer, nothing), plain]),
        )
        if first and policy.merges:
            for head in range(self.shape.n_heads):
                groups.of_head(head).join(first, policy, frames)
        self._plain[layer] = groups.plain
        self._means[layer] = groups.means
        self._held[layer] = float((groups.members > 0).mean())
        return KeysValues(groups.keys, groups.values, groups.members)


class Groups(NamedTuple):
    """Groups of merged tokens in one layer, [m, H, hd]; or in one of its heads, [m, hd].

    Arrays change in place.

    Attributes:
        keys: Rotated keys that stand for groups.
        values: Means of members' values.
        members: Tokens for which each stands, [m, H] or [m]; 0 where it has merged into another.
        plain: Keys before rotation that stand for groups.
        means: Means of members' keys before rotation.
    """

    keys: Array
    values: Array
    members: Array
    plain: Array
    means: Array

    def of_head(self, head: int) -> "Groups":
        """Views of one head."""
        return Groups(*(array[:, head] for array in self))

    def join(self, first: int, policy: TempCache, frames: NDArray[np.int64]) -> None:
        """Let tokens of a chunk join the nearest group of earlier chunks, one after the other.

        Args:
            first: First token of the chunk.
            policy: Least cosine, and the key that represents a group.
            frames: Latent frame of each token, [m].
        """
        groups = np.flatnonzero(self.members[:first] > 0).tolist()
        directions = _unit(self.plain[groups])
        for token in range(first, len(self.keys)):
            cosines = directions @ _unit(self.plain[token])
            nearest = int(cosines.argmax())
            if cosines[nearest] >= policy.theta:
                self._move(groups[nearest], token, policy, frames)
                groups[nearest] = token

    def _move(self, group: int, token: int, policy: TempCache, frames: NDArray[np.int64]) -> None:
        """Let a token take the place of a group that it joins."""
        count = self.members[group] + 1
        mean = self.means[group] + (self.means[token] - self.means[group]) / count
        if policy.representative == "mean":
            self.plain[token] = mean
            self.keys[token] = rotate(mean[None, None], frames[token : token + 1])[0, 0]
        elif policy.representative == "medoid":
            distance_of_old = np.square(self.plain[group] - mean).sum()
            distance_of_new = np.square(self.plain[token] - mean).sum()
            if distance_of_old < (1 - TIE) * distance_of_new:
                # The old key stays, rotated as it was.
                self.plain[token] = self.plain[group]
                self.keys[token] = self.keys[group]
        self.means[token] = mean
        self.values[token] = self.values[group] + (self.values[token] - self.values[group]) / count
        self.members[token] = count
        self.members[group] = 0


def _unit(vectors: Array) -> Array:
    """Vectors of length 1."""
    lengths = np.sqrt(np.square(vectors).sum(axis=-1, keepdims=True))
    scaled: Array = vectors / np.maximum(lengths, np.finfo(np.float64).tiny)
    return scaled


def _mean(shares: Sequence[float]) -> float | None:
    return float(np.mean(shares)) if shares else None


def thinning_of(policy: AttentionPolicy, shape: ChunkShape) -> ThinningOf:
    """The policy of a recipe, for one video.

    Args:
        policy: Dense attention, or one or several of the three policies.
        shape: The network.

    Raises:
        ValueError: A policy that has no form for chunks, or one that comes twice.
    """
    thinning = ThinningOf(shape)
    policies = policy.policies if isinstance(policy, Stack) else (policy,)
    for each in policies:
        if isinstance(each, TempCache) and thinning.merging is None:
            if each.search != "full" or each.match != "exact":
                raise ValueError(
                    "temp_cache searches all keys here: say search: full, match: exact"
                )
            thinning.merging = each
        elif isinstance(each, Ann) and thinning.searching is None:
            thinning.searching = each
        elif isinstance(each, AnnCa) and thinning.choosing is None:
            thinning.choosing = each
        elif not each.exact:
            raise ValueError(f"attention {each.kind!r} is not executed in chunks, or comes twice")
    return thinning

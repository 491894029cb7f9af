"""Two kinds of attention as a user would add them, from outside of the package."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from carsim.base.sizes import MOST, PositiveInt
from carsim.decisions.attention import ATTENTION, AttentionPolicy, KvReads, Query, Selection
from carsim.decisions.attention.base import Ints


class EverySecondBlock(AttentionPolicy):
    """Every second block of cached tokens, and the last ones; reads follow from the context."""

    label: ClassVar[str] = "every second block"
    kind: Literal["second_block"] = "second_block"
    block: PositiveInt = 16
    last: PositiveInt = 32

    @classmethod
    def trivial(cls) -> "EverySecondBlock":
        return cls(last=MOST)

    def _kept(self, place: Ints, context: Ints) -> Any:
        """Whether the token at a place of a row is read at a context."""
        return (place // self.block % 2 == 0) | (place >= context - self.last)

    def select(self, state: Any, layer: int, query: Query) -> Selection:
        place = np.arange(query.end) - query.padding[:, None]  # [B, end]
        return Selection(mask=self._kept(place, query.end - query.padding[:, None])[:, None])

    def reads(self, context: Ints) -> KvReads:
        place = np.arange(int(context.max()))
        kept = self._kept(place, context[..., None]) & (place < context[..., None])
        begins = kept.copy()
        begins[..., 1:] &= ~kept[..., :-1]
        return KvReads(kept.sum(axis=-1), begins.sum(axis=-1))

    def reads_aligned(self, tokens_per_frame: int) -> bool:
        return self.last > tokens_per_frame


class BestKeys(AttentionPolicy):
    """The k keys of highest score under any query of their head, and the newest.

    After each frame it drops the oldest tokens beyond ``hold``, so that ``kv_held`` shrinks. With
    ``twice``, every key stands for two merged tokens: the log of 2 is added to its score.
    """

    label: ClassVar[str] = "best keys"
    records: ClassVar[bool] = True
    kind: Literal["best_keys"] = "best_keys"
    k: PositiveInt = 4
    hold: PositiveInt = MOST
    twice: bool = False

    @classmethod
    def trivial(cls) -> "BestKeys":
        return cls(k=MOST)

    def begin(self, cache: Any) -> dict[int, Ints]:
        return {layer: cache.padding.copy() for layer in range(cache.n_layers)}  # first slot held

    def select(self, state: Any, layer: int, query: Query) -> Selection:
        batch, heads, end, width = query.keys.shape
        grouped = query.q_rotated.reshape(batch, heads, -1, width)
        scores = (grouped @ query.keys.swapaxes(-1, -2)).max(axis=2)  # [B, KV, end]
        gone = np.arange(end) < state[layer][:, None]  # [B, end]
        scores = np.where(gone[:, None], -np.inf, scores)
        best = np.argsort(-scores, axis=-1, kind="stable")[..., : self.k]
        mask = np.zeros(scores.shape, bool)
        np.put_along_axis(mask, best, True, axis=-1)
        mask[..., -1] = True
        bias = np.full(mask.shape, np.log(2)) if self.twice else None
        return Selection(mask=mask, bias=bias, stored=~gone[:, None])

    def end_of_frame(self, state: Any, layer: int, keys: Any, values: Any) -> Ints:
        state[layer] = np.maximum(state[layer], keys.shape[2] - self.hold)
        return np.asarray(keys.shape[2] - state[layer])

    def reads(self, context: Ints) -> KvReads:
        tokens = np.minimum(context, self.k + 1)
        return KvReads(tokens, tokens)


TOYS: dict[str, type[AttentionPolicy]] = {"second_block": EverySecondBlock, "best_keys": BestKeys}


@contextmanager
def in_registry(registry: Any, kinds: dict[str, Any]) -> Iterator[None]:
    """Kinds in their registry, for files that name them."""
    registry.update(kinds)
    try:
        yield
    finally:
        for kind in kinds:
            del registry[kind]


registered = partial(in_registry, ATTENTION, TOYS)

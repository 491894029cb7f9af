"""The temporal attention score of FastCar: how much a token attends to its predecessor."""

import math
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from carsim.base.sizes import NonNegativeInt
from carsim.decisions.attention import search
from carsim.decisions.attention.base import Array
from carsim.decisions.replay.base import ReplayRule
from carsim.decisions.replay.seen import Seen
from carsim.decisions.replay.shapes import MachineShape, RuleWork

TasForm = Literal["released", "paper"]
"""``released``: query before the rotary embedding (the authors' code); ``paper``: query after it,
so that the score is the mean attention logit (the paper's formula). Both rotate the key."""


class Tas(ReplayRule):
    """Temporal attention score: <q, k> / sqrt(hd) of the token and one of the previous frame.

    Model: as published (arXiv 2505.14709, section 4), the mean over all query heads, against the
    key of the same place one frame before, N tokens ago. Two variations:

    * ``head`` scores with that query head alone, against the key head that serves it. A machine
      then multiplies 1 / H of the elements and reads one key head.
    * ``offset`` 1 takes the key N - 1 tokens ago. Why: step j is fed token j - 1 and predicts token
      j. The step N - 1 before it was fed token j - N, which stands at the place of the token that
      is being predicted, one frame before. With offset 0, the key is that of the predecessor of
      the token that is fed.

    On the machine, the products run on the vector unit, an operation an element.
    """

    label: ClassVar[str] = "TAS"
    paper: ClassVar[str] = "arXiv 2505.14709"
    known_at = "q"

    kind: Literal["tas"] = "tas"
    form: TasForm = Field(
        "released", description="query before the rotary embedding (released), or after it (paper)"
    )
    head: NonNegativeInt | None = Field(
        None, description="the score of this head alone; the mean over all if absent"
    )
    offset: Literal[0, 1] = Field(0, description="1 scores the key one place later")

    @property
    def is_fastcar(self) -> bool:
        """The mean over heads of either form, against the same place, replayed as it is."""
        return self.head is None and self.offset == 0 and not (self.damps or self.max_age)

    def check(self, n_heads: int, hidden_size: int) -> None:
        """Refuse a head that is not there."""
        if self.head is not None and self.head >= n_heads:
            raise ValueError(f"rule: head {self.head} of {n_heads} heads, give 0 to {n_heads - 1}")

    def score(self, state: None, layer: int, place: int, seen: Seen) -> Array:
        """TAS of each row, [B]."""
        return self.of(seen.q, seen.q_rotated, seen.key(self.key_distance(seen.tokens_per_frame)))

    def of(self, q: Array, q_rotated: Array, key: Array) -> Array:
        """The score of queries and keys, whatever step they are of.

        Args:
            q: Query before the rotary embedding, [B, H, hd].
            q_rotated: Query after it, [B, H, hd].
            key: Rotated key, [B, KV, hd]; head j serves query heads j * g to j * g + g - 1 for
                g = H / KV.

        Returns:
            [B].
        """
        query = q if self.form == "released" else q_rotated
        if self.head is None:
            return temporal_attention_score(query, key)
        served = self.head * key.shape[1] // q.shape[1]
        return temporal_attention_score(query[:, [self.head]], key[:, [served]])

    def key_distance(self, tokens_per_frame: int) -> int:
        """A frame, or one token less."""
        return tokens_per_frame - self.offset

    def work(self, shape: MachineShape) -> RuleWork:
        """A product an element of the query; K of the heads that serve it."""
        all_heads = self.head is None
        heads = shape.columns(shape.n_heads if all_heads else 1)
        kv_heads = shape.columns(shape.n_kv_heads if all_heads else 1)
        return RuleWork(vector_ops=heads * shape.head_dim, key_elements=kv_heads * shape.head_dim)


def temporal_attention_score(query: Array, key: Array) -> Array:
    """Mean over query heads of <q, k> / sqrt(hd).

    Args:
        query: [B, H, hd].
        key: [B, KV, hd]; head j serves query heads j * g to j * g + g - 1 for g = H / KV.

    Returns:
        [B].
    """
    total = np.einsum("bkgd,bkd->b", search.grouped(query, key.shape[1]), key)
    return total / query.dtype.type(query.shape[1] * math.sqrt(key.shape[2]))

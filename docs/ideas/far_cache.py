"""Older keys and values move to a second memory of the machine, such as DDR beside HBM.

Attention still reads all of them, so that decoding is dense. What changes is the capacity that the
first memory needs, and the time that the second one takes.
"""

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from carsim.decisions.attention import ATTENTION, AttentionPolicy


class FarCache(AttentionPolicy):
    """The newest ``near`` tokens stay; each new token moves the oldest of them."""

    label: ClassVar[str] = "older tokens in a second memory"

    kind: Literal["far_cache"] = "far_cache"
    near: Annotated[int, Field(ge=1)] = 512

    @classmethod
    def trivial(cls):
        """All tokens stay; no other fields change what is decoded, either."""
        return cls(near=10**9)

    def far_tokens(self, tokens, tokens_per_frame):
        """All but the newest."""
        return np.maximum(0, tokens - self.near)


ATTENTION.register(FarCache)

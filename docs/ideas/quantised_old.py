"""Keys and values of older frames are kept in few bits, those of the newest frames as they are."""

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from carsim.decisions.attention import ATTENTION, AttentionPolicy
from carsim.decisions.attention.search import few_bits


class QuantisedOld(AttentionPolicy):
    """All tokens are read; those older than ``frames`` whole frames have ``bits`` an element."""

    label: ClassVar[str] = "quantised old frames"

    kind: Literal["quantised_old"] = "quantised_old"
    bits: Annotated[int, Field(ge=2, le=16)] = 4
    of_bits: Annotated[int, Field(ge=2, le=16)] = 16  # of the cache itself
    frames: Annotated[int, Field(ge=1)] = 1

    @classmethod
    def trivial(cls):
        """As many bits as there are."""
        return cls(bits=16)

    def begin(self, cache):
        """The shape of the cache, which says how long a frame is."""
        return cache

    def end_of_frame(self, state, layer, keys, values):
        """Round the frame that has just become old; a scale for each token and head."""
        newest = keys.shape[2] - self.frames * state.tokens_per_frame
        aged = slice(max(0, newest - state.tokens_per_frame), max(0, newest))
        if self.bits < 16 and newest > 0:
            keys[:, :, aged] = few_bits(keys[:, :, aged], self.bits)
            values[:, :, aged] = few_bits(values[:, :, aged], self.bits)

    def full_tokens(self, tokens, tokens_per_frame):
        """Old tokens take bits / of_bits of a token's bytes; scales are not counted."""
        newest = (self.frames + 1) * tokens_per_frame
        old = np.maximum(0, tokens - newest)
        return tokens - old + -(-old * min(self.bits, self.of_bits) // self.of_bits)

    def frame_work(self, context, tokens_per_frame, n_kv_heads, head_dim):
        """A frame is read and written once; four operations an element round it."""
        elements = 2 * tokens_per_frame * n_kv_heads * head_dim
        works = self.bits < self.of_bits
        return type(super().frame_work(context, 1, 1, 1))(
            element_ops=4 * elements * works, kv_elements=2 * elements * works
        )


ATTENTION.register(QuantisedOld)

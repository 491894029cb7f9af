"""Attention reads the prompt, this frame, the last one, and every n-th frame before them."""

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from carsim.decisions.attention import ATTENTION, AttentionPolicy, KvReads, Selection

WHOLE = 1_000_000


class FrameAligned(AttentionPolicy):
    """Prompt, this frame and the last, and older frames whose number is a multiple of ``every``."""

    label: ClassVar[str] = "frame-aligned attention"

    kind: Literal["frame_aligned"] = "frame_aligned"
    every: Annotated[int, Field(ge=1)] = 4

    @classmethod
    def trivial(cls):
        """All frames."""
        return cls(every=1)

    def begin(self, cache):
        """The shape of the cache, which says where frames begin."""
        return cache

    def select(self, state, layer, query):
        """Slots before ``prompt_slots`` are the prompt's; frames follow one another."""
        frame = (np.arange(query.end) - state.prompt_slots) // state.tokens_per_frame
        mask = (frame < 0) | (frame >= frame[-1] - 1) | (frame % self.every == 0)
        return Selection(mask=mask[None, None])

    def reads_at(self, at):
        """Tokens and runs: prompt and frame 0 join, and so do the last frame and this one."""
        old = np.maximum(0, at.frame - 1)  # frames before the last one
        kept = -(-old // self.every)  # frames 0, every, 2 every, ...
        newest = np.minimum(at.step + 1, at.tokens_per_frame + at.place + 1)
        tokens = at.prompt + kept * at.tokens_per_frame + newest
        if self.every == 1:
            return KvReads(tokens=tokens, runs=np.ones_like(tokens))
        touches = (old > 0) & ((old - 1) % self.every == 0)  # the last kept frame adjoins
        of_frames = kept + 1 - touches
        apart = (kept == 0) | (at.prompt == 0)  # nothing in front of the frames, or no frame 0
        only_newest = (kept == 0) & (at.prompt > 0) & (old > 0)
        runs = np.where(apart, of_frames + only_newest, of_frames)
        return KvReads(tokens=tokens, runs=runs)

    def reads_aligned(self, distance):
        """The last frame is read in any case, and rules look back one frame."""
        return True


ATTENTION.register(FrameAligned)

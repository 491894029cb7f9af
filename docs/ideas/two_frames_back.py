"""Replay where this token attends more to its place two frames ago than one frame ago.

A texture that blinks looks like the frame before the last one. The rule reads two keys, so that it
scores from the third frame on.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from carsim.decisions.replay import RULES, ReplayRule


class TwoFramesBack(ReplayRule):
    """Attention logit of the key two frames ago, less that of the key one frame ago."""

    label: ClassVar[str] = "two frames back"
    frames_back: ClassVar[int] = 2

    kind: Literal["two_frames_back"] = "two_frames_back"
    first_frame: Annotated[int, Field(ge=2)] = 2

    def score(self, state, layer, place, seen):
        """[B]; H = KV heads."""
        newer = seen.key(seen.tokens_per_frame)  # [B, KV, hd]
        older = seen.key(2 * seen.tokens_per_frame)
        rows, heads, size = newer.shape
        query = seen.q_rotated.reshape(rows, heads, -1, size).mean(axis=2)
        return (query * (older - newer)).sum(axis=(1, 2))


RULES.register(TwoFramesBack)

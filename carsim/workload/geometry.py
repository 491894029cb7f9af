"""The video that is decoded: how many steps, how long the context."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Video:
    """Geometry of one video, or of one text: a single frame, in which nothing replays.

    Every decode step appends one token to every row. Rows are left-padded to ``prompt_tokens``, as
    the authors' code does it, and the padding slots are stored, read and masked: the context of a
    step is the same for all rows. A prompt of no token takes no time.
    """

    n_frames: int
    tokens_per_frame: int
    prompt_tokens: int
    kind: Literal["video", "text"] = "video"

    @property
    def n_steps(self) -> int:
        """Decode steps of a video: one per visual token."""
        return self.n_frames * self.tokens_per_frame

    @property
    def max_context(self) -> int:
        """Tokens in the KV cache after the last step."""
        return self.prompt_tokens + self.n_steps

    def context(self, step: int) -> int:
        """Tokens that step ``step`` (from 0) can attend to, itself included."""
        return self.prompt_tokens + step + 1

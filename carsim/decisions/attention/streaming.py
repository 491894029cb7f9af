"""StreamingLLM: the first tokens and the latest ones."""

from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from carsim.base.sizes import MOST, NonNegativeInt, PositiveInt
from carsim.decisions.attention.base import AttentionPolicy, Bools, Ints, KvReads, Query, Selection


class Streaming(AttentionPolicy):
    """StreamingLLM: attention sinks and a local window that includes the current token.

    Machines are simulated with a dense prompt; the window holds for decoded steps.
    """

    # Positions are absolute. Sinks are the first tokens of a row, its padding left out.
    label: ClassVar[str] = "sparse attention"
    paper: ClassVar[str] = "arXiv 2309.17453"

    kind: Literal["streaming"] = "streaming"
    sinks: NonNegativeInt = Field(4, description="first tokens that are always read")
    window: PositiveInt = Field(256, description="newest tokens that are read, its own included")

    @classmethod
    def trivial(cls) -> "Streaming":
        """A window that holds every context."""
        return cls(window=MOST)

    @property
    def short(self) -> str:
        """Sinks + window."""
        return f"{self.sinks} + {self.window}"

    def prompt_mask(self, valid: Bools) -> Bools:
        """bool[B, P, P], as :class:`AttentionPolicy` has it."""
        slots = np.arange(valid.shape[1])
        in_window = slots[:, None] - slots < self.window  # [P, P]
        is_sink = slots < (~valid).sum(axis=1, keepdims=True) + self.sinks  # [B, P]
        return super().prompt_mask(valid) & (in_window | is_sink[:, None, :])

    def select(self, state: Any, layer: int, query: Query) -> Selection:
        """The window, and the sinks of each row where the window has left them behind."""
        start = max(0, query.end - self.window)
        if start <= query.padding.min():
            return Selection(start)
        return Selection(start, extra=query.padding[:, None] + np.arange(self.sinks))

    def reads(self, context: Ints) -> KvReads:
        """At most sinks + window, in two runs once they are apart."""
        tokens = np.minimum(context, self.sinks + self.window)
        return KvReads(tokens, 1 + ((self.sinks > 0) & (context > tokens)).astype(np.int64))

    @property
    def reads_all_held(self) -> bool:
        """Sinks and window are all that is held."""
        return True

    def held(self, context: Ints) -> Ints:
        """Sinks and window; the rest is overwritten."""
        return self.reads(context).tokens

    def keys_kept(self, context: Ints, distance: int) -> Ints:
        """Keys of the previous frame that the window has left behind."""
        return np.minimum(max(0, distance - self.window + 1), context - self.held(context))

    def reads_aligned(self, distance: int) -> bool:
        """The window reaches back by more than that."""
        return self.window > distance

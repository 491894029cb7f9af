"""Early exit (CALM, arXiv 2207.07061): once a token is settled, all later layers replay.

CALM stops where the hidden state hardly changes from layer to layer. Keys and values of the
remaining layers must still be there for later tokens, so that MLPs are what is saved here.
"""

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from carsim.decisions.replay import RULES, ReplayRule


class EarlyExit(ReplayRule):
    """Cosine of the residual before and after attention, or 1 behind a layer in which it exited."""

    label: ClassVar[str] = "early exit"
    paper: ClassVar[str] = "arXiv 2207.07061"

    kind: Literal["early_exit"] = "early_exit"
    settled: Annotated[float, Field(gt=0, lt=1)] = 0.99

    def begin(self, shape):
        """Whether the row has exited, bool[L, B, N]."""
        return np.zeros((shape.n_layers, shape.n_rows, shape.tokens_per_frame), bool)

    def _cosine(self, seen):
        before, after = seen.residual_in, seen.residual
        lengths = np.linalg.norm(before, axis=-1) * np.linalg.norm(after, axis=-1)
        return (before * after).sum(axis=-1) / lengths

    def score(self, state, layer, place, seen):
        """[B]; use a tau of ``settled``."""
        cosine = self._cosine(seen)
        if layer == 0:
            return cosine
        return np.where(state[layer - 1, :, place], 1.0, cosine)

    def computed(self, state, layer, place, rows, seen):
        """A row has exited behind the first layer in which its cosine is high."""
        exited = self._cosine(seen) > self.settled
        if layer > 0:
            exited = exited | state[layer - 1, :, place]
        state[layer, :, place] = exited


RULES.register(EarlyExit)

"""TeaCache (arXiv 2411.19108), token by token: changes of the input add up until the row computes.

The paper adds up the relative change of a timestep's input from step to step, and computes once the
sum exceeds a threshold. Here a step is a frame, and the input is that of the MLP of each token.
"""

from typing import ClassVar, Literal

import numpy as np

from carsim.decisions.replay import RULES, ReplayRule


class TeaCache(ReplayRule):
    """Minus the change of the MLP's input, added up over frames since the row computed."""

    label: ClassVar[str] = "TeaCache"
    paper: ClassVar[str] = "arXiv 2411.19108"

    kind: Literal["teacache"] = "teacache"

    def begin(self, shape):
        """Inputs one frame ago, [L, B, N, d], and sums of changes, [L, B, N]."""
        places = (shape.n_layers, shape.n_rows, shape.tokens_per_frame)
        inputs = np.ones((*places, shape.hidden_size), shape.dtype)
        return {"inputs": inputs, "sums": np.zeros(places, shape.dtype)}

    def _sum(self, state, layer, place, seen):
        """Changes of each row up to this frame, added up, [B]."""
        one_frame_ago = state["inputs"][layer, :, place]
        change = np.abs(seen.mlp_input - one_frame_ago).sum(axis=-1)
        relative_change = change / np.abs(one_frame_ago).sum(axis=-1)
        return state["sums"][layer, :, place] + relative_change

    def score(self, state, layer, place, seen):
        """Minus the sum of changes, [B]."""
        return -self._sum(state, layer, place, seen)

    def computed(self, state, layer, place, rows, seen):
        """Begin a new sum where a row computes."""
        sums = self._sum(state, layer, place, seen)
        state["sums"][layer, :, place] = np.where(rows, 0.0, sums)
        state["inputs"][layer, :, place] = seen.mlp_input


RULES.register(TeaCache)

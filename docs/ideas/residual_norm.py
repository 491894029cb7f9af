"""Replay where the length of the residual stream has hardly changed since the row computed."""

from typing import ClassVar, Literal

import numpy as np

from carsim.decisions.replay import RULES, ReplayRule


class ResidualNorm(ReplayRule):
    """Minus the relative change of the residual's length; one number is held for each place."""

    label: ClassVar[str] = "residual norm"

    kind: Literal["residual_norm"] = "residual_norm"

    def begin(self, shape):
        """Lengths, [L, B, N]."""
        return np.ones((shape.n_layers, shape.n_rows, shape.tokens_per_frame), shape.dtype)

    def score(self, state, layer, place, seen):
        """[B], at most 0."""
        held = state[layer, :, place]
        return -np.abs(np.linalg.norm(seen.residual, axis=-1) - held) / held

    def computed(self, state, layer, place, rows, seen):
        """Hold the lengths of the rows that compute."""
        state[layer, rows, place] = np.linalg.norm(seen.residual[rows], axis=-1)


RULES.register(ResidualNorm)

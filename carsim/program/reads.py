"""Keys that a block reads, and the steps in which it reads them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.decisions.attention import PLAIN, AttentionPolicy
from carsim.workload.geometry import Video

Ints = NDArray[np.int64]

Some = NDArray[np.intp] | NDArray[np.bool_] | slice
"""Chooses phases: by their numbers, by a truth value for each, or in a row."""


@dataclass(frozen=True, eq=False)
class Steps:
    """S steps of a workload, as blocks look at them.

    Attributes:
        contexts: Tokens that dense attention would read, those of the step included, int64[S].
        video: The video that is decoded.
        attention: Attention policy.
    """

    contexts: Ints
    video: Video
    attention: AttentionPolicy


class Reads(NamedTuple):
    """Tokens of a cache that n phases read.

    Attributes:
        attended: Tokens that each query reads, itself included, [n].
        runs: Contiguous runs of the cache in which they lie, [n].
        contexts: Tokens that dense attention would read, [n]; 0 where the policy's own work does
            not depend on them.
        policy: Attention policy, with the cost of its decisions.
        aligned_outside: The cached key that is scored is not among the keys that are read.
        frame_steps: Steps over which the policy's work at the end of a frame is spread; 0 where it
            has none.
        tokens_per_frame: Tokens of a frame, for policies that keep older frames in fewer bits.
    """

    attended: Ints
    runs: Ints
    contexts: Ints
    policy: AttentionPolicy = PLAIN
    aligned_outside: bool = False
    frame_steps: int = 0
    tokens_per_frame: int = 1

    @classmethod
    def of_tokens(cls, tokens: int | Sequence[int] | Ints) -> "Reads":
        """So many tokens in one run, read by a policy without work of its own.

        >>> Reads.of_tokens([3, 5]).runs
        array([1, 1])
        """
        attended = np.atleast_1d(np.asarray(tokens, np.int64))
        return cls(attended, np.ones_like(attended), attended)

    @property
    def n(self) -> int:
        """Number of phases."""
        return len(self.attended)

    def change(self, change: Callable[[Ints], Ints]) -> "Reads":
        """Change all arrays in one way."""
        return self._replace(
            attended=change(self.attended), runs=change(self.runs), contexts=change(self.contexts)
        )

    def take(self, index: Some) -> "Reads":
        """Take some of the phases."""
        return self.change(lambda figure: figure[index])

"""Kinds and places of steps, as decisions depend on them.

The *place* of a step is what it shares with earlier steps whose outputs it may take: the place of a
token in the frame where videos are decoded token by token, or the chunk where a chunk is denoised
step by step. The *turn* of a step counts the steps of its place that came before it.
"""

from dataclasses import dataclass

import numpy as np

from carsim.decisions.attention.base import Array, Bools, Ints
from carsim.decisions.replay import Replay
from carsim.decisions.trace.meta import TraceMeta

UNDECIDED = -1
"""Turn of a step in which nothing is decided."""


@dataclass(frozen=True, eq=False)
class StepOrder:
    """Places and turns of S steps.

    Attributes:
        places: int[S], place of each step.
        turns: int[S], steps of the same place before each step; :data:`UNDECIDED` where all rows
            compute whatever came before.
        in_frames: Steps are the tokens of frames, one place after the other.
    """

    places: Ints
    turns: Ints
    in_frames: bool

    def scored(self, replay: Replay) -> Bools:
        """bool[S, L]: where a decision is scored."""
        return replay.scored_at(self.turns)

    def decided(self, replay: Replay, scores: Array, tokens_per_frame: int) -> Bools:
        """Decisions bool[S, L, B] that follow from scores [S, L, B]."""
        if self.in_frames:
            return replay.decide_all(scores, tokens_per_frame)
        return replay.decide_in_turn(scores, self.places)


def step_order(meta: TraceMeta, kinds: Ints | None, places: Ints | None) -> StepOrder:
    """The order of the steps of a trace.

    Args:
        meta: Metadata.
        kinds: int[S], kind of each step, where the metadata has ``steps``; else None.
        places: int[S], place of each step; else None.
    """
    if meta.steps is None or kinds is None or places is None:
        turns, places = np.divmod(np.arange(meta.n_steps), meta.tokens_per_frame)
        return StepOrder(places=places, turns=turns, in_frames=True)
    # One for every number that a kind may have: unknown ones are refused by name elsewhere.
    decides = np.ones(1 + np.iinfo(np.uint8).max, np.bool_)
    decides[: len(meta.steps.kinds)] = [kind.decides for kind in meta.steps.kinds]
    turns = np.where(decides[kinds], turns_of(places), UNDECIDED)
    return StepOrder(places=places, turns=turns, in_frames=False)


def turns_of(places: Ints) -> Ints:
    """Number of steps of the same place before each step.

    >>> turns_of(np.array([0, 1, 0, 0, 1])).tolist()
    [0, 0, 1, 2, 1]
    """
    by_place = np.argsort(places, kind="stable")
    ordered = places[by_place]
    is_first = np.ones(len(places), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    number = np.arange(len(places))
    turns = np.empty(len(places), np.int64)
    turns[by_place] = number - np.maximum.accumulate(np.where(is_first, number, 0))
    return turns

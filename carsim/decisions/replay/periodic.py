"""Replay on a fixed schedule: layers compute in turn, whatever is shown."""

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from carsim.decisions.attention.base import Array
from carsim.decisions.replay.base import (
    NO_WORK,
    MachineShape,
    Point,
    ReplayRule,
    RuleWork,
    Seen,
)


class Periodic(ReplayRule):
    """A baseline: every layer computes in each ``period``-th frame and replays in the others.

    The score is 0 where ``layer + frame`` is a multiple of the period, and 1 elsewhere, so any tau
    of at least 0 and below 1 follows the schedule; use 0.5. No output grows older than ``period``
    - 1 frames. All rows decide alike, so broadcast weights are saved in full. Nothing is looked at,
    so the machine has no score to take.
    """

    label: ClassVar[str] = "period"
    known_at: ClassVar[Point] = "q"

    kind: Literal["periodic"] = "periodic"
    period: Annotated[int, Field(ge=2, le=1024)] = Field(
        2, description="frames from one computation of a layer to its next"
    )

    def score(self, state: None, layer: int, place: int, seen: Seen) -> Array:
        """1 for all rows in frames in which the layer replays, else 0, [B]."""
        replays = (layer + seen.frame) % self.period != 0
        return np.full(len(seen.q), replays, seen.q.dtype)

    def work(self, shape: MachineShape) -> RuleWork:
        """None: a counter of frames decides."""
        return NO_WORK

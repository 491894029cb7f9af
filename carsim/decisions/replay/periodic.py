"""Replay on a fixed schedule: layers compute in turn, whatever is shown."""

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from carsim.base.section import FieldError
from carsim.decisions.attention.base import Array
from carsim.decisions.replay.base import ReplayRule, of_layer
from carsim.decisions.replay.seen import Seen
from carsim.decisions.replay.shapes import NO_WORK, MachineShape, RuleWork

Period = Annotated[int, Field(ge=2, le=1024)]
Computes = Annotated[int, Field(ge=1, le=1023)]


class Periodic(ReplayRule):
    """A schedule: of ``period`` frames, a layer computes in ``computes`` and replays in the others.

    Both are one number, or one per layer, so that layers that matter little can replay more often.
    The score is 0 where (layer + frame) mod period is below ``computes``, and 1 elsewhere, so any
    tau of at least 0 and below 1 follows the schedule; use 0.5. All rows decide alike, so broadcast
    weights are saved in full. Nothing is looked at, so the machine has no score to take.
    """

    label: ClassVar[str] = "period"
    known_at = "q"
    later: ClassVar[frozenset[str]] = ReplayRule.later | {"computes"}

    kind: Literal["periodic"] = "periodic"
    period: Period | Annotated[tuple[Period, ...], Field(min_length=1, strict=False)] = Field(
        2, description="frames after which a layer's schedule repeats; or one number per layer"
    )
    computes: Computes | Annotated[tuple[Computes, ...], Field(min_length=1, strict=False)] = Field(
        1, description="frames of each period in which a layer computes; or one number per layer"
    )

    @model_validator(mode="after")
    def _each_layer_replays(self) -> "Periodic":
        """Refuse layers that compute in every frame of their period."""
        n_layers = max(np.size(self.period), np.size(self.computes))
        periods = np.resize(self.period, n_layers).tolist()
        computed_frames = np.resize(self.computes, n_layers).tolist()
        for period, computes in zip(periods, computed_frames, strict=True):
            if computes >= period:
                problem = f"got {computes} of {period} frames, in which nothing replays"
                raise FieldError("computes", problem, f"give at most {period - 1}")
        return self

    def score(self, state: None, layer: int, place: int, seen: Seen) -> Array:
        """1 for all rows in frames in which the layer replays, else 0, [B]."""
        frame_of_period = (layer + seen.frame) % of_layer(self.period, layer)
        replays = frame_of_period >= of_layer(self.computes, layer)
        return np.full(seen.n_rows, float(replays))

    def work(self, shape: MachineShape) -> RuleWork:
        """None: a counter of frames decides."""
        return NO_WORK

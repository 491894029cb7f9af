"""Measured quality of the decoding that a trace holds, beside decoding without approximation."""

import math
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, NonNegativeInt, model_validator

from carsim.base.statistics import Interval, bootstrap_mean
from carsim.decisions.trace.geometry import TraceSection

_Losses = tuple[Annotated[float, Field(ge=0, allow_inf_nan=False)], ...]

_Dropped = Annotated[None, BeforeValidator(lambda _: None), Field(exclude=True)]
"""A field of earlier files, about generated pictures."""


class PerClip(TraceSection):
    """The loss of each clip, under the trace's decoding and beside it under dense decoding.

    Attributes:
        own: n numbers.
        dense: n numbers, of the same clips.
    """

    own: Annotated[_Losses, Field(min_length=1)]
    dense: _Losses

    @property
    def own_mean(self) -> float:
        """Mean over clips."""
        return math.fsum(self.own) / len(self.own)

    @property
    def dense_mean(self) -> float:
        """Mean over clips."""
        return math.fsum(self.dense) / len(self.dense)

    @property
    def difference(self) -> Interval:
        """Mean of own - dense, clip by clip, with its bootstrap interval over clips."""
        return bootstrap_mean(
            [own - dense for own, dense in zip(self.own, self.dense, strict=True)]
        )

    @model_validator(mode="after")
    def _of_the_same_clips(self) -> Self:
        if len(self.own) != len(self.dense):
            raise ValueError(f"{len(self.own)} clips beside {len(self.dense)} of dense decoding")
        return self


class MeasuredQuality(TraceSection):
    """Measured quality of n clips: the trace's decoding, and one without approximation beside it.

    Losses are those of the conditional row without guidance, in nats per token of the frames from
    ``first_frame`` on.

    Attributes:
        dense: Meaning of "dense": the decoding to compare with.
        first_frame: First frame that counts.
        teacher_forced_nats: Loss when the true tokens are fed, so that nothing drifts.
        peak: Ignored.
        by_sampling: Ignored.
    """

    dense: Literal["no replay, dense attention"] = "no replay, dense attention"
    first_frame: NonNegativeInt
    teacher_forced_nats: PerClip
    peak: _Dropped = None
    by_sampling: _Dropped = None

    @property
    def n_clips(self) -> int:
        """Clips measured, the first of the trace."""
        return len(self.teacher_forced_nats.own)

    @property
    def loss(self) -> Interval:
        """Teacher-forced loss over dense decoding, nats per token."""
        return self.teacher_forced_nats.difference

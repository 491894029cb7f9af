"""Measured quality of the decoding that a trace holds, beside decoding without approximation."""

import math
from collections.abc import Callable
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, NonNegativeInt, model_validator

from carsim.base.statistics import Interval, bootstrap_mean
from carsim.decisions.trace.geometry import TraceSection

_Share = Annotated[float, Field(ge=0, le=1)]
_Finite = Annotated[float, Field(allow_inf_nan=False)]

PEAK = 255
"""Pixels are of 8 bits."""

MOST_PSNR_DB = round(10 * math.log10(PEAK**2 * 12), 5)
"""PSNR of the error of rounding to whole pixel values, 1/12. None is larger, so that clips that are
equal have one too."""


class PerClip(TraceSection):
    """One figure of each clip, under the trace's decoding and beside it under dense decoding.

    Attributes:
        own: n numbers.
        dense: n numbers, of the same clips.
    """

    own: Annotated[tuple[_Finite, ...], Field(min_length=1)]
    dense: tuple[_Finite, ...]

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


def _within(least: float, most: float) -> Callable[[PerClip], PerClip]:
    def check(figures: PerClip) -> PerClip:
        for value in (*figures.own, *figures.dense):
            if not least <= value <= most:
                raise ValueError(f"expected {least:g} to {most:g}, got {value:g}")
        return figures

    return check


_Nats = Annotated[PerClip, AfterValidator(_within(0, math.inf))]


class SampledQuality(TraceSection):
    """Generated frames of n clips under one way of choosing tokens.

    Dense decoding draws with the same noise. The true clip is decoded from its own codes, so that
    the codebook's error is no part of any figure.

    Attributes:
        sampling: Way of choosing tokens. ``top_k`` has the k and the temperature of the trace, both
            ways its guidance scale.
        psnr_db: Peak signal-to-noise ratio of the generated frames of each clip against the true
            clip, of the mean squared error over all of them; at most :data:`MOST_PSNR_DB`.
        ssim: Structural similarity to the true clip, mean over generated frames.
        clip_nats: Loss per token of the dense model that is fed the generated clip: how likely it
            finds what was generated. Low is likely, which a grey picture is as well.
        token_agreement: Share of the generated tokens that dense decoding chose too; n numbers.
    """

    sampling: Literal["greedy", "top_k"]
    psnr_db: Annotated[PerClip, AfterValidator(_within(0, MOST_PSNR_DB))]
    ssim: Annotated[PerClip, AfterValidator(_within(-1, 1))]
    clip_nats: _Nats
    token_agreement: tuple[_Share, ...]

    @property
    def token_agreement_mean(self) -> float:
        """Mean over clips."""
        return math.fsum(self.token_agreement) / len(self.token_agreement)


class MeasuredQuality(TraceSection):
    """Measured quality of n clips: the trace's decoding, and one without approximation beside it.

    Losses are those of the conditional row without guidance, in nats per token of the frames from
    ``first_frame`` on.

    Attributes:
        dense: What "dense" is: the decoding to compare with.
        peak: Largest value of a pixel, for PSNR and SSIM.
        first_frame: First generated frame; frames before it were given.
        teacher_forced_nats: Loss when the true tokens are fed, so that nothing drifts.
        by_sampling: One for each way of choosing tokens.
    """

    dense: Literal["no replay, dense attention"] = "no replay, dense attention"
    peak: Literal[255] = 255
    first_frame: NonNegativeInt
    teacher_forced_nats: _Nats
    by_sampling: Annotated[tuple[SampledQuality, ...], Field(min_length=1)]

    @property
    def n_clips(self) -> int:
        """Clips measured, the first of the trace."""
        return len(self.teacher_forced_nats.own)

    @property
    def loss(self) -> Interval:
        """Teacher-forced loss over dense decoding, nats per token."""
        return self.teacher_forced_nats.difference

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for measured in self.by_sampling:
            for name in ("psnr_db", "ssim", "clip_nats", "token_agreement"):
                value = getattr(measured, name)
                n_clips = len(value.own if isinstance(value, PerClip) else value)
                if n_clips != self.n_clips:
                    raise ValueError(f"{name} of {n_clips} clips, loss of {self.n_clips}")
        names = [measured.sampling for measured in self.by_sampling]
        if len(set(names)) < len(names):
            raise ValueError("a sampling is listed twice")
        return self

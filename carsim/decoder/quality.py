"""Loss of quality by replay and sparse attention, against decoding without either.

Model: the same clips are decoded again with no replay and dense attention, with the same seeds, and
their frames and tokens are compared. One token that is chosen otherwise changes all later ones, so
that PSNR measures how far a video departs from the reference, not how bad it looks. The
teacher-forced loss, for which the true tokens are fed, does not drift.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from carsim.decoder.content import TOKENS_PER_FRAME, Codebook, psnr_db
from carsim.decoder.content.extra import need
from carsim.decoder.group import Group
from carsim.decoder.recipe import Method, Sampling
from carsim.decoder.structures import Policy
from carsim.trace.meta import Quality, SampledQuality

Tokens = NDArray[np.int64]
Kind = Literal["approximate", "reference"]
Way = tuple[Method | Literal["given"], Kind]
"""Source of the tokens, and whether anything is approximated."""

KINDS: tuple[Kind, ...] = ("approximate", "reference")
PEAK = 255
"""Pixels are of 8 bits."""


def ways(samplings: Sequence[Method]) -> tuple[Way, ...]:
    """All decodings that a measurement needs."""
    methods: tuple[Method | Literal["given"], ...] = (*samplings, "given")
    return tuple((method, kind) for method in methods for kind in KINDS)


def variant(group: Group, way: Way) -> Group:
    """The group decoded in one of the ways.

    Args:
        group: As its recipe has it, sampling included.
        way: Source of tokens, and kind.
    """
    tokens, kind = way
    if kind == "reference":
        dense = Policy((None,) * group.config.geometry.n_layers)
        group = replace(group, policy=dense)
    if tokens == "given":
        return replace(group, sampling=None, given_steps=group.config.n_steps)
    assert group.sampling is not None
    if tokens != group.sampling.method:
        other = Sampling(method=tokens, guidance_scale=group.sampling.guidance_scale)
        group = replace(group, sampling=other)
    return group


def assess(
    codebook: Codebook,
    first_frame: int,
    samplings: Sequence[Method],
    tokens: Mapping[Way, Tokens],
    nats: Mapping[Kind, float],
) -> Quality:
    """Quality from decodings.

    Args:
        codebook: Of the tokens.
        first_frame: First frame that was not given.
        samplings: Ways to choose tokens.
        tokens: int64[S, n] of n clips, of both kinds for each of the samplings.
        nats: Mean loss of both kinds where tokens were given, see :func:`mean_loss`.
    """
    first_step = first_frame * TOKENS_PER_FRAME
    return Quality(
        n_clips=tokens[samplings[0], "reference"].shape[1],
        first_frame=first_frame,
        teacher_forced_nats=nats["approximate"],
        teacher_forced_dense_nats=nats["reference"],
        by_sampling=tuple(
            compare(
                codebook,
                method,
                tokens[method, "approximate"][first_step:],
                tokens[method, "reference"][first_step:],
            )
            for method in samplings
        ),
    )


def mean_loss(nats: NDArray[np.float64], first_frame: int) -> float:
    """Mean over the frames that are generated elsewhere, rounded to four decimals.

    Args:
        nats: Losses per token [S, n].
        first_frame: First frame that counts.
    """
    return _rounded(nats[first_frame * TOKENS_PER_FRAME :].mean())


def compare(codebook: Codebook, sampling: Method, made: Tokens, wanted: Tokens) -> SampledQuality:
    """Compare generated frames with those of the reference.

    Args:
        codebook: Of the tokens.
        sampling: Way in which both were sampled.
        made: int64[F * 256, n], tokens of n clips.
        wanted: The reference's.

    Raises:
        InputError: scikit-image is missing.
    """
    similarity = need("skimage.metrics").structural_similarity
    n_clips = made.shape[1]
    grids = [each.T.reshape(n_clips, -1, TOKENS_PER_FRAME) for each in (made, wanted)]
    frames, references = (
        np.stack([codebook.decode(clip) for clip in grid]) for grid in grids
    )  # uint8[n, F, 64, 64, 3]
    ssim = np.array(
        [
            [
                similarity(*pair, channel_axis=-1, data_range=PEAK)
                for pair in zip(clip, reference, strict=True)
            ]
            for clip, reference in zip(frames, references, strict=True)
        ]
    )  # [n, F]
    agree = (grids[0] == grids[1]).mean(axis=(0, 2))  # [F]
    by_frame = range(frames.shape[1])
    return SampledQuality(
        sampling=sampling,
        psnr_db=_rounded(psnr_db(references, frames)),
        ssim=_rounded(ssim.mean()),
        token_agreement=_rounded(agree.mean()),
        psnr_db_by_frame=tuple(_rounded(psnr_db(references[:, t], frames[:, t])) for t in by_frame),
        ssim_by_frame=tuple(_rounded(value) for value in ssim.mean(axis=0)),
        token_agreement_by_frame=tuple(_rounded(value) for value in agree),
        identical_clips=int((made == wanted).all(axis=0).sum()),
    )


def _rounded(value: Any) -> float:
    return round(float(value), 4)

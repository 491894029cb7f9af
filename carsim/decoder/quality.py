"""Loss of quality by replay, sparse attention and few bits, beside decoding without any of them.

Model: the same clips are decoded again with no replay and dense attention, in the decoder's own
arithmetic, and with the same noise of sampling, so that both part only where the model's opinion
changed. Measured are, clip by clip:

* the teacher-forced loss of both, for which the true tokens are fed, so that nothing drifts;
* the loss of the dense model that is fed what either generated: how likely it finds that;
* PSNR and SSIM of the generated frames of either against the true clip, decoded from its own codes.

Simplification: losses are those of the conditional row without guidance, whatever guidance the
tokens were chosen under.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.base.environment import library
from carsim.decisions.trace.quality import (
    MOST_PSNR_DB,
    PEAK,
    MeasuredQuality,
    PerClip,
    SampledQuality,
)
from carsim.decoder.content import TOKENS_PER_FRAME, Codebook, psnr_db
from carsim.decoder.decoding import Method, TokenSampling
from carsim.decoder.group import RowGroup
from carsim.decoder.structures import DecoderPolicy

Tokens = NDArray[np.int64]
Nats = NDArray[np.float64]
Kind = Literal["approximate", "dense"]
Way = tuple[Method | Literal["given"], Kind]
"""Source of the tokens, and whether anything is approximated."""

KINDS: tuple[Kind, ...] = ("approximate", "dense")


class Generated(NamedTuple):
    """Clips as one way has generated them; S steps, n clips.

    Attributes:
        tokens: int64[S, n].
        dense_nats: [S, n], the dense model's losses when it is fed these tokens.
    """

    tokens: Tokens
    dense_nats: Nats


def ways(samplings: Sequence[Method]) -> tuple[Way, ...]:
    """All decodings that a measurement needs, but for :func:`reading` of what they generate."""
    methods: tuple[Method | Literal["given"], ...] = (*samplings, "given")
    return tuple((method, kind) for method in methods for kind in KINDS)


def is_read(way: Way) -> bool:
    """The dense model reads what a way generates, unless it generates that itself."""
    return way[0] != "given" and way[1] == "approximate"


def variant(group: RowGroup, way: Way) -> RowGroup:
    """The group decoded in one of the ways.

    Args:
        group: As its recipe has it, sampling included.
        way: Source of tokens, and kind.
    """
    tokens, kind = way
    if kind == "dense":
        dense = DecoderPolicy((None,) * group.config.geometry.n_layers)
        group = replace(group, policy=dense, quantised=None)
    if tokens == "given":
        return replace(group, sampling=None, given_steps=group.config.n_steps)
    assert group.sampling is not None
    if tokens != group.sampling.method:
        other = TokenSampling(method=tokens, guidance_scale=group.sampling.guidance_scale)
        group = replace(group, sampling=other)
    return group


def reading(group: RowGroup, tokens: Tokens) -> RowGroup:
    """The dense model fed what the group has generated; its losses tell how likely it finds that.

    What dense decoding generated needs no reading: its losses were those when it generated.

    Args:
        group: The rows.
        tokens: int64[S, pairs].
    """
    return replace(variant(group, ("given", "dense")), tokens=tokens)


def assess(
    codebook: Codebook,
    first_frame: int,
    truth: Tokens,
    forced: Mapping[Kind, Nats],
    generated: Mapping[Method, Mapping[Kind, Generated]],
) -> MeasuredQuality:
    """Quality from decodings of n clips.

    Args:
        codebook: Of the tokens.
        first_frame: First frame that was not given.
        truth: int64[S, n], the clips' own tokens.
        forced: Losses [S, n] of both kinds where those were fed.
        generated: What both kinds made of the clips, for each way to choose tokens.

    Raises:
        InputError: scikit-image is missing.
    """
    return MeasuredQuality(
        first_frame=first_frame,
        teacher_forced_nats=PerClip(
            own=clip_means(forced["approximate"], first_frame),
            dense=clip_means(forced["dense"], first_frame),
        ),
        by_sampling=tuple(
            sampled_quality(codebook, first_frame, method, truth, made)
            for method, made in generated.items()
        ),
    )


def clip_means(nats: Nats, first_frame: int) -> tuple[float, ...]:
    """Mean loss of each of n clips from a frame on.

    Args:
        nats: Losses per token [S, n].
        first_frame: First frame that counts.
    """
    return _rounded(nats[first_frame * TOKENS_PER_FRAME :].mean(axis=0))


def sampled_quality(
    codebook: Codebook,
    first_frame: int,
    sampling: Method,
    truth: Tokens,
    generated: Mapping[Kind, Generated],
) -> SampledQuality:
    """Hold the generated frames of both kinds against those of the true clips.

    Args:
        codebook: Of the tokens.
        first_frame: First frame that was not given.
        sampling: Way in which both were sampled.
        truth: int64[S, n], the clips' own tokens.
        generated: What both kinds made of them.

    Raises:
        InputError: scikit-image is missing.
    """
    similarity = library("skimage.metrics", "quality").structural_similarity

    def frames_of(tokens: Tokens) -> Tokens:
        """[n, F, 256], the frames that were generated."""
        return tokens.T.reshape(tokens.shape[1], -1, TOKENS_PER_FRAME)[:, first_frame:]

    def of_pictures(kind: Kind) -> tuple[list[float], list[float]]:
        """PSNR and SSIM of each clip."""
        psnr, ssim = [], []
        for own, true in zip(frames_of(generated[kind].tokens), frames_of(truth), strict=True):
            frames, wanted = codebook.decode(own), codebook.decode(true)  # uint8[F, 64, 64, 3]
            psnr.append(min(MOST_PSNR_DB, psnr_db(wanted, frames)))
            pairs = zip(frames, wanted, strict=True)
            each = [similarity(*pair, channel_axis=-1, data_range=PEAK) for pair in pairs]
            ssim.append(float(np.mean(each)))
        return psnr, ssim

    own, dense = (of_pictures(kind) for kind in KINDS)
    made, beside = (frames_of(generated[kind].tokens) for kind in KINDS)
    return SampledQuality(
        sampling=sampling,
        psnr_db=PerClip(own=_rounded(own[0]), dense=_rounded(dense[0])),
        ssim=PerClip(own=_rounded(own[1]), dense=_rounded(dense[1])),
        clip_nats=PerClip(
            own=clip_means(generated["approximate"].dense_nats, first_frame),
            dense=clip_means(generated["dense"].dense_nats, first_frame),
        ),
        token_agreement=_rounded((made == beside).mean(axis=(1, 2))),
    )


def _rounded(values: Any) -> tuple[float, ...]:
    return tuple(round(float(value), 5) for value in values)

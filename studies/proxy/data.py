"""Training sequences: walks through game levels, photographs in motion, and their prompts.

Each batch follows from the seed and its number alone, so that an interrupted training goes on as
if it had not been.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from carsim.decoder.content import TOKENS_PER_FRAME, Codebook, scene_caption
from carsim.decoder.model import TEXT_SYMBOLS
from carsim.decoder.recipe import PROMPT
from studies.proxy.photos import PHOTO_MOTIONS, SPEEDS, TRAINING_PHOTOS, Clip, make_clip

Codes = NDArray[np.int64]

_PHOTO_SHARE = 0.12
_CUT_SHARE = 0.05  # clips of walks that jump to another walk
_SKIP_SHARE = 0.2  # clips of walks that show every other frame
_BLANK_SHARE = 0.15  # rows whose prompt is blank, for classifier-free guidance (arXiv 2207.12598)
_FAR_SHARE = 0.3  # rows whose frames stand later in the video than right after the prompt
_MOST_FRAMES = 32
FIRST_FRAME_WEIGHT = 0.3


@dataclass(frozen=True)
class Stage:
    """A part of the curriculum.

    Attributes:
        until: Share of all steps at which the stage ends.
        n_frames: Frames per clip.
        n_clips: Clips per batch.
    """

    until: float
    n_frames: int
    n_clips: int


@dataclass(frozen=True)
class Batch:
    """Sequences of prompt, begin symbol and tokens, padded on the right.

    Attributes:
        tokens: int64[B, S], what is fed (joint vocabulary, see :meth:`network.Twin.forward`).
        positions: int64[B, S].
        targets: int64[B, S], the code to predict; 0 where the weight is 0.
        weights: float32[B, S]: 0 for prompt and padding, :data:`FIRST_FRAME_WEIGHT` in frame 0.
    """

    tokens: Tensor
    positions: Tensor
    targets: Tensor
    weights: Tensor


def draw_batch(
    stage: Stage,
    walks: list[NDArray[np.int16]],
    codebook: Codebook,
    seed: int,
    step: int,
) -> Batch:
    """The batch of a step; it depends on nothing else."""
    rng = np.random.default_rng([seed, 2, step])
    rows = []
    for _ in range(stage.n_clips):
        if rng.random() < _PHOTO_SHARE:
            caption, codes = _photo_clip(stage.n_frames, codebook, rng)
        else:
            caption, codes = _walk_clip(stage.n_frames, walks, rng)
        prompt = PROMPT if rng.random() < _BLANK_SHARE else f"{PROMPT} {caption}"
        far = _MOST_FRAMES - stage.n_frames + 1
        shift = rng.integers(far) * TOKENS_PER_FRAME if rng.random() < _FAR_SHARE else 0
        rows.append((prompt, codes.ravel(), shift))
    return assemble(rows, codebook.n_codes)


def _walk_clip(
    n_frames: int, walks: list[NDArray[np.int16]], rng: np.random.Generator
) -> tuple[str, Codes]:
    """Any piece of any walk, now and then with a cut in it."""

    def piece(frames: int) -> Codes:
        every = 2 if rng.random() < _SKIP_SHARE else 1
        walk = walks[rng.integers(len(walks))]
        start = rng.integers(len(walk) - every * frames + 1)
        return walk[start : start + every * frames : every].astype(np.int64)

    codes = piece(n_frames)
    if rng.random() < _CUT_SHARE:
        at = int(rng.integers(1, n_frames))
        codes = np.concatenate([codes[:at], piece(n_frames - at)])
    return scene_caption(codes), codes


def _photo_clip(n_frames: int, codebook: Codebook, rng: np.random.Generator) -> tuple[str, Codes]:
    """Any training photograph in any motion."""
    photo, motion = rng.choice(TRAINING_PHOTOS), PHOTO_MOTIONS[rng.integers(len(PHOTO_MOTIONS))]
    clip = Clip(str(photo), motion, float(rng.choice(SPEEDS)), int(rng.integers(2**31)))
    return clip.caption, codebook.encode(make_clip(clip, n_frames))


def assemble(rows: list[tuple[str, Codes, int]], n_codes: int) -> Batch:
    """Sequences side by side.

    Args:
        rows: Prompt, codes [T * 256], and by how many places the video stands later than right
            after the prompt.
        n_codes: K.
    """
    length = max(len(prompt.encode()) + len(codes) for prompt, codes, _ in rows)
    tokens, positions, targets = np.zeros((3, len(rows), length), np.int64)
    weights = np.zeros((len(rows), length), np.float32)
    positions[:] = np.arange(length)
    for row, (prompt, codes, shift) in enumerate(rows):
        text = list(prompt.encode())
        start, end = len(text), len(text) + len(codes)
        tokens[row, :start] = text
        tokens[row, start] = TEXT_SYMBOLS + n_codes  # begin
        tokens[row, start + 1 : end] = TEXT_SYMBOLS + codes[:-1]
        targets[row, start:end] = codes
        weights[row, start : start + TOKENS_PER_FRAME] = FIRST_FRAME_WEIGHT
        weights[row, start + TOKENS_PER_FRAME : end] = 1
        positions[row, start:] += shift
    return Batch(
        *(torch.from_numpy(array) for array in (tokens, positions, targets)),
        torch.from_numpy(weights),
    )

"""Training sequences: clips of the training photographs in graded motion, with their prompts.

Each batch follows from the seed and its number alone, so that an interrupted training goes on as
if it had not been.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from carsim.decoder.content import (
    DIGITS,
    PHOTO_MOTIONS,
    TOKENS_PER_FRAME,
    TRAINING_PHOTOS,
    Clip,
    Codebook,
    make_clip,
)
from carsim.decoder.model import TEXT_SYMBOLS
from carsim.decoder.recipe import PROMPT

_DIGIT_SHARE = 0.12
_BLANK_SHARE = 0.15  # rows whose prompt is blank, for classifier-free guidance (arXiv 2207.12598)
_TURNED_SHARE = 0.5  # clips shown mirrored or turned by quarters
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
        speeds: Pixels per frame, drawn alike often.
    """

    until: float
    n_frames: int
    n_clips: int
    speeds: tuple[float, ...]


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


def draw_batch(stage: Stage, codebook: Codebook, seed: int, step: int) -> Batch:
    """The batch of a step."""
    rng = np.random.default_rng([seed, 2, step])
    rows = []
    for _ in range(stage.n_clips):
        clip = draw_clip(stage, rng)
        frames = make_clip(clip, stage.n_frames)
        if rng.random() < _TURNED_SHARE:
            frames = np.rot90(frames, rng.integers(4), axes=(1, 2))[:, :, :: rng.choice([1, -1])]
        caption = PROMPT if rng.random() < _BLANK_SHARE else f"{PROMPT} {clip.caption}"
        far = _MOST_FRAMES - stage.n_frames + 1
        shift = rng.integers(far) * TOKENS_PER_FRAME if rng.random() < _FAR_SHARE else 0
        rows.append((caption, codebook.encode(np.ascontiguousarray(frames)).ravel(), shift))
    return assemble(rows, codebook.n_codes)


def assemble(rows: list[tuple[str, np.ndarray, int]], n_codes: int) -> Batch:
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


def draw_clip(stage: Stage, rng: np.random.Generator) -> Clip:
    """Digits now and then, else any training photograph in any motion."""
    speed = float(rng.choice(stage.speeds))
    seed = int(rng.integers(2**31))
    if rng.random() < _DIGIT_SHARE:
        return Clip(DIGITS, "bounce", speed, seed)
    photo, motion = rng.choice(TRAINING_PHOTOS), PHOTO_MOTIONS[rng.integers(len(PHOTO_MOTIONS))]
    return Clip(str(photo), motion, speed, seed)

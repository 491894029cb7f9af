"""What the studies decode: sixteen clips that the twin was never trained on, as guidance pairs."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from carsim.decoder.content import Clip, Codebook, load_codebook, make_clip
from carsim.decoder.recipe import PROMPT

ROOT = Path(__file__).parents[2]
TWIN = ROOT / "studies/twin/twin.safetensors"
CODEBOOK = ROOT / "traces/codebook_512.npz"
SCRATCH = ROOT / "out/studies"
"""Decoded once, analysed many times; outside of version control."""

N_FRAMES = 8
CLOSED_FRAMES = 4
"""Frames decoded densely, and closed-loop at every threshold."""

FIRST_LAYER = 3
"""Layers below gaze at fixed distances (card of the twin): they score position, so that no study
lets them replay unless it says so."""

SLOW, FAST = 0.5, 4.0
"""Pixels a frame: up to, and from."""

# Two halves of eight, alike in speeds: closed loops are decoded on clips of the first, thresholds
# chosen on the second, and dense decoding is looked into on the second.
CLIPS = (
    Clip("chelsea", "pan", 0.0, 101),
    Clip("coins", "pan", 0.5, 102),
    Clip("rocket", "zoom", 1.0, 103),
    Clip("gravel", "pan", 2.0, 104),
    Clip("coins", "rotate", 4.0, 105),
    Clip("chelsea", "cut", 8.0, 106),
    Clip("rocket", "pan", 0.5, 107),
    Clip("digits", "bounce", 4.0, 108),
    Clip("gravel", "pan", 0.0, 109),
    Clip("chelsea", "zoom", 0.5, 110),
    Clip("coins", "zoom", 1.0, 111),
    Clip("rocket", "rotate", 2.0, 112),
    Clip("chelsea", "pan", 4.0, 113),
    Clip("rocket", "pan", 8.0, 114),
    Clip("gravel", "rotate", 1.0, 115),
    Clip("coins", "cut", 4.0, 116),
)
CALIBRATING = tuple(range(8, 16))
"""Numbers of the clips of the second half."""

TRIED = (1, 2, 4, 5)
"""Clips that are decoded closed-loop: 0.5, 1, 4 and 8 pixels a frame."""


@dataclass(frozen=True, eq=False)
class Row:
    """A row to decode.

    Attributes:
        clip: Number of the clip.
        prompt: What the clip shows, or a blank prompt.
        codes: int64[S].
    """

    clip: int
    prompt: bytes
    codes: NDArray[np.int64]


def rows_of(
    clips: tuple[int, ...],
    *,
    blank: bool,
    n_frames: int = N_FRAMES,
    codebook: Codebook | None = None,
) -> tuple[Row, ...]:
    """Rows of clips: one each, or with ``blank`` two, the prompted and the blank, side by side.

    Args:
        clips: Numbers in :data:`CLIPS`.
        blank: Whether each clip comes as a guidance pair.
        n_frames: T.
        codebook: Of the visual tokens; the shipped one when left out.
    """
    codebook = codebook or load_codebook(CODEBOOK)
    rows = []
    for number in clips:
        codes = codebook.encode(make_clip(CLIPS[number], n_frames)).ravel().astype(np.int64)
        rows.append(Row(number, f"{PROMPT} {CLIPS[number].caption}".encode(), codes))
        if blank:
            rows.append(Row(number, PROMPT.encode(), codes))
    return tuple(rows)

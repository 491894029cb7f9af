"""What the studies decode: held-out scenes of ``traces/scenes.npz``, one row each or as pairs."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from carsim.decoder.content import load_codebook, load_scene, scene_caption
from carsim.decoder.recipe import PROMPT

ROOT = Path(__file__).parents[1]
TWIN = ROOT / "studies/proxy/twin.safetensors"
CODEBOOK = ROOT / "traces/codebook_512.npz"
SCENES = ROOT / "traces/scenes.npz"
SCRATCH = ROOT / "out/studies"
"""Decoded once, analysed many times; outside of version control."""

N_FRAMES = 8
PACES = ("still", "slow", "lively", "fast", "cut")
CLIPS = tuple(f"{pace}_{number}" for pace in PACES for number in range(8))
"""Forty scenes that studies measure on."""

TUNING = tuple(f"tune_{number}" for number in range(8))
"""Scenes of other walks, on which thresholds are chosen."""


EXEMPT = (0,)
"""Layers that never replay: those that cost 0.02 nats or more where they replay alone at every
place of the tuning scenes (``studies/chance/alone.csv``)."""


def pace_of(clip: str) -> str:
    """The pace in the name of a scene.

    >>> pace_of("slow_3")
    'slow'
    """
    return clip.split("_")[0]


@dataclass(frozen=True, eq=False)
class Row:
    """A row to decode.

    Attributes:
        clip: Name of the scene.
        prompt: What it shows, or a blank prompt.
        codes: int64[S].
    """

    clip: str
    prompt: bytes
    codes: NDArray[np.int64]


def rows_of(
    clips: tuple[str, ...] = CLIPS,
    *,
    blank: bool = False,
    n_frames: int = N_FRAMES,
    scenes: Path = SCENES,
) -> tuple[Row, ...]:
    """Rows of scenes: one each, or with ``blank`` two, the prompted and the blank, side by side.

    Args:
        clips: Names of scenes.
        blank: Whether each clip comes as a guidance pair.
        n_frames: T.
        scenes: File that has them.
    """
    n_codes = load_codebook(CODEBOOK).n_codes
    rows = []
    for name in clips:
        codes = load_scene(scenes, name, n_frames, n_codes)
        caption = scene_caption(codes[:N_FRAMES])
        rows.append(Row(name, f"{PROMPT} {caption}".encode(), codes.ravel()))
        if blank:
            rows.append(Row(name, PROMPT.encode(), codes.ravel()))
    return tuple(rows)

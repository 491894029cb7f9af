"""Scenes that move by themselves, as tokens: pieces of video that were encoded once and kept.

Model: a file of codes, each scene an array under its name. Simplification: codes only, so that what
the codebook lost is not there either; quality is measured against the decoded codes.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carsim.base.errors import InputError
from carsim.base.text import choose
from carsim.decisions.trace.npz import NpzArchive
from carsim.decoder.content.tokens import TOKENS_PER_FRAME, Tokens

_PACES = ((0.9, "still"), (0.65, "slow"), (0.4, "lively"), (0.0, "fast"))
"""Least share of codes that stay from frame to frame, and the word for it in a prompt."""


def load_scene(path: Path, name: str, n_frames: int, n_codes: int) -> Tokens:
    """The first frames of a scene, int64[T, 256].

    Args:
        path: File of scenes: integers [frames, 256] for each name.
        name: Of the scene.
        n_frames: T.
        n_codes: K of the codebook.

    Raises:
        InputError: The file cannot be used or has no such scene, or the scene is too short or holds
            codes that the codebook has not.
    """
    archive = NpzArchive(path)
    if name not in archive.headers:
        cure = choose(name, sorted(archive.headers), "one of")
        raise InputError(f"scene {name!r}", f"is not in {path}", cure)
    header = archive.headers[name]
    scene = f"{path}: scene {name!r}"
    if header.dtype.kind not in "iu" or header.shape[1:] != (TOKENS_PER_FRAME,):
        wanted = f"integers of shape (frames, {TOKENS_PER_FRAME})"
        problem = f"expected {wanted}, got {header.dtype} of shape {header.shape}"
        raise InputError(scene, problem, "make the file again with studies.proxy.archive")
    if header.shape[0] < n_frames:
        problem = f"has {header.shape[0]} frames, {n_frames} are asked for"
        raise InputError(scene, problem, "ask for fewer frames, or name a longer scene")
    codes = archive.read(name)[:n_frames].astype(np.int64)
    if codes.min() < 0 or codes.max() >= n_codes:
        problem = f"holds code {codes.max()}, the codebook has {n_codes}"
        raise InputError(scene, problem, "name the scenes and the codebook that belong together")
    return codes


def kept_share(codes: NDArray[np.integer[Any]]) -> float:
    """Share of codes equal to those of the same place one frame before; 1 for a single frame.

    Args:
        codes: int[T, 256].
    """
    return float((codes[1:] == codes[:-1]).mean()) if len(codes) > 1 else 1.0


def scene_caption(codes: NDArray[np.integer[Any]]) -> str:
    """A scene in words, as its prompt: its pace.

    >>> scene_caption(np.zeros((4, 256), int))
    'a walk, still'
    """
    share = kept_share(codes)
    return "a walk, " + next(word for least, word in _PACES if share >= least)

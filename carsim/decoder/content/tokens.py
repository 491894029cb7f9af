"""Visual tokens: a learned codebook of 4 x 4 pixel patches.

Model: vector quantisation. A frame of 64 x 64 pixels is cut into a 16 x 16 grid of patches, and
each becomes the index of the nearest of K codes (least squared difference over its 48 values).
Simplification: one code per patch, no residual codes and no learned encoder, where VILA-U has both;
tokens still decode to recognisable pixels.

Codes are 8-bit numbers, so that distances are integers below 2^24, which single precision holds
exactly: encoding gives the same tokens on every machine.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from carsim.base.errors import InputError
from carsim.decisions.trace.npz import Header, NpzArchive, npz_bytes, write_bytes

FRAME_PIXELS = 64
"""Height and width of a frame."""

PATCH_PIXELS = 4
GRID = FRAME_PIXELS // PATCH_PIXELS
TOKENS_PER_FRAME = GRID * GRID
_VALUES = PATCH_PIXELS * PATCH_PIXELS * 3

Tokens = NDArray[np.int64]
Frames = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Codebook:
    """K codes of one patch each, from dark to bright.

    Attributes:
        codes: uint8[K, 48]: 4 x 4 pixels of three colours, row by row.
    """

    codes: NDArray[np.uint8]

    @property
    def n_codes(self) -> int:
        """K."""
        return len(self.codes)

    def encode(self, frames: Frames) -> Tokens:
        """Frames uint8[T, 64, 64, 3] to tokens int64[T, 256], places row by row."""
        patches = frames_to_patches(frames).astype(np.float32)  # [T, 256, 48]
        codes = self.codes.astype(np.float32)
        # |p - c|^2 less |p|^2, which is the same for all codes; the first of equals wins.
        return ((codes**2).sum(axis=1) - 2 * (patches @ codes.T)).argmin(axis=-1)

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the codebook, whole or not at all.

        Raises:
            InputError: The file exists and ``overwrite`` is off, or the folder is not writable.
        """
        write_bytes(Path(path), npz_bytes({"codes": self.codes}), overwrite=overwrite)


def load_codebook(path: str | Path) -> Codebook:
    """Read a codebook.

    Raises:
        InputError: The file is missing, damaged, or holds something else.
    """
    archive = NpzArchive(Path(path))
    header = archive.headers.get("codes") or Header((), np.dtype(np.uint8))
    if header.dtype != np.uint8 or header.shape[1:] != (_VALUES,) or not header.shape[0]:
        problem = f"not a codebook: expected array 'codes', uint8 of shape (K, {_VALUES})"
        raise InputError(str(path), problem, "name the codebook that the recipe's tokens are of")
    return Codebook(archive.read("codes"))


def frames_to_patches(frames: Frames) -> Frames:
    """Frames uint8[T, 64, 64, 3] to patches uint8[T, 256, 48].

    Raises:
        InputError: Frames of another size or type.
    """
    if frames.shape[1:] != (FRAME_PIXELS, FRAME_PIXELS, 3) or frames.dtype != np.uint8:
        wanted = f"uint8 of shape (T, {FRAME_PIXELS}, {FRAME_PIXELS}, 3)"
        raise InputError("frames", f"expected {wanted}, got {frames.dtype} of {frames.shape}")
    grid = frames.reshape(-1, GRID, PATCH_PIXELS, GRID, PATCH_PIXELS, 3)
    return grid.swapaxes(2, 3).reshape(-1, TOKENS_PER_FRAME, _VALUES)

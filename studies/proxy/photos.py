"""Short clips with known motion, from photographs that ship inside the scikit-image package.

Model: a camera of 64 x 64 pixels moves over a still photograph, at a speed stated in pixels per
frame. Simplifications: one motion per clip, nothing in the scene moves by itself, no noise, no
motion blur. Speed 0 repeats one frame exactly.
"""

import zlib
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from carsim.base.environment import library
from carsim.decoder.content import FRAME_PIXELS
from carsim.decoder.content.tokens import Frames

PHOTO_FILES = {
    "astronaut": "astronaut.png",
    "brick": "brick.png",
    "camera": "camera.png",
    "cell": "cell.png",
    "chelsea": "chelsea.png",
    "clock": "clock_motion.png",
    "coffee": "coffee.png",
    "coins": "coins.png",
    "grass": "grass.png",
    "gravel": "gravel.png",
    "hubble": "hubble_deep_field.jpg",
    "ihc": "ihc.png",
    "retina": "retina.jpg",
    "rocket": "rocket.jpg",
}
"""Photographs inside the package whose documentation declares them free of copyright restrictions
(licences: ``traces/README.md``); nothing is downloaded."""

PHOTOS = tuple(PHOTO_FILES)

HELD_OUT_PHOTOS = ("chelsea", "coins", "gravel", "rocket")
"""Left out of training, so that quality is measured on what was never seen."""

TRAINING_PHOTOS = tuple(name for name in PHOTOS if name not in HELD_OUT_PHOTOS)

Motion = Literal["pan", "zoom", "rotate", "cut"]
PHOTO_MOTIONS: tuple[Motion, ...] = get_args(Motion)
SPEEDS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)

_SCENE_PIXELS = 128  # short side of a photograph, so that a frame shows half of it
_CUT_PIXELS = 8.0  # a cut falls each time that a pan of the same speed would have gone so far
_MAX_ZOOM = 2.0


@dataclass(frozen=True)
class Clip:
    """A clip: its picture and its motion.

    Attributes:
        photo: One of :data:`PHOTOS`.
        motion: ``pan``: straight, reflected at the edges of the photograph; ``zoom``: in and out
            between 1x and 2x; ``rotate``: about the centre of the frame; ``cut``: still, jumping
            to another place each time a pan would have gone 8 pixels.
        speed: Pixels per frame; at the border of the frame for ``zoom`` and ``rotate``.
        seed: Chooses place and direction.
    """

    photo: str
    motion: Motion
    speed: float
    seed: int = 0

    @property
    def caption(self) -> str:
        """The clip in words, as its prompt."""
        pace = "still" if self.speed == 0 else f"{self.motion} {self.speed:g} pixels a frame"
        return f"{self.photo}, {pace}"


def make_clip(clip: Clip, n_frames: int) -> Frames:
    """Draw a clip.

    Args:
        clip: Picture and motion.
        n_frames: T.

    Returns:
        uint8[T, 64, 64, 3], the same for the same clip; a longer clip begins with the shorter.

    """
    # The seed alone would give the same path over every photograph.
    rng = np.random.default_rng([clip.seed, zlib.crc32(repr(asdict(clip)).encode())])
    scene = _scene(clip.photo)
    free = np.array(scene.shape[:2], float) - FRAME_PIXELS  # how far the frame can move, [y, x]
    frames = np.arange(n_frames, dtype=float)
    corner = rng.uniform(0, free)
    direction = rng.uniform(0, 2 * np.pi)
    corners = np.tile(corner, (n_frames, 1))
    zoom, angle = np.ones(n_frames), np.zeros(n_frames)
    half = FRAME_PIXELS / 2
    if clip.motion == "pan":
        way = clip.speed * frames[:, None] * np.array([np.sin(direction), np.cos(direction)])
        corners = _reflect(corner + way, free)
    elif clip.motion == "zoom":
        zoom = 1 + _reflect(clip.speed / half * frames, _MAX_ZOOM - 1)
    elif clip.motion == "rotate":
        corners = np.tile(free / 2 + (corner - free / 2) / 3, (n_frames, 1))  # off the edges
        angle = direction + clip.speed / half * frames
    else:
        places = rng.uniform(0, free, (int(n_frames * clip.speed / _CUT_PIXELS) + 1, 2))
        corners = places[(frames * clip.speed / _CUT_PIXELS).astype(int)]
    return np.stack([_view(scene, *view) for view in zip(corners, zoom, angle, strict=True)])


def _reflect(
    position: NDArray[np.float64], limit: NDArray[np.float64] | float
) -> NDArray[np.float64]:
    """Fold a straight way into 0 to ``limit``, turning round at both ends."""
    folded = np.mod(position, 2 * limit)
    reflected: NDArray[np.float64] = np.minimum(folded, 2 * limit - folded)
    return reflected


def _view(
    scene: NDArray[np.float64], corner: NDArray[np.float64], zoom: float, angle: float
) -> Frames:
    """The frame with its corner there, bilinear; zoom and rotation about the frame's centre."""
    centre = (FRAME_PIXELS - 1) / 2
    y, x = (np.indices((FRAME_PIXELS, FRAME_PIXELS)) - centre) / zoom
    cos, sin = np.cos(angle), np.sin(angle)
    ys = np.clip(corner[0] + centre + y * cos - x * sin, 0, scene.shape[0] - 1)
    xs = np.clip(corner[1] + centre + y * sin + x * cos, 0, scene.shape[1] - 1)
    top = np.minimum(ys.astype(int), scene.shape[0] - 2)
    left = np.minimum(xs.astype(int), scene.shape[1] - 2)
    down, right = (ys - top)[..., None], (xs - left)[..., None]
    upper = scene[top, left] * (1 - right) + scene[top, left + 1] * right
    lower = scene[top + 1, left] * (1 - right) + scene[top + 1, left + 1] * right
    frame: Frames = np.rint(upper * (1 - down) + lower * down).astype(np.uint8)
    return frame


@lru_cache(maxsize=len(PHOTO_FILES))
def _scene(photo: str) -> NDArray[np.float64]:
    """A photograph in colour, its short side at 128 pixels, values 0 to 255."""
    skimage, io, transform = (
        library(module, "photographs") for module in ("skimage", "skimage.io", "skimage.transform")
    )
    path = Path(skimage.__file__).parent / "data" / PHOTO_FILES[photo]
    image = io.imread(path)
    colour = image if image.ndim == 3 else np.repeat(image[..., None], 3, axis=2)
    scale = _SCENE_PIXELS / min(colour.shape[:2])
    size = (round(colour.shape[0] * scale), round(colour.shape[1] * scale))
    small: NDArray[np.float64] = transform.resize(
        colour, size, anti_aliasing=True, preserve_range=True
    ).clip(0, 255)
    return small

"""Short clips with known motion, from photographs that ship inside the scikit-image package.

Model: a camera of 64 x 64 pixels moves over a still photograph (or two handwritten digits bounce
in front of black), at a speed stated in pixels per frame. Simplifications: one motion per clip,
nothing in the scene moves by itself, no noise, no motion blur. Speed 0 repeats one frame exactly.
"""

import zlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from carsim.base.environment import library
from carsim.base.errors import InputError
from carsim.base.text import choose

FRAME_PIXELS = 64
"""Height and width of a frame."""

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

VIDEO_CONTENT = "video content"
"""What needs libraries of the extra ``content``."""

PHOTOS = tuple(PHOTO_FILES)
DIGITS = "digits"
"""Not a photograph: handwritten digits from scikit-learn, which only bounce."""

HELD_OUT_PHOTOS = ("chelsea", "coins", "gravel", "rocket")
"""Left out of training, so that quality is measured on what was never seen."""

TRAINING_PHOTOS = tuple(name for name in PHOTOS if name not in HELD_OUT_PHOTOS)

Motion = Literal["pan", "zoom", "rotate", "cut", "bounce"]
PHOTO_MOTIONS: tuple[Motion, ...] = ("pan", "zoom", "rotate", "cut")
SPEEDS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)

_SCENE_PIXELS = 128  # short side of a photograph, so that a frame shows half of it
_CUT_PIXELS = 8.0  # a cut falls each time that a pan of the same speed would have gone so far
_MAX_ZOOM = 2.0
_DIGIT_SCALE = 3

Frames = NDArray[np.uint8]


@dataclass(frozen=True)
class Clip:
    """A clip: its picture and its motion.

    Attributes:
        photo: One of :data:`PHOTOS`, or :data:`DIGITS`.
        motion: ``pan``: straight, reflected at the edges of the photograph; ``zoom``: in and out
            between 1x and 2x; ``rotate``: about the centre of the frame; ``cut``: still, jumping
            to another place each time a pan would have gone 8 pixels; ``bounce``: digits only.
        speed: Pixels per frame; at the border of the frame for ``zoom`` and ``rotate``.
        seed: Chooses place, direction, digits and colours.
    """

    photo: str
    motion: Motion
    speed: float
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse clips that cannot be drawn.

        Raises:
            InputError: Unknown photograph or motion, a motion that does not go with the
                photograph, or a speed that is negative or not finite.
        """
        if self.photo not in (*PHOTOS, DIGITS):
            raise InputError(
                f"clip photo {self.photo!r}",
                "unknown",
                choose(self.photo, (*PHOTOS, DIGITS), "one of"),
            )
        if self.motion not in get_args(Motion):
            raise InputError(
                f"clip motion {self.motion!r}", "unknown", f"one of {', '.join(get_args(Motion))}"
            )
        if (self.photo == DIGITS) != (self.motion == "bounce"):
            raise InputError(
                f"clip motion {self.motion!r}",
                f"does not go with {self.photo!r}",
                f"{DIGITS!r} bounce, and nothing else does",
            )
        if not (0 <= self.speed < np.inf):
            raise InputError("clip speed", f"expected 0 or more, got {self.speed!r}")

    @property
    def caption(self) -> str:
        """The clip in words, as its prompt."""
        pace = "still" if self.speed == 0 else f"{self.motion} {self.speed:g} pixels a frame"
        return f"{self.photo}, {pace}"


def clip_catalogue(
    photos: Iterable[str] = PHOTOS,
    motions: Iterable[Motion] = PHOTO_MOTIONS,
    speeds: Iterable[float] = SPEEDS,
    *,
    digits: bool = True,
    variants: int = 1,
    seed: int = 0,
) -> tuple[Clip, ...]:
    """Every photograph with every motion at every speed, each with its own seed.

    Speed 0 is taken once per photograph and variant, as all motions are then alike.

    Args:
        photos: Photographs, such as :data:`TRAINING_PHOTOS`.
        motions: Motions of photographs.
        speeds: Pixels per frame.
        digits: Whether to add bouncing digits at every speed.
        variants: Clips that differ in nothing but the seed.
        seed: Sets all seeds.
    """
    motions, speeds = tuple(motions), tuple(speeds)
    kinds: list[tuple[str, Motion, float]] = [
        (photo, motion, speed)
        for photo, motion, speed in product(photos, motions, speeds)
        if speed > 0 or motion == motions[0]
    ]
    if digits:
        kinds += [(DIGITS, "bounce", speed) for speed in speeds]
    return tuple(
        Clip(*kind, seed=seed * 1_000_003 + variant * 10_007 + index)
        for variant in range(variants)
        for index, kind in enumerate(kinds)
    )


def make_clip(clip: Clip, n_frames: int) -> Frames:
    """Draw a clip.

    Args:
        clip: Picture and motion.
        n_frames: T.

    Returns:
        uint8[T, 64, 64, 3], the same for the same clip; a longer clip begins with the shorter.

    Raises:
        InputError: scikit-image or scikit-learn is missing.
    """
    # The seed alone would give the same path over every photograph.
    rng = np.random.default_rng([clip.seed, zlib.crc32(repr(asdict(clip)).encode())])
    if clip.motion == "bounce":
        return _bouncing_digits(clip, n_frames, rng)
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
        library(module, VIDEO_CONTENT) for module in ("skimage", "skimage.io", "skimage.transform")
    )
    path = Path(skimage.__file__).parent / "data" / PHOTO_FILES[photo]
    if not path.is_file():
        raise InputError(
            f"photograph {photo!r}",
            f"this scikit-image ({skimage.__version__}) does not ship {path.name}",
            "install scikit-image 0.22 or later, or choose another photograph",
        )
    image = io.imread(path)
    colour = image if image.ndim == 3 else np.repeat(image[..., None], 3, axis=2)
    scale = _SCENE_PIXELS / min(colour.shape[:2])
    size = (round(colour.shape[0] * scale), round(colour.shape[1] * scale))
    small: NDArray[np.float64] = transform.resize(
        colour, size, anti_aliasing=True, preserve_range=True
    ).clip(0, 255)
    return small


def _bouncing_digits(clip: Clip, n_frames: int, rng: np.random.Generator) -> Frames:
    """Two coloured digits in front of black; where they overlap the brighter wins."""
    datasets = library("sklearn.datasets", VIDEO_CONTENT)
    images = datasets.load_digits().images  # [n, 8, 8], values 0 to 16
    size = images.shape[1] * _DIGIT_SCALE
    limit = FRAME_PIXELS - size
    frames = np.zeros((n_frames, FRAME_PIXELS, FRAME_PIXELS, 3))
    for _ in range(2):
        digit = np.kron(images[rng.integers(len(images))], np.ones((_DIGIT_SCALE, _DIGIT_SCALE)))
        colour = rng.uniform(0.4, 1.0, 3)
        picture = (digit / 16 * 255)[..., None] * colour
        direction, start = rng.uniform(0, 2 * np.pi), rng.uniform(0, limit, 2)
        step = clip.speed * np.array([np.sin(direction), np.cos(direction)])
        for frame in range(n_frames):
            y, x = np.rint(_reflect(start + step * frame, float(limit))).astype(int)
            place = frames[frame, y : y + size, x : x + size]
            np.maximum(place, picture, out=place)
    return np.rint(frames).astype(np.uint8)

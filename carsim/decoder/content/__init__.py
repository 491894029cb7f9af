"""Real content to decode: clips of photographs in motion, and a codebook of visual tokens.

Needs the extra ``content``.
"""

from carsim.decoder.content.clips import (
    FRAME_PIXELS,
    HELD_OUT_PHOTOS,
    PHOTO_MOTIONS,
    PHOTOS,
    SPEEDS,
    TRAINING_PHOTOS,
    Clip,
    make_clip,
)
from carsim.decoder.content.scenes import kept_share, load_scene, scene_caption
from carsim.decoder.content.tokens import (
    TOKENS_PER_FRAME,
    Codebook,
    load_codebook,
    psnr_db,
)

__all__ = [
    "FRAME_PIXELS",
    "HELD_OUT_PHOTOS",
    "PHOTOS",
    "PHOTO_MOTIONS",
    "SPEEDS",
    "TOKENS_PER_FRAME",
    "TRAINING_PHOTOS",
    "Clip",
    "Codebook",
    "kept_share",
    "load_codebook",
    "load_scene",
    "make_clip",
    "psnr_db",
    "scene_caption",
]

"""Content to decode: scenes and videos as visual tokens of a codebook."""

from carsim.decoder.content.scenes import kept_share, load_scene, scene_caption
from carsim.decoder.content.tokens import FRAME_PIXELS, TOKENS_PER_FRAME, Codebook, load_codebook

__all__ = [
    "FRAME_PIXELS",
    "TOKENS_PER_FRAME",
    "Codebook",
    "kept_share",
    "load_codebook",
    "load_scene",
    "scene_caption",
]

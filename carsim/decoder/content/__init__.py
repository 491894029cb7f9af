"""Content to decode: scenes and videos as visual tokens of a codebook."""

from carsim.decoder.content.scenes import load_scene as load_scene
from carsim.decoder.content.scenes import scene_caption as scene_caption
from carsim.decoder.content.tokens import FRAME_PIXELS as FRAME_PIXELS
from carsim.decoder.content.tokens import TOKENS_PER_FRAME as TOKENS_PER_FRAME
from carsim.decoder.content.tokens import Codebook as Codebook
from carsim.decoder.content.tokens import load_codebook as load_codebook

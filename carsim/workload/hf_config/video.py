"""Models of video among files: their head, and the video that they make.

A ``config.json`` describes a model's layers. The number of tokens of a frame, and a head that makes
several codes of a position, are in other files or in the authors' code.
"""

from typing import Any

from carsim.workload.hf_config.keys import HfConfig

VILA_U_TYPES = ("vila_u_llama", "vila_u")
"""Types of a VILA-U folder, whose language model lies in ``llm/``."""

VILA_U_WIDTH = 4096
VILA_U_HEAD = {
    "kind": "depth_transformer",
    "n_layers": 6,
    "hidden_size": 2560,
    "n_heads": 40,
    "ffn_size": 10240,
    "n_codes": 4,
    "codebook_size": 16384,
}
"""Depth transformer of VILA-U-7B-256, as ``rqvaesiglip_model`` of the published folder has it.

It is that of the preset ``vila_u_7b``. With it goes the video that a depth transformer usually
makes.
"""


def video_fields(outer_kind: str, config: HfConfig) -> dict[str, Any]:
    """Head and video of a model of video; nothing for other models.

    Args:
        outer_kind: Type that the outermost file names.
        config: Keys of the language model.
    """
    if outer_kind in VILA_U_TYPES and config.hidden_size == VILA_U_WIDTH:
        return {"head": VILA_U_HEAD}
    return {}

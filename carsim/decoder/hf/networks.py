"""Networks of diffusers whose forwards are scored: where their blocks, MLPs and tokens are."""

from collections.abc import Mapping
from math import prod
from typing import Any, Literal, NamedTuple

from carsim.base.errors import InputError
from carsim.base.text import closest
from carsim.base.yaml_file import shown
from carsim.decisions.trace.meta import Geometry
from carsim.workload.hf_config.diffusers import CLASSES, Keys

Layout = Literal["channels first", "frames first", "tokens", "picture"]
"""Axes of the latent that enters: [B, C, T, H, W], [B, T, C, H, W], [B, n, C] or [B, C, H, W]."""

Text = Literal["apart", "before", "behind"]
"""Place of the tokens of the prompt in a sequence that holds image tokens, too."""


WHOLE_MLPS = ("ff", "ffn")
"""Modules whose output is that of an MLP; ``proj_mlp`` is its first matrix alone."""


class Blocks(NamedTuple):
    """Blocks of one kind.

    Attributes:
        name: Attribute of the network that holds them, in order.
        mlp: Module of a block that takes the modulated input of the MLP.
        attention: Module of a block that takes the modulated input of self-attention.
    """

    name: str
    mlp: str
    attention: str = "attn1"


class NetworkKind(NamedTuple):
    """A class of diffusers.

    Attributes:
        blocks: Its blocks, in the order of the layers.
        layout: Axes of the latent.
        text: Place of the prompt's tokens.
    """

    blocks: tuple[Blocks, ...]
    layout: Layout
    text: Text = "apart"

    @property
    def has_whole_mlps(self) -> bool:
        """In every block, one module is the MLP with its output."""
        return all(blocks.mlp in WHOLE_MLPS for blocks in self.blocks)


_DIT = (Blocks("transformer_blocks", "ff"),)
_STREAMS = (
    Blocks("transformer_blocks", "ff", "attn"),
    Blocks("single_transformer_blocks", "proj_mlp", "attn"),
)

KINDS: Mapping[str, NetworkKind] = {
    "CogVideoXTransformer3DModel": NetworkKind(_DIT, "frames first", "before"),
    "DiTTransformer2DModel": NetworkKind(_DIT, "picture"),
    "FluxTransformer2DModel": NetworkKind(_STREAMS, "tokens", "before"),
    "HunyuanVideoTransformer3DModel": NetworkKind(_STREAMS, "channels first", "behind"),
    "LTXVideoTransformer3DModel": NetworkKind(_DIT, "tokens"),
    "PixArtTransformer2DModel": NetworkKind(_DIT, "picture"),
    "WanTransformer3DModel": NetworkKind((Blocks("blocks", "ffn"),), "channels first"),
}
"""Classes that are read, by name."""


def kind_of(name: Any, place: str) -> NetworkKind:
    """The kind of a class.

    Raises:
        InputError: The class is not read.
    """
    if isinstance(name, str) and name in KINDS:
        return KINDS[name]
    near = closest(name, KINDS) if isinstance(name, str) else ""
    problem = f"{shown(name)} is no network whose forwards are captured"
    raise InputError(place, problem, f"{near}captured are {', '.join(KINDS)}")


def geometry_of(name: str, config: Mapping[str, Any], place: str) -> Geometry:
    """The body of a network as a trace describes it.

    Args:
        name: Name of the class, one of :data:`KINDS`.
        config: Keys of its ``config.json``.
        place: Where they stand, for errors.

    Raises:
        InputError: A key is missing, or makes no sense.
    """
    body = CLASSES[name](Keys(config, place))["body"]
    return Geometry(
        name=name,
        n_layers=body["n_layers"],
        hidden_size=body["hidden_size"],
        n_heads=body["n_heads"],
        n_kv_heads=body["n_kv_heads"],
        head_dim=body["hidden_size"] // body["n_heads"],
        ffn_size=body["ffn_size"],
    )


class LatentGrid(NamedTuple):
    """Tokens of a forward.

    Attributes:
        frames: Latent frames, counted in tokens.
        tokens: Image tokens of a row, frame by frame.
    """

    frames: int
    tokens: int


def latent_grid(layout: Layout, config: Mapping[str, Any], given: Mapping[str, Any]) -> LatentGrid:
    """The tokens of a forward.

    Args:
        layout: Axes of the latent.
        config: Keys of the network's ``config.json``.
        given: Arguments of the forward by name.
    """
    shape = tuple(given["hidden_states"].shape)
    if layout == "tokens":
        return LatentGrid(frames=given.get("num_frames") or 1, tokens=shape[1])
    height, width = shape[-2:]
    frames = 1
    if layout == "channels first":
        frames = shape[2]
    elif layout == "frames first":
        frames = shape[1]
    patch = config["patch_size"]
    if isinstance(patch, int):
        patch = (config.get("patch_size_t") or 1, patch, patch)
    counts = (frames // patch[0], height // patch[1], width // patch[2])
    return LatentGrid(frames=counts[0], tokens=prod(counts))

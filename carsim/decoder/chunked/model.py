"""Sizes and weights of a small diffusion transformer that makes a video chunk by chunk.

It has the blocks of the cross-attention family (Wan, LongLive): modulated self-attention,
cross-attention to a prompt, modulated MLP. Weights are drawn; nothing is trained, so that decisions
show what a policy does, and not how well it does.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

TIME_FEATURES = 32
"""Sines and cosines of a noise level, from which its embedding is made."""

TEXT_WIDTH = 24
"""Elements of a token of the prompt."""

VECTORS = 6
"""Of modulation: shift, scale and gate of self-attention, then those of the MLP."""


@dataclass(frozen=True)
class ChunkShape:
    """Sizes of a network and its chunks.

    Attributes:
        n_layers: L.
        hidden_size: d.
        n_heads: H, a divisor of d; heads have an even number of elements.
        ffn_size: F, width of the inner layer of the MLP.
        frame_tokens: N, tokens of a latent frame.
        chunk_frames: Latent frames of a chunk.
        channels: Elements of a token before the first layer.
        text_tokens: Tokens of the prompt.
    """

    n_layers: int
    hidden_size: int
    n_heads: int
    ffn_size: int
    frame_tokens: int
    chunk_frames: int
    channels: int
    text_tokens: int

    @property
    def head_dim(self) -> int:
        """Elements of a head."""
        return self.hidden_size // self.n_heads

    @property
    def tokens(self) -> int:
        """Tokens of a chunk."""
        return self.chunk_frames * self.frame_tokens


@dataclass(frozen=True, eq=False)
class LayerWeights:
    """Matrices of one layer; y = x @ W.

    Attributes:
        table: What is added to the modulation of this layer, [6, d].
        query: [d, d], as the next three, of self-attention.
        key: Keys.
        value: Values.
        output: Output projection.
        cross_query: [d, d], as the next three, of cross-attention.
        cross_key: Keys of the prompt.
        cross_value: Values of the prompt.
        cross_output: Output projection.
        up: [d, F].
        down: [F, d].
    """

    table: Array
    query: Array
    key: Array
    value: Array
    output: Array
    cross_query: Array
    cross_key: Array
    cross_value: Array
    cross_output: Array
    up: Array
    down: Array


@dataclass(frozen=True, eq=False)
class ChunkModel:
    """A network.

    Attributes:
        shape: Its sizes.
        layers: Its layers.
        patch_in: [channels, d].
        patch_out: [d, channels].
        places: Added to the tokens of a frame, [N, d].
        text_in: [24, d].
        time_in: [32, d].
        time_out: [d, 6 d].
    """

    shape: ChunkShape
    layers: tuple[LayerWeights, ...]
    patch_in: Array
    patch_out: Array
    places: Array
    text_in: Array
    time_in: Array
    time_out: Array


def drawn_model(shape: ChunkShape, seed: int) -> ChunkModel:
    """A network of normal weights, each matrix scaled so that outputs are as long as inputs.

    Args:
        shape: Its sizes.
        seed: Seed of all draws.
    """
    rng = np.random.default_rng(seed)
    d = shape.hidden_size

    def matrix(inputs: int, outputs: int) -> Array:
        drawn: Array = rng.standard_normal((inputs, outputs)) / np.sqrt(inputs)
        return drawn

    layers = tuple(
        LayerWeights(
            table=matrix(VECTORS, d),
            query=matrix(d, d),
            key=matrix(d, d),
            value=matrix(d, d),
            output=matrix(d, d),
            cross_query=matrix(d, d),
            cross_key=matrix(d, d),
            cross_value=matrix(d, d),
            cross_output=matrix(d, d),
            up=matrix(d, shape.ffn_size),
            down=matrix(shape.ffn_size, d),
        )
        for _ in range(shape.n_layers)
    )
    return ChunkModel(
        shape=shape,
        layers=layers,
        patch_in=matrix(shape.channels, d),
        patch_out=matrix(d, shape.channels),
        places=rng.standard_normal((shape.frame_tokens, d)),
        text_in=matrix(TEXT_WIDTH, d),
        time_in=matrix(TIME_FEATURES, d),
        time_out=matrix(d, VECTORS * d),
    )

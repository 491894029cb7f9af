"""One forward of a chunk: from noisy tokens to their velocity, layer by layer, as pure functions.

Letters in shapes: n tokens of a chunk, m keys, t tokens of the prompt, d hidden size, H heads, hd
elements of a head, N tokens of a frame, L layers.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.decoder.chunked.model import TIME_FEATURES, VECTORS, Array, ChunkModel, LayerWeights

Bools = NDArray[np.bool_]

NORM_EPS = 1e-6
"""Added to a variance."""

ROTARY_BASE = 10_000.0
"""Base of the rotary embedding, over the numbers of latent frames."""


class KeysValues(NamedTuple):
    """Keys and values of one layer.

    Attributes:
        keys: Rotated, [m, H, hd].
        values: [m, H, hd].
        members: Tokens for which each of them stands, [m, H]; 0 where it has merged into another.
    """

    keys: Array
    values: Array
    members: Array

    @classmethod
    def of(cls, keys: Array, values: Array) -> "KeysValues":
        """Keys and values of which each stands for its own token."""
        return cls(keys, values, members=np.ones(keys.shape[:2]))

    def then(self, later: "KeysValues") -> "KeysValues":
        """These, and later ones."""
        return KeysValues(
            keys=np.concatenate([self.keys, later.keys]),
            values=np.concatenate([self.values, later.values]),
            members=np.concatenate([self.members, later.members]),
        )


class Projected(NamedTuple):
    """Queries, keys and values of a chunk in one layer, [n, H, hd] each.

    Attributes:
        queries: Rotated.
        own: Keys, rotated, and values.
    """

    queries: Array
    own: KeysValues


class Reuse:
    """A policy of reuse, asked in every module; this one reuses nothing.

    Modules are ``attention``, ``cross`` and ``mlp``. Outputs of attention and MLP are those before
    their gates, which depend on the noise level.
    """

    def stack(self) -> Array | None:
        """What all layers add to the tokens that enter, [n, d], if it is taken from earlier."""
        return None

    def stack_computed(self, added: Array) -> None:
        """Learn what all layers have added, [n, d]."""

    def output(self, layer: int, module: str) -> Array | None:
        """The output of a module, [n, d], if it is taken from an earlier forward."""
        return None

    def replays(self, layer: int, projected: Projected, cached: KeysValues) -> Bools:
        """Tokens that take the output of the MLP from another token, bool[n].

        Args:
            layer: Number of the layer.
            projected: Queries, keys and values of the chunk.
            cached: Keys and values of earlier chunks.
        """
        return np.zeros(len(projected.queries), np.bool_)

    def fill(self, layer: int, outputs: Array, replays: Bools) -> None:
        """Write the outputs of the MLP of tokens that replay, in place.

        Args:
            layer: Number of the layer.
            outputs: [n, d], where only tokens that compute have theirs.
            replays: The other tokens, bool[n].
        """

    def computed(self, layer: int, module: str, output: Array) -> None:
        """Learn the output of a module, [n, d], whoever worked it out."""


DENSE = Reuse()
"""Everything is worked out."""


class Thinning:
    """A policy of attention, asked which keys are scored; this one leaves none out."""

    def scored(self, layer: int, queries: Array, keys_values: KeysValues) -> Bools | None:
        """Keys that each query of self-attention scores, bool[H, n, m]; None: all.

        Args:
            layer: Number of the layer.
            queries: Rotated, [n, H, hd].
            keys_values: Of earlier chunks, then those of the chunk. Keys that stand for no token
                have merged into others, and cannot be scored.
        """
        return None

    def scored_of_prompt(self, layer: int, queries: Array, keys: Array) -> Bools | None:
        """Tokens of the prompt that the queries of a chunk score, bool[H, 1, t]; None: all.

        Args:
            layer: Number of the layer.
            queries: Of cross-attention, [n, H, hd].
            keys: Of the prompt, [t, H, hd].
        """
        return None

    def written(self, layer: int, cached: KeysValues, own: KeysValues) -> KeysValues:
        """The cache after a chunk; its own keys are the last.

        Args:
            layer: Number of the layer.
            cached: Keys and values of earlier chunks.
            own: Those of the chunk.
        """
        return cached.then(own)


WHOLE = Thinning()
"""Every query scores all keys."""


def layer_norm(x: Array) -> Array:
    """Mean 0 and variance 1 over the last axis, without weights."""
    centred = x - x.mean(axis=-1, keepdims=True)
    normed: Array = centred / np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + NORM_EPS)
    return normed


def gelu(x: Array) -> Array:
    """Gaussian error linear unit, by tanh."""
    curve: Array = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return curve


def softmax(scores: Array) -> Array:
    """Weights over the last axis."""
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares: Array = weights / weights.sum(axis=-1, keepdims=True)
    return shares


def rotate(x: Array, frames: NDArray[np.int64]) -> Array:
    """Rotary embedding by the number of each token's latent frame; halves of a head are pairs.

    Args:
        x: [n, H, hd].
        frames: Number of the frame of each token, [n].
    """
    half = x.shape[-1] // 2
    turns = ROTARY_BASE ** -(np.arange(half) / half)
    angles = frames[:, None, None] * turns  # [n, 1, hd / 2]
    first, second = x[..., :half], x[..., half:]
    return np.concatenate(
        [
            first * np.cos(angles) - second * np.sin(angles),
            second * np.cos(angles) + first * np.sin(angles),
        ],
        axis=-1,
    )


def attend(queries: Array, held: KeysValues, scored: Bools | None = None) -> Array:
    """Attention of queries [n, H, hd] to keys, -> [n, d].

    A key that stands for m tokens has log m added to its score, as if all m were there.

    Args:
        queries: Rotated, [n, H, hd].
        held: Keys and values.
        scored: Keys that each query scores, which broadcasts to bool[H, n, m]; None: all.
    """
    scores = np.einsum("nhd,mhd->hnm", queries, held.keys) / np.sqrt(queries.shape[-1])
    is_held = held.members.T[:, None] > 0  # [H, 1, m]
    scores = scores + np.log(np.maximum(held.members, 1)).T[:, None]
    is_scored = is_held if scored is None else is_held & scored
    # In one order in memory, so that a policy that leaves nothing out changes no bit.
    scores = np.ascontiguousarray(np.where(is_scored, scores, -np.inf))
    mixed = np.einsum("hnm,mhd->nhd", softmax(scores), held.values)
    return mixed.reshape(len(queries), -1)


def in_heads(x: Array, n_heads: int) -> Array:
    """[n, d] -> [n, H, hd]."""
    return x.reshape(len(x), n_heads, -1)


def time_vectors(model: ChunkModel, time: float) -> Array:
    """Modulation that all layers share at a noise level of 0 (clean) to 1, [6, d]."""
    turns = ROTARY_BASE ** -(np.arange(TIME_FEATURES // 2) / (TIME_FEATURES // 2))
    angles = 1000 * time * turns
    features = np.concatenate([np.cos(angles), np.sin(angles)])
    embedded = gelu(features @ model.time_in)
    return (embedded @ model.time_out).reshape(VECTORS, -1)


def prompt_keys(model: ChunkModel, text: Array) -> tuple[KeysValues, ...]:
    """Keys and values of a prompt in every layer, once a video.

    Args:
        model: The network.
        text: [t, 24].
    """
    tokens = text @ model.text_in  # [t, d]
    heads = model.shape.n_heads
    return tuple(
        KeysValues.of(
            keys=in_heads(tokens @ layer.cross_key, heads),
            values=in_heads(tokens @ layer.cross_value, heads),
        )
        for layer in model.layers
    )


class Forward(NamedTuple):
    """What a forward gives.

    Attributes:
        velocity: [n, channels].
        keys_values: Of the chunk's own tokens, in every layer.
    """

    velocity: Array
    keys_values: tuple[KeysValues, ...]


class Chunk(NamedTuple):
    """A chunk that is denoised.

    Attributes:
        first_frame: Number of its first latent frame in the video.
        cache: Keys and values of clean chunks before it, in every layer.
        prompt: Keys and values of the prompt, in every layer.
        thinning: Chooses the keys that are scored.
    """

    first_frame: int
    cache: tuple[KeysValues, ...]
    prompt: tuple[KeysValues, ...]
    thinning: Thinning = WHOLE


def forward(
    model: ChunkModel, chunk: Chunk, noisy: Array, time: float, reuse: Reuse = DENSE
) -> Forward:
    """One forward of a chunk.

    Args:
        model: The network.
        chunk: The chunk.
        noisy: Its tokens, [n, channels].
        time: Noise level of 0 (clean) to 1.
        reuse: What is taken from earlier outputs.

    Returns:
        Its velocity; keys and values are missing where all layers are left out.
    """
    shape = model.shape
    entered = noisy @ model.patch_in + np.tile(model.places, (shape.chunk_frames, 1))  # [n, d]
    added = reuse.stack()
    keys_values: tuple[KeysValues, ...] = ()
    if added is None:
        left, keys_values = _through_layers(model, chunk, entered, time, reuse)
        added = left - entered
        reuse.stack_computed(added)
    velocity = layer_norm(entered + added) @ model.patch_out
    return Forward(velocity, keys_values)


def _through_layers(
    model: ChunkModel, chunk: Chunk, x: Array, time: float, reuse: Reuse
) -> tuple[Array, tuple[KeysValues, ...]]:
    """Tokens [n, d] behind the last layer, and keys and values of every layer."""
    vectors = time_vectors(model, time)
    keys_values = []
    for number, layer in enumerate(model.layers):
        shift, scale, gate, mlp_shift, mlp_scale, mlp_gate = vectors + layer.table  # [d] each
        h = layer_norm(x) * (1 + scale) + shift
        projected = project(model, layer, h, chunk.first_frame)
        keys_values.append(projected.own)
        of_layer = LayerReuse(policy=reuse, layer=number)
        x = x + gate * _self_attention(layer, projected, chunk, of_layer)
        x = x + _cross_attention(model, layer, x, chunk, of_layer)
        u = layer_norm(x) * (1 + mlp_scale) + mlp_shift
        replays = reuse.replays(number, projected, chunk.cache[number])
        x = x + mlp_gate * _mlp(layer, u, replays, of_layer)
    return x, tuple(keys_values)


def project(model: ChunkModel, layer: LayerWeights, h: Array, first_frame: int) -> Projected:
    """Queries, keys and values of a chunk in one layer.

    Args:
        model: The network.
        layer: Weights.
        h: Modulated tokens, [n, d].
        first_frame: Number of the first latent frame of the chunk.
    """
    shape = model.shape
    frames = first_frame + np.repeat(np.arange(shape.chunk_frames), shape.frame_tokens)
    queries = rotate(in_heads(h @ layer.query, shape.n_heads), frames)
    keys = rotate(in_heads(h @ layer.key, shape.n_heads), frames)
    values = in_heads(h @ layer.value, shape.n_heads)
    return Projected(queries, KeysValues.of(keys, values))


class LayerReuse(NamedTuple):
    """A policy of reuse in one layer.

    Attributes:
        policy: The policy.
        layer: Number of the layer.
    """

    policy: Reuse
    layer: int


def _self_attention(
    layer: LayerWeights, projected: Projected, chunk: Chunk, reuse: LayerReuse
) -> Array:
    """Output of self-attention before its gate, [n, d]."""
    output = reuse.policy.output(reuse.layer, "attention")
    if output is None:
        held = chunk.cache[reuse.layer].then(projected.own)
        scored = chunk.thinning.scored(reuse.layer, projected.queries, held)
        output = attend(projected.queries, held, scored) @ layer.output
        reuse.policy.computed(reuse.layer, "attention", output)
    return output


def _cross_attention(
    model: ChunkModel, layer: LayerWeights, x: Array, chunk: Chunk, reuse: LayerReuse
) -> Array:
    """Output of cross-attention, [n, d]."""
    output = reuse.policy.output(reuse.layer, "cross")
    if output is None:
        queries = in_heads(layer_norm(x) @ layer.cross_query, model.shape.n_heads)
        prompt = chunk.prompt[reuse.layer]
        scored = chunk.thinning.scored_of_prompt(reuse.layer, queries, prompt.keys)
        output = attend(queries, prompt, scored) @ layer.cross_output
        reuse.policy.computed(reuse.layer, "cross", output)
    return output


def _mlp(layer: LayerWeights, u: Array, replays: Bools, reuse: LayerReuse) -> Array:
    """Output of the MLP before its gate, [n, d]; tokens that replay take another one's."""
    output = reuse.policy.output(reuse.layer, "mlp")
    if output is None:
        output = np.zeros_like(u)
        output[~replays] = gelu(u[~replays] @ layer.up) @ layer.down
        reuse.policy.fill(reuse.layer, output, replays)
        reuse.policy.computed(reuse.layer, "mlp", output)
    return output

"""Make a video chunk by chunk, with outputs that are reused across frames, chunks or steps.

Every chunk is denoised in S steps of a rectified flow: x <- x + (t' - t) v, from noise at t = 1 to
the clean chunk at t = 0. One more forward, at t = 0, writes its keys and values to the cache.
"""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from carsim.decoder.chunked.forward import (
    DENSE,
    WHOLE,
    Bools,
    Chunk,
    Forward,
    KeysValues,
    Projected,
    Reuse,
    Thinning,
    forward,
    prompt_keys,
)
from carsim.decoder.chunked.model import TEXT_WIDTH, Array, ChunkModel, ChunkShape

Part = Literal["mlp", "modules", "layers"]
"""What a forward takes from the last one that computed: outputs of MLPs, those of all modules, or
what all layers together have added."""

PARTS: dict[Part, tuple[str, ...]] = {
    "mlp": ("mlp",),
    "modules": ("attention", "cross", "mlp"),
    "layers": (),
}
"""Modules whose outputs are taken; of all layers the sum of what they add."""


class Place(NamedTuple):
    """A forward of a video.

    Attributes:
        number: Its number, from 0.
        chunk: Number of its chunk.
        step: Its step in the chunk; the number of denoising steps for the clean forward.
        steps: Denoising steps.
    """

    number: int
    chunk: int
    step: int
    steps: int

    @property
    def is_clean(self) -> bool:
        """The forward writes keys and values."""
        return self.step == self.steps


FIRST = Place(number=0, chunk=0, step=0, steps=1)
"""Before any forward has begun."""


class PlacedReuse(Reuse):
    """A policy of reuse that is told which forward begins."""

    def begin(self, place: Place) -> None:
        """A forward begins."""


@dataclass(eq=False)
class AcrossFrames(PlacedReuse):
    """FastCar: a token replays the MLP of its place in the previous frame where its score is high.

    The score is the mean over heads of <q, k> / sqrt(hd), with the rotated key of the same place in
    the previous latent frame: of the same forward, or the clean one of the chunk before. That key
    is the token's own, even if another key stands for it in the cache. A token takes what that
    place put out at the same denoising step, itself computed or replayed.

    Attributes:
        shape: The network.
        tau: Tokens of a higher score replay.
        across_chunks: The first frame of a chunk looks at the last one of the chunk before.
        dense_steps: First denoising steps, in which all tokens compute.
        scores: Of each forward in turn, layers by tokens, [L, n]; NaN where a token has none.
    """

    shape: ChunkShape
    tau: float
    across_chunks: bool
    dense_steps: int = 0
    scores: list[Array] = field(default_factory=list)
    _place: Place = FIRST
    _last_frames: dict[tuple[int, int], Array] = field(default_factory=dict)  # by step and layer
    _clean_keys: dict[int, Array] = field(default_factory=dict)  # of last frames, by layer
    _before: Array | None = None  # outputs of the frame before this chunk, [N, d]

    def begin(self, place: Place) -> None:
        """Nothing is scored yet in this forward."""
        self._place = place
        self.scores.append(np.full((self.shape.n_layers, self.shape.tokens), np.nan))

    def replays(self, layer: int, projected: Projected, cached: KeysValues) -> Bools:
        """Score the tokens of frames that have one before them."""
        replays = np.zeros(self.shape.tokens, np.bool_)
        n = self.shape.frame_tokens
        if self._place.is_clean:
            self._clean_keys[layer] = projected.own.keys[-n:]
            return replays
        if self._place.step < self.dense_steps:
            return replays
        keys = projected.own.keys[:-n]
        first = n
        self._before = self._last_frames.get((self._place.step, layer))
        if self.across_chunks and self._before is not None:
            keys = np.concatenate([self._clean_keys[layer], keys])
            first = 0
        products = np.einsum("nhd,nhd->n", projected.queries[first:], keys)
        scores = products / (self.shape.n_heads * np.sqrt(self.shape.head_dim))
        self.scores[-1][layer, first:] = scores
        replays[first:] = scores > self.tau
        return replays

    def fill(self, layer: int, outputs: Array, replays: Bools) -> None:
        """Frame by frame, take the output of the place in the frame before."""
        n = self.shape.frame_tokens
        for frame in range(self.shape.chunk_frames):
            here = slice(frame * n, (frame + 1) * n)
            replaying = replays[here]
            if not replaying.any():
                continue
            before = outputs[(frame - 1) * n : frame * n] if frame else self._before
            assert before is not None
            outputs[here][replaying] = before[replaying]

    def computed(self, layer: int, module: str, output: Array) -> None:
        """Hold the outputs of the last frame for the same step of the next chunk."""
        if module == "mlp":
            last_frame = output[-self.shape.frame_tokens :]
            self._last_frames[self._place.step, layer] = last_frame.copy()


@dataclass(eq=False)
class AcrossSteps(PlacedReuse):
    """Some forwards take outputs from the last one that computed them.

    Attributes:
        part: What is taken.
        reuses: Forwards that take it, bool[S].
    """

    part: Part
    reuses: Bools
    _takes: bool = False
    _outputs: dict[tuple[int, str], Array] = field(default_factory=dict)
    _added: Array | None = None

    def begin(self, place: Place) -> None:
        """A forward begins: it takes outputs, or computes."""
        self._takes = bool(self.reuses[place.number])

    def stack(self) -> Array | None:
        """What all layers added in the last forward that computed."""
        return self._added if self._takes and self.part == "layers" else None

    def stack_computed(self, added: Array) -> None:
        """Hold what all layers have added."""
        if not self._takes:
            self._added = added

    def output(self, layer: int, module: str) -> Array | None:
        """The output of a module in the last forward that computed it."""
        if self._takes and module in PARTS[self.part]:
            return self._outputs[layer, module]
        return None

    def computed(self, layer: int, module: str, output: Array) -> None:
        """Hold the output of a module."""
        self._outputs[layer, module] = output


class Video(NamedTuple):
    """Noise and prompt of a video.

    Attributes:
        noise: Of all chunks, [chunks, n, channels].
        text: Tokens of the prompt, [t, 24].
    """

    noise: Array
    text: Array


def drawn_video(shape: ChunkShape, chunks: int, correlation: float, seed: int) -> Video:
    """Noise whose frames share a part, so that neighbouring frames are alike.

    Args:
        shape: The network.
        chunks: Chunks of the video.
        correlation: Correlation of the noise of two frames, 0 to 1.
        seed: Seed of all draws.
    """
    rng = np.random.default_rng(seed)
    shared = rng.standard_normal((shape.frame_tokens, shape.channels))
    frames = (chunks, shape.chunk_frames, shape.frame_tokens, shape.channels)
    own = rng.standard_normal(frames)
    noise = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own
    text = rng.standard_normal((shape.text_tokens, TEXT_WIDTH))
    return Video(noise.reshape(chunks, shape.tokens, shape.channels), text)


def decode(
    model: ChunkModel,
    video: Video,
    steps: int,
    reuse: PlacedReuse | None = None,
    thinning: Thinning = WHOLE,
) -> Array:
    """Make a video.

    Args:
        model: The network.
        video: Noise and prompt.
        steps: Denoising steps of a chunk.
        reuse: Policy of reuse; None: everything is worked out.
        thinning: Policy of attention; by default, every query scores all keys.

    Returns:
        Clean tokens, [chunks, n, channels].
    """
    shape = model.shape
    prompt = prompt_keys(model, video.text)
    empty = np.zeros((0, shape.n_heads, shape.head_dim))
    cache = tuple(KeysValues.of(empty, empty) for _ in model.layers)
    times = np.linspace(1.0, 0.0, steps + 1)
    chunks = []
    for number, x in enumerate(video.noise):
        chunk = Chunk(number * shape.chunk_frames, cache, prompt, thinning)
        for step in range(steps):
            place = Place(number * (steps + 1) + step, number, step, steps)
            velocity = _forward(model, chunk, x, (times[step], place), reuse).velocity
            x = x + (times[step + 1] - times[step]) * velocity
        place = Place(number * (steps + 1) + steps, number, steps, steps)
        clean = _forward(model, chunk, x, (0.0, place), reuse)
        cache = tuple(
            thinning.written(layer, cached, own)
            for layer, (cached, own) in enumerate(zip(cache, clean.keys_values, strict=True))
        )
        chunks.append(x)
    return np.array(chunks)


def _forward(
    model: ChunkModel, chunk: Chunk, x: Array, at: tuple[float, Place], reuse: PlacedReuse | None
) -> Forward:
    """A forward at a noise level and place."""
    time, place = at
    if reuse is None:
        return forward(model, chunk, x, float(time), DENSE)
    reuse.begin(place)
    return forward(model, chunk, x, float(time), reuse)

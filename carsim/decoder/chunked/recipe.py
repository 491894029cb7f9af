"""The recipe of a trace of a video in chunks, which the reference decoder makes."""

from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, StringConstraints, model_validator

from carsim.base.section import Section
from carsim.decisions.attention import Attention, Dense
from carsim.decisions.trace.meta import Geometry, Tau
from carsim.decoder.chunked.decode import Part
from carsim.decoder.chunked.model import ChunkShape
from carsim.decoder.chunked.thin import thinning_of
from carsim.decoder.decoding import NAME

Small = Annotated[int, Field(gt=0, le=4096)]
Width = Annotated[int, Field(gt=0, le=1024)]
Few = Annotated[int, Field(gt=0, le=64)]


class ChunkNetwork(Section):
    """Sizes of a small diffusion transformer, whose weights are drawn."""

    n_layers: Few = Field(description="layers")
    hidden_size: Width = Field(description="width")
    n_heads: Few = Field(description="heads, a divisor of the width")
    ffn_size: Annotated[int, Field(gt=0, le=4096)] = Field(description="width of the MLP")
    frame_tokens: Small = Field(description="tokens of a latent frame")
    chunk_frames: Few = Field(3, description="latent frames of a chunk")
    channels: Few = Field(4, description="elements of a token before the first layer")
    text_tokens: Small = Field(8, description="tokens of the prompt")
    seed: NonNegativeInt = Field(0, description="seed of the weights")

    @model_validator(mode="after")
    def _heads_are_even(self) -> Self:
        if self.hidden_size % (2 * self.n_heads):
            heads = f"{self.n_heads} heads of a width of {self.hidden_size}"
            raise ValueError(f"{heads} have no even number of elements, which rotary pairs need")
        return self

    @property
    def shape(self) -> ChunkShape:
        """The sizes alone."""
        return ChunkShape(**self.model_dump(exclude={"seed"}))

    @property
    def geometry(self) -> Geometry:
        """The body as a trace describes it."""
        return Geometry(
            name="drawn diffusion transformer",
            n_layers=self.n_layers,
            hidden_size=self.hidden_size,
            n_heads=self.n_heads,
            n_kv_heads=self.n_heads,
            head_dim=self.shape.head_dim,
            ffn_size=self.ffn_size,
        )


class ChunkRecipe(Section):
    """A video in chunks by the reference decoder, with outputs that are reused.

    Give ``tau`` for FastCar's replay across frames, or ``every`` for reuse across denoising steps;
    neither for a policy of attention alone.
    """

    name: Annotated[str, StringConstraints(pattern=NAME)] = Field(description="name of the trace")
    output: Annotated[str, StringConstraints(pattern=NAME)] = Field(description="file to write")
    network: ChunkNetwork = Field(description="network")
    chunks: Few = Field(description="chunks of a video")
    steps: Few = Field(4, description="denoising steps of a chunk; a clean forward follows")
    videos: PositiveInt = Field(1, description="videos, each of which is a row of the trace")
    correlation: Annotated[float, Field(ge=0, le=1)] = Field(
        0.5, description="correlation of the noise of two frames"
    )
    tau: Tau | None = Field(None, description="tokens of a higher score replay")
    source: Literal["frame", "chunk"] = Field(
        "chunk", description="with tau: frames of one forward, or also across chunks"
    )
    every: Annotated[int, Field(ge=2)] | None = Field(
        None, description="of N denoising steps, one computes"
    )
    part: Part = Field("mlp", description="with every: what the other steps take from it")
    dense: NonNegativeInt = Field(0, description="first denoising steps, which compute")
    attention: Attention = Field(
        Dense(), description="temp_cache, ann, ann_ca, a stack of them, or dense"
    )
    seed: NonNegativeInt = Field(0, description="seed of noise and prompts")

    @model_validator(mode="after")
    def _one_policy(self) -> Self:
        thinning_of(self.attention, self.network.shape)
        asked = [self.tau is not None, self.every is not None]
        if all(asked) or (not any(asked) and self.attention.exact):
            raise ValueError("give tau for replay across frames, or every for reuse across steps")
        if self.every is None and self.part != "mlp":
            raise ValueError("part is of reuse across steps: leave it out, or give every")
        if self.tau is None and self.source != "chunk":
            raise ValueError("source is of replay across frames: leave it out, or give tau")
        return self

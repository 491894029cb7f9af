"""The sample that a network of :mod:`carsim.workload.network` makes: a video or an image.

All tokens of a sample go through the network together, once a *forward*. Video diffusion takes
``steps`` forwards, each by ``passes`` rows where guidance asks for more than one. Auto-regressive
diffusion makes a video chunk by chunk. Every chunk takes ``steps`` forwards and, where ``clean`` is
set, one more, which writes the keys and values of the finished frames. A depth map takes one.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from carsim.base.section import FieldError, GrownSection
from carsim.base.sizes import NonNegativeFloat, PositiveInt
from carsim.base.text import count

Side = Annotated[int, Field(gt=0, le=16_384)]
Few = Annotated[int, Field(gt=0, le=4096)]


class Sample(GrownSection):
    """A video, an image or a depth map."""

    later: ClassVar[frozenset[str]] = frozenset(
        {"chunk_frames", "chunks", "clean", "window_frames", "text_keys", "encoder_s", "decoder_s"}
    )

    height: Side = Field(description="pixels")
    width: Side = Field(description="pixels")
    frames: PositiveInt = Field(1, description="pixel frames; of chunks those of all of them")
    steps: Few = Field(1, description="denoising steps, of a chunk or of the whole sample")
    passes: Annotated[int, Field(gt=0, le=8)] = Field(
        1, description="rows of each forward: 2 with guidance by a second prompt, else 1"
    )
    chunk_frames: Few | None = Field(
        None, description="latent frames of a chunk; absent: the whole sample at once"
    )
    chunks: Few = Field(1, description="chunks of the sample, where chunk_frames is given")
    clean: bool = Field(
        True, description="each chunk ends with a forward that writes its clean keys and values"
    )
    window_frames: PositiveInt | None = Field(
        None,
        description="latent frames whose keys a chunk reads, its own and those of sinks included; "
        "absent: all of them",
    )
    text_keys: Literal["cached", "recomputed"] = Field(
        "cached", description="keys and values of the prompt: once a prompt, or in each forward"
    )
    encoder_s: NonNegativeFloat = Field(
        0.0, description="seconds of the text encoder, once a sample: stated, not simulated"
    )
    decoder_s: NonNegativeFloat = Field(
        0.0,
        description="seconds of the pixel decoder, once a sample or chunk: stated, not simulated",
    )

    @model_validator(mode="after")
    def _chunks_make_sense(self) -> "Sample":
        if self.chunk_frames is None:
            for field in ("chunks", "window_frames"):
                value = getattr(self, field)
                if value != type(self).model_fields[field].default:
                    problem = f"{value} means nothing without chunks"
                    raise FieldError(field, problem, "give chunk_frames, or leave it out")
        elif self.window_frames is not None and self.window_frames < self.chunk_frames:
            problem = f"{self.window_frames} are fewer than the {self.chunk_frames} of a chunk"
            raise FieldError("window_frames", problem, "give as many or more")
        return self

    @property
    def forwards_per_chunk(self) -> int:
        """Forwards of a chunk, or of a sample without chunks."""
        return self.steps + (self.clean and self.chunk_frames is not None)

    @property
    def forwards(self) -> int:
        """Forwards of the whole sample."""
        return self.chunks * self.forwards_per_chunk

    @property
    def in_words(self) -> str:
        """The sample in one phrase."""
        size = f"{self.width} x {self.height}"
        if self.chunk_frames is not None:
            of_chunk = count(self.chunk_frames, "latent frame")
            forwards = count(self.forwards_per_chunk, "forward")
            return f"{count(self.chunks, 'chunk')} of {of_chunk} at {size}, {forwards} each"
        if self.frames > 1:
            return f"{count(self.frames, 'frame')} at {size}, {count(self.forwards, 'forward')}"
        return f"an image of {size}, {count(self.forwards, 'forward')}"

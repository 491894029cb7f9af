"""The sample that a network of :mod:`carsim.workload.network` makes: a video or an image.

All tokens of a sample go through the network together, once a *forward*. Video diffusion takes
``steps`` forwards, each by ``passes`` rows where guidance asks for more than one. Auto-regressive
diffusion makes a video chunk by chunk. Every chunk takes ``steps`` forwards and, where ``clean`` is
set, one more, which writes the keys and values of the finished frames. Several chunks may pass each
forward together (:mod:`carsim.workload.forwards`). A depth map takes one forward.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from carsim.base.section import FieldError, GrownSection
from carsim.base.sizes import NonNegativeFloat, NonNegativeInt, PositiveInt
from carsim.base.text import count
from carsim.workload.forwards import first_of_prompt, forwards_of

Side = Annotated[int, Field(gt=0, le=16_384)]
Few = Annotated[int, Field(gt=0, le=4096)]


MOST_FORWARDS = 1 << 17
"""Forwards of a sample in chunks at most: as many as a text has steps."""

ONLY_OF_CHUNKS = (
    "chunks",
    "window_frames",
    "sink_frames",
    "cache",
    "rolling",
    "pipelined",
    "ranges",
    "prompts",
)
"""Fields that mean nothing where a sample is made at once."""


class Sample(GrownSection):
    """A video, an image or a depth map."""

    later: ClassVar[frozenset[str]] = frozenset(
        {
            "chunk_frames",
            "chunks",
            "clean",
            "window_frames",
            "sink_frames",
            "cache",
            "rolling",
            "pipelined",
            "ranges",
            "prompts",
            "text_keys",
            "encoder_s",
            "decoder_s",
        }
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
    sink_frames: NonNegativeInt = Field(
        0, description="first latent frames of the video, which stay in the window"
    )
    cache: Literal["ring", "moved", "none"] = Field(
        "ring",
        description="new keys and values overwrite the oldest; or those that stay are moved to the "
        "front, once a chunk; or none are kept, and each forward computes all frames of the window",
    )
    rolling: Few = Field(
        1,
        description="chunks that pass each forward together, each at its own noise level, and "
        "attend to one another (Rolling Forcing)",
    )
    pipelined: Few = Field(
        1,
        description="chunks that pass each forward together, each at its own noise level, and "
        "attend to themselves and to earlier chunks (MAGI-1)",
    )
    ranges: Annotated[tuple[PositiveInt, ...], Field(strict=False)] = Field(
        (),
        description="pipelined: latent frames whose keys a chunk reads at each noise level, its "
        "own included, the noisiest first, and in its clean forward; absent: the window",
    )
    prompts: Few = Field(
        1,
        description="prompts, each of an equal share of the chunks; a switch makes the keys and "
        "values of the window anew",
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
            for field in ONLY_OF_CHUNKS:
                value = getattr(self, field)
                if value != type(self).model_fields[field].default:
                    problem = f"{value} means nothing without chunks"
                    raise FieldError(field, problem, "give chunk_frames, or leave it out")
            return self
        at_most = (self.chunks + self.in_flight) * (self.steps + 1)
        if at_most > MOST_FORWARDS:
            problem = f"{self.chunks:,} of {self.steps:,} steps take {at_most:,} forwards"
            raise FieldError("chunks", problem, f"at most {MOST_FORWARDS:,} are simulated")
        self._check_window(self.chunk_frames)
        self._check_switches(at_most)
        if self.in_flight > 1:
            self._check_flight(self.chunk_frames)
        elif self.ranges:
            problem = "are of noise levels in flight, and one chunk passes at a time"
            raise FieldError("ranges", problem, "give pipelined, or leave them out")
        return self

    def _check_window(self, chunk_frames: int) -> None:
        """Refuse a window that has no room, or what means nothing without one.

        Args:
            chunk_frames: Latent frames of a chunk.
        """
        if self.window_frames is None:
            if self.sink_frames or self.cache == "moved":
                field = "sink_frames" if self.sink_frames else "cache"
                problem = f"{getattr(self, field)} means nothing in a cache without a window"
                raise FieldError(field, problem, "give window_frames, or leave it out")
            return
        if self.window_frames < chunk_frames:
            problem = f"{self.window_frames} are fewer than the {chunk_frames} of a chunk"
            raise FieldError("window_frames", problem, "give as many or more")
        most_sinks = self.window_frames - self.in_flight * chunk_frames
        if self.in_flight > 1 and most_sinks < 0:
            problem = f"{self.window_frames} are fewer than those of {self.in_flight} chunks"
            cure = f"give {self.in_flight * chunk_frames} or more"
            raise FieldError("window_frames", problem, cure)
        if self.sink_frames > most_sinks:
            problem = f"{self.sink_frames} leave no room for a chunk in {self.window_frames}"
            raise FieldError("sink_frames", problem, f"give at most {most_sinks}")
        if self.sink_frames and self.cache == "none":
            problem = f"{self.sink_frames}, where no keys are kept"
            raise FieldError("sink_frames", problem, "leave out cache, or this")

    def _check_switches(self, other_forwards: int) -> None:
        """Refuse prompts that no chunk has, and switches that renew too many chunks.

        Args:
            other_forwards: Forwards at most, without those that renew the window.
        """
        if self.prompts > self.chunks:
            problem = f"{self.prompts} are more than the {count(self.chunks, 'chunk')}"
            raise FieldError("prompts", problem, "give as many or fewer")
        if self.prompts > 1 and (self.in_flight > 1 or self.cache == "none"):
            problem = f"{self.prompts}, where a switch is simulated with one chunk at a time"
            raise FieldError("prompts", problem, "leave out rolling, pipelined and cache, or this")
        renewed = self.renewed_chunks
        if other_forwards + renewed > MOST_FORWARDS:
            problem = f"{self.prompts:,} renew {renewed:,} chunks of the window"
            cure = (
                f"give fewer, or a window_frames: at most {MOST_FORWARDS:,} forwards are simulated"
            )
            raise FieldError("prompts", problem, cure)

    def _check_flight(self, chunk_frames: int) -> None:
        """Refuse noise levels that make no sense.

        Args:
            chunk_frames: Latent frames of a chunk.
        """
        field = "rolling" if self.rolling > 1 else "pipelined"
        if self.rolling > 1 and self.pipelined > 1:
            problem = f"{self.pipelined}, beside rolling={self.rolling}"
            raise FieldError("pipelined", problem, "leave out one of them")
        if self.steps % self.in_flight:
            problem = f"{self.in_flight} noise levels do not divide the {self.steps} steps"
            raise FieldError(field, problem, "give a divisor of the steps")
        if self.cache == "none":
            problem = "none, where chunks in flight read the keys of earlier ones"
            raise FieldError("cache", problem, f"leave out {field}, or this")
        if not self.ranges:
            return
        lengths = self.in_flight, self.in_flight + self.clean
        if self.rolling > 1 or len(self.ranges) not in lengths:
            problem = f"{len(self.ranges)} are given for {self.in_flight} levels of {field}"
            cure = f"pipelined: give {lengths[0]}, and one more for the clean forward"
            raise FieldError("ranges", problem, cure)
        if min(self.ranges) < chunk_frames:
            problem = f"{min(self.ranges)} are fewer than the {chunk_frames} of a chunk"
            raise FieldError("ranges", problem, "give as many or more")

    @property
    def forwards_per_chunk(self) -> int:
        """Forwards of a chunk, or of a sample without chunks."""
        writes_keys = self.clean and self.chunk_frames is not None and self.cache != "none"
        return self.steps + writes_keys

    @property
    def stated_s(self) -> float:
        """Stated seconds of a sample: its text encoder, and the pixel decoder of all its chunks.

        >>> Sample(height=16, width=16, chunk_frames=1, chunks=3, decoder_s=2.0).stated_s
        6.0
        """
        return self.encoder_s + self.chunks * self.decoder_s

    @property
    def in_flight(self) -> int:
        """Chunks that pass a forward together, but for the first and last forwards."""
        return max(self.rolling, self.pipelined)

    @property
    def forwards(self) -> int:
        """Forwards of the whole sample."""
        return self.steps if self.chunk_frames is None else len(forwards_of(self))

    @property
    def renewed_chunks(self) -> int:
        """Chunks of the window whose keys and values are renewed, over all switches of the prompt.

        >>> Sample(height=16, width=16, chunk_frames=1, chunks=10, prompts=3).renewed_chunks
        9
        """
        if self.chunk_frames is None:
            return 0
        in_window = self.chunks
        if self.window_frames is not None:
            in_window = self.window_frames // self.chunk_frames
        return sum(min(chunk, in_window) for chunk in first_of_prompt(self))

    @property
    def irregular(self) -> str:
        """The field by which chunks are not alike in their forwards; empty if they are."""
        differs = {
            "rolling": self.rolling > 1,
            "pipelined": self.pipelined > 1,
            "prompts": self.prompts > 1,
            "cache": self.cache != "ring",
        }
        return next((field for field, is_so in differs.items() if is_so), "")

    @property
    def in_words(self) -> str:
        """The sample in one phrase."""
        size = f"{self.width} x {self.height}"
        if self.chunk_frames is not None:
            of_chunk = count(self.chunk_frames, "latent frame")
            chunks = f"{count(self.chunks, 'chunk')} of {of_chunk} at {size}"
            if self.in_flight > 1:
                forwards = count(self.forwards, "forward")
                return f"{chunks}, {self.in_flight} in flight, {forwards}"
            words = f"{chunks}, {count(self.forwards_per_chunk, 'forward')} each"
            return words + (f", {self.prompts} prompts" if self.prompts > 1 else "")
        if self.frames > 1:
            return f"{count(self.frames, 'frame')} at {size}, {count(self.forwards, 'forward')}"
        return f"an image of {size}, {count(self.forwards, 'forward')}"

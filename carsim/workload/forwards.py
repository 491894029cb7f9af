"""The forwards of a video that is made in chunks: what passes the layers, and what it attends to.

A forward is one pass of tokens through all layers. Frames here are latent frames.

* One chunk at a time: each chunk takes its denoising steps, then a *clean* forward, which writes
  the keys and values of its finished frames.
* *Rolling* (Rolling Forcing, arXiv 2509.25161): several chunks pass each forward together, each at
  its own noise level, and all of them attend to one another. After some forwards, the oldest chunk
  is finished and leaves, and a new one of pure noise enters.
* *Pipelined* (MAGI-1, arXiv 2505.13211): the same, but a chunk attends to itself and to earlier
  chunks only. At each noise level it may read a range of its own.
* *Without a cache* (diffusion forcing, arXiv 2407.01392): every forward computes all frames of the
  window, and keeps no keys and values.
* A switch of the prompt renews the keys and values of the window: a clean forward for each of its
  chunks, which attends to those before it (LongLive, arXiv 2509.22622).
* A cache whose values are *moved* shifts the frames that stay to the front when a chunk needs room,
  once a chunk. Sinks are the first frames, and stay where they are. In a ring, nothing moves.

Simplifications: chunks in flight at different noise levels share one embedding of the time, unless
each latent frame has one of its own (``model.network.timesteps: frame``); a
clean forward of a chunk in flight is a forward by itself; of a window that chunks do not divide,
a switch of the prompt renews the whole chunks.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from carsim.workload.sample import Sample


class Part(NamedTuple):
    """Frames of a forward that attend to the same keys.

    Attributes:
        frames: Frames that pass the layers.
        keys: Frames whose keys they read, their own included.
        last: Frames of the video up to the last of them.
    """

    frames: int
    keys: int
    last: int


class ForwardKind(NamedTuple):
    """Key of forwards that take the same blocks.

    Attributes:
        frames: Frames of each part.
        moved: Frames of the cache whose keys and values move before attention.
    """

    frames: tuple[int, ...]
    moved: int


class Forward(NamedTuple):
    """One pass of tokens through all layers.

    Attributes:
        parts: Its frames, by what they attend to, oldest first.
        done: Share of the denoising steps of its oldest chunk that came before.
        chunk: Number of the chunk that is finished next, from 0.
        moved: Frames of the cache whose keys and values move before attention.
    """

    parts: tuple[Part, ...]
    done: float
    chunk: int
    moved: int = 0

    @property
    def kind(self) -> ForwardKind:
        """Key that is equal in forwards that take the same blocks."""
        return ForwardKind(tuple(part.frames for part in self.parts), self.moved)

    @property
    def frames(self) -> int:
        """Frames that pass the layers."""
        return sum(part.frames for part in self.parts)

    @property
    def cached(self) -> int:
        """Frames whose keys and values are kept: from the oldest that is read to the newest."""
        newest = max(part.last for part in self.parts)
        return newest - min(part.last - part.keys for part in self.parts)


@lru_cache(maxsize=64)
def forwards_of(sample: "Sample") -> tuple[Forward, ...]:
    """All forwards of a sample in chunks, in order."""
    if sample.in_flight > 1:
        return tuple(_several_in_flight(sample))
    return tuple(_one_at_a_time(sample))


def first_of_prompt(sample: "Sample") -> list[int]:
    """Numbers of the chunks with which the second prompt and later ones begin.

    >>> from carsim.workload.sample import Sample
    >>> first_of_prompt(Sample(height=16, width=16, chunk_frames=1, chunks=10, prompts=3))
    [3, 6]
    """
    return [sample.chunks * prompt // sample.prompts for prompt in range(1, sample.prompts)]


def _one_at_a_time(sample: "Sample") -> Iterator[Forward]:
    """Forwards of chunks that follow one another."""
    frames = sample.chunk_frames
    assert frames is not None
    switches = first_of_prompt(sample)
    for chunk in range(sample.chunks):
        if chunk in switches:
            yield from _renewed_window(sample, chunk)
        last = (chunk + 1) * frames
        keys = _in_window(sample, last)
        passing = keys if sample.cache == "none" else frames
        parts = (Part(passing, keys, last),)
        for step in range(sample.forwards_per_chunk):
            moved = _moved(sample, chunk) if step == 0 else 0
            yield Forward(parts, done=step / sample.steps, chunk=chunk, moved=moved)


def _renewed_window(sample: "Sample", chunk: int) -> Iterator[Forward]:
    """Clean forwards of the chunks in the window before a chunk.

    Args:
        sample: The sample.
        chunk: Number of the first chunk of the new prompt.
    """
    frames = sample.chunk_frames
    assert frames is not None
    in_window = _in_window(sample, chunk * frames) // frames
    for number in range(in_window):
        last = (chunk - in_window + number + 1) * frames
        part = Part(frames, (number + 1) * frames, last)
        yield Forward((part,), done=1.0, chunk=chunk)


def _several_in_flight(sample: "Sample") -> Iterator[Forward]:
    """Forwards of chunks that pass together; fewer of them at the beginning and at the end."""
    frames = sample.chunk_frames
    assert frames is not None
    levels = sample.in_flight
    per_level = sample.steps // levels
    for turn in range(sample.chunks + levels - 1):
        oldest = max(0, turn - levels + 1)
        newest = min(turn, sample.chunks - 1)
        parts = _parts_in_flight(sample, turn, (oldest, newest))
        done = (turn - oldest) / levels
        for step in range(per_level):
            # Moved once for the chunk that enters.
            moved = _moved(sample, turn) if step == 0 and turn < sample.chunks else 0
            yield Forward(parts, done=done + step / sample.steps, chunk=oldest, moved=moved)
        if sample.clean and turn >= levels - 1:
            last = (oldest + 1) * frames
            part = Part(frames, _read_at(sample, levels, last), last)
            yield Forward((part,), done=1.0, chunk=oldest)


def _parts_in_flight(sample: "Sample", turn: int, flight: tuple[int, int]) -> tuple[Part, ...]:
    """Parts of a forward of chunks in flight, oldest first.

    Args:
        sample: The sample.
        turn: Chunks that entered before the newest, had there been enough of them.
        flight: Numbers of the oldest and of the newest chunk in flight.
    """
    frames = sample.chunk_frames
    assert frames is not None
    oldest, newest = flight
    if sample.rolling > 1:
        last = (newest + 1) * frames
        passing = (newest - oldest + 1) * frames
        return (Part(passing, _in_window(sample, last), last),)
    parts = []
    for chunk in range(oldest, newest + 1):
        last = (chunk + 1) * frames
        parts.append(Part(frames, _read_at(sample, turn - chunk, last), last))
    return tuple(parts)


def _read_at(sample: "Sample", level: int, last: int) -> int:
    """Frames whose keys a chunk reads at a noise level.

    Args:
        sample: The sample.
        level: Number of the level, the noisiest 0; the clean forward is behind the last.
        last: Frames of the video up to the last of the chunk.
    """
    if not sample.ranges:
        return _in_window(sample, last)
    return min(last, sample.ranges[min(level, len(sample.ranges) - 1)])


def _in_window(sample: "Sample", frames: int) -> int:
    """Frames of the video, but at most those of the window."""
    return frames if sample.window_frames is None else min(frames, sample.window_frames)


def _moved(sample: "Sample", chunk: int) -> int:
    """Frames that move to the front of a full cache to make room for a chunk."""
    if sample.cache != "moved" or sample.window_frames is None:
        return 0
    assert sample.chunk_frames is not None
    before = chunk * sample.chunk_frames
    if before + sample.chunk_frames <= sample.window_frames:
        return 0
    stay = sample.window_frames - sample.chunk_frames
    return stay - sample.sink_frames

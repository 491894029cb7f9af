"""What each external memory has to hold, against what it can.

Model: body weights and head with the scales and zero points of their groups; the KV cache of every
row of the batch for the longest context; the replay cache, N outputs of d elements per layer and
row (FastCar, arXiv 2505.14709). ``machine.placement`` says which memory holds what; the reserve of
a memory is not available to the design.

Under streaming attention the KV cache shrinks to sinks and window, but replay compares the current
token with the one at the same place of the previous frame, N tokens ago: the keys from there up to
the window stay, without their values. A run compares dense with sparse attention on one machine, so
a design whose own policy is dense pays for the full cache.

Simplifications: norm weights (1 MB) and embedding tables are left out (one row of a table is read
per token, from wherever the host keeps it); no fragmentation, no alignment; the few keys and values
of the depth transformer stay on chip (:mod:`carsim.technology.fit` checks that they do).
"""

from dataclasses import dataclass

from carsim.design import Design, StreamingAttention
from carsim.workload.geometry import Video


@dataclass(frozen=True, slots=True)
class Content:
    """Something that a memory holds, in bytes."""

    memory: str
    content: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """What one memory holds, and what it can."""

    memory: str
    usable_bytes: int
    contents: tuple[Content, ...]

    @property
    def used_bytes(self) -> int:
        """Bytes of all contents."""
        return sum(content.nbytes for content in self.contents)

    @property
    def free_bytes(self) -> int:
        """Bytes left over; negative if the contents do not fit."""
        return self.usable_bytes - self.used_bytes


def capacity(design: Design, video: Video) -> tuple[MemoryUse, ...]:
    """What the board's memories hold, by name of memory.

    Args:
        design: The design.
        video: Frames, tokens per frame and prompt, which set the longest context.

    Returns:
        One entry per memory of the board, those that hold nothing included.
    """
    held = contents(design, video)
    return tuple(
        MemoryUse(name, memory.usable_bytes, tuple(c for c in held if c.memory == name))
        for name, memory in sorted(design.board.memories.items())
    )


def contents(design: Design, video: Video) -> tuple[Content, ...]:
    """Everything that the design keeps in external memory, and where."""
    model, placement = design.model, design.machine.placement
    body, batch = model.body, design.policy.batch
    replay = model.replay.bytes_of(video.tokens_per_frame * body.hidden_size)
    held = [
        Content(placement.weights, "weights", model.weights.bytes_of(body.weights)),
        Content(
            placement.kv,
            "KV cache",
            batch * body.n_layers * model.kv.bytes_of(kv_elements(design, video)),
        ),
        Content(placement.replay, "replay cache", batch * body.n_layers * replay),
    ]
    if design.machine.include_head:
        head = model.weights.bytes_of(model.head.stored_weights(body))
        held.append(Content(placement.head, "head", head))
    return tuple(held)


def memories_in_use(design: Design) -> tuple[str, ...]:
    """Names of the memories that the placement uses, sorted."""
    placement = design.machine.placement
    names = {placement.weights, placement.kv, placement.replay}
    if design.machine.include_head:
        names.add(placement.head)
    return tuple(sorted(names))


def kv_elements(design: Design, video: Video) -> int:
    """Elements of K and V that one layer keeps for one row of a video."""
    kv, attention = design.model.body.kv_size, design.policy.attention
    cached = attention.attended(video.max_context)
    if not isinstance(attention, StreamingAttention):
        return 2 * cached * kv
    beyond_window = max(0, video.tokens_per_frame - attention.window + 1)
    aligned_keys = min(beyond_window, video.max_context - cached)
    return (2 * cached + aligned_keys) * kv

"""What each external memory has to hold, against what it can.

Model: body weights and head with the scales and zero points of their groups; the KV cache of every
row of the batch for the longest context; the replay cache, N outputs of d elements per layer and
row (FastCar, arXiv 2505.14709), and beside it what the rule of replay holds for each of N places.
``machine.placement`` says which memory holds what; the reserve of a memory is not available to the
design.

Under streaming attention the KV cache shrinks to sinks and window, but FastCar's rule compares the
current token with the one at the same place of the previous frame, N tokens ago: the keys from
there up to the window stay, of the heads that are scored, without their values. A run compares
dense with sparse attention on one machine, so a design whose own policy is dense pays for the full
cache.

Where what the cache holds depends on the data, every layer has room for the most that a head of a
row of the trace ever held there, its frame under way included. Without a trace, for everything.

Simplifications: every head of a layer has as much room as the fullest; norm weights (1 MB) and
embedding tables are left out (one row of a table is read per token, from wherever the host keeps
it); no fragmentation, no alignment; the few keys and values of the depth transformer stay on chip
(:mod:`carsim.cost.fit` checks that they do).
"""

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from carsim.decisions.attention.base import Ints
from carsim.decisions.replay import FASTCAR, MachineShape, ReplayRule
from carsim.design import Design
from carsim.workload.body import in_window
from carsim.workload.geometry import Video
from carsim.workload.model import Model


class Content(NamedTuple):
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


def capacity(
    design: Design, video: Video, rule: ReplayRule | None = FASTCAR, kv_held: Ints | None = None
) -> tuple[MemoryUse, ...]:
    """Contents of the board's memories, sorted by name, empty memories included.

    Args:
        design: The design.
        video: Frames, tokens per frame and prompt, which set the longest context.
        rule: Rule of replay; None where nothing ever replays, and nothing is held for it.
        kv_held: int[L], the most tokens that a head of each layer holds at once, where that was
            recorded; None: it follows from the context.
    """
    held = contents(design, video, rule, kv_held)
    return tuple(
        MemoryUse(name, memory.usable_bytes, tuple(c for c in held if c.memory == name))
        for name, memory in sorted(design.board.memories.items())
    )


def contents(
    design: Design, video: Video, rule: ReplayRule | None = FASTCAR, kv_held: Ints | None = None
) -> tuple[Content, ...]:
    """Everything that the design keeps in external memory, and where; arguments as above."""
    model, placement, body = design.model, design.machine.placement, design.model.body
    batch, attention = design.policy.batch, design.policy.attention
    caches = batch * body.n_layers  # one per row and layer
    windows = [body.window_of(layer) for layer in range(body.n_layers)]
    longest = np.array([in_window(video.max_context, window) for window in windows])
    of_layers = attention.held(longest) if kv_held is None else kv_held
    kv_bytes = sum(
        layers * model.kv.bytes_of(kv_elements(design, video, rule, *of_layer))
        for of_layer, layers in Counter(zip(of_layers.tolist(), windows, strict=True)).items()
    )
    held = [
        Content(placement.weights, "weights", model.body_bytes),
        Content(placement.kv, "KV cache", batch * kv_bytes),
    ]
    if rule is not None:
        outputs = model.replay.bytes_of(video.tokens_per_frame * body.hidden_size)
        held.append(Content(placement.replay, "replay cache", caches * outputs))
        if held_bytes := video.tokens_per_frame * rule.work(machine_shape(model)).held_bytes:
            held.append(Content(placement.replay, "data of the rule", caches * held_bytes))
    at = (of_layers if attention.follows_reads else longest).astype(object)  # beyond 64 bits
    if own_bytes := int(attention.side_bytes(at, body.n_kv_heads, body.head_dim).sum()):
        held.append(Content(placement.kv, "data of the policy", batch * own_bytes))
    if design.machine.include_head:
        head_bytes = model.weights.bytes_of(model.head.stored_weights(body))
        held.append(Content(placement.head, "head", head_bytes))
        if embedding := model.head.embedding_weights(body):
            held.append(Content(placement.head, "embedding", model.weights.bytes_of(embedding)))
    return tuple(held)


def machine_shape(model: Model, of: int = 1) -> MachineShape:
    """The model as a rule of replay sees it.

    Args:
        model: The model.
        of: Cores that share its heads and columns.
    """
    body, bits = model.body, model.activations.bits_per_element
    return MachineShape(
        body.n_heads, body.n_kv_heads, body.head_dim, body.hidden_size, activation_bits=bits, of=of
    )


def kv_elements(
    design: Design,
    video: Video,
    rule: ReplayRule | None = FASTCAR,
    held: int | None = None,
    window: int | None = None,
) -> int:
    """Elements of K and V that one layer keeps for one row of a video.

    Args:
        design: The design.
        video: What is decoded.
        rule: Rule of replay; None where nothing ever replays.
        held: Tokens of which key and value are kept, if it is not known from the context.
        window: Newest tokens that the layer attends to; None: all. Of older ones it keeps but the
            keys that the rule scores.
    """
    model, attention = design.model, design.policy.attention
    context = np.array([in_window(video.max_context, window)])
    if held is None:
        held = int(attention.held(context)[0])
    if rule is None:
        return held * model.body.kv_elements
    scored = rule.work(machine_shape(model)).key_elements
    distance = rule.key_distance(video.tokens_per_frame)
    kept = int(attention.keys_kept(context, distance)[0])
    if window is not None:
        kept += max(0, min(distance + 1, video.max_context) - window)
    return held * model.body.kv_elements + kept * scored

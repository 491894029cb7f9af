"""Contents of each external memory of a design, and whether they fit.

Model: a design keeps these contents in external memory.

* Weights of body and head, each role in its precision, with the scales and zero points of their
  groups.
* The KV cache of every row of the batch, for the longest context.
* The replay cache: N outputs of d elements for each row, layer and block that holds its output, for
  N tokens of a frame. In FastCar (arXiv 2505.14709) the MLP alone does.
* Data that the rule of replay holds for each of these N places.

``machine.placement`` says which memory holds each of them. The reserve of a memory is not available
to the design.

Under streaming attention, the KV cache shrinks to sinks and window. But FastCar's rule compares the
current token with the token at the same place of the previous frame, N tokens ago. So the keys from
there up to the window stay, for the heads that are scored, without their values. A run compares
dense with sparse attention on one machine. So a design whose own policy is dense pays for the full
cache.

Where an attention policy lets layers share keys and values, the layers that read those of others
cache none; where heads share them, fewer heads are cached. Older tokens that a policy moves to a
second memory count there (``machine.placement.kv_far``).

If the tokens in the cache depend on the data, every layer has room for the most tokens that a head
of a row of the trace ever held there, the current frame included. Without a trace, it has room for
all tokens.

Simplifications: every head of a layer has as much room as the fullest. Norm weights (1 MB)
are left out unless ``model.weights_by_role`` gives their precision. Embedding tables are left out
where the head does not say how they are held, as one row is read per token, from wherever the host
keeps it. There is no fragmentation and no alignment. The few keys and values of the depth
transformer stay on chip (:mod:`carsim.cost.fit` checks that they do). Where layers or heads share
keys and values, the projections that they do not use are still counted among the weights.
"""

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from carsim.decisions.attention.base import Ints
from carsim.decisions.replay import FASTCAR, ReplayRule
from carsim.design import Design
from carsim.program.block import machine_shape
from carsim.program.diffusion import forward_shape, fullest_forward
from carsim.program.layers import decoder_program, sharing_layers
from carsim.program.program import Program
from carsim.program.sample import sample_program
from carsim.workload.body import in_window
from carsim.workload.geometry import Video
from carsim.workload.model import Model
from carsim.workload.network import DiffusionTransformer
from carsim.workload.workload import ReuseSource, TokenReuse

KV_CACHE = "KV cache"
"""Name of keys and values among the contents of a memory."""

OLDER_KV = "older KV cache"
"""Name of those of older tokens in a second memory."""


class Content(NamedTuple):
    """One of the contents of a memory, with its bytes."""

    memory: str
    content: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Contents of one memory.

    Attributes:
        memory: Its name.
        usable_bytes: Bytes that the design may use.
        contents: What it holds.
    """

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
    design: Design,
    video: Video,
    rule: ReplayRule | None = FASTCAR,
    kv_held: Ints | None = None,
    *,
    reuse: TokenReuse | None = None,
) -> tuple[MemoryUse, ...]:
    """Contents of the board's memories, sorted by name, empty memories included.

    Args:
        design: The design.
        video: Frames, tokens per frame and prompt, which set the longest context.
        rule: Rule of replay; None where nothing ever replays, and nothing is held for it.
        kv_held: int[L], the most tokens that a head of each layer holds at once, where that was
            recorded; None: it follows from the context.
        reuse: What tokens of forwards reuse; None: whole rows decide.
    """
    everything = contents(
        design,
        video,
        rule=rule,
        kv_held=kv_held,
        reuse=reuse,
    )
    uses = []
    for name, memory in sorted(design.board.memories.items()):
        of_memory = tuple(content for content in everything if content.memory == name)
        uses.append(MemoryUse(name, memory.usable_bytes, contents=of_memory))
    return tuple(uses)


def contents(
    design: Design,
    video: Video,
    rule: ReplayRule | None = FASTCAR,
    kv_held: Ints | None = None,
    *,
    reuse: TokenReuse | None = None,
) -> tuple[Content, ...]:
    """Contents that a design keeps in external memory, and where; see :func:`capacity`.

    Args:
        design: The design.
        video: Frames, tokens per frame and prompt, which set the longest context.
        rule: Rule of replay; None where nothing ever replays.
        kv_held: int[L], the most tokens that a head of each layer holds at once; None: from the
            context.
        reuse: What tokens of forwards reuse; None: whole rows decide.
    """
    placement = design.machine.placement
    model = design.model
    batch = design.policy.batch
    if model.network is not None:
        return _sample_contents(design, rule, reuse)
    cached = _cached_tokens(design, video, kv_held)
    near_bytes, far_bytes = _kv_bytes(design, video, rule, cached)
    everything = [
        Content(placement.weights, "weights", nbytes=model.body_bytes),
        Content(placement.kv, KV_CACHE, nbytes=batch * near_bytes),
    ]
    if placement.kv_far is not None and far_bytes:
        older = Content(placement.kv_far, OLDER_KV, nbytes=batch * far_bytes)
        everything.append(older)
    if rule is not None:
        # One set of data for each row and layer in which rows decide.
        program = decoder_program(model, design.policy.skip, rule, decided=False)
        output_bytes = batch * program.held_bytes(model, video.tokens_per_frame)
        rule_bytes = video.tokens_per_frame * rule.work(machine_shape(model)).held_bytes
        everything.append(Content(placement.replay, "replay cache", nbytes=output_bytes))
        if rule_bytes:
            nbytes = batch * len(program.skipping_layers) * rule_bytes
            everything.append(Content(placement.replay, "data of the rule", nbytes=nbytes))
    policy_bytes = _policy_bytes(design, cached)
    if policy_bytes:
        everything.append(Content(placement.kv, "data of the policy", nbytes=batch * policy_bytes))
    if design.machine.include_head:
        everything += _head_contents(design)
    return tuple(everything)


def _sample_contents(
    design: Design, rule: ReplayRule | None, reuse: TokenReuse | None
) -> tuple[Content, ...]:
    """Contents of a design whose tokens pass a network all together.

    Activations of one layer are held for all tokens: the residual, and the widest inputs and
    outputs beside it. A sample in chunks has a cache of keys and values, in place of those among
    the activations, for the frames that are read by the fullest of its forwards. Outputs that whole
    forwards reuse, and those that tokens of the others reuse, lie beside each other.
    """
    placement = design.machine.placement
    model = design.model
    network = model.network
    sample = model.sample
    body = model.body
    assert network is not None
    assert sample is not None
    batch = design.policy.batch
    tokens = network.tokens(sample)
    if isinstance(network, DiffusionTransformer) and sample.chunk_frames is not None:
        tokens = network.tokens_of(sample, fullest_forward(model).frames)
    text_tokens = getattr(network, "text_tokens", 0)
    joined = getattr(network, "text", "") in ("streams", "sequence")
    every_token = tokens + text_tokens * joined
    widest = body.q_size + body.kv_elements + body.ffn_size
    alive = every_token * (2 * body.hidden_size + widest)
    activation_bytes = int(model.activations.bytes_of(alive))
    everything = [
        Content(placement.weights, "weights", nbytes=model.body_bytes),
        Content(placement.kv, "activations", nbytes=batch * activation_bytes),
    ]
    if isinstance(network, DiffusionTransformer):
        everything += _cache_contents(design)
    if rule is not None:
        skip = design.policy.skip
        program = sample_program(
            model,
            skip,
            decided=False,
            rule=rule,
            reuse=reuse,
        )
        source = None if reuse is None else reuse.source
        replay_bytes = batch * _reused_bytes(model, program, source)
        if reuse is not None and reuse.beside_forwards:
            of_forwards = sample_program(model, skip, decided=False, rule=rule)
            replay_bytes += batch * _reused_bytes(model, of_forwards, None)
        everything.append(Content(placement.replay, "replay cache", nbytes=replay_bytes))
        rule_bytes = tokens * rule.work(machine_shape(model)).held_bytes
        if source is not None and rule_bytes and not skip.decides_before:
            nbytes = batch * len(program.skipping_layers) * rule_bytes
            everything.append(Content(placement.replay, "data of the rule", nbytes=nbytes))
    return tuple(everything)


def cache_bytes(design: Design, frames: int | None = None) -> int:
    """Bytes of keys and values of a batch: of the latent frames in the cache, and of the prompt.

    Args:
        design: A design with a diffusion transformer.
        frames: Latent frames in the cache of a video in chunks; None: the most that there ever are.
    """
    contents_of_cache = _cache_contents(design, frames)
    return sum(each.nbytes for each in contents_of_cache if each.content == KV_CACHE)


def _cache_contents(design: Design, frames: int | None = None) -> list[Content]:
    """Keys and values that a diffusion transformer keeps, and what the policy keeps beside them.

    Args:
        design: The design.
        frames: Latent frames in the cache of a video in chunks; None: the most that there ever are.
    """
    model = design.model
    network = model.network
    sample = model.sample
    assert isinstance(network, DiffusionTransformer)
    assert sample is not None
    body = model.body
    batch = design.policy.batch
    memory = design.machine.placement.kv
    cached_tokens = 0
    policy_bytes = 0
    if sample.chunk_frames is not None and sample.cache != "none":
        fullest = fullest_forward(model)
        passing = network.tokens_of(sample, fullest.frames)
        cached_frames = fullest.cached if frames is None else frames
        keys = np.array([network.tokens_of(sample, cached_frames)], np.int64)
        attention = design.policy.attention
        cached_tokens = int(attention.forward_held(passing, keys)[0])
        side_bytes = attention.forward_side_bytes(forward_shape(model, passing), keys)
        policy_bytes = body.n_layers * int(side_bytes[0])
    if network.text == "cross":
        cached_tokens += network.text_tokens
    contents_of_cache = []
    if cached_tokens:
        kv_bytes = body.n_layers * int(model.kv.bytes_of(cached_tokens * body.kv_elements))
        contents_of_cache.append(Content(memory, KV_CACHE, nbytes=batch * kv_bytes))
    if policy_bytes:
        contents_of_cache.append(Content(memory, "data of the policy", nbytes=batch * policy_bytes))
    return contents_of_cache


def _reused_bytes(model: Model, program: Program, source: ReuseSource | None) -> int:
    """Bytes of outputs that are held for one row of forwards.

    Outputs of earlier forwards are held in all layers. Those of the previous frame of the same
    forward are held for one layer at a time. Across chunks, outputs of the last frame are held
    beside them in all layers and for each denoising step, also for steps that always compute.
    """
    network = model.network
    sample = model.sample
    if source is None or source == "step":
        return program.held_bytes(model, tokens=1)
    assert isinstance(network, DiffusionTransformer)
    assert sample is not None
    of_layers = [
        sum(int(model.replay.bytes_of(block.held_elements(model))) for block in layer)
        for layer in program.layers
    ]
    if source == "frame":
        return max(of_layers)
    frames = network.tokens(sample) // network.tokens_per_frame(sample)
    return max(of_layers) + sample.steps * sum(of_layers) // frames


class _CachedTokens(NamedTuple):
    """Tokens in the KV cache of each layer, [L].

    Attributes:
        windows: Newest tokens that a layer attends to; None for all.
        contexts: Longest context of each layer, within its window.
        held_tokens: Tokens whose key and value the cache holds.
    """

    windows: list[int | None]
    contexts: Ints
    held_tokens: Ints


def _cached_tokens(design: Design, video: Video, kv_held: Ints | None) -> _CachedTokens:
    """Tokens in the KV cache of each layer.

    Args:
        design: The design.
        video: What is decoded.
        kv_held: Tokens that were recorded; None: from the context.
    """
    body = design.model.body
    windows = [body.window_of(layer) for layer in range(body.n_layers)]
    contexts = np.array([in_window(video.max_context, window) for window in windows])
    held_tokens = kv_held
    if held_tokens is None:
        held_tokens = design.policy.attention.held(contexts)
    return _CachedTokens(windows, contexts, held_tokens=held_tokens)


class _KvBytes(NamedTuple):
    """Bytes of the KV cache in its memory, and of older tokens in a second one."""

    near: int
    far: int


def _kv_bytes(
    design: Design, video: Video, rule: ReplayRule | None, cached: _CachedTokens
) -> _KvBytes:
    """Bytes of the KV cache of one row in all layers that have keys of their own."""
    policy = design.policy.attention
    model = with_kept_heads(design)
    per_frame = video.tokens_per_frame
    held_tokens = np.asarray(cached.held_tokens, np.int64)
    far_tokens = policy.far_tokens(held_tokens, per_frame)
    full_tokens = policy.full_tokens(held_tokens, per_frame)
    near_tokens = policy.full_tokens(held_tokens - far_tokens, per_frame)
    sharing = sharing_layers(model, policy)
    # Most layers are alike; bytes of each kind are worked out once.
    layer_kinds = Counter(
        (int(near_tokens[layer]), int(full_tokens[layer]), cached.windows[layer])
        for layer in range(model.body.n_layers)
        if layer not in sharing
    )
    near_bytes = 0
    far_bytes = 0
    for (near, full, window), layers in layer_kinds.items():
        elements = kv_elements(design, video, rule, held_tokens=near, window=window)
        near_bytes += layers * model.kv.bytes_of(elements)
        far_bytes += layers * model.kv.bytes_of((full - near) * model.body.kv_elements)
    return _KvBytes(near_bytes, far_bytes)


def with_kept_heads(design: Design) -> Model:
    """The model of a design with the key heads that its attention policy caches."""
    model = design.model
    return model.with_key_heads(design.policy.attention.kept_key_heads(model.body.n_kv_heads))


def _policy_bytes(design: Design, cached: _CachedTokens) -> int:
    """Bytes of the attention policy's own data, of one row in all layers."""
    body = with_kept_heads(design).body
    attention = design.policy.attention
    tokens = cached.held_tokens if attention.follows_reads else cached.contexts
    # Python's integers, as the products may exceed 64 bits.
    exact_tokens = tokens.astype(object)
    return int(attention.side_bytes(exact_tokens, body.n_kv_heads, body.head_dim).sum())


def _head_contents(design: Design) -> list[Content]:
    """The head's weights, and its embedding where it has one."""
    model = design.model
    memory = design.machine.placement.head
    everything = [Content(memory, "head", nbytes=model.head_bytes)]
    if model.embedding_bytes:
        everything.append(Content(memory, "embedding", nbytes=model.embedding_bytes))
    return everything


def kv_elements(
    design: Design,
    video: Video,
    rule: ReplayRule | None = FASTCAR,
    held_tokens: int | None = None,
    window: int | None = None,
) -> int:
    """Elements of K and V that one layer keeps for one row of a video.

    Args:
        design: The design.
        video: What is decoded.
        rule: Rule of replay; None where nothing ever replays.
        held_tokens: Tokens whose key and value are kept; None: from the context.
        window: Newest tokens that the layer attends to; None: all. Of older tokens, it keeps only
            the keys that the rule scores.
    """
    model = with_kept_heads(design)
    attention = design.policy.attention
    context = np.array([in_window(video.max_context, window)])
    if held_tokens is None:
        held_tokens = int(attention.held(context)[0])
    if rule is None:
        return held_tokens * model.body.kv_elements
    scored = rule.work(machine_shape(model)).key_elements
    distance = rule.key_distance(video.tokens_per_frame)
    scored_keys = int(attention.keys_kept(context, distance)[0])
    if window is not None:
        scored_keys += max(0, min(distance + 1, video.max_context) - window)
    return held_tokens * model.body.kv_elements + scored_keys * scored

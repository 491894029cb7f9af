"""Caches and traces of policies that choose keys, for their tests."""

from dataclasses import replace
from typing import Any

import numpy as np
from tiny import tiny_trace
from trace_maker import make_meta

from carsim.decisions.attention import AttentionPolicy, CacheShape, Draft, Query
from carsim.decisions.trace import Trace
from carsim.decisions.trace.meta import TraceMeta
from carsim.decoder.structures import Array, Config, DecoderPolicy, LayerRecord
from carsim.testing.decoder import MASK, PROMPT, make_config
from carsim.testing.decoder import decode_rows as run

KV, GROUP, WIDTH = 2, 2, 4


class Cache:
    """A cache of random keys, fed to a policy token by token: three rows with padded prompts."""

    def __init__(self, policy: AttentionPolicy, video: int, seed: int, prompt: int = 4) -> None:
        rng = np.random.default_rng(seed)
        self.policy: Any = policy
        self.prompt, self.video = prompt, video
        self.padding = np.array([0, prompt - 1, prompt // 2])
        self.keys = rng.normal(size=(3, KV, prompt + video, WIDTH))
        self.queries = rng.normal(size=(3, KV * GROUP, WIDTH))
        self.feed_all()

    def feed_all(self) -> None:
        """Begin anew with the keys there are."""
        shape = CacheShape(
            n_layers=2,
            n_heads=KV * GROUP,
            n_kv_heads=KV,
            head_dim=WIDTH,
            tokens_per_frame=self.video,
            prompt_slots=self.prompt,
            n_slots=self.prompt + self.video + 7,
            padding=self.padding,
            rope_theta=1e4,
            dtype=np.dtype("float64"),
        )
        self.state = self.policy.begin(shape)
        self.feed(slice(0, self.prompt))
        for slot in range(self.prompt, self.prompt + self.video):
            self.feed(slice(slot, slot + 1))

    def feed(self, slots: slice) -> None:
        keys = self.keys[:, :, slots]
        self.policy.append(self.state, 1, slots, keys + 99, keys, keys)

    @property
    def read(self) -> Any:
        """bool[B, KV, end]: slots that are read."""
        query = Query(self.queries + 99, self.queries, self.keys, self.padding)
        chosen = self.policy.select(self.state, 1, query)
        return chosen.read(self.padding, self.keys.shape[2], KV).swapaxes(0, 1)

    @property
    def read_slots(self) -> list[list[list[int]]]:
        """Slots that are read, by row and key head."""
        return [[np.flatnonzero(head).tolist() for head in row] for row in self.read]


def meta_of(config: Config, **changes: Any) -> TraceMeta:
    """Metadata of the tiny decoder's four rows."""
    lengths = tuple(MASK.sum(axis=1).tolist())
    sizes = {"tokens_per_frame": config.tokens_per_frame, "n_frames": config.n_frames}
    prompts = {"prompt_tokens": PROMPT, "prompt_lengths": lengths}
    return make_meta(decoded=config.geometry, **sizes, **prompts, **changes)


def make_trace(policy: AttentionPolicy, config: Config | None = None) -> Trace:
    """A trace of a decoding under the policy."""
    config = config or make_config()
    kept = run(config, DecoderPolicy((0.0, 0.0), attention=policy))[2]
    meta = meta_of(config, tau=0.0, attention=policy)
    kv = {"kv_tokens": kept.tokens, "kv_runs": kept.runs, "kv_held": kept.held}
    return Trace(kept.replay, kept.tas, meta, **(kv if policy.records else {}))


def draft_trace(policy: Draft) -> Trace:
    """The tiny trace, as if captured under a policy that finds its blocks in as few runs as can be.

    The best blocks are the newest ones, so that there is a run of the prompt and one of the rest.
    """
    trace = tiny_trace(attention=policy)
    prompt = np.array(trace.meta.prompt_lengths)
    video = np.arange(trace.n_steps)[:, None] + 1
    complete = (video - 1) // policy.block_tokens
    unread = complete - np.ceil(complete * policy.keep).astype(int)
    shape = (trace.n_steps, trace.n_layers, 4, trace.n_rows)
    tokens = prompt + video - unread * policy.block_tokens
    runs = np.broadcast_to(1 + (unread > 0)[:, None, None], shape)
    held = np.broadcast_to(trace.context()[15::16, None], (3, trace.n_layers, trace.n_rows))
    tokens = np.broadcast_to(tokens[:, None, None], shape)
    return replace(trace, kv_tokens=tokens, kv_runs=runs, kv_held=held)


def mass_kept(seen: LayerRecord) -> Array:
    """Mass on the keys that were read, of each row and query head, [B, H]; 1 if all were."""
    query = seen.query
    batch, kv_heads, end, head_dim = query.keys.shape
    q = query.q_rotated.reshape(batch, kv_heads, -1, head_dim)
    scores = (q * q.dtype.type(head_dim**-0.5)) @ query.keys.swapaxes(-1, -2)  # [B, KV, g, end]
    scores = np.where(np.arange(end) >= query.padding[:, None, None, None], scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    read = seen.read.swapaxes(0, 1)[:, :, None]  # [B, KV, 1, end]
    kept: Array = np.where(read, weights, 0).sum(axis=-1) / weights.sum(axis=-1)
    return kept.reshape(batch, -1)

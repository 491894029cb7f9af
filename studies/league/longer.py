"""Decisions of videos longer than what was decoded: the rule by which they are continued.

What is measured are the first frames; this module makes the rest of them, by each policy's own
rule, so that machines can run videos of 32 and 64 frames:

* a later frame repeats, place by place, the replays of one of the last four frames, in turn, and
  its habits of reading: in how many runs per piece that it chooses, at which density;
* ``draft`` and ``quantised`` read the share of the grown context that their fields say; exact;
* ``LSH`` finds the same share of the keys between sinks and window as at that place before;
* ``TempCache`` holds, in every layer, row and head, as much more after each frame as it did on
  average over the last three measured ones, and reads all of it;
* ``AnnCA`` leaves out as many keys of the prompt as at that place before;
* what needs no records (dense, window) reads what its fields say; exact.

That the proxy model would decide so is an extrapolation; :func:`checked` decodes a few scenes at
the full length and holds densities against it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from carsim.decisions.attention import Ann, AnnCa, AttentionPolicy, Draft, TempCache
from carsim.decisions.attention.base import Ints
from carsim.decisions.attention.search import share_of
from studies.content import Row
from studies.league.cells import Bench, Contestant, measured

REPEATED = 4
"""Last frames whose habits are repeated."""

GROWTH = 3
"""Last frames over which growth is averaged."""


class Kept(NamedTuple):
    """What a trace holds of one row; S steps, L layers, KV key heads, T frames.

    Attributes:
        replay: bool[S, L].
        tokens: int32[S, L, KV].
        runs: int32[S, L, KV].
        held: int32[T, L].
    """

    replay: NDArray[np.bool_]
    tokens: Ints
    runs: Ints
    held: Ints


def kept_of(cell: dict[str, NDArray[Any]]) -> Kept:
    """Of a cell."""
    counts = (cell[name].astype(np.int32) for name in ("tokens", "runs", "held"))
    return Kept(cell["replay"], *counts)


def continued(policy: AttentionPolicy, kept: Kept, prompt: int, n_frames: int) -> Kept:
    """A row of so many frames, the first of which are those that were decoded.

    Args:
        policy: Under which it was decoded.
        kept: What was decoded.
        prompt: P, tokens of its prompt.
        n_frames: T, at least the frames that were decoded, of which there are two or more.
    """
    have = len(kept.held)
    per_frame = len(kept.replay) // have
    frames = np.arange(have, n_frames)
    repeated = min(REPEATED, have - 1)  # the first frame is like no other
    source = have - repeated + (frames - have) % repeated
    at = (source[:, None] * per_frame + np.arange(per_frame)).ravel()
    steps = np.arange(have * per_frame, n_frames * per_frame)
    before, after = (prompt + 1 + each[:, None, None] for each in (at, steps))  # contexts
    tokens, runs = _RULES.get(type(policy), _stated)(policy, kept, at, before, after, prompt)
    ends = prompt + (frames + 1) * per_frame
    held = np.broadcast_to(policy.held(ends)[:, None], (len(frames), kept.held.shape[1]))
    merged = kept.held
    if isinstance(policy, TempCache):
        # The first token of a frame finds what the frame before has left.
        left = tokens[::per_frame].max(axis=-1) - 1  # [frames, L]
        growth = _growth(kept, per_frame).max(axis=-1)
        last = left[-1:] + np.rint(growth).astype(np.int64) if len(left) else left
        merged = np.concatenate([kept.held[:-1], left[:1]]) if len(left) else kept.held
        held = np.concatenate([left[1:], np.minimum(last, left[-1:] + per_frame)])
    return Kept(
        np.concatenate([kept.replay, kept.replay[at]]),
        *(
            np.concatenate([first, rest.astype(np.int32)])
            for first, rest in ((kept.tokens, tokens), (kept.runs, runs), (merged, held))
        ),
    )


Counts = tuple[Ints, Ints]
_Rule = Callable[[Any, Kept, Ints, Ints, Ints, int], Counts]


def _stated(
    policy: AttentionPolicy, kept: Kept, at: Ints, before: Ints, after: Ints, prompt: int
) -> Counts:
    reads, shape = policy.reads(after), (len(after), *kept.tokens.shape[1:])
    return np.broadcast_to(reads.tokens, shape), np.broadcast_to(reads.runs, shape)


def _draft(policy: Draft, kept: Kept, at: Ints, before: Ints, after: Ints, prompt: int) -> Counts:
    size = policy.block_tokens

    complete = policy._complete(after - prompt)
    had, k = (share_of(policy.keep, policy._complete(each - prompt)) for each in (before, after))
    tokens = np.broadcast_to(after - (complete - k) * size, (len(after), *kept.tokens.shape[1:]))
    runs = np.rint(kept.runs[at] * (k + 1) / (had + 1)).astype(np.int64)
    return tokens, np.clip(runs, 1, np.minimum(k + 2, complete - k + 1))


def _ann(policy: Ann, kept: Kept, at: Ints, before: Ints, after: Ints, prompt: int) -> Counts:
    forced = policy.sinks + policy.window
    had = np.maximum(0, kept.tokens[at] - forced)
    if policy.search == "lsh":
        found = np.rint(had * (after - forced) / np.maximum(1, before - forced)).astype(np.int64)
    else:
        found = np.broadcast_to(policy._kept(after), had.shape)
    runs = np.rint(kept.runs[at] * (found + 1) / (had + 1)).astype(np.int64)
    tokens = found + forced
    return tokens, np.clip(runs, 1, np.minimum(found + 2, after - tokens + 1))


def _temp_cache(
    policy: TempCache, kept: Kept, at: Ints, before: Ints, after: Ints, prompt: int
) -> Counts:
    per_frame = len(kept.replay) // len(kept.held)
    first = kept.tokens[-per_frame]  # [L, KV], of the last frame that was decoded
    number = np.arange(1, 1 + len(after) // per_frame)[:, None, None]
    begins = first + np.rint(_growth(kept, per_frame) * number).astype(np.int64)
    places = np.arange(per_frame)[:, None, None]
    tokens = (begins[:, None] + places).reshape(-1, *first.shape)
    return tokens, np.ones_like(tokens)


def _growth(kept: Kept, per_frame: int) -> NDArray[np.float64]:
    """Tokens that each head holds more after a frame than before it, [L, KV]."""
    over = min(GROWTH, len(kept.held) - 1)
    last, earlier = kept.tokens[-per_frame], kept.tokens[-(1 + over) * per_frame]
    growth: NDArray[np.float64] = (last - earlier) / over
    return growth


def _ann_ca(policy: AnnCa, kept: Kept, at: Ints, before: Ints, after: Ints, prompt: int) -> Counts:
    return after - (before - kept.tokens[at]), kept.runs[at]


_RULES: dict[type[AttentionPolicy], _Rule] = {
    Draft: _draft,
    Ann: _ann,
    TempCache: _temp_cache,
    AnnCa: _ann_ca,
}


def checked(
    short: Bench, long: Bench, who: tuple[Contestant, ...], rows: tuple[Row, ...]
) -> pd.DataFrame:
    """Scenes decoded at full length, beside what the rule makes of their first frames.

    Args:
        short: Decodes the first frames.
        long: Decodes all.
        who: Contestants, dense decoding first.
        rows: Rows with the tokens of all frames.

    Returns:
        A row for each contestant and scene: over the frames that the rule has made, density and
        tokens a run measured and by the rule, share of tokens held at the end, recall, loss over
        dense decoding.
    """
    table = []
    config, n = long.archive.config, short.archive.config.n_steps
    for row in rows:
        begin = Row(row.clip, row.prompt, row.codes[:n])
        dense = long.cell(who[0], row)["nats"][n:]
        context = (len(row.prompt) + 1 + np.arange(n, config.n_steps)).sum()
        for each in who:
            cell = long.cell(each, row)
            real = kept_of(cell)
            made = continued(
                each.attention, kept_of(short.cell(each, begin)), len(row.prompt), config.n_frames
            )
            plain = measured(each, row, cell, config)
            table.append(
                {
                    "contestant": each.name,
                    "clip": row.clip,
                    "density": real.tokens[n:].mean(axis=(1, 2)).sum() / context,
                    "density_by_rule": made.tokens[n:].mean(axis=(1, 2)).sum() / context,
                    "run_tokens": real.tokens[n:].sum() / real.runs[n:].sum(),
                    "run_tokens_by_rule": made.tokens[n:].sum() / made.runs[n:].sum(),
                    "held_most": plain["held_most"],
                    "held_most_by_rule": made.held[-1].max() / real.held[-1].max()
                    * float(str(plain["held_most"])),
                    "ratio": real.replay[n:].mean(),
                    "ratio_by_rule": made.replay[n:].mean(),
                    "recall": cell["mass"][n:].mean(dtype=float),
                    "excess": cell["nats"][n:].mean() - dense.mean(),
                }
            )  # fmt: skip
    return pd.DataFrame(table)

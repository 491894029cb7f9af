"""Checks of what an attention policy from outside answers; see :mod:`carsim.base.answers`."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from carsim.base.answers import Check
from carsim.decisions.attention.base import (
    Array,
    AttentionPolicy,
    CacheAt,
    ForwardShape,
    Ints,
    KvReads,
    Query,
    Selection,
    SelectionUnit,
    SideWork,
)


def _counts(what: str, counts: Any, context: Ints) -> str:
    """Check counts of tokens: whole numbers of the shape of the contexts, 0 to the context."""
    counts = np.asarray(counts)
    if counts.shape != context.shape:
        return f"gives {what} of shape {counts.shape} for contexts of shape {context.shape}"
    if counts.dtype.kind not in "iu":
        return f"gives {what} that are no whole numbers ({counts.dtype})"
    is_wrong = (counts < 0) | (counts > context)
    if is_wrong.any():
        wrong = counts[is_wrong].flat[0]
        length = context[is_wrong].flat[0]
        return f"gives {wrong} {what} at a context of {length}: 0 to the context can be"
    return ""


def _reads(answer: KvReads, policy: AttentionPolicy, context: Ints) -> str:
    """Problem of reads: no whole numbers, beyond the context, or more runs than keys; or none."""
    tokens = np.asarray(answer.tokens)
    problem = _counts("keys", tokens, context) or _counts("runs", answer.runs, context)
    if not problem and (answer.runs > tokens).any():
        return "gives more runs than keys"
    return problem


def _reads_at(answer: KvReads, policy: AttentionPolicy, at: CacheAt) -> str:
    return _reads(answer, policy, at.context)


def _full_tokens(answer: Ints, policy: AttentionPolicy, tokens: Ints, tokens_per_frame: int) -> str:
    """Problem of tokens at full precision: no whole numbers, or more than there are; or none."""
    # Proofs of ranges ask with Python's integers, which an array holds as objects.
    if np.asarray(tokens).dtype == object:
        answer = np.asarray(answer).astype(np.int64)
        tokens = np.asarray(tokens).astype(np.int64)
    return _counts("tokens", answer, np.asarray(tokens))


def _far_tokens(answer: Ints, policy: AttentionPolicy, tokens: Ints, tokens_per_frame: int) -> str:
    """Problem of tokens in the second memory, where the newest one may not be; or none."""
    problem = _full_tokens(answer, policy, tokens, tokens_per_frame)
    if not problem and (np.asarray(tokens) - answer < 1).any():
        return "moves the newest token to the second memory"
    return problem


def _source_layer(answer: int, policy: AttentionPolicy, layer: int) -> str:
    if not isinstance(answer, int | np.integer) or not 0 <= answer <= layer:
        return f"gives {answer!r} for layer {layer}: it or an earlier layer can be"
    return ""


def _kept_key_heads(answer: int, policy: AttentionPolicy, n_kv_heads: int) -> str:
    if not isinstance(answer, int | np.integer) or answer < 1 or n_kv_heads % answer:
        return f"gives {answer!r} for {n_kv_heads} key heads: a divisor of them can be"
    return ""


def _held(answer: Ints, policy: AttentionPolicy, context: Ints) -> str:
    return _counts("tokens", answer, context)


def _keys_kept(answer: Ints, policy: AttentionPolicy, context: Ints, distance: int) -> str:
    return _counts("keys", answer, context)


def _reads_aligned(answer: bool, policy: AttentionPolicy, distance: int) -> str:
    return "" if isinstance(answer, bool | np.bool_) else f"gives {answer!r}, no truth value"


def _work(answer: SideWork, policy: AttentionPolicy, context: Ints, *sizes: int) -> str:
    """Problem of some work: amounts are not whole, negative, or of another shape; or none."""
    for name, amount in vars(answer).items():
        amounts = np.asarray(amount)
        if amounts.dtype.kind not in "iu":
            return f"gives {name} that are no whole numbers ({amounts.dtype})"
        if amounts.shape not in ((), context.shape):
            return f"gives {name} of shape {amounts.shape} for contexts of shape {context.shape}"
        if (amounts < 0).any():
            return f"gives {name} of {amounts.min()}, less than 0"
    return ""


def _side_bytes(answer: Ints, policy: AttentionPolicy, context: Ints, *sizes: int) -> str:
    return _work(SideWork(bytes_read=answer), policy, context)


def _unit(answer: SelectionUnit, policy: AttentionPolicy) -> str:
    """Problem of a unit: a size is no whole number of at least 0; or none."""
    for name, amount in vars(answer).items():
        if not isinstance(amount, int | np.integer) or amount < 0:
            return f"gives {name} of {amount!r}: a whole number of at least 0 can be"
    return ""


def _select(
    answer: Selection, policy: AttentionPolicy, state: Any, layer: int, query: Query
) -> str:
    """Problem of a selection: window, mask or bias of a wrong shape, or a bias of NaN; or none."""
    rows, n_kv_heads, end = query.keys.shape[:3]
    if not 0 <= answer.start < end:
        return f"gives a window from slot {answer.start} of {end}"
    window = (rows, n_kv_heads, end - answer.start)
    for name in ("mask", "bias", "stored"):
        array = getattr(answer, name)
        if array is None:
            continue
        fits = array.ndim == 3 and all(
            length in (1, full) for length, full in zip(array.shape, window, strict=True)
        )
        if not fits:
            return f"gives a {name} of shape {array.shape} for rows, heads and slots {window}"
        if name == "bias" and np.isnan(array).any():
            return "gives a bias that is no number"
    if answer.extra is not None and answer.extra.shape[:1] != (rows,):
        return f"gives extra slots of shape {answer.extra.shape} for {rows} rows"
    return ""


def _forward_keys(
    answer: Ints, policy: AttentionPolicy, queries: int, keys: Ints, share_done: Array
) -> str:
    return _keys_of_forwards(answer, keys)


def _forward_held(answer: Ints, policy: AttentionPolicy, queries: int, keys: Ints) -> str:
    return _keys_of_forwards(answer, keys)


def _keys_of_forwards(answer: Any, keys: Ints) -> str:
    """Check keys of forwards: one count for each forward, 1 to all keys of it.

    A mask of queries and keys is no answer: a machine needs to know how many keys are scored.
    Forwards without keys are those of which nothing is asked.
    """
    counts = np.asarray(answer)
    keys = np.asarray(keys)
    if counts.shape != keys.shape:
        expected = f"one count of keys for each forward, shape {keys.shape}"
        hint = ""
        if counts.dtype == np.bool_:
            hint = "; of a mask, give the mean number of True in its rows"
        return f"gives {counts.dtype} of shape {counts.shape}, expected {expected}{hint}"
    if counts.dtype.kind not in "iu":
        return f"gives keys that are no whole numbers ({counts.dtype})"
    is_wrong = (keys > 0) & ((counts < 1) | (counts > keys))
    if is_wrong.any():
        wrong = counts[is_wrong].flat[0]
        return f"gives {wrong} of {keys[is_wrong].flat[0]} keys: 1 to all of them can be"
    return ""


def _forward_work(
    answer: SideWork, policy: AttentionPolicy, shape: ForwardShape, keys: Ints
) -> str:
    return _work(answer, policy, np.asarray(keys))


def _forward_side_bytes(
    answer: Ints, policy: AttentionPolicy, shape: ForwardShape, keys: Ints
) -> str:
    return _work(SideWork(bytes_read=answer), policy, np.asarray(keys))


def _cross_keys(answer: int, policy: AttentionPolicy, text: int) -> str:
    if not isinstance(answer, int | np.integer) or not 1 <= answer <= text:
        return f"gives {answer!r} of {text} prompt tokens: 1 to all of them can be"
    return ""


def _cross_work(answer: SideWork, policy: AttentionPolicy, shape: ForwardShape, text: int) -> str:
    return _work(answer, policy, np.asarray(text))


CHECKS: Mapping[str, Check] = {
    "reads": _reads,
    "reads_at": _reads_at,
    "full_tokens": _full_tokens,
    "far_tokens": _far_tokens,
    "source_layer": _source_layer,
    "kept_key_heads": _kept_key_heads,
    "held": _held,
    "keys_kept": _keys_kept,
    "reads_aligned": _reads_aligned,
    "side_work": _work,
    "frame_work": _work,
    "side_bytes": _side_bytes,
    "unit": _unit,
    "select": _select,
    "forward_keys": _forward_keys,
    "forward_held": _forward_held,
    "forward_work": _forward_work,
    "forward_side_bytes": _forward_side_bytes,
    "cross_keys": _cross_keys,
    "cross_work": _cross_work,
}
"""Method of an attention policy -> check of its answers."""

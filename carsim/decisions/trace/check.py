"""The arrays of a trace against its metadata: shapes, ranges, and decisions against scores."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carsim.base.errors import InputError
from carsim.decisions.attention.base import Bools
from carsim.decisions.trace.meta import TraceMeta

CURE = "capture the trace again"
READS = ("kv_tokens", "kv_runs", "kv_held")
"""Arrays that a trace has if its attention policy records what it reads."""

_FLOATS, _COUNTS = ("float16", "float32"), ("uint8", "uint16", "int16", "int32")
_NEVER = "never evaluated (first frame, or a layer without tau)"

Arrays = Mapping[str, NDArray[Any]]
Contradiction = tuple[str, str, Bools]
"""An array, its fault, and where, with or without an axis of heads."""


def truth_values(values: Any, place: str) -> Bools:
    """An array of decisions: bool, or whole numbers that are all 0 or 1.

    Raises:
        InputError: Anything else. A score that is cast to bool is True unless it is exactly 0.

    >>> truth_values([[0, 1]], "replay")
    array([[False,  True]])
    """
    array = np.asarray(values)
    if array.dtype == np.bool_:
        return array
    problem = f"holds {array.dtype}"
    if array.dtype.kind in "iu":
        other = array[(array != 0) & (array != 1)]
        if not other.size:
            return array.astype(np.bool_)
        problem += f", among it {other.flat[0]}"
    cure = "compare scores with a threshold, such as 'scores > 0.5', which gives bool"
    raise InputError(place, f"expected decisions, true or false, but it {problem}", cure)


def check_arrays(arrays: Arrays, meta: TraceMeta, place: str) -> None:
    """Check that arrays and metadata agree.

    Raises:
        InputError: They do not; the message gives the first place that disagrees.
    """
    check_forms(arrays, meta, place)
    for array, problem, bad in _contradictions(arrays, meta):
        if np.any(bad):
            raise InputError(f"{place}: array {array!r}", problem + _where(array, bad), CURE)


def check_forms(
    arrays: Mapping[str, Any], meta: TraceMeta, place: str, *, stored: bool = False
) -> None:
    """Check shapes, and that arrays are there that are asked for, and no others.

    Args:
        arrays: By name, arrays or the headers of them in a file.
        meta: Metadata.
        place: The trace, for messages.
        stored: Their types are those of a file.

    Raises:
        InputError: One of them differs.
    """
    layers, rows = meta.decoded.n_layers, meta.n_rows
    decisions = meta.n_steps, layers, rows
    reads = meta.n_steps, layers, meta.decoded.n_kv_heads, rows
    forms = {
        "replay": (decisions, ("bool",)),
        "tas": (decisions, _FLOATS),
        "kv_tokens": (reads, _COUNTS),
        "kv_runs": (reads, _COUNTS),
        "kv_held": ((meta.n_frames, layers, rows), _COUNTS),
    }
    for name, (shape, dtypes) in forms.items():
        found, problem = arrays.get(name), ""
        if found is not None and (
            found.shape != shape or (stored and found.dtype.name not in dtypes)
        ):
            problem = (
                f"expected {' or '.join(dtypes)} of shape {shape} as its metadata says, "
                f"got {found.dtype.name} of shape {found.shape}"
            )
        elif name in READS and (found is not None) != meta.attention.records:
            words = "missing, although" if found is None else "present, although not"
            problem = f"{words} recorded under {meta.attention.kind!r} attention"
        if problem:
            raise InputError(f"{place}: array {name!r}", problem, CURE)


def _where(array: str, bad: Bools) -> str:
    """The first place of those that are bad, and how many there are."""
    first = "frame" if array == "kv_held" else "step"
    axes = (first, "layer", "head", "row") if bad.ndim == 4 else (first, "layer", "row")
    at = np.unravel_index(int(bad.argmax()), bad.shape)
    named = ", ".join(f"{axis} {int(i)}" for axis, i in zip(axes, at, strict=True))
    return f" at {named} ({int(bad.sum())} places)"


def _contradictions(arrays: Arrays, meta: TraceMeta) -> Iterator[Contradiction]:
    """Find where decisions contradict scores, and reads what attention can have read."""
    replay, tas = arrays["replay"], arrays["tas"]
    yield "replay", "holds bytes other than 0 and 1", replay.view(np.uint8) > 1
    scored = meta.replay.scored(meta.n_steps, meta.tokens_per_frame)[:, :, None]
    yield "tas", "NaN or infinite where it was evaluated", scored & ~np.isfinite(tas)
    yield "tas", f"a number where it is {_NEVER}", ~scored & ~np.isnan(tas)
    yield "replay", f"a replay where TAS is {_NEVER}", ~scored & replay
    problem = f"contradicts tas > tau under decision scope {meta.decision_scope!r}"
    yield "replay", problem, meta.replay.decide_all(tas, meta.tokens_per_frame) != replay
    if meta.attention.records:
        yield from _of_reads(arrays, meta)


def _of_reads(arrays: Arrays, meta: TraceMeta) -> Iterator[Contradiction]:
    attention, per_frame = meta.attention, meta.tokens_per_frame
    tokens, runs, held = (arrays[name].astype(np.int64) for name in READS)
    context = meta.context[:, None, None]  # [S, 1, 1, B]
    at_end = context[per_frame - 1 :: per_frame, 0]  # [T, 1, B]
    prompt = np.array(meta.prompt_lengths)
    before = np.concatenate([np.broadcast_to(prompt, held[:1].shape), held[:-1]])
    reachable = before.repeat(per_frame, axis=0)  # [S, L, B]: held when the frame began
    reachable += (np.arange(meta.n_steps) % per_frame + 1)[:, None, None]
    most = np.minimum(at_end, attention.held(at_end))
    yield "kv_held", "fewer than one token", held < 1
    yield "kv_held", f"more tokens than there are, or than {attention.text} holds", held > most
    yield "kv_held", "grows by more than the tokens of a frame", held - before > per_frame
    yield "kv_tokens", "fewer than one key", tokens < 1
    yield "kv_tokens", "more keys than there are tokens", tokens > context
    read = attention.reads(context).tokens
    yield "kv_tokens", f"more keys than {attention.text} reads", tokens > read
    yield "kv_tokens", "more keys than the cache held", tokens > reachable[:, :, None]
    yield "kv_runs", "fewer than one run, or more than keys", (runs < 1) | (runs > tokens)
    yield "kv_runs", "more runs than unread tokens can part", runs - 1 > context - tokens

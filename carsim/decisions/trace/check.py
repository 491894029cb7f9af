"""The arrays of a trace against its metadata: shapes, ranges, and decisions against scores."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from carsim.base.errors import InputError
from carsim.decisions.attention.base import Bools
from carsim.decisions.trace.meta import TOKEN, RangesMeta, TraceMeta
from carsim.decisions.trace.steps import StepOrder, step_order

CURE = "capture the trace again"
READS = ("kv_tokens", "kv_runs", "kv_held")
"""Arrays that a trace has if its attention policy records what it reads."""

STEPS = ("kinds", "places")
"""Arrays that a trace has if its metadata has ``steps``."""

RANGES = ("reused", "range_tas")
"""Arrays that a trace may have if its metadata has ``ranges``: tokens of each range that reuse,
which it has in any case, and scores of ranges."""

_FLOATS = ("float16", "float32")
_COUNTS = ("uint8", "uint16", "int16", "int32")
_NEVER = "never evaluated (first frame, or a layer without tau)"
_NEVER_AT_PLACE = "never evaluated (first step of a place, or a layer without tau)"

Arrays = Mapping[str, NDArray[Any]]
Contradiction = tuple[str, str, Bools]
"""An array, its fault, and where, with or without an axis of heads."""


def arrays_of(decision: str) -> tuple[str, str]:
    """Names of the arrays of a decision: who replays, and scores.

    >>> arrays_of("token"), arrays_of("attention")
    (('replay', 'tas'), ('replay.attention', 'tas.attention'))
    """
    if decision == TOKEN:
        return "replay", "tas"
    return f"replay.{decision}", f"tas.{decision}"


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
        beyond = array[(array != 0) & (array != 1)]
        if not beyond.size:
            return array.astype(np.bool_)
        problem += f", among it {beyond.flat[0]}"
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
    layers = meta.decoded.n_layers
    rows = meta.n_rows
    decisions = (meta.n_steps, layers, rows)
    reads = (meta.n_steps, layers, meta.decoded.n_kv_heads, rows)
    forms = {
        "replay": (decisions, ("bool",)),
        "tas": (decisions, _FLOATS),
        "kv_tokens": (reads, _COUNTS),
        "kv_runs": (reads, _COUNTS),
        "kv_held": ((meta.n_frames, layers, rows), _COUNTS),
        "kinds": ((meta.n_steps,), ("uint8",)),
        "places": ((meta.n_steps,), ("int32",)),
    }
    expected = set(STEPS) if meta.steps is not None else set[str]()
    if meta.ranges is not None:
        forms["reused"] = (*decisions, meta.ranges.count), _COUNTS
        forms["range_tas"] = (*decisions, meta.ranges.count), ("float32",)
        expected |= {"reused"} | (set(RANGES) & set(arrays))
    for decision in meta.further:
        replay_name, tas_name = arrays_of(decision)
        forms |= {replay_name: (decisions, ("bool",)), tas_name: (decisions, _FLOATS)}
        expected |= {replay_name, tas_name}
    optional = set(arrays) - {"replay", "tas", "meta", *READS}
    for name in sorted(expected ^ optional):
        problem = "missing, although the metadata has it" if name in expected else "not expected"
        raise InputError(f"{place}: array {name!r}", problem, CURE)
    for name, (shape, dtypes) in forms.items():
        array = arrays.get(name)
        problem = ""
        if array is not None and (
            array.shape != shape or (stored and array.dtype.name not in dtypes)
        ):
            problem = (
                f"expected {' or '.join(dtypes)} of shape {shape} as its metadata says, "
                f"got {array.dtype.name} of shape {array.shape}"
            )
        elif name in READS and (array is not None) != meta.attention.records:
            words = "missing, although" if array is None else "present, although not"
            problem = f"{words} recorded under {meta.attention.kind!r} attention"
        if problem:
            raise InputError(f"{place}: array {name!r}", problem, CURE)


def _where(array: str, bad: Bools) -> str:
    """The first place of those that are bad, and how many there are."""
    first = "frame" if array == "kv_held" else "step"
    axes: tuple[str, ...] = (first, "layer", "row")[: bad.ndim]
    if array in RANGES:
        axes = (first, "layer", "row", "range")
    elif bad.ndim == 4:
        axes = (first, "layer", "head", "row")
    first_bad = np.unravel_index(int(bad.argmax()), bad.shape)
    named = ", ".join(f"{axis} {int(i)}" for axis, i in zip(axes, first_bad, strict=True))
    return f" at {named} ({int(bad.sum())} places)"


def _contradictions(arrays: Arrays, meta: TraceMeta) -> Iterator[Contradiction]:
    """Find where decisions contradict scores, and reads what attention can have read."""
    if meta.steps is not None:
        is_unknown_kind = arrays["kinds"] >= len(meta.steps.kinds)
        yield "kinds", "a kind that the metadata does not have", is_unknown_kind
        is_no_place = (arrays["places"] < 0) | (arrays["places"] >= meta.n_steps)
        yield "places", "a place below 0, or beyond the steps", is_no_place
    order = step_order(meta, arrays.get("kinds"), arrays.get("places"))
    for decision in (TOKEN, *meta.further):
        yield from _of_decision(arrays, meta, decision, order)
    if meta.ranges is not None:
        yield from _of_ranges(arrays, meta, meta.ranges)
    if meta.attention.records:
        yield from _of_reads(arrays, meta)


def _of_ranges(arrays: Arrays, meta: TraceMeta, ranges: RangesMeta) -> Iterator[Contradiction]:
    """Contradictions between ranges of tokens that reuse, their scores, and whole rows."""
    reused = arrays["reused"]
    of_range = ranges.tokens // ranges.count
    yield "reused", f"more tokens than the {of_range} of a range", reused > of_range
    all_ranges_reuse = np.all(reused == of_range, axis=-1)
    yield (
        "replay",
        "a row that wholly reuses, or does not, unlike its ranges",
        arrays["replay"] != all_ranges_reuse,
    )
    forwards = np.zeros(len(all_ranges_reuse), np.bool_)
    forwards[list(ranges.whole_forwards)] = True
    computes = forwards[:, None, None, None] & (reused < of_range)
    yield "reused", "tokens that compute in a forward that reuses as a whole", computes
    scores = arrays.get("range_tas")
    if scores is not None and isinstance(meta.tau, float):
        above_tau = scores.astype(np.float64) > meta.tau  # NaN, where a range has none, is not
        yield "reused", "contradicts range_tas > tau", (reused == of_range) != above_tau


def _of_decision(
    arrays: Arrays, meta: TraceMeta, decision: str, order: StepOrder
) -> Iterator[Contradiction]:
    """Contradictions between who replays, scores, and the threshold of one decision."""
    replay_name, tas_name = arrays_of(decision)
    replay = arrays[replay_name]
    tas = arrays[tas_name]
    policy = meta.replay_of(decision)
    never = _NEVER if order.in_frames else _NEVER_AT_PLACE
    yield replay_name, "holds bytes other than 0 and 1", replay.view(np.uint8) > 1
    scored = order.scored(policy)[:, :, None]
    yield tas_name, "NaN or infinite where it was evaluated", scored & ~np.isfinite(tas)
    yield tas_name, f"a number where it is {never}", ~scored & ~np.isnan(tas)
    yield replay_name, f"a replay where TAS is {never}", ~scored & replay
    problem = f"contradicts tas > tau under decision scope {policy.scope!r}"
    decided = order.decided(policy, tas, meta.tokens_per_frame)
    yield replay_name, problem, decided != replay


def _of_reads(arrays: Arrays, meta: TraceMeta) -> Iterator[Contradiction]:
    """Contradictions between what attention read, the context, and what the cache held."""
    attention = meta.attention
    per_frame = meta.tokens_per_frame
    tokens = arrays["kv_tokens"].astype(np.int64)
    runs = arrays["kv_runs"].astype(np.int64)
    cached = arrays["kv_held"].astype(np.int64)  # [T, L, B], after each frame
    context = meta.context[:, None, None]  # [S, 1, 1, B]
    at_end = context[per_frame - 1 :: per_frame, 0]  # [T, 1, B]
    prompt = np.array(meta.prompt_lengths)
    before = np.concatenate([np.broadcast_to(prompt, cached[:1].shape), cached[:-1]])
    reachable = before.repeat(per_frame, axis=0)  # [S, L, B]: held when the frame began
    reachable += (np.arange(meta.n_steps) % per_frame + 1)[:, None, None]
    most = np.minimum(at_end, attention.held(at_end))
    yield "kv_held", "fewer than one token", cached < 1
    yield "kv_held", f"more tokens than there are, or than {attention.text} holds", cached > most
    yield "kv_held", "grows by more than the tokens of a frame", cached - before > per_frame
    yield "kv_tokens", "fewer than one key", tokens < 1
    yield "kv_tokens", "more keys than there are tokens", tokens > context
    read = attention.reads(context).tokens
    yield "kv_tokens", f"more keys than {attention.text} reads", tokens > read
    yield "kv_tokens", "more keys than the cache held", tokens > reachable[:, :, None]
    yield "kv_runs", "fewer than one run, or more than keys", (runs < 1) | (runs > tokens)
    yield "kv_runs", "more runs than unread tokens can part", runs - 1 > context - tokens

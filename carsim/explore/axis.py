"""The axes of a study: what varies, and over which values.

An axis is a dotted path of a design field, a pseudo path, or, with ``choice``, any name whose
values each set several fields at once. Pseudo paths are ``design`` (a file or a shipped name),
``trace`` (a file, or a list of them), ``replay`` (false decodes without it), and ``video.frames``
and ``video.tokens_per_frame`` (a video of other size than the traces').
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from carsim.errors import InputError
from carsim.yaml_file import shown

VIDEO_PATHS = ("video.frames", "video.tokens_per_frame")
PSEUDO_PATHS = ("design", "trace", "replay", *VIDEO_PATHS)
MOST_VALUES = 100_000
"""Of one axis; more is a mistake in a step."""

KINDS = ("values", "range", "log2", "uniform", "log_uniform", "choice")
_CURE = (
    "give a list of values, or one of range: {from, to, step}, log2: {from, to}, "
    "uniform: {from, to}, log_uniform: {from, to}, choice: {NAME: {PATH: VALUE}}"
)


@dataclass(frozen=True)
class Axis:
    """One axis.

    Attributes:
        name: Path of a field, a pseudo path, or the name of a choice.
        values: Its values in order; empty if it is continuous.
        interval: Both ends of a continuous axis.
        is_log: A continuous axis is uniform in the logarithm.
        sets: Of a choice, what each value sets: value -> {path: value}.
    """

    name: str
    values: tuple[Any, ...] = ()
    interval: tuple[float, float] | None = None
    is_log: bool = False
    sets: Mapping[str, Mapping[str, Any]] | None = None

    def at(self, share: float) -> Any:
        """The value at a share of the axis, 0 to 1 (not included)."""
        if self.interval is None:
            return self.values[min(int(share * len(self.values)), len(self.values) - 1)]
        low, high = self.interval
        if self.is_log:
            return math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
        return low + share * (high - low)

    def changes(self, value: Any) -> dict[str, Any]:
        """Fields that a value of the axis sets."""
        return dict(self.sets[value]) if self.sets is not None else {self.name: value}


def parse_axis(name: str, raw: Any, place: str) -> Axis:
    """An axis from what a study says of it.

    Args:
        name: Its name.
        raw: A list of values, or a mapping of one kind.
        place: What to call it in errors.

    Raises:
        InputError: No such kind, no values, or an empty range.
    """
    if isinstance(raw, Mapping):
        if len(raw) != 1 or next(iter(raw)) not in KINDS:
            raise InputError(place, f"got {shown(dict(raw))}", _CURE)
        kind, body = next(iter(raw.items()))
    else:
        kind, body = "values", raw
    if kind == "choice":
        return _choice(name, body, place)
    if kind == "values":
        if not isinstance(body, Sequence) or isinstance(body, str):
            raise InputError(place, f"got {shown(body)}", _CURE)
        return Axis(name, _distinct(body, place))
    if kind == "range":
        return Axis(name, _range(body, place))
    ends = _interval(body, place, ())
    first, last = ends["from"], ends["to"]
    if kind == "log2":
        return Axis(name, _log2(first, last, place))
    if first >= last:
        raise InputError(place, f"is empty: from {first} to {last}", "give the smaller end first")
    if kind == "log_uniform" and first <= 0:
        raise InputError(place, f"starts at {first}", "start above 0")
    return Axis(name, interval=(float(first), float(last)), is_log=kind == "log_uniform")


def _choice(name: str, body: Any, place: str) -> Axis:
    if not isinstance(body, Mapping) or not body:
        raise InputError(place, "has no choices", "give choice: {NAME: {PATH: VALUE, ...}, ...}")
    for value, fields in body.items():
        if not isinstance(fields, Mapping):
            raise InputError(
                f"{place}.choice.{value}", f"got {shown(fields)}", "give {PATH: VALUE, ...}"
            )
    return Axis(name, tuple(body), sets={key: dict(fields) for key, fields in body.items()})


def _distinct(values: Sequence[Any], place: str) -> tuple[Any, ...]:
    if not values:
        raise InputError(place, "is empty", "give at least one value")
    if len(values) > MOST_VALUES:
        raise InputError(place, f"has {len(values):,} values", f"take at most {MOST_VALUES:,}")
    seen = set()
    for value in values:
        text = json.dumps(value, sort_keys=True, default=repr)
        if text in seen:
            raise InputError(place, f"lists {shown(value)} twice", "keep one")
        seen.add(text)
    return tuple(values)


def _range(body: Any, place: str) -> tuple[Any, ...]:
    body = _interval(body, place, ("step", "points"))
    first, last = body["from"], body["to"]
    if first > last:
        raise InputError(place, f"is empty: from {first} to {last}", "give the smaller end first")
    if "points" in body:
        points = body["points"]
        if "step" in body or not _is_whole(points) or not 2 <= points <= MOST_VALUES:
            raise InputError(place, f"got {shown(dict(body))}", "give step, or points of 2 or more")
        return tuple(first + (last - first) * i / (points - 1) for i in range(points))
    step = body.get("step", 1)
    if not _is_number(step) or step <= 0:
        raise InputError(place, f"steps by {shown(step)}", "give a step above 0")
    count = math.floor((last - first) / step * (1 + 1e-12) + 1e-9) + 1
    if count > MOST_VALUES:
        raise InputError(place, f"has {count:,} values", f"take at most {MOST_VALUES:,}")
    if _is_whole(first) and _is_whole(step):
        return tuple(first + i * step for i in range(count))
    # Rounded, so that a step of 0.1 meets 0.3 and not 0.30000000000000004.
    return tuple(round(first + i * step, 12) for i in range(count))


def _log2(first: int | float, last: int | float, place: str) -> tuple[Any, ...]:
    if first <= 0:
        raise InputError(place, f"starts at {first}", "start above 0")
    values = []
    value = first
    while value <= last:
        values.append(value)
        value *= 2
    if not values:
        raise InputError(place, f"is empty: from {first} to {last}", "give the smaller end first")
    return tuple(values)


def _interval(body: Any, place: str, more: tuple[str, ...]) -> dict[str, Any]:
    """Both ends and what may follow them, of ``{from: , to: , step: }`` or ``[from, to, step]``."""
    if isinstance(body, Sequence) and not isinstance(body, str):
        names = ("from", "to", *more[:1])
        if 2 <= len(body) <= len(names):
            body = dict(zip(names, body, strict=False))
    if not isinstance(body, Mapping) or not {"from", "to"} <= set(body) <= {"from", "to", *more}:
        raise InputError(place, f"got {shown(body)}", _CURE)
    for end in ("from", "to"):
        if not _is_number(body[end]):
            raise InputError(f"{place}: {end}", f"got {shown(body[end])}", "give a number")
    return dict(body)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)

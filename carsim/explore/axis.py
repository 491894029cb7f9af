"""The axes of a study: what varies, and over which values.

An axis is a dotted path of a design field, a pseudo path, or, with ``choice``, any name whose
values each set several fields at once. Pseudo paths are ``design`` (a file or a shipped name),
``trace`` (a file, or a list of them), ``workload`` (such as ``text:2048+512``), ``replay`` (false
decodes without it), and ``video.frames`` and ``video.tokens_per_frame`` (a video of another size).

Values of an axis are one of:

- a list: ``[1, 2, 4]``;
- ``range: {from: 1, to: 9, step: 2}`` or ``range: [1, 9, 2]``: 1, 3, 5, 7, 9; the step is 1 if
  left out;
- ``range: {from: 0, to: 1, points: 5}``: numbers at equal distances, 0 and 1 among them;
- ``log2: {from: 128, to: 1024}`` or ``log2: [128, 1024]``: doubling, 128, 256, 512, 1024;
- ``choice: {NAME: {PATH: VALUE}}``: under each name the fields that it sets.
"""

import json
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from carsim.base.errors import InputError
from carsim.base.yaml_file import shown

VIDEO_PATHS = ("video.frames", "video.tokens_per_frame")
PSEUDO_PATHS = ("design", "trace", "workload", "replay", *VIDEO_PATHS)

MOST_VALUES = 100_000
"""Values of one axis at most; more is a mistake in a step."""

LARGEST = 2**63 - 1
"""Larger whole numbers fit no column of a frame."""

_CURE = (
    "give a list of values, or one of range: {from, to, step}, range: {from, to, points}, "
    "log2: {from, to}, choice: {NAME: {PATH: VALUE}}"
)


@dataclass(frozen=True)
class Axis:
    """One axis.

    Attributes:
        name: Path of a field, a pseudo path, or the name of a choice.
        values: Its values in order.
        sets: Settings of each value of a choice: value -> {path: value}.
    """

    name: str
    values: tuple[Any, ...]
    sets: Mapping[str, Mapping[str, Any]] | None = None

    @property
    def paths(self) -> set[str]:
        """Fields that its values set."""
        return {self.name} if self.sets is None else set().union(*self.sets.values())

    @property
    def is_ordered(self) -> bool:
        """All values are numbers, and they rise or fall, so that neighbours are alike."""
        if not all(_is_number(value) for value in self.values):
            return False
        rising = sorted(self.values)
        return list(self.values) in (rising, rising[::-1])

    def at(self, share: float) -> Any:
        """The value at a share of the axis, 0 to 1 (not included)."""
        return self.values[int(share * len(self.values))]

    def changes(self, value: Any) -> dict[str, Any]:
        """Fields that a value of the axis sets."""
        return dict(self.sets[value]) if self.sets is not None else {self.name: value}


def value_of_cell(axis: Axis, cell: Any) -> Any:
    """The value of an axis that a cell of a frame stands for.

    Args:
        axis: The axis.
        cell: The value, or its JSON where no column holds all values of the axis.

    Raises:
        InputError: The axis has no such value.
    """
    for value in axis.values:
        if cell in (value, json.dumps(value)):
            return value
    problem = f"has no value {shown(cell)}"
    raise InputError(f"axis {axis.name}", problem, "name the study that the results are of")


def parse_axis(name: str, raw: Any, place: str) -> Axis:
    """An axis from what a study says of it.

    Args:
        name: Its name.
        raw: A list of values, or a mapping of one kind.
        place: Its name in errors.

    Raises:
        InputError: No such kind, no values, or an empty range.
    """
    kind = "values"
    body = raw
    if isinstance(raw, Mapping) and len(raw) == 1:
        ((kind, body),) = raw.items()
    try:
        if kind == "choice":
            sets = _choice(body)
            return Axis(name, tuple(sets), sets)
        if kind not in _KINDS:
            raise _RefusalError(f"got {shown(raw)}", _CURE)
        return Axis(name, _KINDS[kind](body))
    except _RefusalError as refusal:
        problem, cure = refusal.args
        raise InputError(place, problem, cure) from None


class _RefusalError(ValueError):
    """An axis that cannot be used; the arguments are the problem and the cure."""


def _listed(body: Any) -> tuple[Any, ...]:
    """The values of a list, each once."""
    if not isinstance(body, list | tuple):
        raise _RefusalError(f"got {shown(body)}", _CURE)
    if not body:
        raise _RefusalError("is empty", "give at least one value")
    _check_count(len(body))
    seen = set()
    for value in body:
        if isinstance(value, int) and abs(value) > LARGEST:
            raise _RefusalError(f"holds {shown(value)}", "take a smaller number")
        text = json.dumps(value, sort_keys=True, default=repr)
        if text in seen:
            raise _RefusalError(f"lists {shown(value)} twice", "keep one")
        seen.add(text)
    return tuple(body)


def _range(body: Any) -> tuple[Any, ...]:
    """Values from one end to the other, by their step or their number."""
    fields = _ends(body, ("step", "points"))
    first = fields["from"]
    last = fields["to"]
    points = fields.get("points")
    if points is not None:
        if "step" in fields or not _is_whole(points) or not 2 <= points <= MOST_VALUES:
            raise _RefusalError(f"got {shown(body)}", "give step, or points of 2 or more")
        return tuple(first + (last - first) * i / (points - 1) for i in range(points))
    step = fields.get("step", 1)
    if not _is_number(step) or step <= 0:
        raise _RefusalError(f"steps by {shown(step)}", "give a step above 0")
    steps = (last - first) / step * (1 + 1e-12) + 1e-9
    _check_count(steps)
    # 0.3 and not 0.30000000000000004
    return tuple(round(first + i * step, 12) for i in range(math.floor(steps) + 1))


def _log2(body: Any) -> tuple[Any, ...]:
    """Values from one end to the other, each twice the one before."""
    fields = _ends(body)
    first = fields["from"]
    last = fields["to"]
    if first <= 0:
        raise _RefusalError(f"starts at {first}", "start above 0")
    doublings = math.floor(math.log2(last) - math.log2(first) + 1e-9)
    double = operator.lshift if _is_whole(first) else math.ldexp
    return _listed([double(first, i) for i in range(doublings + 1)])


def _choice(body: Any) -> dict[str, dict[str, Any]]:
    """Values of a choice -> the fields that each sets, by path."""
    if not isinstance(body, Mapping) or not body:
        raise _RefusalError("has no choices", "give choice: {NAME: {PATH: VALUE, ...}, ...}")
    for value, fields in body.items():
        if not isinstance(fields, Mapping):
            raise _RefusalError(f"choice.{value}: got {shown(fields)}", "give {PATH: VALUE, ...}")
    return {key: dict(fields) for key, fields in body.items()}


_KINDS: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    "values": _listed,
    "range": _range,
    "log2": _log2,
}
"""Kind of an axis -> the values that its body comes to."""


def _ends(body: Any, more: tuple[str, ...] = ()) -> Mapping[str, Any]:
    """Ends, and what may follow, of ``{from: , to: , step: }`` or ``[from, to, step]``."""
    names = ("from", "to", *more)
    if isinstance(body, list) and 2 <= len(body) <= 3:
        body = dict(zip(names, body, strict=False))
    if not isinstance(body, Mapping) or not {"from", "to"} <= set(body) <= {*names}:
        raise _RefusalError(f"got {shown(body)}", _CURE)
    for end in ("from", "to"):
        if not _is_number(body[end]):
            raise _RefusalError(f"{end}: got {shown(body[end])}", "give a number")
    if body["from"] > body["to"]:
        problem = f"is empty: from {body['from']} to {body['to']}"
        raise _RefusalError(problem, "give the smaller end first")
    return body


def _check_count(count: float) -> None:
    """Refuse too many values."""
    if not count <= MOST_VALUES:
        raise _RefusalError(f"has {count:,.0f} values", f"take at most {MOST_VALUES:,}")


def _is_number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return _is_whole(value) and abs(value) <= LARGEST


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)

"""What is decoded: a text, a video, or what a trace recorded; one description for all commands.

It is spelled in one word, ``text:2048+512`` (prompt and new tokens), ``video:8``,
``video:8,replay=0.5,pairs=0.9`` or ``trace:vilau_8f``, or is a YAML file of the fields below.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

from carsim.base.errors import InputError
from carsim.base.text import closest
from carsim.base.yaml_file import parse_yaml, read_mapping, shown

Kind = Literal["text", "video", "trace"]

_FIELDS: Mapping[str, tuple[str, ...]] = {
    "text": ("prompt", "tokens"),
    "video": ("frames", "prompt", "replay", "pairs", "seed"),
    "trace": ("traces",),
}
"""The fields that each kind has; those of the others mean nothing."""

_LEAST = {"frames": 1, "tokens": 1, "prompt": 0, "seed": 0}
"""Least value of each whole number."""

_CURE = "say text:2048+512, video:8, video:8,replay=0.5, trace:NAME, or a YAML file of the fields"


@dataclass(frozen=True)
class Workload:
    """What is decoded and what of it replays; fields that are None take the model's usual values.

    Attributes:
        kind: A text of new tokens after a prompt, a video of frames, or captured traces.
        frames: Frames of the video.
        prompt: Tokens of the prompt of either.
        tokens: New tokens of each row of the text.
        replay: Share of the eligible steps that replay, in expectation; None: nothing does.
        pairs: Share of the eligible decisions on which the rows of a guidance pair agree; by
            default that of the correlation that was measured on a captured trace.
        seed: Seed of the draws.
        traces: Files or names of traces.

    Raises:
        InputError: Fields that contradict each other, or a number that is out of range.
    """

    kind: Kind
    frames: int | None = None
    prompt: int | None = None
    tokens: int | None = None
    replay: float | None = None
    pairs: float | None = None
    seed: int | None = None
    traces: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise InputError("`workload`", f"is of no kind {shown(self.kind)}", _CURE)
        for field in fields(self)[1:]:
            value = getattr(self, field.name)
            if value not in (None, ()) and field.name not in _FIELDS[self.kind]:
                problem = f"has no `{field.name}`: its fields are {', '.join(_FIELDS[self.kind])}"
                raise InputError(f"`workload` {self.kind}", problem, "leave it out")
            if value is not None and (expected := _lacks(field.name, value)):
                problem = f"{field.name}: expected {expected}, got {shown(value)}"
                raise InputError("`workload`", problem)
        if self.kind == "trace" and not self.traces:
            raise InputError("`workload` trace", "names no trace", "say trace:NAME")
        for name in ("pairs", "seed"):
            if self.replay is None and getattr(self, name) is not None:
                problem = f"{name} is of decisions to replay, and nothing replays"
                raise InputError("`workload`", problem, "add replay=SHARE")

    @classmethod
    def at_contexts(cls, first: int, last: int | None = None) -> "Workload":
        """A text whose first and last new tokens attend to so many tokens, themselves included."""
        last = first if last is None else last
        if last < first:
            raise InputError("context", f"{first}:{last} ends before it begins", "swap them")
        return cls("text", prompt=first - 1, tokens=last - first + 1)

    @property
    def text(self) -> str:
        """The workload in one word, which :func:`workload_of` reads back.

        >>> Workload("video", frames=8, replay=0.5).text
        'video:8,replay=0.5'
        >>> workload_of("text:2048+512").text
        'text:2048+512'
        """
        given = {key: value for key, value in asdict(self).items() if value is not None}
        words = [*given.pop("traces")]
        size = given.pop("frames" if self.kind == "video" else "tokens", None)
        if self.kind == "text" and size is not None and "prompt" in given:
            words.append(f"{given.pop('prompt')}+{size}")
        elif size is not None:
            words.append(str(size))
        del given["kind"]
        words += [f"{key}={value}" for key, value in given.items()]
        return ":".join([self.kind, ",".join(words)] if words else [self.kind])


def workload_of(
    given: "str | Path | Mapping[str, Any] | Workload", folder: Path | None = None
) -> Workload:
    """The workload of a word, of a YAML file (relative to a folder), or of the fields in one.

    Raises:
        InputError: None of them, or fields that make no sense; one line.
    """
    if isinstance(given, Workload):
        return given
    if isinstance(given, Mapping):
        return _of_fields(given, "`workload`")
    text = str(given)
    if Path(text).suffix in (".yaml", ".yml") and ":" not in text:
        try:
            return _of_fields(read_mapping((folder or Path()) / text, like="kind: text"), text)
        except InputError as error:
            raise error.named({"workload": text}) from None
    kind, _, rest = text.partition(":")
    if kind not in _FIELDS:
        raise InputError("`workload`", f"got {shown(text)}", closest(kind, _FIELDS) + _CURE)
    words = [word.strip() for word in rest.split(",") if word.strip()]
    if kind == "trace":
        return Workload("trace", traces=tuple(words))
    found: dict[str, Any] = {}
    if words and "=" not in words[0]:
        found = _sizes(kind, words.pop(0), text)
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key in ("kind", *found):
            problem = f"got {shown(word)} in {shown(text)}: not a new FIELD=VALUE"
            raise InputError("`workload`", problem, _CURE)
        found[key] = parse_yaml(value, f"`workload` {key}")
    return _of_fields({"kind": kind, **found}, "`workload`")


# -------------------------------------------------------------------- private


def _sizes(kind: str, word: str, text: str) -> dict[str, Any]:
    """Frames of a video, or prompt and new tokens of a text, from the first word."""
    names = ["frames"] if kind == "video" else ["prompt", "tokens"]
    numbers = word.split("+")
    are_whole = all(re.fullmatch(r" *[0-9]{1,18} *", number) for number in numbers)
    if not are_whole or len(numbers) > len(names):
        raise InputError("`workload`", f"got {shown(text)}", _CURE)
    sizes = [int(number) for number in numbers]
    return dict(zip(names[-len(sizes) :], sizes, strict=True))


def _of_fields(given: Mapping[str, Any], place: str) -> Workload:
    known = [field.name for field in fields(Workload)]
    for key in given:
        if key not in known:
            raise InputError(place, f"unknown field {shown(key)}", closest(key, known) + _CURE)
    if "kind" not in given:
        raise InputError(place, "kind is missing", "add kind: text, video or trace")
    traces = given.get("traces", ())
    names = (traces,) if isinstance(traces, str) else traces
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise InputError(place, f"traces: got {shown(traces)}", "list names of traces")
    return Workload(**{**given, "traces": tuple(names)})


def _lacks(name: str, value: Any) -> str:
    """The numbers that a field takes, if a value is none of them."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if name in _LEAST:
        is_whole = is_number and isinstance(value, int) and value >= _LEAST[name]
        return "" if is_whole else f"a whole number of {_LEAST[name]} or more"
    is_free = name not in ("replay", "pairs") or (is_number and 0 <= value <= 1)
    return "" if is_free else "0 to 1"

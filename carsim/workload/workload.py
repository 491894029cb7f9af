"""What is decoded: a text, a video, or what a trace recorded; one description for all commands.

It is spelled in one word, ``text:2048+512`` (prompt and new tokens), ``video:8``,
``video:8,replay=0.5,pairs=0.9`` or ``trace:vilau_8f``, or is a YAML file of the fields below.

What a network makes whose tokens pass it all together names the network and the size in pixels,
height first: ``diffusion:wan2.1_1.3b,480x832,frames=81,steps=50``,
``chunks:longlive_1.3b,chunks=10``, ``image:depth_anything_v2_small,518x518``. What is left out is
what its preset usually makes.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, get_args

from carsim.base.errors import InputError
from carsim.base.text import closest
from carsim.base.yaml_file import parse_yaml, read_mapping, shown

Kind = Literal["text", "video", "trace", "diffusion", "chunks", "image", "sample"]

Cache = Literal["ring", "moved", "none"]
"""How keys and values of chunks are kept."""

ReuseSource = Literal["frame", "chunk", "step"]
"""Earlier outputs that a token of a forward reuses: those of its place in

* ``frame``: the previous latent frame of the same forward;
* ``chunk``: the previous latent frame at the same denoising step. The first frame of a chunk takes
  those of the last frame of the chunk before;
* ``step``: the same frame, in the last forward that computed it."""


class TokenReuse(NamedTuple):
    """Outputs that tokens of forwards reuse, which decide one by one.

    Attributes:
        source: The outputs.
        beside_forwards: Further forwards reuse the last one that computed as a whole.
    """

    source: ReuseSource
    beside_forwards: bool = False


_REUSE = (
    "every",
    "cross_every",
    "mlp_every",
    "dense",
    "replay",
    "source",
    "range_tokens",
    "seed",
)
"""Fields of forwards that reuse others, as wholes or by ranges of tokens."""

_CHUNKS = ("chunks", "chunk", "window", "sinks", "cache", "rolling", "pipelined", "prompts")
"""Fields of videos that are made chunk by chunk."""

_FIELDS: Mapping[str, tuple[str, ...]] = {
    "text": ("prompt", "tokens"),
    "video": ("frames", "prompt", "replay", "pairs", "seed", "rule", "guidance"),
    "trace": ("traces",),
    "diffusion": ("model", "size", "frames", "steps", "passes", *_REUSE),
    "chunks": ("model", "size", *_CHUNKS, "steps", "passes", *_REUSE),
    "image": ("model", "size", "steps", "passes", *_REUSE),
    "sample": _REUSE,
}
"""The fields that each kind has; those of the others mean nothing."""

_INSTEAD: Mapping[tuple[Kind, str], str] = {
    ("chunks", "frames"): "say chunks=N in place of it: a chunk of 3 latent frames of Wan makes 12 "
    "frames",
}
"""Kind and a field that it lacks -> what says nearly the same; other fields are left out."""

_OF_DESIGN: Mapping[str, str] = {
    "batch": "say --set policy.batch=N in place of it, or policy.batch in the design",
}
"""Name that users take for a field of a workload -> the field of the design."""

SAMPLES: tuple[Kind, ...] = ("diffusion", "chunks", "image", "sample")
"""Kinds whose tokens pass a network all together."""

_SAMPLE_FIELDS = {
    "frames": "frames",
    "steps": "steps",
    "passes": "passes",
    "chunks": "chunks",
    "chunk": "chunk_frames",
    "window": "window_frames",
    "sinks": "sink_frames",
    "cache": "cache",
    "rolling": "rolling",
    "pipelined": "pipelined",
    "prompts": "prompts",
}
"""Field of a workload -> field of ``model.sample``."""

_LEAST = {
    **{"frames": 1, "tokens": 1, "prompt": 0, "seed": 0, "steps": 1, "passes": 1, "chunks": 1},
    **{"chunk": 1, "window": 1, "every": 2, "dense": 0},
    **{"sinks": 0, "rolling": 1, "pipelined": 1, "prompts": 1},
    **{"cross_every": 2, "mlp_every": 2, "range_tokens": 1},
}
"""Least value of each whole number."""

ALL: Final = "all"
"""Window of a chunk that reads the keys of all frames."""

_CURE = (
    "say text:2048+512, video:8, video:8,replay=0.5, trace:NAME, diffusion:MODEL,480x832, "
    "chunks:MODEL, image:MODEL,518x518, or a YAML file of the fields"
)


@dataclass(frozen=True)
class Workload:
    """What is decoded and what of it replays; fields that are None take the model's usual values.

    Attributes:
        kind: A text of new tokens after a prompt, a video of frames, or captured traces.
        frames: Frames of the video.
        prompt: Tokens of the prompt of either.
        tokens: New tokens of each row of the text.
        replay: Share of the eligible steps that replay, in expectation; None: nothing does. Of
            forwards, the share of the eligible ranges of tokens that reuse an earlier output.
        pairs: Share of the eligible decisions on which the rows of a guidance pair agree; by
            default that of the correlation that was measured on a captured trace.
        seed: Seed of the draws.
        rule: Kind of the rule whose scores are charged; None: FastCar's.
        traces: Files or names of traces.
        guidance: Rows of a video come in guidance pairs, of which each makes one video; False: each
            row is a video of its own. None: True.
        model: Preset of a network; None: that of the design.
        size: Height and width in pixels, such as ``480x832``.
        steps: Denoising steps, of a chunk or of the whole sample.
        passes: Rows of each forward.
        chunks: Chunks of a video that is made chunk by chunk.
        chunk: Latent frames of a chunk.
        window: Latent frames whose keys a chunk reads; ``all``: those of the whole video.
        sinks: First latent frames of the video, which stay in the window.
        cache: How keys and values are kept: ``ring``, ``moved`` or ``none``.
        rolling: Chunks that pass each forward together and attend to one another.
        pipelined: Chunks that pass each forward together and attend to earlier ones.
        prompts: Prompts of the video, each of an equal share of the chunks.
        every: Of so many forwards one computes, and the others reuse what it put out; None: all
            compute. ``policy.skip`` says what is reused. Beside ``replay`` from an earlier frame,
            tokens decide in the forwards that compute; beside ``replay`` from an earlier step, all
            tokens compute there.
        cross_every: The same for cross-attention, where it decides for itself.
        mlp_every: The same for MLPs.
        dense: Denoising steps at the beginning that compute in any case.
        source: Earlier outputs that tokens of a forward reuse; None: ``chunk`` where a video is
            made in chunks, else ``step``.
        range_tokens: Tokens of a range, which decide together; None: 1.

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
    rule: str | None = None
    traces: tuple[str, ...] = ()
    guidance: bool | None = None
    model: str | None = None
    size: str | None = None
    steps: int | None = None
    passes: int | None = None
    chunks: int | None = None
    chunk: int | None = None
    window: int | Literal["all"] | None = None
    sinks: int | None = None
    cache: Cache | None = None
    rolling: int | None = None
    pipelined: int | None = None
    prompts: int | None = None
    every: int | None = None
    cross_every: int | None = None
    mlp_every: int | None = None
    dense: int | None = None
    source: ReuseSource | None = None
    range_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise InputError("`workload`", f"is of no kind {shown(self.kind)}", _CURE)
        for field in fields(self)[1:]:
            value = getattr(self, field.name)
            if value not in (None, ()) and field.name not in _FIELDS[self.kind]:
                problem = f"has no `{field.name}`: its fields are {', '.join(_FIELDS[self.kind])}"
                cure = _INSTEAD.get((self.kind, field.name), "leave it out")
                raise InputError(f"`workload` {self.kind}", problem, cure)
            if value is not None and (expected := _lacks(field.name, value)):
                problem = f"{field.name}: expected {expected}, got {shown(value)}"
                raise InputError("`workload`", problem)
        if self.kind == "trace" and not self.traces:
            raise InputError("`workload` trace", "names no trace", "say trace:NAME")
        for name in ("pairs", "seed", "rule"):
            if self.replay is None and getattr(self, name) is not None:
                problem = f"{name} is of decisions to replay, and nothing replays"
                raise InputError("`workload`", problem, "add replay=SHARE")
        self._check_reuse()
        if self.replay is not None and self.guidance is False:
            problem = "replay is drawn for guidance pairs, and guidance=false leaves none"
            raise InputError("`workload`", problem, "leave out one of them, or pass a trace")

    def _check_reuse(self) -> None:
        """Refuse fields of forwards that reuse others where none does."""
        for name in ("dense", "cross_every", "mlp_every"):
            by_range = name == "dense" and self.replay is not None
            if getattr(self, name) is not None and self.every is None and not by_range:
                problem = f"{name} is of forwards that reuse others, and none does"
                raise InputError("`workload`", problem, "add every=2, or leave it out")
        for name in ("source", "range_tokens"):
            if getattr(self, name) is not None and self.replay is None:
                problem = f"{name} is of tokens that reuse outputs, and none does"
                raise InputError("`workload`", problem, "add replay=SHARE")
        if self.replay is not None and (self.cross_every or self.mlp_every):
            problem = "tokens decide by replay, and cross_every and mlp_every are of whole forwards"
            raise InputError("`workload`", problem, "leave out one of them")

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
        unsaid = {key: value for key, value in asdict(self).items() if value is not None}
        words = [*unsaid.pop("traces")]
        words += [unsaid.pop(name) for name in ("model", "size") if name in unsaid]
        if self.kind in SAMPLES:
            return self._in_words(words, unsaid)
        size = unsaid.pop("frames" if self.kind == "video" else "tokens", None)
        if self.kind == "text" and size is not None and "prompt" in unsaid:
            words.append(f"{unsaid.pop('prompt')}+{size}")
        elif size is not None:
            words.append(str(size))
        return self._in_words(words, unsaid)

    def _in_words(self, words: list[str], unsaid: dict[str, Any]) -> str:
        """The kind, then words, then further fields by name."""
        del unsaid["kind"]
        for key, value in unsaid.items():
            words.append(f"{key}={str(value).lower() if isinstance(value, bool) else value}")
        return ":".join([self.kind, ",".join(words)] if words else [self.kind])

    @property
    def sample_changes(self) -> dict[str, int | str | None]:
        """Fields of ``model.sample`` that the workload sets."""
        changes: dict[str, int | str | None] = {
            of_sample: getattr(self, name)
            for name, of_sample in _SAMPLE_FIELDS.items()
            if self.kind in SAMPLES and getattr(self, name) is not None
        }
        if self.window == ALL or self.cache == "none":
            changes["sink_frames"] = self.sinks or 0  # those of a preset mean nothing there
        if self.window == ALL:
            changes["window_frames"] = None
        if self.size is not None:
            height, _, width = self.size.partition("x")
            changes |= {"height": int(height), "width": int(width)}
        return changes


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
    file = workload_file(text, folder)
    if file is not None:
        try:
            return _of_fields(read_mapping(file, like="kind: text"), text)
        except InputError as error:
            raise error.named({"workload": text}) from None
    kind, _, rest = text.partition(":")
    if kind not in _FIELDS:
        raise InputError("`workload`", f"got {shown(text)}", closest(kind, _FIELDS) + _CURE)
    words = [word.strip() for word in rest.split(",") if word.strip()]
    if kind == "trace":
        return Workload("trace", traces=tuple(words))
    unnamed: dict[str, Any] = {}
    if kind in SAMPLES:
        unnamed = _model_and_size(kind, words, text)
    elif words and "=" not in words[0]:
        unnamed = _sizes(kind, words.pop(0), text)
    return _of_fields({"kind": kind, **_with_named(unnamed, words, text)}, "`workload`")


def workload_file(text: str, folder: Path | None = None) -> Path | None:
    """The YAML file that a workload's text names; None for a workload spelled in one word.

    >>> workload_file("text:2048+512") is None, workload_file("chat.yaml").name
    (True, 'chat.yaml')
    """
    if Path(text).suffix in (".yaml", ".yml") and ":" not in text:
        return (folder or Path()) / text
    return None


# -------------------------------------------------------------------- private

_SIZE = re.compile(r"[0-9]{1,5}x[0-9]{1,5}")
"""Height and width in pixels."""


def _sizes(kind: str, word: str, text: str) -> dict[str, Any]:
    """Frames of a video, or prompt and new tokens of a text, from the first word."""
    names = ["frames"] if kind == "video" else ["prompt", "tokens"]
    numbers = word.split("+")
    are_whole = all(re.fullmatch(r" *[0-9]{1,18} *", number) for number in numbers)
    if not are_whole or len(numbers) > len(names):
        raise InputError("`workload`", f"got {shown(text)}", _CURE)
    sizes = [int(number) for number in numbers]
    return dict(zip(names[-len(sizes) :], sizes, strict=True))


def _with_named(unnamed: Mapping[str, Any], words: Sequence[str], text: str) -> dict[str, Any]:
    """Fields that the first words gave without a name, and those of words FIELD=VALUE."""
    fields = dict(unnamed)
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key in ("kind", *fields):
            problem = f"got {shown(word)} in {shown(text)}: not a new FIELD=VALUE"
            raise InputError("`workload`", problem, _CURE)
        fields[key] = parse_yaml(value, f"`workload` {key}")
    return fields


def _model_and_size(kind: str, words: list[str], text: str) -> dict[str, Any]:
    """Model and size from the first words, which are taken off the list."""
    fields: dict[str, Any] = {}
    while words and "=" not in words[0]:
        word = words.pop(0)
        name = "size" if _SIZE.fullmatch(word) else "model"
        if name in fields or name not in _FIELDS[kind]:
            raise InputError("`workload`", f"got {shown(word)} in {shown(text)}", _CURE)
        fields[name] = word
    return fields


def _of_fields(mapping: Mapping[str, Any], place: str) -> Workload:
    names = [field.name for field in fields(Workload)]
    for key in mapping:
        if key not in names:
            cure = _OF_DESIGN.get(str(key), closest(key, names) + _CURE)
            raise InputError(place, f"unknown field {shown(key)}", cure)
    if "kind" not in mapping:
        kinds = ", ".join(_FIELDS)
        raise InputError(place, "kind is missing", f"add kind, one of {kinds}")
    traces = mapping.get("traces", ())
    trace_names = (traces,) if isinstance(traces, str) else traces
    is_list = isinstance(trace_names, list | tuple)
    if not is_list or not all(isinstance(name, str) for name in trace_names):
        raise InputError(place, f"traces: got {shown(traces)}", "list names of traces")
    return Workload(**{**mapping, "traces": tuple(trace_names)})


def _lacks(name: str, value: Any) -> str:
    """The numbers that a field takes, if a value is none of them."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if name == "window" and value == ALL:
        return ""
    if name in _LEAST:
        is_whole = is_number and isinstance(value, int) and value >= _LEAST[name]
        return "" if is_whole else f"a whole number of {_LEAST[name]} or more"
    if name == "cache":
        return "" if value in get_args(Cache) else ", ".join(get_args(Cache))
    if name == "source":
        return "" if value in get_args(ReuseSource) else ", ".join(get_args(ReuseSource))
    if name in ("model", "size"):
        if not isinstance(value, str):
            return "a name" if name == "model" else "height and width, such as 480x832"
        is_size = name == "model" or _SIZE.fullmatch(value)
        return "" if is_size else "height and width, such as 480x832"
    if name == "rule":
        return "" if isinstance(value, str) else "the kind of a rule of replay"
    if name == "guidance":
        return "" if isinstance(value, bool) else "true or false"
    is_free = name not in ("replay", "pairs") or (is_number and 0 <= value <= 1)
    return "" if is_free else "a share of 0 to 1, such as 0.5 for 50 %"

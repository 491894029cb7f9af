"""The trace file: replay decisions and scores of one decoding, with their metadata."""

import hashlib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.base.errors import InputError
from carsim.base.text import count
from carsim.decisions.attention import KvReads
from carsim.decisions.attention.base import Ints
from carsim.decisions.replay import Replay
from carsim.decisions.trace.check import (
    CURE,
    RANGES,
    READS,
    STEPS,
    arrays_of,
    check_arrays,
    check_forms,
    truth_values,
)
from carsim.decisions.trace.meta import (
    OWN_DECISIONS,
    SCHEMA_VERSION,
    TOKEN,
    WIDER_VERSION,
    DecisionMeta,
    TraceMeta,
    parse_meta,
)
from carsim.decisions.trace.npz import NpzArchive, npz_bytes, write_bytes
from carsim.decisions.trace.shipped import trace_path
from carsim.decisions.trace.steps import StepOrder, step_order
from carsim.decisions.trace.token_ranges import RangeDecisions
from carsim.workload.geometry import Video
from carsim.workload.workload import Workload

if TYPE_CHECKING:  # the decoder, which knows traces, knows nothing of a machine's work
    from carsim.workload.model import Model


class NoTraceError(InputError):
    """An archive that is something else than a trace."""


_MAX_META_BYTES = 2**22

Tas = NDArray[np.floating[Any]]


class Scored(NamedTuple):
    """A decision beside ``token``.

    Attributes:
        replay: bool[S, L, B], True where the blocks of the decision are skipped.
        tas: [S, L, B], its scores; NaN where they were never evaluated.
    """

    replay: NDArray[np.bool_]
    tas: Tas


@dataclass(frozen=True, eq=False)
class Trace:
    """Replay decisions of one decoding. S steps, L layers, KV key heads, B rows, T frames.

    ``dataclasses.replace`` gives a trace of no file, with a hash of its own. Where its decisions
    are not those of its scores, it stands for the user's own decisions: see :func:`as_own`.

    Attributes:
        replay: bool[S, L, B], True where the cached MLP output was replayed.
        tas: [S, L, B], the score that decided, float16 or float32 once saved; NaN only where it
            was never evaluated (frame 0, and layers without tau).
        meta: Everything else.
        kv_tokens: int[S, L, KV, B], keys that attention read; this and the next two are there if
            the attention policy records them, and None where reads follow from the context.
        kv_runs: int[S, L, KV, B], contiguous runs of the cache in which those lie.
        kv_held: int[T, L, B], tokens that the cache holds after each frame, of the head with most.
        further: Decisions beside this one, by name; the metadata says what each skips.
        kinds: uint8[S], kind of each step; this and the next are there if the metadata has
            ``steps``.
        places: int32[S], place of each step: steps of one place share held outputs.
        reused: int[S, L, B, R], tokens of each range that reuse an earlier output; there if the
            metadata has ``ranges``.
        range_tas: float32[S, L, B, R], scores of ranges, NaN where a range has none; or None.
        path: The file it was loaded from or saved to, if any.
    """

    replay: NDArray[np.bool_]
    tas: Tas
    meta: TraceMeta
    kv_tokens: Ints | None = None
    kv_runs: Ints | None = None
    kv_held: Ints | None = None
    further: Mapping[str, Scored] = field(default_factory=dict)
    kinds: Ints | None = None
    places: Ints | None = None
    reused: Ints | None = None
    range_tas: Tas | None = None
    path: Path | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Hold decisions as bool, and read-only views, so that nothing downstream can edit them."""
        object.__setattr__(self, "replay", truth_values(self.replay, "array 'replay'"))
        for name in ("replay", "tas", *READS, *STEPS, *RANGES):
            array = getattr(self, name)
            if array is not None:
                object.__setattr__(self, name, _read_only(array))
        further = {}
        for name, scored in self.further.items():
            replay = truth_values(scored.replay, f"array 'replay.{name}'")
            further[name] = Scored(replay=_read_only(replay), tas=_read_only(scored.tas))
        object.__setattr__(self, "further", further)

    @classmethod
    def from_decisions(
        cls,
        replay: NDArray[np.bool_],
        like: "Trace | None" = None,
        label: str = OWN_DECISIONS,
        *,
        model: "Model | None" = None,
        frames: int | None = None,
    ) -> "Trace":
        """A trace of decisions that were not captured, such as those of an idea to be tried.

        The first frame must not replay. Nothing is known of quality. Scores: :func:`unscored`.

        Args:
            replay: bool[S, L, B], True where an MLP is replayed; whole numbers 0 and 1 do as well.
            like: A trace of the same video, for the rest of the metadata and, if it has any, for
                what attention read; captured, or stated: ``stated_trace(workload, model, batch)``.
            label: Name of the decisions in outputs.
            model: Where ``like`` is left out, the model that is decoded, such as ``design.model``;
                rows are those of the array, in guidance pairs.
            frames: Frames of the video, with ``model``; by default what the array has.

        Raises:
            InputError: The decisions are not bool or do not fit the trace, or the label is empty.
        """
        if (like is None) == (model is None):
            problem = "needs a trace of the same video, or the model"
            raise InputError("Trace.from_decisions", problem, "give either `like` or `model`")
        if like is None:
            assert model is not None
            like = _stated_for(np.asarray(replay), model, frames)
        if not isinstance(label, str) or not label.strip():
            problem = f"own decisions need a label, got {label!r}"
            raise InputError("Trace.from_decisions", problem, "name the idea, which outputs show")
        is_sample = like.meta.tokens_per_frame == 1  # rows of which are passes of one sample
        is_video = like.video.kind == "video" and not is_sample
        if is_video and like.n_rows > 1 and not like.meta.guidance_pairs:
            note = f"{label}: {like.n_rows} rows without guidance pairs, each of which is a video"
            warnings.warn(f"{note}; stated_trace makes pairs of an even number", stacklevel=2)
        changes: dict[str, Any] = {
            "producer": OWN_DECISIONS,
            "command": label,
            "decision_scope": "row",
            "quality": None,
            "content": {"own_decisions": label},
            "decisions": None,  # nothing is known of what they skipped
            "ranges": None,  # whole rows decide
            "schema_version": SCHEMA_VERSION if like.meta.steps is None else WIDER_VERSION,
        }
        arrays = like.arrays()
        recorded = {name: arrays[name] for name in (*READS, *STEPS) if name in arrays}
        return unscored(replay, like.meta.model_copy(update=changes), label, **recorded)

    def with_decision(
        self,
        name: str,
        other: "Trace",
        *,
        blocks: tuple[str, ...] = ("attention", "output"),
        holds: tuple[str, ...] = ("output",),
    ) -> "Trace":
        """The trace with a further decision: the one that another trace of the video has.

        Args:
            name: Name of the further decision, such as ``attention``.
            other: A trace of equal steps, layers and rows, whose decision ``token`` is taken with
                its scores, rule, tau and scope.
            blocks: Names of the blocks that rows skip by it.
            holds: Those of them whose output is held.

        Raises:
            InputError: The traces are not of one shape, the name is taken, or the decisions do not
                fit.
        """
        if other.replay.shape != self.replay.shape:
            problem = f"{other.name} has {other.size}, and {self.name} has {self.size}"
            raise InputError("Trace.with_decision", problem, "take traces of one video")
        if not name or name in (TOKEN, *self.further):
            raise InputError("Trace.with_decision", f"{name!r} is taken", "choose another name")
        decision = DecisionMeta(
            blocks=blocks,
            holds=holds,
            rule=other.meta.rule,
            tau=other.meta.tau,
            scope=other.meta.decision_scope,
        )
        decisions = {**(self.meta.decisions or {}), name: decision}
        changes = {"decisions": decisions, "schema_version": WIDER_VERSION}
        joined = replace(
            self,
            meta=self.meta.model_copy(update=changes),
            further={**self.further, name: Scored(other.replay, other.tas)},
        )
        check_trace(joined, f"{self.name} with {name!r}")
        return joined

    @cached_property
    def sha256(self) -> str:
        """Hash, in hexadecimal, of the trace's file or of the one that saving it would make."""
        return hashlib.sha256(_bytes(_storable(self))).hexdigest()

    @cached_property
    def scores(self) -> NDArray[np.float64]:
        """``tas`` as thresholds are compared with it: a trace is asked about many of them."""
        return self.tas.astype(np.float64)

    @cached_property
    def contradicts_scores(self) -> bool:
        """Decisions are not those that follow from its scores; never so of a trace from a file."""
        if self.path is not None:
            return False
        if self.meta.never_replays:
            return bool(self.replay.any())
        decided = self.order.decided(self.meta.replay, self.tas, self.tokens_per_frame)
        return not np.array_equal(decided, self.replay)

    @cached_property
    def order(self) -> StepOrder:
        """Places of the steps, and how many steps of the same place came before each."""
        return step_order(self.meta, self.kinds, self.places)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays by name, optional ones only if they are there."""
        names = ("replay", "tas", *READS, *STEPS, *RANGES)
        arrays = {name: getattr(self, name) for name in names}
        for decision, scored in self.further.items():
            arrays |= dict(zip(arrays_of(decision), scored, strict=True))
        return {name: array for name, array in arrays.items() if array is not None}

    @property
    def name(self) -> str:
        """File name for labels."""
        return self.path.name if self.path else self.meta.made_up or "unsaved trace"

    @property
    def title(self) -> str:
        """The name, and what its decisions are if no decoder made them."""
        made_up = self.meta.made_up
        return f"{self.name}: {made_up}" if made_up and self.path else self.name

    @property
    def size(self) -> str:
        """Steps, layers and rows in words."""
        sizes = (self.n_steps, "step"), (self.n_layers, "layer"), (self.n_rows, "row")
        return ", ".join(count(n, one) for n, one in sizes)

    @property
    def n_steps(self) -> int:
        """S."""
        return self.meta.n_steps

    @property
    def n_layers(self) -> int:
        """L."""
        return self.meta.decoded.n_layers

    @property
    def n_rows(self) -> int:
        """B."""
        return self.meta.n_rows

    @property
    def n_frames(self) -> int:
        """T."""
        return self.meta.n_frames

    @property
    def tokens_per_frame(self) -> int:
        """N."""
        return self.meta.tokens_per_frame

    @property
    def prompt_tokens(self) -> int:
        """P, the length to which every prompt is padded."""
        return self.meta.prompt_tokens

    @property
    def video(self) -> Video:
        """Geometry of what was decoded."""
        return Video(self.n_frames, self.tokens_per_frame, self.prompt_tokens, self.meta.kind)

    def scored(self, decision: str) -> Scored:
        """A decision, and its scores.

        Args:
            decision: ``token``, or one of :attr:`further`.
        """
        return Scored(self.replay, self.tas) if decision == TOKEN else self.further[decision]

    @property
    def ranges(self) -> RangeDecisions | None:
        """Decisions by range of tokens; None where whole rows decide."""
        if self.reused is None or self.meta.ranges is None:
            return None
        ranges = self.meta.ranges
        whole_forwards = None
        if ranges.whole_forwards:
            whole_forwards = np.zeros(len(self.reused), np.bool_)
            whole_forwards[list(ranges.whole_forwards)] = True
        return RangeDecisions(self.reused, ranges.tokens, ranges.source, whole_forwards)

    @property
    def reads(self) -> KvReads | None:
        """Keys that attention read, [S, L, KV, B]; None where they follow from the context."""
        if self.kv_tokens is None or self.kv_runs is None:
            return None
        return KvReads(self.kv_tokens, self.kv_runs)

    def context(self) -> Ints:
        """int64[S, B]: valid tokens up to each step of each row, itself included."""
        return self.meta.context


def _stated_for(replay: NDArray[Any], model: "Model", frames: int | None) -> Trace:
    """Dense decoding of the video or sample that an array of decisions is about."""
    from carsim.decisions.trace.stated import stated_trace  # which makes traces

    if model.sample is not None:
        shape = (model.sample.forwards, model.body.n_layers)
        if replay.ndim != 3 or replay.shape[:2] != shape:
            expected = f"an array [{shape[0]} forwards, {shape[1]} layers, rows]"
            problem = f"expected {expected}, got one of shape {replay.shape}"
            cure = "give one decision for each forward, layer and row"
            raise InputError("Trace.from_decisions", problem, cure)
        return stated_trace(Workload("sample"), model, replay.shape[2])
    tokens = model.tokens_per_frame
    if replay.ndim != 3 or tokens is None or (frames is None and replay.shape[0] % tokens):
        expected = f"[frames x {tokens} steps, layers, rows]"
        problem = f"expected an array {expected}, got one of shape {replay.shape}"
        raise InputError("Trace.from_decisions", problem, "give whole frames")
    count_of_frames = replay.shape[0] // tokens if frames is None else frames
    return stated_trace(Workload("video", frames=count_of_frames), model, replay.shape[2])


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view


def check_trace(trace: Trace, place: str) -> None:
    """Check that arrays and metadata agree.

    Raises:
        InputError: They do not; the message gives the first place that disagrees.
    """
    check_arrays(trace.arrays(), trace.meta, place)


def unscored(replay: NDArray[np.bool_], meta: TraceMeta, place: str, **recorded: Any) -> Trace:
    """A trace of decisions that come without scores.

    Scores stand in for the reason of each decision: 1 where it replays, 0 elsewhere, against a tau
    of 0.5.

    Args:
        replay: bool[S, L, B], False in the first frame.
        meta: Metadata; tau is replaced.
        place: What to name in errors.
        recorded: What attention read, as arrays of the trace.

    Raises:
        InputError: The decisions do not fit the metadata.
    """
    where = f"{place}: array 'replay'"
    replay = truth_values(replay, where)
    shape = (meta.n_steps, meta.decoded.n_layers, meta.n_rows)
    if replay.shape != shape:
        problem = f"expected bool of shape {shape} (steps, layers, rows), got {replay.shape}"
        raise InputError(where, problem, "give as many decisions, or take another base trace")
    order = step_order(meta, recorded.get("kinds"), recorded.get("places"))
    meta = meta.model_copy(update={"tau": 0.5})
    never = ~order.scored(meta.replay).any(axis=1)
    if order.in_frames and replay[: meta.tokens_per_frame].any():
        cure = f"clear its steps: replay[:{meta.tokens_per_frame}] = False"
        raise InputError(where, "frame 0 cannot replay, as no frame is before it", cure)
    scores = replay.astype(np.float16)
    scores[never] = np.nan
    trace = Trace(replay, scores, meta, **recorded)
    check_trace(trace, place)
    return trace


def as_own(trace: Trace) -> Trace:
    """The trace; where decisions were changed beside their scores, as decisions of the user's own.

    Raises:
        InputError: Something replays in the first frame.
    """
    if not trace.contradicts_scores:
        return trace
    was = trace.meta.made_up or f"what was decided at {trace.meta.tau_text}"
    return Trace.from_decisions(trace.replay, trace, f"own decisions, changed from {was}")


def filed(trace: Trace, sha256: str, path: Path | None = None) -> Trace:
    """An equal trace, of which the hash is known, and the file if there is one."""
    copy = replace(trace)
    object.__setattr__(copy, "path", path)
    copy.__dict__["sha256"] = sha256  # what the cached property would work out
    return copy


def narrow_tas(tas: Tas, made: Replay) -> Tas:
    """Scores in half precision, or single where half is too small, contradicting no decision.

    Where rounding would move a score across tau, the next number on its own side is taken.
    """
    largest = np.nanmax(np.abs(tas), initial=0.0)
    narrow = np.float16 if largest < float(np.finfo(np.float16).max) else np.float32
    rounded: Tas = tas.astype(narrow)
    wanted = made.exceeds(tas)
    got = made.exceeds(rounded)
    rounded = np.where(wanted & ~got, np.nextafter(rounded, narrow(np.inf)), rounded)
    return np.where(~wanted & got, np.nextafter(rounded, narrow(-np.inf)), rounded)


def load_trace(path: str | Path) -> Trace:
    """Open and validate a trace.

    Args:
        path: The file, or the name of a trace: see
            :func:`~carsim.decisions.trace.shipped.trace_path`.

    Raises:
        InputError: The file is missing, damaged, or contradicts itself; the message names the
            file, the array or field, and what to do.
    """
    path = trace_path(path)
    archive = NpzArchive(path)
    names = set(archive.headers)
    needed = {"replay", "tas", "meta"}
    of_further_decisions = {name for name in names if name.startswith(("replay.", "tas."))}
    optional = {*READS, *STEPS, *RANGES}
    if not needed <= names <= needed | optional | of_further_decisions:
        problem = f"not a trace: holds arrays {sorted(names)}, a trace holds {sorted(needed)}"
        raise NoTraceError(str(path), problem, "make a trace with 'carsim capture'")
    header = archive.headers["meta"]
    if header.dtype.kind != "U" or header.shape != () or header.dtype.itemsize > _MAX_META_BYTES:
        problem = f"expected one string, got {header.dtype} of shape {header.shape}"
        raise InputError(f"{path}: array 'meta'", problem, CURE)
    try:
        text = str(archive.read("meta"))
    except (ValueError, SystemError) as error:  # code points beyond Unicode
        raise InputError(f"{path}: array 'meta'", f"no text ({error})", CURE) from error
    meta = parse_meta(text, f"{path}: meta")
    check_forms(archive.headers, meta, str(path), stored=True)
    arrays = {}
    for name in names - {"meta"}:
        native_type = archive.headers[name].dtype.newbyteorder("=")
        arrays[name] = archive.read(name).astype(native_type, copy=False)
    check_arrays(arrays, meta, str(path))
    further = {}
    for decision in meta.further:
        replay_name, tas_name = arrays_of(decision)
        further[decision] = Scored(replay=arrays.pop(replay_name), tas=arrays.pop(tas_name))
    return filed(Trace(**arrays, further=further, meta=meta), archive.sha256, path)


def save_trace(path: str | Path, trace: Trace, *, overwrite: bool = False) -> Trace:
    """Write a trace whole or not at all; equal traces give equal bytes.

    Decisions that were changed beside their scores are written as :func:`as_own` gives them.

    Returns:
        The trace as it stands in the file, with ``path`` and ``sha256``.

    Raises:
        InputError: The trace contradicts itself, the file exists and ``overwrite`` is off, or the
            folder cannot be written.
    """
    path = Path(path)
    stored = _storable(trace)
    check_trace(stored, str(path))
    data = _bytes(stored)
    write_bytes(path, data, overwrite=overwrite)
    return filed(stored, hashlib.sha256(data).hexdigest(), path)


def _storable(trace: Trace) -> Trace:
    """The trace in the types of a file."""
    trace = as_own(trace)
    # Arrays with negative numbers stay as they are, for the check to refuse.
    narrowed: dict[str, Any] = {}
    for name, array in trace.arrays().items():
        is_count = name in (*READS, "reused")
        if not (is_count or name in STEPS) or array.min(initial=0) < 0:
            continue
        if is_count:
            count_type = np.uint16 if array.max(initial=0) < 2**16 else np.int32
            narrowed[name] = array.astype(count_type)
        elif name == "kinds":
            narrowed[name] = array.astype(np.uint8)
        else:
            narrowed[name] = array.astype(np.int32)
    further = dict(trace.further)
    for name in trace.meta.further.keys() & further.keys():
        tas = narrow_tas(further[name].tas, trace.meta.replay_of(name))
        further[name] = further[name]._replace(tas=tas)
    tas = narrow_tas(trace.tas, trace.meta.replay)
    return replace(trace, tas=tas, further=further, **narrowed)


def _bytes(trace: Trace) -> bytes:
    """The file: decisions, scores, metadata, and after them what not all traces have."""
    arrays = trace.arrays()
    ordered: dict[str, NDArray[Any]] = {
        "replay": arrays.pop("replay"),
        "tas": arrays.pop("tas"),
        "meta": np.array(trace.meta.model_dump_json()),
    }
    ordered |= arrays
    return npz_bytes(ordered)

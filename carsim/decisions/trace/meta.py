"""Metadata of a trace: one strict, frozen schema, stored as one JSON string in the file."""

import math
from statistics import fmean
from typing import Annotated, Any, Final, Literal, Self

import numpy as np
from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    NonNegativeInt,
    PositiveInt,
    SerializerFunctionWrapHandler,
    StringConstraints,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic_core import from_json

from carsim.base.errors import InputError
from carsim.base.section import Section, explained, tuples
from carsim.base.statistics import Interval, bootstrap_mean
from carsim.base.text import shortened
from carsim.decisions.attention import Attention
from carsim.decisions.attention.base import Ints
from carsim.decisions.replay import FASTCAR, Pairs, RecordedRule, Replay, Scope
from carsim.decisions.trace.precision import DecoderPrecision
from carsim.workload.workload import ReuseSource

SYNTHETIC: Final = "synthetic (published marginals)"
"""Name of decisions that carsim 0.1.0 drew at FastCar's published ratios, in every output."""

STATED: Final = "assumed, not captured"
"""Name of what :mod:`carsim.decisions.trace.stated` makes, in every output."""

OWN_DECISIONS: Final = "own decisions"
"""Name of decisions that the user made, in every output."""

Origin = Literal[
    "captured", "own decisions", "synthetic (published marginals)", "assumed, not captured"
]

SCHEMA_VERSION: Literal[2] = 2
"""Version of a trace of one decision, whose steps are the tokens of frames."""

WIDER_VERSION: Literal[3] = 3
"""Version of a trace that says more: several decisions, what they skip, kinds of steps, ranges."""

WIDER = ("decisions", "steps", "ranges")
"""Fields of the metadata that only such a trace has."""

TOKEN = "token"
"""The decision that every trace has, in its arrays ``replay`` and ``tas``."""


def _not_nan(value: float) -> float:
    if math.isnan(value):
        raise ValueError("expected a number, not NaN")
    return value


Tau = Annotated[float, AfterValidator(_not_nan)]
"""A threshold on scores; infinity evaluates scores and never replays."""


Text = Annotated[str, StringConstraints(min_length=1)]
DecisionName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,31}$")]


class TraceSection(Section):
    """A section of the metadata of a trace, in whose JSON numbers may be infinite."""

    model_config = ConfigDict(ser_json_inf_nan="constants")


class Geometry(TraceSection):
    """Shape of a LLaMA-style decoder body."""

    name: Text = Field(description="what outputs call it")
    n_layers: PositiveInt = Field(description="layers")
    hidden_size: PositiveInt = Field(description="width")
    n_heads: PositiveInt = Field(description="query heads")
    n_kv_heads: PositiveInt = Field(description="key and value heads")
    head_dim: PositiveInt = Field(description="width of a head")
    ffn_size: PositiveInt = Field(description="width of the MLP")

    @property
    def input_widths(self) -> tuple[int, ...]:
        """Widths of the inputs of the body's matrices."""
        return self.hidden_size, self.n_heads * self.head_dim, self.ffn_size

    @model_validator(mode="after")
    def _heads_share_keys_evenly(self) -> Self:
        if self.n_heads % self.n_kv_heads:
            raise ValueError(f"n_heads {self.n_heads} is no multiple of {self.n_kv_heads} kv heads")
        return self


VILA_U_7B = Geometry(
    name="VILA-U-7B",
    n_layers=32,
    hidden_size=4096,
    n_heads=32,
    n_kv_heads=32,
    head_dim=128,
    ffn_size=11008,
)
"""The body that FastCar was published on: LLaMA-2-7B, arXiv 2307.09288, inside VILA-U."""


_Losses = tuple[Annotated[float, Field(ge=0, allow_inf_nan=False)], ...]

_Dropped = Annotated[None, BeforeValidator(lambda _: None), Field(exclude=True)]
"""A field of earlier files, about generated pictures."""


class PerClip(TraceSection):
    """The loss of each clip, under the trace's decoding and beside it under dense decoding.

    Attributes:
        own: n numbers.
        dense: n numbers, of the same clips.
    """

    own: Annotated[_Losses, Field(min_length=1)]
    dense: _Losses

    @property
    def own_mean(self) -> float:
        """Mean over clips."""
        return fmean(self.own)

    @property
    def dense_mean(self) -> float:
        """Mean over clips."""
        return fmean(self.dense)

    @property
    def difference(self) -> Interval:
        """Mean of own - dense, clip by clip, with its bootstrap interval over clips."""
        return bootstrap_mean(np.subtract(self.own, self.dense).tolist())

    @model_validator(mode="after")
    def _of_the_same_clips(self) -> Self:
        if len(self.own) != len(self.dense):
            raise ValueError(f"{len(self.own)} clips beside {len(self.dense)} of dense decoding")
        return self


class MeasuredQuality(TraceSection):
    """Measured quality of n clips: the trace's decoding, and one without approximation beside it.

    Losses are those of the conditional row without guidance, in nats per token of the frames from
    ``first_frame`` on.

    Attributes:
        dense: Meaning of "dense": the decoding to compare with.
        first_frame: First frame that counts.
        teacher_forced_nats: Loss when the true tokens are fed, so that nothing drifts.
        peak: Ignored.
        by_sampling: Ignored.
    """

    dense: Literal["no replay, dense attention"] = "no replay, dense attention"
    first_frame: NonNegativeInt
    teacher_forced_nats: PerClip
    peak: _Dropped = None
    by_sampling: _Dropped = None

    @property
    def n_clips(self) -> int:
        """Clips measured, the first of the trace."""
        return len(self.teacher_forced_nats.own)

    @property
    def loss(self) -> Interval:
        """Teacher-forced loss over dense decoding, nats per token."""
        return self.teacher_forced_nats.difference


class DecisionMeta(TraceSection):
    """What a decision skips, and how it was made.

    Rule, tau and scope of the decision ``token`` are those of the trace, and are not repeated here.

    Attributes:
        skip: Kind of ``policy.skip`` under which it was made, if it was one.
        known: Block behind which it was known; None: before the layer.
        blocks: Names of the blocks that rows skip.
        holds: Those of them whose output is held for the place.
        rule: Rule of replay.
        tau: Replay threshold: one, one per layer (None: layer is never scored), or None.
        scope: Rows that decided together.
    """

    skip: Text | None = None
    known: Text | None = None
    blocks: Annotated[tuple[Text, ...], Field(min_length=1)]
    holds: tuple[Text, ...] = ()
    rule: RecordedRule | None = None
    tau: Tau | tuple[Tau | None, ...] | None = None
    scope: Scope | None = None

    @model_validator(mode="after")
    def _holds_what_is_skipped(self) -> Self:
        """Refuse outputs that are held of blocks that the decision does not skip."""
        for name in self.holds:
            if name not in self.blocks:
                raise ValueError(f"holds {name!r}, which is not among its blocks")
        return self


class StepKind(TraceSection):
    """A kind of steps.

    Attributes:
        name: Such as ``first``, ``decode``, ``denoise`` or ``commit``.
        tokens: Tokens of a row that a step of this kind computes.
        decides: Decisions are taken in these steps; if not, all rows compute.
    """

    name: Text
    tokens: PositiveInt = 1
    decides: bool = True


class StepsMeta(TraceSection):
    """Steps that are not simply the tokens of frames.

    The arrays ``kinds`` and ``places`` of the trace give the kind and the place of each step. Steps
    of one place share held outputs: the first of them computes, and ages count from one to the
    next.

    Attributes:
        count: S.
        kinds: Kinds of steps, in the order of their numbers in the array ``kinds``.
    """

    count: PositiveInt
    kinds: Annotated[tuple[StepKind, ...], Field(min_length=1, max_length=256)]


class RangesMeta(TraceSection):
    """Ranges of tokens that decide in forwards of a network, in the array ``reused`` of the trace.

    Attributes:
        count: Ranges of a row, in the order of their tokens.
        tokens: Tokens of a row, a multiple of it.
        source: Which output a token reuses: see :data:`carsim.workload.workload.ReuseSource`.
        whole_forwards: Numbers of the forwards that reuse the last one as a whole, ascending;
            written only where there are some.
    """

    count: PositiveInt
    tokens: PositiveInt
    source: ReuseSource
    whole_forwards: tuple[NonNegativeInt, ...] = ()

    @model_serializer(mode="wrap")
    def _leave_out_what_is_not_there(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        unsaid = set() if self.whole_forwards else {"whole_forwards"}
        return {name: value for name, value in write(self).items() if name not in unsaid}

    @model_validator(mode="after")
    def _ranges_are_equal(self) -> Self:
        if self.tokens % self.count:
            raise ValueError(f"{self.count} ranges do not divide {self.tokens} tokens")
        return self


class TraceMeta(TraceSection):
    """Metadata of a trace. Shapes: S steps = n_frames * tokens_per_frame, L layers, B rows.

    Attributes:
        schema_version: :data:`SCHEMA_VERSION`; written as :data:`WIDER_VERSION` where the trace
            has ``decisions``, ``steps`` or ``ranges``.
        producer: Program that wrote the trace.
        producer_version: Its version.
        decoded: Geometry that was really decoded.
        simulated: Geometry that the decisions are meant to stand for; a trace carries decisions,
            not weights, so that it may be larger than the decoded one.
        n_frames: T.
        tokens_per_frame: N.
        prompt_tokens: P, the length to which every prompt is left-padded.
        prompt_lengths: Valid prompt tokens of each row; its length is B.
        tau: Replay threshold: one, one per layer (None: layer is never scored), or None.
        rule: Rule of replay, whose scores the trace holds.
        attention: Attention policy.
        seed: Seed of everything drawn.
        guidance_pairs: (conditional, blank) row indices.
        decision_scope: Rows that decided together.
        dtype: Arithmetic of the decoder.
        precision: Bits to which it rounded beyond that; absent in files of before, and where it
            rounded nothing.
        mode: Origin of visual tokens: a clip, sampling, or none where nothing was decoded.
        weights: Origin of the weights: ``random``, or a checkpoint and its hash.
        sampling: Temperature, guidance scale and the like where tokens were sampled.
        content: Decoded content: clips, photographs, motion, codebook. Where nothing was decoded,
            what the decisions are: ``own_decisions``, or ``synthetic`` or ``stated`` and the model
            behind them.
        quality: Measured quality, if any.
        command: Command that makes this trace.
        decisions: Decisions by name: what each skips. Absent, the trace has the decision ``token``
            alone, which skips the MLP.
        steps: Kinds and places of steps; absent, step s decodes the token of place s mod N, and
            nothing replays in the first N steps.
        ranges: Ranges of tokens that decide; absent, whole rows do.
    """

    schema_version: Literal[2, 3] = SCHEMA_VERSION
    producer: Text
    producer_version: Text
    decoded: Geometry
    simulated: Geometry = VILA_U_7B
    n_frames: PositiveInt
    tokens_per_frame: PositiveInt
    prompt_tokens: NonNegativeInt
    prompt_lengths: Annotated[tuple[NonNegativeInt, ...], Field(min_length=1)]
    tau: Tau | tuple[Tau | None, ...] | None
    rule: RecordedRule = FASTCAR
    attention: Attention
    seed: NonNegativeInt
    guidance_pairs: Pairs = ()
    decision_scope: Scope = "row"
    dtype: Literal["float32", "float64", "float16", "bfloat16"] = "float32"
    precision: DecoderPrecision | None = None
    mode: Literal["teacher_forced", "sampled", "none"]
    weights: Text
    sampling: dict[str, JsonValue] | None = None
    content: dict[str, JsonValue]
    quality: MeasuredQuality | None = None
    command: Text
    decisions: dict[DecisionName, DecisionMeta] | None = None
    steps: StepsMeta | None = None
    ranges: RangesMeta | None = None

    @model_serializer(mode="wrap")
    def _as_narrow_as_it_is(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A trace of one decision about MLPs is written as it was before there were others."""
        unsaid = {name for name in WIDER if getattr(self, name) is None}
        written = {name: value for name, value in write(self).items() if name not in unsaid}
        wider = len(unsaid) < len(WIDER)
        return written | {"schema_version": WIDER_VERSION if wider else SCHEMA_VERSION}

    @property
    def n_rows(self) -> int:
        """B."""
        return len(self.prompt_lengths)

    @property
    def n_steps(self) -> int:
        """S, decode steps of one row."""
        return self.n_frames * self.tokens_per_frame if self.steps is None else self.steps.count

    @property
    def context(self) -> Ints:
        """int64[S, B]: valid tokens up to each step of each row, itself included."""
        return np.arange(self.n_steps)[:, None] + np.array(self.prompt_lengths) + 1

    @property
    def tau_per_layer(self) -> tuple[float | None, ...]:
        """One threshold per layer; None where a layer is never scored."""
        return self.tau if isinstance(self.tau, tuple) else (self.tau,) * self.decoded.n_layers

    @property
    def replay(self) -> Replay:
        """The decisions."""
        return Replay(self.tau_per_layer, self.rule, self.decision_scope, self.guidance_pairs)

    @property
    def further(self) -> dict[str, DecisionMeta]:
        """Decisions beside ``token``, which have arrays of their own."""
        decisions = self.decisions or {}
        return {name: decision for name, decision in decisions.items() if name != TOKEN}

    @property
    def captured_skip(self) -> str:
        """Kind of ``policy.skip`` that the decision ``token`` was captured under."""
        decision = (self.decisions or {}).get(TOKEN)
        if decision is None:
            return "mlp"
        return decision.skip or f"blocks {', '.join(decision.blocks)}"

    def replay_of(self, name: str) -> Replay:
        """The decisions of a name.

        Args:
            name: ``token``, or one of :attr:`further`.
        """
        if name == TOKEN:
            return self.replay
        decision = self.further[name]
        assert decision.rule is not None  # else the trace is refused
        tau = decision.tau
        taus = tau if isinstance(tau, tuple) else (tau,) * self.decoded.n_layers
        return Replay(taus, decision.rule, decision.scope or "row", self.guidance_pairs)

    @property
    def origin(self) -> Origin:
        """Maker of the decisions: a decoder, the user, or a stated model."""
        if "synthetic" in self.content:
            return SYNTHETIC
        if "stated" in self.content:
            return STATED
        return OWN_DECISIONS if "own_decisions" in self.content else "captured"

    @property
    def assumed(self) -> str:
        """Label of assumed decisions, which no decoder made; empty if one did."""
        labels = {
            SYNTHETIC: f"{SYNTHETIC}, {self.content.get('synthetic')}",
            STATED: f"{STATED}: {self.content.get('stated')}",
            OWN_DECISIONS: str(self.content.get("own_decisions") or OWN_DECISIONS),
        }
        return labels.get(self.origin, "")

    @property
    def method(self) -> str:
        """Name of decoding with these decisions, in tables: the user's label, or the rule's."""
        return shortened(self.assumed) if self.origin == OWN_DECISIONS else self.rule.method

    @property
    def never_replays(self) -> bool:
        """No layer has a tau: nothing replays, and no scores say what would."""
        return all(tau is None for tau in self.tau_per_layer)

    @property
    def kind(self) -> Literal["video", "text"]:
        """Content that the steps decode."""
        return "text" if self.content.get("of") == "text" else "video"

    @property
    def tau_text(self) -> str:
        """The threshold as a phrase for labels, or the label of decisions that came without."""
        return self.assumed or self.replay.tau_text

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        """Refuse fields that contradict each other, or the shape of the decoder."""
        self.rule.check(self.decoded.n_heads, self.decoded.hidden_size)
        self.rule.check_layers(self.decoded.n_layers)
        if self.precision is not None:
            self.precision.check(self.decoded.input_widths, self.decoded.head_dim)
        if isinstance(self.tau, tuple) and len(self.tau) != self.decoded.n_layers:
            raise ValueError(f"{len(self.tau)} taus for {self.decoded.n_layers} layers")
        longest = max(self.prompt_lengths)
        if longest > self.prompt_tokens:
            raise ValueError(f"a prompt of {longest} tokens exceeds prompt_tokens")
        rows = [row for pair in self.guidance_pairs for row in pair]
        if len(set(rows)) < len(rows) or not all(0 <= row < self.n_rows for row in rows):
            raise ValueError(f"guidance_pairs must be distinct rows below {self.n_rows}")
        if self.quality is not None:
            self._check_quality(self.quality)
        says_more = any(getattr(self, name) is not None for name in WIDER)
        version = WIDER_VERSION if says_more else SCHEMA_VERSION
        if self.schema_version != version:
            which = "with" if says_more else "without"
            problem = f"a trace {which} decisions, steps or ranges is of schema version {version}"
            raise ValueError(f"{problem}, got {self.schema_version}")
        for name, decision in (self.decisions or {}).items():
            self._check_decision(name, decision)
        last_reused = max(self.ranges.whole_forwards, default=0) if self.ranges else 0
        if last_reused >= self.n_frames * self.tokens_per_frame:
            raise ValueError(f"ranges.whole_forwards: forward {last_reused} is not there")
        return self

    def _check_decision(self, name: str, decision: DecisionMeta) -> None:
        """Refuse a further decision without a rule, or one that contradicts the decoder."""
        if name == TOKEN:
            repeated = (decision.rule, decision.tau, decision.scope)
            if any(value is not None for value in repeated):
                raise ValueError(f"rule, tau and scope of {TOKEN!r} are those of the trace")
            return
        if decision.rule is None:
            raise ValueError(f"decision {name!r} has no rule")
        if isinstance(decision.tau, tuple) and len(decision.tau) != self.decoded.n_layers:
            problem = f"{len(decision.tau)} taus for {self.decoded.n_layers} layers"
            raise ValueError(f"decision {name!r}: {problem}")
        decision.rule.check(self.decoded.n_heads, self.decoded.hidden_size)
        decision.rule.check_layers(self.decoded.n_layers)

    def _check_quality(self, quality: MeasuredQuality) -> None:
        """Refuse a quality of more clips or later frames than the trace has."""
        clips = len(self.guidance_pairs) or self.n_rows
        if quality.n_clips > clips:
            raise ValueError(f"quality of {quality.n_clips} clips, there are {clips}")
        if quality.first_frame >= self.n_frames:
            frames = f"frame {quality.first_frame} on, there are {self.n_frames} frames"
            raise ValueError(f"quality from {frames}")


FREE = ("content", "sampling")
"""Fields of any JSON, in which lists stay lists."""


def parse_meta(text: str, place: str) -> TraceMeta:
    """Metadata from its JSON.

    Raises:
        InputError: Unparsable JSON, another schema version, or a field that is missing, unknown
            or wrong; the message names the first bad field and how many more there are.
    """
    cure = "capture the trace again"
    try:
        contents = from_json(text)
    except ValueError as error:
        raise InputError(f"{place}: $", f"Invalid JSON: {error}", cure) from None
    raw = tuples(contents)
    if isinstance(raw, dict):
        raw |= {name: contents[name] for name in FREE if name in contents}
    try:
        return TraceMeta.model_validate(raw)
    except ValidationError as error:
        raise explained(error, place, contents, cure) from error

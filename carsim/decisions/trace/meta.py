"""Metadata of a trace: one strict, frozen schema, stored as one JSON string in the file."""

import math
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    NonNegativeInt,
    PositiveInt,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic_core import from_json, to_json

from carsim.base.errors import InputError
from carsim.base.statistics import Interval, bootstrap_mean
from carsim.base.text import count, shortened
from carsim.decisions.attention import Attention
from carsim.decisions.replay import FASTCAR, Pairs, Replay, Rule, Scope
from carsim.decisions.trace.precision import Precision

SYNTHETIC: Final = "synthetic (published marginals)"
"""Name of decisions that were drawn by :mod:`carsim.decisions.trace.synthetic`, in every output."""

STATED: Final = "stated, not captured"
"""Name of what :mod:`carsim.decisions.trace.stated` makes, in every output."""

OWN_DECISIONS: Final = "own decisions"
"""Name of decisions that the user made, in every output."""

Origin = Literal[
    "captured", "own decisions", "synthetic (published marginals)", "stated, not captured"
]

SCHEMA_VERSION: Literal[2] = 2
"""Version of the schema below. Version 1 is read as well, without what it measured of quality: that
was pooled over clips, against dense decoding instead of the true clip."""


def _not_nan(value: float) -> float:
    if math.isnan(value):
        raise ValueError("expected a number, not NaN")
    return value


_Number = Annotated[float, AfterValidator(_not_nan)]

Tau = _Number
"""A threshold on scores; infinity evaluates scores and never replays."""

_Text = Annotated[str, StringConstraints(min_length=1)]


class _Model(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        ser_json_inf_nan="constants",
        defer_build=True,
    )


class Geometry(_Model):
    """Shape of a LLaMA-style decoder body."""

    name: _Text = Field(description="what outputs call it")
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


_Share = Annotated[float, Field(ge=0, le=1)]
_Finite = Annotated[float, Field(allow_inf_nan=False)]

PEAK = 255
"""Pixels are of 8 bits."""

MOST_PSNR_DB = round(10 * math.log10(PEAK**2 * 12), 5)
"""PSNR of the error of rounding to whole pixel values, 1/12. None is larger, so that clips that are
equal have one too."""


class PerClip(_Model):
    """One figure of each clip, under the trace's decoding and beside it under dense decoding.

    Attributes:
        own: n numbers.
        dense: n numbers, of the same clips.
    """

    own: Annotated[tuple[_Finite, ...], Field(min_length=1)]
    dense: tuple[_Finite, ...]

    @property
    def own_mean(self) -> float:
        """Mean over clips."""
        return math.fsum(self.own) / len(self.own)

    @property
    def dense_mean(self) -> float:
        """Mean over clips."""
        return math.fsum(self.dense) / len(self.dense)

    @property
    def difference(self) -> Interval:
        """Mean of own - dense, clip by clip, with its bootstrap interval over clips."""
        return bootstrap_mean(
            [own - dense for own, dense in zip(self.own, self.dense, strict=True)]
        )

    @model_validator(mode="after")
    def _of_the_same_clips(self) -> Self:
        if len(self.own) != len(self.dense):
            raise ValueError(f"{len(self.own)} clips beside {len(self.dense)} of dense decoding")
        return self


def _within(least: float, most: float) -> Callable[[PerClip], PerClip]:
    def check(figures: PerClip) -> PerClip:
        for value in (*figures.own, *figures.dense):
            if not least <= value <= most:
                raise ValueError(f"expected {least:g} to {most:g}, got {value:g}")
        return figures

    return check


_Nats = Annotated[PerClip, AfterValidator(_within(0, math.inf))]


class SampledQuality(_Model):
    """Generated frames of n clips under one way of choosing tokens.

    Dense decoding draws with the same noise. The true clip is decoded from its own codes, so that
    the codebook's error is no part of any figure.

    Attributes:
        sampling: Way of choosing tokens. ``top_k`` has the k and the temperature of the trace, both
            ways its guidance scale.
        psnr_db: Peak signal-to-noise ratio of the generated frames of each clip against the true
            clip, of the mean squared error over all of them; at most :data:`MOST_PSNR_DB`.
        ssim: Structural similarity to the true clip, mean over generated frames.
        clip_nats: Loss per token of the dense model that is fed the generated clip: how likely it
            finds what was generated. Low is likely, which a grey picture is as well.
        token_agreement: Share of the generated tokens that dense decoding chose too; n numbers.
    """

    sampling: Literal["greedy", "top_k"]
    psnr_db: Annotated[PerClip, AfterValidator(_within(0, MOST_PSNR_DB))]
    ssim: Annotated[PerClip, AfterValidator(_within(-1, 1))]
    clip_nats: _Nats
    token_agreement: tuple[_Share, ...]

    @property
    def token_agreement_mean(self) -> float:
        """Mean over clips."""
        return math.fsum(self.token_agreement) / len(self.token_agreement)


class Quality(_Model):
    """Measured quality of n clips: the trace's decoding, and one without approximation beside it.

    Losses are those of the conditional row without guidance, in nats per token of the frames from
    ``first_frame`` on.

    Attributes:
        dense: What "dense" is: the decoding to compare with.
        peak: Largest value of a pixel, for PSNR and SSIM.
        first_frame: First generated frame; frames before it were given.
        teacher_forced_nats: Loss when the true tokens are fed, so that nothing drifts.
        by_sampling: One for each way of choosing tokens.
    """

    dense: Literal["no replay, dense attention"] = "no replay, dense attention"
    peak: Literal[255] = 255
    first_frame: NonNegativeInt
    teacher_forced_nats: _Nats
    by_sampling: Annotated[tuple[SampledQuality, ...], Field(min_length=1)]

    @property
    def n_clips(self) -> int:
        """Clips measured, the first of the trace."""
        return len(self.teacher_forced_nats.own)

    @property
    def loss(self) -> Interval:
        """Teacher-forced loss over dense decoding, nats per token."""
        return self.teacher_forced_nats.difference

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for measured in self.by_sampling:
            for name in ("psnr_db", "ssim", "clip_nats", "token_agreement"):
                value = getattr(measured, name)
                n_clips = len(value.own if isinstance(value, PerClip) else value)
                if n_clips != self.n_clips:
                    raise ValueError(f"{name} of {n_clips} clips, loss of {self.n_clips}")
        names = [measured.sampling for measured in self.by_sampling]
        if len(set(names)) < len(names):
            raise ValueError("a sampling is listed twice")
        return self


class TraceMeta(_Model):
    """Metadata of a trace. Shapes: S steps = n_frames * tokens_per_frame, L layers, B rows.

    Attributes:
        schema_version: :data:`SCHEMA_VERSION`, or 1.
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
        rule: Rule of replay, whose scores the trace holds; files of before have ``tas_form`` in its
            place.
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
    """

    schema_version: Literal[1, 2] = SCHEMA_VERSION
    producer: _Text
    producer_version: _Text
    decoded: Geometry
    simulated: Geometry = VILA_U_7B
    n_frames: PositiveInt
    tokens_per_frame: PositiveInt
    prompt_tokens: NonNegativeInt
    prompt_lengths: Annotated[tuple[NonNegativeInt, ...], Field(min_length=1)]
    tau: Tau | tuple[Tau | None, ...] | None
    rule: Rule = FASTCAR
    attention: Attention
    seed: NonNegativeInt
    guidance_pairs: Pairs = ()
    decision_scope: Scope = "row"
    dtype: Literal["float32", "float64", "float16", "bfloat16"] = "float32"
    precision: Precision | None = None
    mode: Literal["teacher_forced", "sampled", "none"]
    weights: _Text
    sampling: dict[str, JsonValue] | None = None
    content: dict[str, JsonValue]
    quality: Quality | None = None
    command: _Text

    @property
    def n_rows(self) -> int:
        """B."""
        return len(self.prompt_lengths)

    @property
    def n_steps(self) -> int:
        """S, decode steps of one row."""
        return self.n_frames * self.tokens_per_frame

    @property
    def tau_per_layer(self) -> tuple[float | None, ...]:
        """One threshold per layer; None where a layer is never scored."""
        if isinstance(self.tau, tuple):
            return self.tau
        return (self.tau,) * self.decoded.n_layers

    @property
    def replay(self) -> Replay:
        """The decisions."""
        return Replay(self.tau_per_layer, self.rule, self.decision_scope, self.guidance_pairs)

    @property
    def origin(self) -> Origin:
        """Who made the decisions: a decoder, the user, or a stated model."""
        if "synthetic" in self.content:
            return SYNTHETIC
        if "stated" in self.content:
            return STATED
        return OWN_DECISIONS if "own_decisions" in self.content else "captured"

    @property
    def made_up(self) -> str:
        """Label of decisions that no decoder made; empty if one did."""
        labels = {
            SYNTHETIC: f"{SYNTHETIC}, {self.content.get('synthetic')}",
            STATED: f"{STATED}: {self.content.get('stated')}",
            OWN_DECISIONS: str(self.content.get("own_decisions") or OWN_DECISIONS),
        }
        return labels.get(self.origin, "")

    @property
    def method(self) -> str:
        """Name of decoding with these decisions, in tables: the user's label, or the rule's."""
        return shortened(self.made_up) if self.origin == OWN_DECISIONS else self.rule.method

    @property
    def never_replays(self) -> bool:
        """No layer has a tau: nothing replays, and no scores say what would."""
        return all(tau is None for tau in self.tau_per_layer)

    @property
    def kind(self) -> Literal["video", "text"]:
        """What the steps decode."""
        return "text" if self.content.get("of") == "text" else "video"

    @property
    def tau_text(self) -> str:
        """The threshold as a phrase for labels, or the label of decisions that came without."""
        return self.made_up or self.replay.tau_text

    @property
    def own_quality(self) -> SampledQuality | None:
        """Quality of the decoding that the trace holds: measured under its own way of sampling."""
        method = (self.sampling or {}).get("method")
        measured = self.quality.by_sampling if self.quality else ()
        return next((each for each in measured if each.sampling == method), None)

    @property
    def quality_text(self) -> str:
        """Teacher-forced loss over dense decoding, as an ending for labels; empty if unknown."""
        if self.quality is None:
            return ""
        n_clips = self.quality.n_clips
        return (
            f", loss {self.quality.loss.text(' nats per token')} over dense on "
            f"{count(n_clips, 'clip')} (teacher-forced)"
        )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
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
        return self

    def _check_quality(self, quality: Quality) -> None:
        if self.schema_version == 1:
            raise ValueError("quality of schema 1 is not read")
        clips = len(self.guidance_pairs) or self.n_rows
        if quality.n_clips > clips:
            raise ValueError(f"quality of {quality.n_clips} clips, there are {clips}")
        if quality.first_frame >= self.n_frames:
            raise ValueError(
                f"quality from frame {quality.first_frame} on, there are {self.n_frames} frames"
            )


def parse_meta(text: str, place: str) -> TraceMeta:
    """Metadata from its JSON.

    Raises:
        InputError: Unparsable JSON, another schema version, or a field that is missing, unknown
            or wrong; the message names the first bad field and how many more there are.
    """
    try:
        return TraceMeta.model_validate_json(_upgraded(text))
    except ValidationError as error:
        first = error.errors()[0]
        if first["loc"] == ("schema_version",):
            raise InputError(
                f"{place}: $.schema_version",
                f"schema version {first['input']!r}, this carsim reads 1 and {SCHEMA_VERSION}",
                "capture the trace again, or use the carsim that wrote it",
            ) from error
        raise first_problem(error, place, "capture the trace again, or correct it") from error


def _upgraded(text: str) -> str:
    """The JSON as schema 2 has it; any other text as it is.

    Schema 1 knew ``tas_form`` in place of a rule, and a quality that was measured otherwise, which
    is left out.
    """
    try:
        fields = from_json(text)
    except ValueError:
        return text  # the schema says what is wrong with it
    if not isinstance(fields, dict):
        return text
    changes: dict[str, object] = {}
    if fields.get("schema_version") == 1:
        changes["quality"] = None
    if "tas_form" in fields and "rule" not in fields:
        changes["rule"] = {"kind": FASTCAR.kind, "form": fields.pop("tas_form")}
    return to_json(fields | changes, inf_nan_mode="constants").decode() if changes else text


def first_problem(
    error: ValidationError, place: str, cure: str, loaded: object = None
) -> InputError:
    """The first thing that pydantic finds wrong in a file, and how many more there are.

    Args:
        error: Pydantic's findings.
        place: The file.
        cure: Advice to the user.
        loaded: What the file holds; without it, the place also names which of several alternatives
            was tried.
    """
    first = error.errors()[0]
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    is_told = first["type"] in ("missing", "json_invalid", "value_error")
    given = "" if is_told else f", got {first['input']!r}"
    problem = f"{first['msg'].removeprefix('Value error, ')}{given[:120]}{more}"
    where = ".".join(["$", *map(str, _keys(first["loc"], loaded))])
    return InputError(f"{place}: {where}", problem, cure)


def _keys(loc: tuple[int | str, ...], loaded: Any) -> list[int | str]:
    """Where in a file a problem is: the parts of its place that are keys there, and the last."""
    keys: list[int | str] = []
    for number, part in enumerate(loc, 1):
        if isinstance(loaded, dict) and part not in loaded and number < len(loc):
            continue
        if isinstance(loaded, list) and isinstance(part, str):
            continue
        keys.append(part)
        try:
            loaded = loaded[part]
        except (KeyError, IndexError, TypeError):
            loaded = None
    return keys

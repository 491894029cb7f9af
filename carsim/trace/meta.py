"""Metadata of a trace: one strict, frozen schema, stored as one JSON string in the file."""

import json
import math
from typing import Annotated, Literal, Self

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

from carsim.errors import InputError
from carsim.policy import Attention
from carsim.replay import FASTCAR, Pairs, Replay, Rule, Scope

SCHEMA_VERSION = 1
"""Version of the schema below; a file of another version is refused."""


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
        frozen=True, strict=True, extra="forbid", ser_json_inf_nan="constants"
    )


class Geometry(_Model):
    """Shape of a LLaMA-style decoder body."""

    name: _Text
    n_layers: PositiveInt
    hidden_size: PositiveInt
    n_heads: PositiveInt
    n_kv_heads: PositiveInt
    head_dim: PositiveInt
    ffn_size: PositiveInt

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
_Similarity = Annotated[float, Field(ge=-1, le=1)]
_Nats = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class SampledQuality(_Model):
    """Generated frames under one way of choosing tokens, against the reference; F frames.

    Attributes:
        sampling: Way of choosing tokens, with the same seed on both sides.
        psnr_db: Peak signal-to-noise ratio of the mean squared error over all clips and frames;
            infinite where all are equal.
        ssim: Structural similarity, mean over clips and frames.
        token_agreement: Share of tokens that are the reference's.
        psnr_db_by_frame: The same of each generated frame, over clips; F numbers.
        ssim_by_frame: F numbers.
        token_agreement_by_frame: F numbers.
        identical_clips: Clips whose generated frames are all equal to the reference's.
    """

    sampling: Literal["greedy", "top_k"]
    psnr_db: _Number
    ssim: _Similarity
    token_agreement: _Share
    psnr_db_by_frame: tuple[_Number, ...]
    ssim_by_frame: tuple[_Similarity, ...]
    token_agreement_by_frame: tuple[_Share, ...]
    identical_clips: NonNegativeInt


class Quality(_Model):
    """Measured quality: the trace's decoding against one without approximation.

    Attributes:
        reference: Decoding to compare with.
        peak: Largest value of a pixel, for PSNR and SSIM.
        n_clips: Clips measured, the first of the trace.
        first_frame: First generated frame; frames before it were given.
        teacher_forced_nats: Loss of the conditional row without guidance, per token of those
            frames, when the true tokens are fed and layers replay.
        teacher_forced_dense_nats: The same of the reference.
        by_sampling: One for each way of choosing tokens.
    """

    reference: Literal["no replay, dense attention"] = "no replay, dense attention"
    peak: Literal[255] = 255
    n_clips: PositiveInt
    first_frame: NonNegativeInt
    teacher_forced_nats: _Nats
    teacher_forced_dense_nats: _Nats
    by_sampling: Annotated[tuple[SampledQuality, ...], Field(min_length=1)]


class TraceMeta(_Model):
    """Metadata of a trace. Shapes: S steps = n_frames * tokens_per_frame, L layers, B rows.

    Attributes:
        schema_version: :data:`SCHEMA_VERSION`.
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
        mode: Origin of visual tokens: a clip, or sampling.
        weights: Origin of the weights: ``random``, or a checkpoint and its hash.
        sampling: Temperature, guidance scale and the like where tokens were sampled.
        content: Decoded content: clips, photographs, motion, codebook.
        quality: Measured quality, if any.
        command: Command that makes this trace.
    """

    schema_version: Literal[1] = 1
    producer: _Text
    producer_version: _Text
    decoded: Geometry
    simulated: Geometry = VILA_U_7B
    n_frames: PositiveInt
    tokens_per_frame: PositiveInt
    prompt_tokens: PositiveInt
    prompt_lengths: Annotated[tuple[PositiveInt, ...], Field(min_length=1)]
    tau: Tau | tuple[Tau | None, ...] | None
    rule: Rule = FASTCAR
    attention: Attention
    seed: NonNegativeInt
    guidance_pairs: Pairs = ()
    decision_scope: Scope = "row"
    dtype: Literal["float32", "float64", "float16", "bfloat16"] = "float32"
    mode: Literal["teacher_forced", "sampled"]
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
    def tau_text(self) -> str:
        """The threshold as a phrase for labels."""
        return self.replay.tau_text

    @property
    def own_quality(self) -> SampledQuality | None:
        """Quality of the decoding that the trace holds: measured under its own way of sampling."""
        method = (self.sampling or {}).get("method")
        measured = self.quality.by_sampling if self.quality else ()
        return next((each for each in measured if each.sampling == method), None)

    @property
    def quality_text(self) -> str:
        """PSNR of :attr:`own_quality`, as an ending for labels; empty if unknown.

        The reference is decoding without replay and with dense attention.
        """
        own = self.own_quality
        if own is None:
            return ""
        psnr = "identical" if own.psnr_db == math.inf else f"PSNR {own.psnr_db:.1f} dB"
        return f", {psnr} to dense ({own.sampling})"

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        self.rule.check(self.decoded.n_heads, self.decoded.hidden_size)
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
        clips = len(self.guidance_pairs) or self.n_rows
        if quality.n_clips > clips:
            raise ValueError(f"quality of {quality.n_clips} clips, there are {clips}")
        generated = self.n_frames - quality.first_frame
        for measured in quality.by_sampling:
            for name in ("psnr_db", "ssim", "token_agreement"):
                by_frame = getattr(measured, f"{name}_by_frame")
                if len(by_frame) != generated or not by_frame:
                    raise ValueError(
                        f"quality: {len(by_frame)} numbers of {name} by frame for "
                        f"{generated} generated frames"
                    )
            if measured.identical_clips > quality.n_clips:
                raise ValueError("quality: more identical clips than clips")
        names = [measured.sampling for measured in quality.by_sampling]
        if len(set(names)) < len(names):
            raise ValueError("quality: a sampling is listed twice")


def parse_meta(text: str, place: str) -> TraceMeta:
    """Metadata from its JSON.

    Raises:
        InputError: Unparsable JSON, another schema version, or a field that is missing, unknown
            or wrong; the message names the first bad field and how many more there are.
    """
    try:
        return TraceMeta.model_validate_json(_with_rule(text))
    except ValidationError as error:
        first = error.errors()[0]
        if first["loc"] == ("schema_version",):
            raise InputError(
                f"{place}: $.schema_version",
                f"schema version {first['input']!r}, this carsim reads version {SCHEMA_VERSION}",
                "capture the trace again, or use the carsim that wrote it",
            ) from error
        raise first_problem(error, place, "capture the trace again, or correct it") from error


def _with_rule(text: str) -> str:
    """The metadata; in files from before rules had kinds, the rule stands for ``tas_form``."""
    try:
        raw = json.loads(text) if '"tas_form"' in text else None
    except (ValueError, RecursionError):
        return text  # the schema has words for it
    if not isinstance(raw, dict) or "tas_form" not in raw or "rule" in raw:
        return text
    form = raw.pop("tas_form")
    return json.dumps(raw | {"rule": {"kind": FASTCAR.kind, "form": form}})


def first_problem(error: ValidationError, place: str, cure: str) -> InputError:
    """The first thing that pydantic finds wrong in a file, and how many more there are.

    Args:
        error: Pydantic's findings.
        place: The file.
        cure: Advice to the user.
    """
    first = error.errors()[0]
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    is_told = first["type"] in ("missing", "json_invalid", "value_error")
    given = "" if is_told else f", got {first['input']!r}"
    problem = f"{first['msg'].removeprefix('Value error, ')}{given[:120]}{more}"
    return InputError(f"{place}: {'.'.join(['$', *map(str, first['loc'])])}", problem, cure)

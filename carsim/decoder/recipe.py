"""The recipe of a trace: everything that capturing needs to know, in one small strict file."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    StringConstraints,
    ValidationError,
    model_validator,
)

from carsim.decoder.content import TOKENS_PER_FRAME, Clip
from carsim.decoder.structures import Policy, TasForm
from carsim.errors import InputError
from carsim.trace import Geometry
from carsim.trace.meta import Attention, Tau
from carsim.trace.scope import Pairs, Scope

PROMPT = "Generate a video:"
"""Every prompt begins with it; a blank prompt is nothing else."""

_FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.\-]+$")]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class ClipRecipe(_Strict):
    """One clip, which becomes one guidance pair; see :class:`~carsim.decoder.content.Clip`."""

    photo: str
    motion: Literal["pan", "zoom", "rotate", "cut", "bounce"]
    speed: NonNegativeFloat
    seed: NonNegativeInt = 0


class Sampling(_Strict):
    """How tokens are drawn where they are not given.

    Attributes:
        temperature: Divides the logits.
        guidance_scale: s in blank + s * (conditional - blank) (arXiv 2207.12598); 1 is no guidance.
    """

    temperature: PositiveFloat = 1.0
    guidance_scale: FiniteFloat = 3.0


class Recipe(_Strict):
    """What to decode and how. File names are relative to the recipe's folder.

    Attributes:
        name: Name of the trace.
        output: File to write.
        decoded: Geometry of the decoder.
        weights: ``random``, or a ``.safetensors`` checkpoint.
        codebook: File of the visual tokens.
        clips: What is shown; clip i becomes rows 2i (its caption as prompt) and 2i + 1 (blank).
        n_frames: T.
        prompt_tokens: P, to which every prompt is left-padded.
        tau: Replay threshold: one, one per layer, or null for dense decoding.
        tas_form: Form of the score.
        attention: Which keys are attended to.
        decision_scope: Which rows decide together.
        sampling: Present: visual tokens are sampled; absent: they are those of the clip.
        dtype: Arithmetic.
        seed: Of random weights and of sampling.
    """

    name: _FileName
    output: _FileName
    decoded: Geometry
    weights: _FileName = "random"
    codebook: _FileName
    clips: Annotated[tuple[ClipRecipe, ...], Field(min_length=1)]
    n_frames: PositiveInt
    prompt_tokens: PositiveInt
    tau: Tau | tuple[Tau | None, ...] | None
    tas_form: TasForm = "released"
    attention: Attention
    decision_scope: Scope = "row"
    sampling: Sampling | None = None
    dtype: Literal["float32", "float64"] = "float32"
    seed: NonNegativeInt

    @property
    def n_rows(self) -> int:
        """B: two rows per clip."""
        return 2 * len(self.clips)

    @property
    def n_steps(self) -> int:
        """S."""
        return self.n_frames * TOKENS_PER_FRAME

    @property
    def pairs(self) -> Pairs:
        """(conditional, blank) rows of each clip."""
        return tuple((row, row + 1) for row in range(0, self.n_rows, 2))

    @property
    def prompts(self) -> tuple[bytes, ...]:
        """Prompt of each row."""
        return tuple(
            text.encode()
            for clip in self.clips
            for text in (f"{PROMPT} {Clip(**clip.model_dump()).caption}", PROMPT)
        )

    @property
    def policy(self) -> Policy:
        """What the decoder skips."""
        tau = self.tau if isinstance(self.tau, tuple) else (self.tau,) * self.decoded.n_layers
        return Policy(tau, self.tas_form, self.attention, self.decision_scope, self.pairs)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if isinstance(self.tau, tuple) and len(self.tau) != self.decoded.n_layers:
            raise ValueError(f"{len(self.tau)} taus for {self.decoded.n_layers} layers")
        longest = max(self.prompts, key=len)
        if len(longest) > self.prompt_tokens:
            raise ValueError(
                f"prompt {longest.decode()!r} has {len(longest)} bytes, prompt_tokens allows "
                f"{self.prompt_tokens}"
            )
        if self.decoded.head_dim % 2:
            raise ValueError(f"head_dim {self.decoded.head_dim} is odd, rotary needs pairs")
        return self


def parse_recipe(loaded: dict[str, Any], path: Path) -> Recipe:
    """Validate a recipe.

    Args:
        loaded: The mapping in the file.
        path: The file, for messages.

    Raises:
        InputError: A field is missing, unknown or wrong; the message names the first one.
    """
    try:
        return Recipe.model_validate(_with_tuples(loaded))
    except ValidationError as error:
        first = error.errors()[0]
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        field = ".".join(["$", *(str(part) for part in first["loc"])])
        given = "" if first["type"] in ("missing", "value_error") else f", got {first['input']!r}"
        raise InputError(
            f"{path}: {field}",
            f"{first['msg'].removeprefix('Value error, ')}{given[:120]}{more}",
            "see traces/README.md and traces/vilau_8f.yaml",
        ) from error


def _with_tuples(value: Any) -> Any:
    """YAML lists as the tuples that strict validation wants."""
    if isinstance(value, list):
        return tuple(_with_tuples(item) for item in value)
    if isinstance(value, dict):
        return {key: _with_tuples(item) for key, item in value.items()}
    return value

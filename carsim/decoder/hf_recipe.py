"""The recipe of a trace whose videos a checkpoint of Hugging Face transformers makes."""

from math import inf
from typing import Annotated, Literal, Self

from pydantic import Discriminator, Field, NonNegativeInt, PositiveInt, Tag, model_validator

from carsim.base.section import Section
from carsim.decisions.replay import Pairs
from carsim.decoder.content import TOKENS_PER_FRAME
from carsim.decoder.decoding import BaseRecipe, FilePath, Method, Taus, TokenSampling

Dtype = Literal["float32", "float64", "float16", "bfloat16"]
"""Arithmetic of a checkpoint."""


class VocabularySampling(TokenSampling):
    """Sampling of tokens from a checkpoint's own logits, one per video.

    Attributes:
        method: ``greedy``: the likeliest; ``top_k``: drawn among the k likeliest.
        k: For ``top_k``; left out, all tokens may be drawn.
        temperature: Divides the logits, for ``top_k``.
        guidance_scale: s in blank + s * (conditional - blank) (arXiv 2207.12598); 1 is no guidance.
        visual_tokens: First and last token of the vocabulary that may be drawn; absent, all may.
    """

    method: Method = "greedy"
    visual_tokens: tuple[NonNegativeInt, NonNegativeInt] | None = None


class CheckpointWeights(Section):
    """A checkpoint that transformers' ``save_pretrained`` wrote.

    Attributes:
        hf: Its folder: LLaMA, Mistral, Qwen2 or Qwen3, with weights in ``.safetensors`` files.
    """

    hf: FilePath


_Prompt = Annotated[
    Annotated[str, Tag("text")]
    | Annotated[tuple[NonNegativeInt, ...], Field(min_length=1), Tag("token numbers")],
    Discriminator(lambda given: "text" if isinstance(given, str) else "token numbers"),
]


class Guidance(Section):
    """Classifier-free guidance: each video has a second row with a blank prompt.

    Attributes:
        blank: The blank prompt, as text or as token numbers.
    """

    blank: _Prompt = ""


class CheckpointRecipe(BaseRecipe):
    """A decoding by a checkpoint, whose videos are sampled from its own logits.

    Attributes:
        name: Name of the trace.
        output: File to write.
        weights: The checkpoint.
        prompts: One for each video, as text or as token numbers; text goes through the
            checkpoint's tokenizer.
        guidance: Blank prompt of guidance; null: one row for each video, no guidance.
        n_frames: T.
        tokens_per_frame: N.
        tau: Replay threshold: one, one per layer (null: that layer never scores), or null for
            dense decoding; absent, everything is scored and nothing replays.
        rule: Rule of replay: the score that tau is compared with.
        attention: Attention policy whose reads follow from the context alone.
        decision_scope: Rows that decide together.
        sampling: Sampling of tokens.
        dtype: Arithmetic.
        seed: Of sampling.
    """

    weights: CheckpointWeights
    prompts: Annotated[tuple[_Prompt, ...], Field(min_length=1)]
    guidance: Guidance | None = Guidance()
    tokens_per_frame: PositiveInt = TOKENS_PER_FRAME
    tau: Taus = Field(default_factory=lambda: inf)
    sampling: VocabularySampling = VocabularySampling()
    dtype: Dtype = "float32"

    @property
    def n_steps(self) -> int:
        """S."""
        return self.n_frames * self.tokens_per_frame

    @property
    def rows(self) -> tuple[str | tuple[int, ...], ...]:
        """Prompt of each row; under guidance, row 2i + 1 is the blank one of video i."""
        blank = () if self.guidance is None else (self.guidance.blank,)
        return tuple(row for prompt in self.prompts for row in (prompt, *blank))

    @property
    def pairs(self) -> Pairs:
        """(conditional, blank) rows of each video."""
        ends = range(0, 2 * len(self.prompts), 2) if self.guidance else ()
        return tuple((row, row + 1) for row in ends)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.attention.records:
            kind = f"attention {self.attention.kind!r} selects keys by what they hold"
            raise ValueError(f"{kind}, which needs the reference decoder; take dense or streaming")
        if self.guidance is None and self.decision_scope == "pair":
            raise ValueError("decision_scope 'pair' needs guidance; take row or batch")
        if self.guidance is None and "guidance_scale" in self.sampling.model_fields_set:
            raise ValueError("guidance_scale does nothing without guidance; leave it out")
        if self.sampling.method == "greedy" and len(set(self.prompts)) < len(self.prompts):
            raise ValueError("equal prompts would give equal videos under greedy sampling")
        return self

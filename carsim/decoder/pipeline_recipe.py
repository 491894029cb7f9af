"""The recipe of a trace whose samples a pipeline of Hugging Face diffusers makes."""

from typing import Annotated, Literal, Self

from pydantic import (
    Field,
    FiniteFloat,
    NonNegativeInt,
    PositiveInt,
    StringConstraints,
    model_validator,
)

from carsim.base.section import Section
from carsim.decisions.replay import InputChange, ReplayRule, Tas
from carsim.decisions.trace.meta import Tau
from carsim.decoder.decoding import NAME, FilePath
from carsim.decoder.hf_recipe import Dtype
from carsim.decoder.token_trace import TokenRule
from carsim.workload.workload import ReuseSource

Source = Literal["frame", "step", "forward"]
"""Outputs that may be taken: by a token those of its place one latent frame earlier or of an
earlier step, or by a whole forward those of the last forward that computed."""

TOKEN_RULES: dict[ReuseSource, ReplayRule] = {
    "frame": Tas(form="paper"),
    "step": InputChange(bits=None),
}
"""Scores of tokens: FastCar's, and the change of the MLP's input since it was computed."""


class PipelineWeights(Section):
    """A pipeline that diffusers' ``save_pretrained`` wrote.

    Attributes:
        diffusers: Its folder, which holds ``model_index.json`` and the folder ``transformer``.
    """

    diffusers: FilePath


class PipelineRecipe(Section):
    """A sample by a pipeline of diffusers, whose tokens are scored while it is made.

    In an open loop hooks only look, and the sample is what the pipeline makes without them. In a
    closed loop, tokens that replay really take the other output of the MLP.

    Attributes:
        name: Name of the trace.
        output: File to write.
        weights: The pipeline.
        prompts: One for each sample.
        negative_prompt: Prompt of the second guidance pass; absent, the pipeline's own.
        guidance_scale: Of classifier-free guidance; absent, the pipeline's own.
        steps: Denoising steps.
        height: Height in pixels; absent, the pipeline's own.
        width: Width in pixels; absent, the pipeline's own.
        frames: Pixel frames; absent, the pipeline's own.
        source: Output that a token may take: that of its place in the previous latent frame
            (``frame``, FastCar's score), or that of the last step that computed it (``step``,
            minus the relative change of the MLP's input). With ``forward``, whole
            forwards take it from the last one that computed (minus the change that has added up
            since then, as in TeaCache).
        tau: Tokens or forwards of a higher score replay.
        polynomial: With ``forward``: coefficients, of the highest power first, that rescale a
            change before it is added; TeaCache publishes them by network.
        loop: ``open``, or ``closed``, where whole forwards do not decide, and all MLPs are modules
            of their own (not HunyuanVideo and FLUX).
        dense: First denoising steps, in which everything computes.
        range_tokens: Neighbouring tokens whose decisions are summed up in the trace. With 1 the
            trace holds the score of every token.
        dtype: Arithmetic.
        seed: Of the noise of the first sample; each further sample adds 1.
    """

    name: Annotated[str, StringConstraints(pattern=NAME)]
    output: Annotated[str, StringConstraints(pattern=NAME)]
    weights: PipelineWeights
    prompts: Annotated[tuple[str, ...], Field(min_length=1)]
    negative_prompt: str | None = None
    guidance_scale: FiniteFloat | None = None
    steps: PositiveInt
    height: PositiveInt | None = None
    width: PositiveInt | None = None
    frames: PositiveInt | None = None
    source: Source = "frame"
    tau: Tau
    polynomial: Annotated[tuple[FiniteFloat, ...], Field(min_length=1)] = (1.0, 0.0)
    loop: Literal["open", "closed"] = "open"
    dense: NonNegativeInt = 0
    range_tokens: PositiveInt = 1
    dtype: Dtype = "float32"
    seed: NonNegativeInt = 0

    @property
    def decided(self) -> TokenRule:
        """The comparison that decides for each token.

        Raises:
            ValueError: Whole forwards decide.
        """
        if self.source == "forward":
            raise ValueError("whole forwards decide")
        return TokenRule(float(self.tau), TOKEN_RULES[self.source], self.source)

    @model_validator(mode="after")
    def _fits_the_source(self) -> Self:
        if self.source == "forward" and self.range_tokens != 1:
            raise ValueError("range_tokens is of tokens: leave it out, or take another source")
        if self.source == "forward" and self.loop == "closed":
            raise ValueError("whole forwards decide in an open loop alone: say loop: open")
        if self.source != "forward" and self.polynomial != (1.0, 0.0):
            raise ValueError("polynomial is of whole forwards: leave it out, or say source forward")
        return self

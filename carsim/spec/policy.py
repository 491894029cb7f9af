"""The policy: what is skipped, what is attended to, who computes what."""

from typing import Annotated, Literal

from pydantic import Field

from carsim.spec.base import NonNegativeInt, PositiveInt, Section

Schedule = Literal["static", "drs", "pack"]
DecisionScope = Literal["row", "pair", "batch"]
FiniteFloat = Annotated[float, Field(allow_inf_nan=False)]


class DenseAttention(Section):
    """Every token attends to all earlier ones."""

    kind: Literal["dense"] = "dense"

    def attended(self, context: int) -> int:
        """Tokens that one query reads, itself included."""
        return context


class StreamingAttention(Section):
    """StreamingLLM: attention sinks and a local window that includes the current token."""

    kind: Literal["streaming"] = "streaming"
    sinks: NonNegativeInt = 4
    window: PositiveInt = 256

    def attended(self, context: int) -> int:
        """Tokens that one query reads, itself included."""
        return min(context, self.sinks + self.window)


Attention = Annotated[DenseAttention | StreamingAttention, Field(discriminator="kind")]


class Policy(Section):
    """How a batch is decoded."""

    batch: PositiveInt = Field(description="sequences in lockstep; guidance pairs count as two")
    tau: Literal["captured"] | FiniteFloat | tuple[FiniteFloat, ...] = Field(
        "captured",
        description="replay threshold: the trace's own, or one (or one per layer) at which its "
        "stored scores are thresholded again (open loop)",
    )
    schedule: Schedule = Field("drs", description="who computes the sequences that do not replay")
    decision_scope: DecisionScope = "row"
    attention: Attention = DenseAttention()
    sparse_attention: StreamingAttention = Field(
        StreamingAttention(), description="the sparse alternative that a run compares with"
    )

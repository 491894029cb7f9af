"""In a decoder, attention and MLP follow decisions of their own."""

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from carsim.base.section import FieldError
from carsim.program.program import TOKEN, Layer, skip
from carsim.program.skips.base import Skip


class SkipByDecision(Skip):
    """Attention and MLP of a decoder, each by a decision that a trace has under its name.

    Keys and values of every token are computed and cached, as later tokens read them. The outputs
    of projection and MLP are held apart: d elements each. The decision about attention must be
    known at the query (``machine.decision_at: q``). Where both decisions are made by equal rules in
    one block, the score is computed once.
    """

    label: ClassVar[str] = "attention and MLP apart"

    kind: Literal["by_decision"] = "by_decision"
    attention: str | None = Field(
        "attention",
        description="decision by which rows skip attention and its projection; null: none does",
    )
    mlp: str | None = Field(TOKEN, description="decision by which rows skip the MLP; null: none")

    @model_validator(mode="after")
    def _skips_something(self) -> Self:
        if self.attention is None and self.mlp is None:
            raise FieldError("mlp", "is null, and so is attention", "name a decision")
        return self

    def mark(self, layer: Layer, number: int) -> Layer:
        """Mark attention with its output projection, and the MLP."""
        marked = layer
        if self.attention is not None:
            marked = skip(marked, "attention", "output", holds=["output"], decision=self.attention)
        if self.mlp is not None:
            marked = skip(marked, "mlp", holds=["mlp"], decision=self.mlp)
        return marked

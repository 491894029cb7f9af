"""Rows that replay leave out attention as well as the MLP."""

from typing import ClassVar, Literal

from carsim.program.program import Layer, skip
from carsim.program.skips.base import Skip


class SkipAttentionToo(Skip):
    """Attention, its output projection, and the MLP.

    Keys and values of every token are computed and cached, as later tokens read them. Two outputs
    are held for each place, of the projection and of the MLP: 2 d elements. The decision must be
    known at the query (``machine.decision_at: q``).
    """

    label: ClassVar[str] = "attention and MLP"

    kind: Literal["attention_too"] = "attention_too"

    def mark(self, layer: Layer, number: int) -> Layer:
        """Mark all blocks behind the projections."""
        return skip(layer, "attention", "output", "mlp", holds=["output", "mlp"])

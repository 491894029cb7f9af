"""Rows that replay leave out attention, and compute the MLP."""

from typing import ClassVar, Literal

from carsim.program.program import Layer, skip
from carsim.program.skips.base import Skip


class SkipAttention(Skip):
    """Attention and its output projection. The MLP is computed by all rows.

    Keys and values of every token are computed and cached, as later tokens read them. The output of
    the projection is held for each place: d elements. The decision must be known at the query
    (``machine.decision_at: q``).
    """

    label: ClassVar[str] = "attention"

    kind: Literal["attention"] = "attention"

    def mark(self, layer: Layer, number: int) -> Layer:
        """Mark attention and output projection."""
        return skip(layer, "attention", "output", holds=["output"])

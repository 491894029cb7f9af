"""FastCar: rows that replay leave out the MLP."""

from typing import ClassVar, Literal

from carsim.program.program import Layer, skip
from carsim.program.skips.base import Skip


class SkipMlp(Skip):
    """The MLP. Its output is held for each place of a frame: d elements."""

    label: ClassVar[str] = "MLP"

    kind: Literal["mlp"] = "mlp"

    def mark(self, layer: Layer, number: int) -> Layer:
        """Mark the MLP."""
        return skip(layer, "mlp", holds=["mlp"])

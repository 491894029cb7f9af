"""Rows that replay leave out the whole layer."""

from dataclasses import replace
from typing import ClassVar, Literal

from carsim.program.program import TOKEN, Layer
from carsim.program.skips.base import Skip


class SkipLayer(Skip):
    """All blocks of the layer. One output is held for each place, that of the layer: d elements.

    Simplifications: the decision is known before the layer. What decides is not modelled: no score
    is computed, and the dispatcher begins with the layer. No keys and values are computed for a
    token that skips the layer. The entries of its place in the previous frame stand for them, which
    moves no bytes; attention of later tokens reads as many tokens as before.
    """

    label: ClassVar[str] = "whole layer"
    decides_before: ClassVar[bool] = True

    kind: Literal["layer"] = "layer"

    def mark(self, layer: Layer, number: int) -> Layer:
        """Mark every block; the last one holds the output of the layer."""
        last = layer[-1]
        return tuple(replace(block, follows=TOKEN, holds=block is last) for block in layer)

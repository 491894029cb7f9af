"""Forwards that reuse an earlier one leave out all layers, and add what each module put out."""

from typing import ClassVar, Literal

from carsim.program.diffusion import ForwardBlock
from carsim.program.program import Layer, skip
from carsim.program.skips.base import Skip

MODULE_ENDS = ("output", "cross", "mlp")
"""Blocks that end in the residual: of self-attention, cross-attention and MLP."""


class SkipEveryModule(Skip):
    """All modules of a layer. The outputs of attention, cross-attention and MLP are held apart.

    It is what FORA (arXiv 2407.01425) does across denoising steps: each module of each layer holds
    an output for all tokens. Embeddings before the first layer, and what follows the last, are
    computed. In a decoder, a row leaves out the whole layer, and adds both of its outputs.

    Simplification: a forward in which all rows reuse an earlier one reads, adds and writes each
    output by itself.
    """

    label: ClassVar[str] = "every module"
    decides_before: ClassVar[bool] = True

    kind: Literal["every_module"] = "every_module"

    def mark(self, layer: Layer, number: int) -> Layer:
        """Mark all blocks but those around the layers; those that end in the residual hold."""
        names = names_within(layer)
        return skip(layer, *names, holds=[name for name in names if name in MODULE_ENDS])


def names_within(layer: Layer) -> list[str]:
    """Names of the blocks of a layer without those before the first and behind the last layer."""
    around = ("enter", "refiner", "leave", "convolution")
    return [
        block.name
        for block in layer
        if not (isinstance(block, ForwardBlock) and block.name in around)
    ]

"""Forwards that reuse an earlier one leave out all layers, and add what they did together."""

from typing import ClassVar, Literal

from pydantic import Field

from carsim.program.diffusion import ForwardBlock
from carsim.program.program import Layer, skip
from carsim.program.skips.base import Skip
from carsim.program.skips.every_module import names_within


class SkipAllLayers(Skip):
    """All layers of a network. One output is held, that of the last layer less what entered.

    It is what TeaCache (arXiv 2411.19108) and MagCache do across denoising steps. Embeddings before
    the first layer, and what follows the last, are computed. The score compares what enters the
    first layer with that of the last forward: one read and one write of all tokens in each forward.
    In a decoder, each layer holds its output for itself, as there is no last one for all tokens.
    """

    label: ClassVar[str] = "all layers"
    decides_before: ClassVar[bool] = True
    of_whole_forwards: ClassVar[bool] = True
    later: ClassVar[frozenset[str]] = frozenset({"scored"})

    kind: Literal["all_layers"] = "all_layers"
    scored: bool = Field(
        True, description="each forward compares what enters it with that of the last one"
    )

    @property
    def compares_forwards(self) -> bool:
        """Each forward is compared with the last one."""
        return self.scored

    def mark(self, layer: Layer, number: int) -> Layer:
        """Mark all blocks but those around the layers; the last of the last layer holds."""
        names = names_within(layer)
        of_decoder = not any(isinstance(block, ForwardBlock) for block in layer)
        is_last = layer[-1].name == "leave"
        return skip(layer, *names, holds=names[-1:] if of_decoder or is_last else [])

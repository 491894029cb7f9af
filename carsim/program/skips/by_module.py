"""Self-attention, cross-attention and MLP follow decisions of their own."""

from typing import ClassVar, Literal

from carsim.program.diffusion import ForwardBlock
from carsim.program.program import TOKEN, Layer, skip
from carsim.program.skips.base import Skip

SELF_ATTENTION = ("qkv", "attention", "output")

CROSS = "cross"
"""The decision of cross-attention, and the name of its block."""

MLP = "mlp"
"""The decision of the MLP, and the name of its block."""


class SkipByModule(Skip):
    """Modules that change little from step to step are reused longer than others.

    It is what Pyramid Attention Broadcast (arXiv 2408.12588) does: a workload says
    ``every=2,cross_every=5,mlp_every=3``. Self-attention follows the decision of the trace,
    cross-attention the one named ``cross``, the MLP the one named ``mlp``; a module whose decision
    a trace lacks computes always. The output of each module is held for all tokens. Where
    attention and MLP have their products together (FLUX), both follow the decision of the trace.
    In a decoder, self-attention and MLP follow the decision of the trace.
    """

    label: ClassVar[str] = "modules"
    decides_before: ClassVar[bool] = True

    kind: Literal["by_module"] = "by_module"

    def mark(self, layer: Layer, number: int) -> Layer:
        """Mark each module with its own decision."""
        if not any(isinstance(block, ForwardBlock) for block in layer):
            return skip(layer, *SELF_ATTENTION, MLP, holds=["output", MLP])
        marked = skip(layer, *SELF_ATTENTION, holds=["output"], decision=TOKEN)
        for name in (CROSS, MLP):
            if name in [block.name for block in layer]:
                marked = skip(marked, name, holds=[name], decision=name)
        return marked

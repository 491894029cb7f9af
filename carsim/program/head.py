"""A pass of the head as a block."""

from dataclasses import dataclass
from typing import ClassVar

from carsim.program.block import Block, OpsOf
from carsim.program.reads import Reads
from carsim.workload.head import HeadStep, head_op
from carsim.workload.model import Model
from carsim.workload.ops import Op, Share


@dataclass(frozen=True)
class Head(Block):
    """One of the passes of the head, each of which depends on the one before.

    What it reads are the codes of a position, whose keys and values stay on chip.

    Attributes:
        steps: Products of the pass, and attention over codes.
    """

    name: ClassVar[str] = "head"
    title: ClassVar[str] = "head"

    steps: tuple[HeadStep, ...] = ()

    def operations(self, model: Model, reads: Reads | None) -> OpsOf:
        """Operations of the pass, given how many codes its attention reads."""
        assert reads is not None
        codes = reads.attended[:, None]

        def operations(share: Share) -> list[Op]:
            return [head_op(model, step, share, codes) for step in self.steps]

        return operations

"""What a mapping is: which matrices are split over the cores, and which stay whole on one."""

from abc import ABC
from typing import ClassVar


class Mapping(ABC):
    """How the work of a layer-step is laid over the cores.

    A split matrix is cut by columns: every core computes its columns for all sequences, in lockstep
    with the others, and the results are gathered. A whole matrix is executed by one core for the
    sequences that it owns.

    To add one: a file with a subclass, and a line in ``carsim.hardware.mapping.MAPPINGS``.
    """

    kind: ClassVar[str]
    """Name in YAML: ``machine.mapping``."""
    splits_attention: ClassVar[bool] = False
    """Attention and its projections are split by heads."""
    splits_mlp: ClassVar[bool] = False
    """MLPs, the head and the prompt are split by columns."""
    splits_remainder: ClassVar[bool] = False
    """Sequences left over after whole rounds over the cores are split by columns over all cores."""

    @property
    def needs_broadcast(self) -> bool:
        """Each core owns its columns, so that private copies of the weights mean nothing."""
        return self.splits_attention or self.splits_mlp or self.splits_remainder

"""What a machine did, in the units that energy and reports need."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Activity:
    """Totals of a piece of work; time in fabric cycles.

    Attributes:
        cycles: Elapsed fabric cycles.
        macs: Multiply-accumulates executed.
        vector_ops: Element operations of the vector units.
        sram_bytes: Bytes read from and written to on-chip buffers.
        dram_bytes: Bytes moved, reads and writes, by name of memory.
    """

    cycles: int = 0
    macs: int = 0
    vector_ops: int = 0
    sram_bytes: int = 0
    dram_bytes: Mapping[str, int] = field(default_factory=dict)

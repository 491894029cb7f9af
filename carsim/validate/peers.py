"""Rules by which other simulators charge a matrix product on a 32 x 32 array.

On the very same product their cycles differ ninefold, because each charges something else for
bringing weights into the array. Nothing in a rule depends on the row that is compared, but a rule
is known only for what the peer was run on: few rows of activations (``Peer.measured_rows``).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from carsim.base.files import packaged_rows
from carsim.hardware.machine import WeightLoad
from carsim.machine.product import Supply


@dataclass(frozen=True)
class Peer:
    """A simulator that a user might pick instead, and its rule.

    Attributes:
        name: As the data name it.
        title: Its name as its authors write it.
        weight_load: What it costs to bring a tile of weights into the array.
        supply: How operands reach the array.
        bound: Largest relative difference that counts as the same rule.
    """

    name: str
    title: str
    weight_load: WeightLoad
    supply: Supply
    bound: float = 0.02

    @property
    def charges(self) -> str:
        """The rule in words."""
        return _CHARGES[self.name]

    @cached_property
    def measured_rows(self) -> frozenset[int]:
        """Rows of activations (M) that the peer was run with."""
        rows = [*data_rows("peers.csv"), *data_rows("scalesim.csv")]
        return frozenset(int(row["m"]) for row in rows if row.get("peer", "scalesim") == self.name)


def data_rows(name: str) -> list[dict[str, str]]:
    """The rows of a CSV file in ``carsim/validate/data``, by column."""
    return packaged_rows("carsim.validate", f"data/{name}")


DDR4_BYTES_PER_CYCLE = Fraction(96)
"""A channel of DDR4-2400, 19.2 GB/s at 200 MHz: the 768 bit per cycle of the peers' set-ups."""

_CHARGES = {
    "zigzag": "weights, activations and results at the memory's rate; nothing for the array",
    "llmcompass": "as ZigZag; at m = 8 this rule is wrong, 47 to 69 % off",
    "accelforge": "as ZigZag, or what the on-chip buffer's port carries if that is longer",
    "scalesim": "every tile loads, streams and drains before the next; half a buffer is filled "
    "before and emptied after",
    "onnxim": "a tile is loaded row by row while the one before works: 32 cycles each at least",
}
_DDR4 = Supply(DDR4_BYTES_PER_CYCLE)
# Inferred, not documented: M = 8 takes exactly the cycles of 128 bytes per cycle.
_DDR4_BY_PORT = Supply(DDR4_BYTES_PER_CYCLE, port_bytes_per_cycle=128)
# Memory is as fast as the array asks (CALC), but for the first filling, which comes at 10 words per
# cycle (``single_layer_sim.py``).
_FILLED = Supply(buffer_bytes=256 * 1024, fill_bytes_per_cycle=10)
_RULES = (
    Peer("zigzag", "ZigZag", "none", _DDR4),
    Peer("llmcompass", "LLMCompass", "none", _DDR4),
    Peer("accelforge", "AccelForge", "none", _DDR4_BY_PORT),
    Peer("scalesim", "SCALE-Sim", "full_fold", _FILLED),
    Peer("onnxim", "ONNXim", "rows", _DDR4, bound=0.05),
)

PEERS: Mapping[str, Peer] = {peer.name: peer for peer in _RULES}
"""Peer -> its rule, by its name in the data."""

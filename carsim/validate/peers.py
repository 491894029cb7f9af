"""What other simulators charge for a matrix product on a 32 x 32 array, as rules that have names.

On the very same product their cycles differ ninefold, because each charges something else for
bringing weights into the array. A rule holds for every product of a peer; nothing depends on the
row that is compared.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from carsim.design.machine import WeightLoad
from carsim.machine.product import Supply


@dataclass(frozen=True)
class Peer:
    """A simulator that a user might pick instead, and its rule.

    Attributes:
        title: Its name as its authors write it.
        weight_load: What it costs to bring a tile of weights into the array.
        supply: How operands reach the array.
        charges: The rule in words.
        bound: Largest relative difference that counts as the same rule.
    """

    title: str
    weight_load: WeightLoad
    supply: Supply
    charges: str
    bound: float = 0.02


DDR4_BYTES_PER_CYCLE = Fraction(96)
"""A channel of DDR4-2400, 19.2 GB/s at 200 MHz: the 768 bit per cycle of the peers' set-ups."""

PEERS: Mapping[str, Peer] = MappingProxyType(
    {
        "zigzag": Peer(
            "ZigZag",
            "none",
            Supply(DDR4_BYTES_PER_CYCLE),
            "weights, activations and results at the memory's rate; nothing for the array",
        ),
        "llmcompass": Peer(
            "LLMCompass",
            "none",
            Supply(DDR4_BYTES_PER_CYCLE),
            "as ZigZag",
        ),
        "accelforge": Peer(
            "AccelForge",
            "none",
            # Inferred, not documented: M = 8 takes exactly the cycles of 128 bytes per cycle.
            Supply(DDR4_BYTES_PER_CYCLE, port_bytes_per_cycle=128),
            "as ZigZag, or what the on-chip buffer's port carries if that is longer",
        ),
        "scalesim": Peer(
            "SCALE-Sim",
            "full_fold",
            # Memory is as fast as the array asks (CALC), but for the first filling, which comes at
            # 10 words per cycle (``single_layer_sim.py``).
            Supply(buffer_bytes=256 * 1024, fill_bytes_per_cycle=10),
            "every tile loads, streams and drains before the next; half a buffer is filled before "
            "and emptied after",
        ),
        "onnxim": Peer(
            "ONNXim",
            "rows",
            Supply(DDR4_BYTES_PER_CYCLE),
            "a tile is loaded row by row while the one before works: 32 cycles each at least",
            bound=0.05,
        ),
    }
)
"""Peer -> its rule, by the name that ``carsim array --peer`` takes."""

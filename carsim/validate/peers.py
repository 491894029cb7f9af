"""Rules by which other simulators charge a matrix product on a 32 x 32 array.

On the very same product their cycles differ ninefold, because each charges something else for
bringing weights into the array. Nothing in a rule depends on the row that is compared, but a rule
is known only for what the peer was run on: the few rows of activations in ``data/peers.csv``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from carsim.base.files import packaged_rows
from carsim.hardware.machine import WeightLoad
from carsim.validate.product import Supply


@dataclass(frozen=True)
class Peer:
    """A simulator that a user might pick instead, and its rule.

    Attributes:
        title: Its name as its authors write it.
        weight_load: What it costs to bring a tile of weights into the array.
        supply: How operands reach the array.
        bound: Largest relative difference that counts as the same rule.
    """

    title: str
    weight_load: WeightLoad
    supply: Supply
    bound: float = 0.02


def data_rows(name: str) -> list[dict[str, str]]:
    """The rows of a CSV file in ``carsim/validate/data``, by column."""
    return packaged_rows("carsim.validate", f"data/{name}")


@cache
def published(paper: str, what: str) -> float:
    """A figure that a paper on diffusion states, from ``data/diffusion_published.csv``.

    Args:
        paper: Name of the paper's method.
        what: Name of the figure.

    Raises:
        ValueError: The file has no such figure.
    """
    for row in data_rows("diffusion_published.csv"):
        if (row["paper"], row["what"]) == (paper, what):
            return float(row["value"])
    raise ValueError(f"{paper} states no {what}")


DDR4_BYTES_PER_CYCLE = Fraction(96)
"""A channel of DDR4-2400, 19.2 GB/s at 200 MHz: the 768 bit per cycle of the peers' set-ups."""

_DDR4 = Supply(DDR4_BYTES_PER_CYCLE)
# Inferred, not documented: M = 8 takes exactly the cycles of 128 bytes per cycle.
_DDR4_BY_PORT = Supply(DDR4_BYTES_PER_CYCLE, port_bytes_per_cycle=128)
# Memory is as fast as the array asks (CALC), but for the first filling, which comes at 10 words per
# cycle (``single_layer_sim.py``).
_FILLED = Supply(buffer_bytes=256 * 1024, fill_bytes_per_cycle=10)

PEERS: Mapping[str, Peer] = {
    "zigzag": Peer("ZigZag", "none", _DDR4),
    "llmcompass": Peer("LLMCompass", "none", _DDR4),
    "accelforge": Peer("AccelForge", "none", _DDR4_BY_PORT),
    "scalesim": Peer("SCALE-Sim", "full_fold", _FILLED),
    "onnxim": Peer("ONNXim", "rows", _DDR4, bound=0.05),
}
"""Peer -> its rule, by its name in the data; docs/reference/validation.md explains the rules."""

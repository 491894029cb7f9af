"""The compute array against what other simulators count: ``carsim validate array``.

Two tables. ``data/peers.csv``: decode matrices of one layer of LLaMA-2-7B, int8, on 32 x 32 arrays,
counted by running each tool; each row is reproduced by the rule of its tool
(:mod:`carsim.validate.peers`), ONNXim's whole layers by carsim's simulator with its DRAM model
(:mod:`carsim.validate.onnxim`). ``data/scalesim.csv``: 210 small products of SCALE-Sim 3 in three
dataflows; ``studies/array/scalesim_cycles.py`` remakes it.

The naive rival says bytes over bandwidth, at the 96 bytes per cycle of a DDR4-2400 channel at
200 MHz; against ``scalesim.csv`` at the 10 words per cycle of SCALE-Sim's interface.

What is left, and why. SCALE-Sim counts cycles from 0 (one less everywhere), cuts its buffers into
100 sets of whole words (3 cycles of the first filling), and starts to empty results in the last
cycle of the array, sometimes with a line that is not full (0 or 1 cycle): 4 or 5 in millions.
ZigZag's cycles grow with n as if a result were three bytes (0.1 %). ONNXim on four cores reaches
94.2 % of the peak where carsim derives 94.9 %, and moves 1.6 % more bytes. AccelForge's row of
M = 8 set the width of its port: it is explained, not predicted.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from importlib.resources import files

from carsim.design import Array
from carsim.machine.product import Supply, product
from carsim.validate.onnxim import ATTENDED_TOKENS, onnxim_layer_cycles
from carsim.validate.peers import DDR4_BYTES_PER_CYCLE, PEERS
from carsim.workload.ops import Gemm

HIDDEN, FFN = 4096, 11008
"""Width and feed-forward width of LLaMA-2-7B."""

SCALESIM_WORDS_PER_CYCLE = Fraction(10)

Shape = tuple[int, int]
"""(k, n) of an operand."""

WORKS: Mapping[str, tuple[Shape, ...]] = {
    "4096x4096": ((HIDDEN, HIDDEN),),
    "4096x11008": ((HIDDEN, FFN),),
    "layer": 4 * ((HIDDEN, HIDDEN),) + 2 * ((HIDDEN, FFN),) + ((FFN, HIDDEN),),
}
LAYER_WITH_ATTENTION = f"layer with attention over {ATTENDED_TOKENS} tokens"


@dataclass(frozen=True)
class Check:
    """One figure of another simulator beside carsim's and the naive rival's; all in cycles.

    Attributes:
        peer: Who counted.
        work: What was counted.
        carsim_cycles: What carsim says.
        reference_cycles: What the peer says.
        null_cycles: Bytes over bandwidth.
        bound: Largest relative difference that is allowed; 0 is equality.
    """

    peer: str
    work: str
    carsim_cycles: int
    reference_cycles: int
    null_cycles: int
    bound: float

    @property
    def error(self) -> float:
        """Of carsim, relative to the reference."""
        return self.carsim_cycles / self.reference_cycles - 1

    @property
    def null_error(self) -> float:
        """Of the naive rival, relative to the reference."""
        return self.null_cycles / self.reference_cycles - 1

    @property
    def beats_null(self) -> bool:
        """Whether carsim is nearer than the naive rival."""
        return abs(self.error) < abs(self.null_error)

    @property
    def holds(self) -> bool:
        """Whether carsim stays within the bound."""
        return abs(self.error) <= self.bound


@dataclass(frozen=True)
class ArrayReport:
    """Every figure that the array is held against.

    Attributes:
        peers: Rows of ``data/peers.csv``, in their order.
        products: Rows of ``data/scalesim.csv``, in their order; cycles counted from 1.
    """

    peers: tuple[Check, ...]
    products: tuple[Check, ...]

    @property
    def checks(self) -> tuple[Check, ...]:
        """All of them."""
        return self.peers + self.products

    @property
    def passes(self) -> bool:
        """Whether every figure stays within its bound."""
        return all(check.holds for check in self.checks)


def validate_array() -> ArrayReport:
    """Compare the array with everything that others counted."""
    return ArrayReport(
        peers=tuple(_peer_check(row) for row in _rows("peers.csv")),
        products=tuple(_product_check(row) for row in _rows("scalesim.csv")),
    )


def _peer_check(row: Mapping[str, str]) -> Check:
    peer = PEERS[row["peer"]]
    m, cores = int(row["m"]), int(row["cores"])
    shapes = WORKS["layer" if row["work"] == LAYER_WITH_ATTENTION else row["work"]]
    array = _array(32, 32, row["dataflow"], peer.weight_load)
    if row["work"] == LAYER_WITH_ATTENTION:
        cycles = onnxim_layer_cycles(cores)
        kv_bytes = 2 * ATTENDED_TOKENS * HIDDEN
    else:
        cycles = sum(product(array, Gemm(m, k, n), peer.supply).total_cycles for k, n in shapes)
        kv_bytes = 0
    nbytes = kv_bytes + sum(product(array, Gemm(m, k, n), Supply()).moved_bytes for k, n in shapes)
    setting = f"m={m}, {row['dataflow'].replace('_', ' ')}"
    if cores > 1:
        setting += f", {cores} cores"
    return Check(
        peer=peer.title,
        work=f"{row['work']}, {setting}",
        carsim_cycles=cycles,
        reference_cycles=int(row["cycles"]),
        null_cycles=-(-nbytes // DDR4_BYTES_PER_CYCLE),
        bound=peer.bound,
    )


def _product_check(row: Mapping[str, str]) -> Check:
    rows, cols = int(row["rows"]), int(row["cols"])
    gemm = Gemm(int(row["m"]), int(row["k"]), int(row["n"]))
    array = _array(rows, cols, row["dataflow"], "full_fold")
    counted = product(array, gemm, Supply(SCALESIM_WORDS_PER_CYCLE))
    return Check(
        peer=f"SCALE-Sim, {row['dataflow'].replace('_', ' ')}",
        work=f"{gemm.m} x {gemm.k} x {gemm.n} on {rows} x {cols}",
        carsim_cycles=counted.compute_cycles,
        reference_cycles=int(row["total_cycles"]) + 1,
        null_cycles=counted.memory_cycles,
        bound=0.0,
    )


def _array(rows: int, cols: int, dataflow: str, weight_load: str) -> Array:
    return Array.model_validate(
        {"rows": rows, "cols": cols, "dataflow": dataflow, "weight_load": weight_load}
    )


def _rows(name: str) -> list[dict[str, str]]:
    text = files("carsim.validate").joinpath("data", name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))

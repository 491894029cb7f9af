"""The compute array against what other simulators count.

``data/peers.csv``: decode matrices of one layer of LLaMA-2-7B, int8, on 32 x 32 arrays, counted by
running each tool; each row is reproduced by the rule of its tool (:mod:`carsim.validate.peers`),
ONNXim's whole layers by carsim's machine with its DRAM model (``data/onnxim.yaml``).
``data/scalesim.csv``: 210 small products of SCALE-Sim 3 in three dataflows;
docs/reference/validation.md says how it was counted.

The baseline says bytes over bandwidth, at the 96 bytes per cycle of a DDR4-2400 channel at
200 MHz; against ``scalesim.csv`` at the 10 words per cycle of SCALE-Sim's interface.

What is left, and why. SCALE-Sim counts cycles from 0 (one less everywhere), cuts its buffers into
100 sets of whole words (3 cycles of the first filling), and starts to empty results in the last
cycle of the array, sometimes with a line that is not full (0 or 1 cycle): 4 or 5 in millions.
ZigZag's cycles grow with n as if a result were three bytes (0.1 %). ONNXim on four cores reaches
94.2 % of the peak where carsim derives 94.9 %, and moves 1.6 % more bytes. AccelForge's row of
M = 8 set the width of its port: it is explained, not predicted.
"""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from importlib.resources import as_file, files

from carsim.base.groups import grouped
from carsim.design import load_design
from carsim.hardware.machine import Array
from carsim.metrics.comparison import Comparison
from carsim.runs.decode import decode
from carsim.validate.part import Group, Part
from carsim.validate.peers import DDR4_BYTES_PER_CYCLE, PEERS, data_rows
from carsim.validate.product import Supply, product
from carsim.workload.ops import Gemm

HIDDEN = 4096
"""Width of LLaMA-2-7B."""

FFN = 11008
"""Feed-forward width of LLaMA-2-7B."""

SCALESIM_WORDS_PER_CYCLE = Fraction(10)

WORKS: Mapping[str, tuple[tuple[int, int], ...]] = {
    "4096x4096": ((HIDDEN, HIDDEN),),
    "4096x11008": ((HIDDEN, FFN),),
    "layer": 4 * ((HIDDEN, HIDDEN),) + 2 * ((HIDDEN, FFN),) + ((FFN, HIDDEN),),
}
"""Work -> (k, n) of its weights."""

ATTENDED_TOKENS = 17
"""Context of the layers that ONNXim simulated, the current token included."""

LAYER_WITH_ATTENTION = f"layer with attention over {ATTENDED_TOKENS} tokens"

NULL = "bytes over bandwidth"


def validate_array(progress: Callable[[str], None] = lambda _: None) -> Part:
    """Compare the array with everything that others counted, in cycles.

    Args:
        progress: Told what is being compared.
    """
    progress("products and layers of other simulators")
    rows = ((_words(row["dataflow"]), _small_product(row)) for row in data_rows("scalesim.csv"))
    of_peers = tuple(map(_peer_row, data_rows("peers.csv")))
    groups = [Group("decode matrices of LLaMA-2-7B on 32 x 32", of_peers, NULL)]
    for dataflow, small in grouped(rows).items():
        bounds = {"worst": 0.0}
        groups.append(Group(f"SCALE-Sim, {dataflow}", tuple(small), NULL, bounds, shown=False))
    notes = (
        "Baseline: all bytes once, over the bandwidth of the memory. It is the peer's own rule for "
        "one row of activations on ZigZag, LLMCompass and AccelForge.",
    )
    title = "Compute array, int8, in cycles that other simulators count"
    return Part("array", title, tuple(groups), notes)


def onnxim_layer_cycles(cores: int, overrides: Sequence[str] = ()) -> int:
    """Cycles of the layer that ONNXim simulated, for one token, attention included.

    What ONNXim charges is in the design ``data/onnxim.yaml``: a systolic array that holds weights
    and shifts the next tile in behind the present one, row by row, and one DDR4 channel behind it.
    Each core works on its share of the columns of every matrix. Nothing in the design was fitted to
    ONNXim's cycles. What the comparison does not tell of ONNXim's set-up (sizes of buffers and
    tiles, vector units, latency of the interconnect) moves the result by less than 0.1 %.

    Args:
        cores: Arrays of 32 x 32 that share the DDR4 channel.
        overrides: Changes to the design, such as ``machine.tile_kib=16``.
    """
    with as_file(files("carsim.validate").joinpath("data", "onnxim.yaml")) as path:
        design = load_design(str(path), [f"machine.cores={cores}", *overrides])
    return round(decode(design, ATTENDED_TOKENS).cycles_per_step)


def _peer_row(row: Mapping[str, str]) -> Comparison:
    """Cycles of a row of ``data/peers.csv``: by the peer, by carsim, and of its bytes alone."""
    peer = PEERS[row["peer"]]
    m = int(row["m"])
    cores = int(row["cores"])
    has_attention = row["work"] == LAYER_WITH_ATTENTION
    shapes = WORKS["layer" if has_attention else row["work"]]
    gemms = [Gemm(m, k, n) for k, n in shapes]
    array = _array(32, 32, row["dataflow"], peer.weight_load)
    moved_bytes = sum(product(array, gemm, Supply()).moved_bytes for gemm in gemms)
    if has_attention:
        cycles = onnxim_layer_cycles(cores)
        moved_bytes += 2 * ATTENDED_TOKENS * HIDDEN  # keys and values
    else:
        cycles = sum(product(array, gemm, peer.supply).total_cycles for gemm in gemms)
    core_text = f", {cores} cores" if cores > 1 else ""
    return Comparison(
        f"{peer.title}: {row['work']}, m={m}, {_words(row['dataflow'])}{core_text}",
        int(row["cycles"]),
        ours=cycles,
        rival=-(-moved_bytes // DDR4_BYTES_PER_CYCLE),
        bound=peer.bound,
        source=f"{peer.title} {row['version']}, {row['setup']}",
        unit="cycles",
        note=row["note"],
    )


def _small_product(row: Mapping[str, str]) -> Comparison:
    """Cycles of a row of ``data/scalesim.csv``: by SCALE-Sim, by carsim, and of its bytes alone."""
    rows = int(row["rows"])
    cols = int(row["cols"])
    gemm = Gemm(int(row["m"]), int(row["k"]), int(row["n"]))
    array = _array(rows, cols, row["dataflow"], PEERS["scalesim"].weight_load)
    cost = product(array, gemm, Supply(SCALESIM_WORDS_PER_CYCLE))
    return Comparison(
        f"{gemm.m} x {gemm.k} x {gemm.n} on {rows} x {cols}",
        int(row["total_cycles"]) + 1,
        ours=cost.compute_cycles,
        rival=cost.memory_cycles,
        bound=0.0,
        source="SCALE-Sim 3.0.0, cycles counted from 1",
        unit="cycles",
    )


def _words(dataflow: str) -> str:
    """A dataflow without underscores."""
    return dataflow.replace("_", " ")


def _array(rows: int, cols: int, dataflow: str, weight_load: str) -> Array:
    """An int8 array; its other fields are those of a design that leaves them out."""
    return Array.model_validate(
        {"rows": rows, "cols": cols, "dataflow": dataflow, "weight_load": weight_load}
    )

"""What a layer-step, a head or a prefill asks of a core, without saying how long it takes.

An :class:`Op` is a stretch of work that one core does for its sequences: matrix products whose
operands stream in (weights, or K and V), element operations, and bytes. All figures are for one
core; a machine of several cores runs one list of ops on each.

Simplifications: element operations are counted per element
(:mod:`carsim.workload.elements`). Embedding look-ups (one row per token) and RQ-VAE pixel decoding
are left out.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from carsim.workload.body import Product
from carsim.workload.elements import BIAS_OPS, logarithms
from carsim.workload.model import BIAS_BYTES, Model


class Category(IntEnum):
    """Where time goes; every cycle of a run belongs to exactly one of these."""

    QKV = 0
    ATTENTION = 1
    OUTPUT = 2
    MLP = 3
    REPLAY = 4
    DRS = 5
    HEAD = 6
    WAIT_DDR = 7
    WAIT_CORE = 8
    HOST = 9


CATEGORY_LABELS = (
    "QKV projection",
    "attention",
    "output projection",
    "MLP",
    "replay",
    "DRS",
    "head",
    "waiting for DDR",
    "waiting for a core",
    "kernel launch and host",
)


class Stream(IntEnum):
    """Which operand of an op comes from memory; each has its place in the board's memories."""

    NONE = 0
    WEIGHTS = 1
    KV = 2
    HEAD = 3


Count = Any
"""A whole number, or an int64 array with a number for each phase and core.

Everything in this module is arithmetic, so that one call serves many phases that differ in how many
sequences a core has or in how many tokens they attend to.
"""


class Gemm(NamedTuple):
    """``copies`` products of an ``m x k`` activation block with a ``k x n`` operand."""

    m: Count
    k: Count
    n: Count
    copies: Count = 1

    @property
    def macs(self) -> Count:
        """Multiply-accumulates of all copies."""
        return self.m * self.k * self.n * self.copies


class Op(NamedTuple):
    """A stretch of one core's work.

    Attributes:
        category: Category of its time.
        gemms: Matrix products, executed one after the other on the array.
        vector_ops: Element operations that run beside the array, pipelined with it.
        serial_vector_ops: Element operations that must be over before the array starts (norms).
        stream: Which operand streams in from memory.
        stream_bytes: Bytes of that operand.
        replay_bytes: Bytes read from or written to the memory of the replay cache.
        kv_side_bytes: Bytes of K and V written, or of a scored key read, beside the stream.
        gathered_elements: Activations that all cores need next, if each computed its columns.
        scan_cycles: Serial cycles before the array may start.
        held_back: The operand is asked for after them, as it is not known before what it is.
    """

    category: Category
    gemms: tuple[Gemm, ...] = ()
    vector_ops: Count = 0
    serial_vector_ops: Count = 0
    stream: Stream = Stream.NONE
    stream_bytes: Count = 0
    replay_bytes: Count = 0
    kv_side_bytes: Count = 0
    gathered_elements: Count = 0
    scan_cycles: Count = 0
    held_back: bool = False

    @property
    def macs(self) -> Count:
        """Multiply-accumulates of the op."""
        return sum([gemm.macs for gemm in self.gemms])


class Share(NamedTuple):
    """The share of a phase that one core works on.

    Where matrices are not split, a core holds them whole (``of`` = 1); where they are, each of
    ``of`` cores holds every ``of``-th column, and the core with the largest share sets the pace.

    Attributes:
        rows: Sequences.
        of: Cores that share every matrix.
        streams: How often the weights are streamed to this core.
        tokens: Tokens of each sequence, more than one in a prompt.
    """

    rows: Count
    of: int = 1
    streams: Count = 1
    tokens: int = 1

    @property
    def m(self) -> Count:
        """Tokens of all its sequences, the rows of its products."""
        return self.rows * self.tokens

    def columns(self, n: Count) -> Count:
        """Columns, or heads, of the core with the largest share of n."""
        return -(-n // self.of)


_CATEGORIES: Mapping[Product, Category] = {
    "qkv": Category.QKV,
    "out": Category.OUTPUT,
    "gate_up": Category.MLP,
    "down": Category.MLP,
}


def linear_op(model: Model, product: Product, share: Share, inputs: int, *columns: int) -> Op:
    """Products with weight matrices of the same inputs, biases and tables included.

    Args:
        model: The model.
        product: Name of the products, by which biases are added and inputs are polished.
        share: The share of a core.
        inputs: Rows of every matrix.
        columns: Columns of each matrix on this core.
    """
    m, outputs, has_bias = share.m, sum(columns), product in model.body.biases
    nbytes = model.weights.bytes_of(inputs * outputs) + BIAS_BYTES * outputs * has_bias
    return Op(
        _CATEGORIES[product],
        gemms=tuple(weight_gemm(model, m, inputs, n) for n in columns),
        vector_ops=logarithms(model, product, m * inputs) + m * outputs * BIAS_OPS * has_bias,
        stream=Stream.WEIGHTS,
        stream_bytes=share.streams * (nbytes + model.table_bytes(product)),
    )


def weight_gemm(model: Model, m: Count, k: int, n: int, copies: Count = 1) -> Gemm:
    """Products with ``k x n`` weight matrices, of which pruned weights are skipped."""
    return Gemm(m, model.weights.kept(k), n, copies)

"""Operations of a layer-step, a head or a prefill on one core, without their time.

An :class:`Op` is a stretch of work that one core does for its sequences: matrix products whose
operands stream in (weights, or K and V), element operations, and bytes. All figures are for one
core. A machine of several cores runs one list of ops on each of them.

Simplifications: element operations are counted per element
(:mod:`carsim.workload.elements`). Embedding look-ups (one row per token) and RQ-VAE pixel decoding
are left out.
"""

from collections.abc import Mapping
from enum import IntEnum
from fractions import Fraction
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from carsim.base.units import Whole
from carsim.workload.body import Body, Product
from carsim.workload.elements import BIAS_OPS, logarithms
from carsim.workload.model import BIAS_BYTES, Model
from carsim.workload.precision import Role


class Category(IntEnum):
    """Category of time; every cycle of a run belongs to exactly one."""

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
    """Operand of an op that comes from memory; ``machine.placement`` says from which memory."""

    NONE = 0
    WEIGHTS = 1
    KV = 2
    HEAD = 3
    FAR_KV = 4

    @property
    def is_kv(self) -> bool:
        """Keys and values, of which each core reads those of its own sequences."""
        return self in (Stream.KV, Stream.FAR_KV)


Count = int | NDArray[np.integer]
"""A whole number; or one for each phase and lane, int64[n, K], an axis of 1 where all are equal.

Everything in this module is arithmetic, so that one call serves many phases that differ in how many
sequences a core has or in how many tokens they attend to.
"""


FULL_RATE = Fraction(1)
"""Cycles in which the port of a buffer reads what the array takes in a cycle, if it keeps up."""


class Gemm(NamedTuple):
    """``copies`` products of an ``m x k`` activation block with a ``k x n`` operand.

    ``read_cycles`` is how long the port of the weight buffer reads what the array takes in a cycle:
    1 unless weights are wider than the port (:attr:`carsim.workload.model.Model.read_cycles`).
    """

    m: Count
    k: Count
    n: Count
    copies: Count = 1
    read_cycles: Fraction = FULL_RATE

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
        far_side_bytes: Bytes of K and V that move to the memory of older ones, written there.
        gathered_elements: Activations that all cores need next, if each computed its columns.
        scan_cycles: Serial cycles before the array may start.
        held_back: The operand is requested after ``serial_vector_ops`` and ``scan_cycles``, which
            decide what it is.
        operand: Name of the operand, such as ``W_down``; empty without one.
        exponentials: Scores that pass a softmax beside the array: maximum, exponential and sum of
            each. A unit of their own takes them, or the lanes of the vector unit do.
        is_shared: The operand goes to all cores at work where it is K and V, as weights do.
    """

    category: Category
    gemms: tuple[Gemm, ...] = ()
    vector_ops: Count = 0
    serial_vector_ops: Count = 0
    stream: Stream = Stream.NONE
    stream_bytes: Count = 0
    replay_bytes: Count = 0
    kv_side_bytes: Count = 0
    far_side_bytes: Count = 0
    gathered_elements: Count = 0
    scan_cycles: Count = 0
    held_back: bool = False
    operand: str = ""
    exponentials: Count = 0
    is_shared: bool = False

    @property
    def macs(self) -> Count:
        """Multiply-accumulates of the op."""
        return sum([gemm.macs for gemm in self.gemms])


class OnChip(NamedTuple):
    """What a core keeps on chip while many tokens pass a product, or many queries attention.

    Attributes:
        activation_bytes: Bytes of its activation buffer.
        weight_bytes: Bytes of the slice of a matrix that stays while tokens pass: half of the
            weight buffer, as the other half takes in the next slice.
        query_tile: Queries of one head whose scores are under way at once; 0: as many as the
            activation buffer holds.
        loop_order: What stays on chip: ``tokens`` while weights pass, ``weights`` while tokens
            pass, or ``best``, whichever moves fewer bytes in a block.
        deals: Cores that the tokens of a share are dealt to, each with its own part of them.
        columns: Cores that the columns of a matrix are split over.
    """

    activation_bytes: Count
    weight_bytes: Count
    query_tile: int
    loop_order: Literal["tokens", "weights", "best"]
    deals: int = 1
    columns: int = 1


class Share(NamedTuple):
    """The share of a phase that one core works on.

    Where matrices are not split, a core holds them whole (``of`` = 1); where they are, each of
    ``of`` cores holds every ``of``-th column, and the core with the largest share sets the pace.

    Attributes:
        rows: Sequences.
        of: Cores that share every matrix.
        streams: How often the weights are streamed to this core.
        tokens: Tokens of each sequence, more than one in a prompt.
        on_chip: Buffers of a core, for blocks that take many tokens through them in tiles.
    """

    rows: Count
    of: int = 1
    streams: Count = 1
    tokens: int = 1
    on_chip: OnChip | None = None

    @property
    def m(self) -> Count:
        """Tokens of all its sequences, the rows of its products."""
        return self.rows * self.tokens

    def columns(self, n: Whole) -> Whole:
        """Columns, or heads, of the core with the largest share of n."""
        return -(-n // self.of)


_CATEGORIES: Mapping[Product, Category] = {
    "qkv": Category.QKV,
    "out": Category.OUTPUT,
    "gate_up": Category.MLP,
    "down": Category.MLP,
}


_ROLES: Mapping[Product, Role] = {
    "qkv": "attention_qkv",
    "out": "attention_output",
    "gate_up": "mlp",
    "down": "mlp",
}


def linear_op(
    model: Model,
    product: Product,
    share: Share,
    inputs: int,
    *columns: int,
    role: Role | None = None,
) -> Op:
    """Products of one input with several weight matrices, biases and tables included.

    Args:
        model: The model.
        product: Name of the products, by which biases are added and inputs are polished.
        share: The share of a core.
        inputs: Rows of every matrix.
        columns: Columns of each matrix on this core.
        role: Role of the matrices, which sets their precision; None: that of the product.
    """
    role = role or _ROLES[product]
    precision = model.precision_of(role)
    outputs = sum(columns)
    biases = outputs if product in model.body.biases else 0
    nbytes = precision.bytes_of(inputs * outputs)
    nbytes += BIAS_BYTES * biases + model.table_bytes(product)
    polishing_ops = logarithms(model, product, share.m * inputs)
    return Op(
        _CATEGORIES[product],
        gemms=tuple(weight_gemm(model, role, m=share.m, k=inputs, n=n) for n in columns),
        vector_ops=polishing_ops + share.m * biases * BIAS_OPS,
        stream=Stream.WEIGHTS,
        stream_bytes=share.streams * nbytes,
        operand="router" if role == "router" else operand_name(model.body, product),
    )


def operand_name(body: Body, product: Product) -> str:
    """Names of the matrices of a product, as papers write them."""
    if product == "gate_up" and body.mlp != "gated":
        return "W_up"
    return {"qkv": "W_q, W_k, W_v", "out": "W_o", "gate_up": "W_gate, W_up", "down": "W_down"}[
        product
    ]


def weight_gemm(  # noqa: PLR0913 - the sizes of a product, by name
    model: Model, role: Role, *, m: Count, k: int, n: int, copies: Count = 1
) -> Gemm:
    """Products with ``k x n`` weight matrices, of which pruned weights are skipped.

    Args:
        model: The model.
        role: Role of the matrices, whose precision says how many weights are left, and how long the
            weight buffer is read.
        m: Rows of activations.
        k: Inputs of a matrix.
        n: Outputs of a matrix.
        copies: Number of matrices.
    """
    weights_per_output = model.precision_of(role).kept(k)
    return Gemm(
        m,
        k=weights_per_output,
        n=n,
        copies=copies,
        read_cycles=model.read_cycles.get(role, FULL_RATE),
    )

"""What a layer-step, a head or a prefill asks of a core, without saying how long it takes.

An :class:`Op` is a stretch of work that one core does for its sequences: matrix products whose
operands stream in (weights, or K and V), element operations, and bytes. All figures are for one
core; a machine of several cores runs one list of ops on each.

Inputs that are polished take a logarithm where they are made (behind the norm, the softmax-weighted
sum or the SiLU) and an exponential beside the product that they enter, once each.

Simplifications: element operations are counted per element with the small constants below, as a
vector unit with a fused multiply-add and a table for exponentials executes them; GELU of a gated
MLP counts as SiLU, a cap on scores or logits as nothing; the head's inputs are not polished.
A classifier over a vocabulary streams its logits past a list of the best, in random order; the area
of that list is not counted. Embedding look-ups (one row per token) and RQ-VAE pixel decoding are
left out.
"""

from dataclasses import dataclass
from enum import IntEnum
from math import ceil, log
from typing import Any, NamedTuple

import numpy as np

from carsim.workload.model import BIAS_BYTES, EXPERT_PARTS, Experts, LinearHead, Model, Product


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


NORM_OPS = 4
"""Per element of RMSNorm: square-accumulate, scale, multiply by the weight, write."""
ROTARY_OPS = 3
"""Per element of rotary embedding: two multiplies and an add."""
SOFTMAX_OPS = 4
"""Per score: running maximum, exponential, sum, divide."""
SILU_OPS = 4
"""Per element of SiLU(gate) * up: exponential, add, divide, multiply."""
GELU_OPS = 4
"""Per element of GELU by its tanh form, table-driven."""
RESIDUAL_OPS = 1
"""Per element of a residual sum."""
BIAS_OPS = 1
"""Per element to which a bias is added."""
ROUTER_OPS = 1
"""Per score of a router, and chosen expert: a comparison, the best being found one by one."""
MIX_OPS = 1
"""Per element of an expert's output: a multiply-add with the router's weight."""
LOGARITHM_OPS = 4
"""Per logarithm or exponential of polishing: the middle of the 3 to 5 cycles that notes on
QuartDepth (arXiv 2503.16709) give its vector unit; scaling by w and rounding are among them."""
GUIDANCE_OPS = 2
"""Per logit of classifier-free guidance: a multiply-add per row of the pair."""

STREAMED_LOGIT_OPS = 4
"""Per logit that passes: comparison with the least of the best, running maximum, exponential, sum
(the online softmax of Milakov and Gimelshein, arXiv 1805.02867)."""
CANDIDATES = 64
"""Best logits of a sequence that are kept next to the stream, from which its token is drawn; the
usual top-k sampling takes 50 (``top_k`` of the generation defaults of transformers)."""


def insertions(logits: int) -> int:
    """Expected logits, of so many in random order, that enter the list of the best.

    The i-th is among the best k so far with a probability of k / i: k (1 + ln(n / k)) in all.

    >>> insertions(50), insertions(128_256)
    (50, 551)
    """
    few = min(CANDIDATES, logits)
    return ceil(few * (1 + log(logits / few)))


@dataclass(frozen=True, slots=True)
class Slice:
    """The share of every matrix that one core works on.

    Where matrices are not split, a core holds them whole (``of`` = 1); where they are, each of
    ``of`` cores holds every ``of``-th column, and the core with the largest share sets the pace.
    """

    of: int = 1

    def columns(self, n: Count) -> Count:
        """Columns of the core with the largest share."""
        return -(-n // self.of)


def qkv_op(
    model: Model,
    rows: Count,
    part: Slice,
    *,
    streams: Count = 1,
    tokens: int = 1,
    score_ops: int = 0,
    key_elements: int = 0,
    held_bytes: int = 0,
) -> Op:
    """Norm, Q, K and V projections, norms of Q and K, and rotary embedding of one layer.

    Args:
        model: The model.
        rows: Sequences that this core works on.
        part: The core's share of every matrix.
        streams: How often the weights are streamed to this core.
        tokens: Tokens per sequence (more than one in prefill).
        score_ops: Element operations per row of a score of replay that is taken here.
        key_elements: Elements per row of a cached key that it reads, ahead of attention.
        held_bytes: Bytes per row that it reads of what is held for the place.
    """
    body = model.body
    m, d = rows * tokens, body.hidden_size
    q = part.columns(body.n_heads) * body.head_dim
    kv = part.columns(body.n_kv_heads) * body.head_dim
    turned = ROTARY_OPS + NORM_OPS * body.qk_norm
    return Op(
        Category.QKV,
        gemms=(_product(model, m, d, q), _product(model, m, d, 2 * kv)),
        serial_vector_ops=m * d * NORM_OPS + _logarithms(model, "qkv", m * d),
        vector_ops=m * (q + kv) * turned
        + rows * score_ops
        + _logarithms(model, "qkv", m * d)
        + _bias_ops(model, "qkv", m * (q + 2 * kv)),
        stream=Stream.WEIGHTS,
        stream_bytes=streams * _weight_bytes(model, "qkv", d, q + 2 * kv),
        kv_side_bytes=rows * model.kv.bytes_of(key_elements),
        replay_bytes=rows * held_bytes,
    )


def choose_op(
    model: Model, rows: Count, part: Slice, *, macs: Count, vector_ops: Count, read_bytes: Count
) -> Op:
    """Scores of a policy's own data, by which the keys are chosen that attention reads.

    Args:
        model: The model.
        rows: Sequences that this core works on.
        part: The core's share of the heads.
        macs: Products per row, one head dimension each.
        vector_ops: Element operations per row.
        read_bytes: Bytes of that data per row, which lie side by side.
    """
    return Op(
        Category.ATTENTION,
        gemms=_side_gemms(model, rows, part, macs),
        vector_ops=rows * part.columns(vector_ops),
        stream=Stream.KV,
        stream_bytes=rows * read_bytes,
    )


def _side_gemms(model: Model, rows: Count, part: Slice, macs: Count) -> tuple[Gemm, ...]:
    """Products of a policy, one head dimension each, spread over the heads of all cores."""
    hd = model.body.head_dim
    return (Gemm(1, hd, part.columns(-(-macs // hd)), rows),) if np.any(macs) else ()


def attend_op(
    model: Model,
    rows: Count,
    attended: Count,
    part: Slice,
    *,
    tokens: int = 1,
    causal: bool = False,
    window: int | None = None,
    score_ops: int = 0,
    key_elements: int = 0,
    held_bytes: int = 0,
    side_macs: Count = 0,
    side_vector_ops: Count = 0,
    side_bytes: Count = 0,
    scan_cycles: Count = 0,
    held_back: bool = False,
) -> Op:
    """Attention over the KV cache of one layer: scores, softmax, weighted sum; writes K and V.

    Args:
        model: The model.
        rows: Sequences that this core works on.
        attended: Tokens of the KV cache that the last query reads, itself included.
        part: The core's share of the heads.
        tokens: Queries per sequence.
        causal: Each attends to all but the later ones of its block; else all read alike.
        window: Newest tokens that each reads, where queries are causal; None: all.
        score_ops: Element operations per row of a score of replay that is taken here.
        key_elements: Elements per row of a cached key that it reads besides the attended ones.
        held_bytes: Bytes per row that it reads of what is held for the place.
        side_macs: Products per row of a policy's own work, one head dimension each.
        side_vector_ops: Its element operations per row.
        side_bytes: Bytes that it moves per row.
        scan_cycles: Its serial cycles per row before the array may start.
        held_back: Keys are fetched after these cycles.
    """
    body = model.body
    heads, kv_heads = part.columns(body.n_heads), part.columns(body.n_kv_heads)
    group, hd = -(-heads // kv_heads), body.head_dim  # query heads of this core per key head
    kv = kv_heads * hd
    pairs = tokens * attended
    if causal:
        beyond = max(0, tokens - window) if window is not None else 0
        pairs = pairs - tokens * (tokens - 1) // 2 - beyond * (beyond + 1) // 2
        queries, keys = group, pairs
    else:
        queries, keys = group * tokens, attended
    return Op(
        Category.ATTENTION,
        gemms=(
            Gemm(queries, hd, keys, rows * kv_heads),
            Gemm(queries, keys, hd, rows * kv_heads),
            *_side_gemms(model, rows, part, side_macs),
        ),
        vector_ops=rows * (heads * pairs * SOFTMAX_OPS + score_ops + part.columns(side_vector_ops))
        + _logarithms(model, "out", rows * tokens * heads * hd),
        scan_cycles=rows * part.columns(scan_cycles),
        held_back=held_back,
        stream=Stream.KV,
        stream_bytes=rows * model.kv.bytes_of(2 * attended * kv + key_elements),
        kv_side_bytes=rows * (model.kv.bytes_of(2 * tokens * kv) + side_bytes),
        replay_bytes=rows * held_bytes,
        gathered_elements=rows * tokens * body.q_size,
    )


def output_op(
    model: Model,
    rows: Count,
    part: Slice,
    *,
    streams: Count = 1,
    tokens: int = 1,
    key_elements: int = 0,
    held_bytes: int = 0,
) -> Op:
    """Output projection of attention and its residual sum; arguments as in :func:`qkv_op`.

    A cached key and what is held are read beside it, for the score that :func:`score_op` takes.
    """
    m, d, q = rows * tokens, model.body.hidden_size, model.body.q_size
    columns = part.columns(d)
    return Op(
        Category.OUTPUT,
        gemms=(_product(model, m, q, columns),),
        vector_ops=m * columns * _residual_ops(model)
        + _logarithms(model, "out", m * q)
        + _bias_ops(model, "out", m * columns),
        stream=Stream.WEIGHTS,
        stream_bytes=streams * _weight_bytes(model, "out", q, columns),
        kv_side_bytes=rows * model.kv.bytes_of(key_elements),
        replay_bytes=rows * held_bytes,
        gathered_elements=m * d,
    )


def score_op(model: Model, rows: Count, part: Slice, *, score_ops: int) -> Op:
    """Norm of the residual of all sequences, then a score of the MLP's input.

    Args:
        model: The model.
        rows: Sequences that this core works on.
        part: The core's share; every core norms whole residuals, as it does for a split MLP.
        score_ops: Element operations per row of this core's share of the score.
    """
    return Op(
        Category.REPLAY,
        serial_vector_ops=rows * model.body.hidden_size * NORM_OPS,
        vector_ops=rows * score_ops,
    )


def mlp_ops(
    model: Model,
    rows: Count,
    part: Slice,
    *,
    streams: Count = 1,
    tokens: int = 1,
    cached: bool = True,
    normed: bool = False,
    held_bytes: int = 0,
) -> tuple[Op, ...]:
    """Gate and up (or up alone), then down, of one layer; writes the replay cache.

    Where the model has experts, their router comes first.

    Args:
        model: The model.
        rows: Sequences that this core computes.
        part: The core's share of every matrix.
        streams: How often the weights are streamed to this core.
        tokens: Tokens per sequence.
        cached: Outputs are written to the replay cache.
        normed: The norm is done already, as a score needed it.
        held_bytes: Bytes per row that a rule of replay writes beside the outputs.
    """
    body = model.body
    m = rows * tokens
    norm = 0 if normed else m * body.hidden_size * NORM_OPS
    written = rows * (model.replay.bytes_of(part.columns(body.hidden_size)) * cached + held_bytes)
    if body.experts is not None:
        return _expert_ops(model, body.experts, m, part, streams, norm, written)
    d, ff = body.hidden_size, part.columns(body.ffn_size)
    inner = body.inner_matrices * ff
    gate_up = Op(
        Category.MLP,
        gemms=(_product(model, m, d, inner),),
        serial_vector_ops=norm + _logarithms(model, "gate_up", m * d),
        vector_ops=m * ff * (SILU_OPS if body.mlp == "gated" else GELU_OPS)
        + _logarithms(model, "gate_up", m * d)
        + _logarithms(model, "down", m * ff)
        + _bias_ops(model, "gate_up", m * inner),
        stream=Stream.WEIGHTS,
        stream_bytes=streams * _weight_bytes(model, "gate_up", d, inner),
        gathered_elements=m * body.ffn_size,
    )
    columns = part.columns(d)
    down = Op(
        Category.MLP,
        gemms=(_product(model, m, body.ffn_size, columns),),
        vector_ops=m * columns * _residual_ops(model)
        + _logarithms(model, "down", m * body.ffn_size)
        + _bias_ops(model, "down", m * columns),
        stream=Stream.WEIGHTS,
        stream_bytes=streams * _weight_bytes(model, "down", body.ffn_size, columns),
        replay_bytes=written,
        gathered_elements=m * d,
    )
    return gate_up, down


def _expert_ops(
    model: Model,
    experts: Experts,
    m: Count,
    part: Slice,
    streams: Count,
    norm_ops: Count,
    replay_bytes: Count,
) -> tuple[Op, ...]:
    """Router, then gate and up, then down, of the experts that tokens choose.

    Which experts are fetched is known when the router's scores are in and the best are found, so
    that the first of them is asked for then. Every expert that one of the tokens of a stream
    chooses is fetched once for all of them; tokens are spread over these experts evenly.

    Simplifications: see :meth:`~carsim.workload.model.Experts.touched`; all experts of a product
    are one or two launches.

    Args:
        model: The model.
        experts: Its experts.
        m: Tokens.
        part: The core's share of every matrix, each expert's among them.
        streams: How often weights are streamed to this core.
        norm_ops: Element operations of the norm before the router.
        replay_bytes: Bytes that go to the replay cache.
    """
    body = model.body
    d, ff, columns = body.hidden_size, part.columns(body.ffn_size), part.columns(body.hidden_size)
    shared = part.columns(experts.shared_ffn_size)
    scores, pairs = part.columns(experts.count), m * experts.active
    per_stream = experts.touched(m / np.maximum(streams, 1))
    touched = -(-experts.touched(m) // EXPERT_PARTS)

    def stream_bytes(weights: int, of_shared: int) -> Count:
        parts = per_stream * int(model.weights.bytes_of(weights))
        return streams * (-(-parts // EXPERT_PARTS) + int(model.weights.bytes_of(of_shared)))

    def gemms(k: int, n: int, of_shared: tuple[int, int]) -> tuple[Gemm, ...]:
        # So many experts have a token more than the others, which have the same number each.
        each, more = divmod(pairs, touched + (touched == 0))
        chosen = (
            _product(model, each + 1, k, n, more),
            _product(model, each, k, n, touched - more),
        )
        return (*chosen, _product(model, m, *of_shared)) if shared else chosen

    inner, inner_shared = body.inner_matrices * ff, body.inner_matrices * shared
    wide, wide_shared = body.ffn_size, experts.shared_ffn_size
    router = Op(
        Category.MLP,
        gemms=(_product(model, m, d, scores),),
        serial_vector_ops=norm_ops,
        stream=Stream.WEIGHTS,
        stream_bytes=streams * int(model.weights.bytes_of(d * scores)),
        gathered_elements=m * experts.count,
    )
    gate_up = Op(
        Category.MLP,
        gemms=gemms(d, inner, (d, inner_shared)),
        serial_vector_ops=m * experts.count * (SOFTMAX_OPS + experts.active * ROUTER_OPS),
        vector_ops=(pairs * ff + m * shared) * (SILU_OPS if body.mlp == "gated" else GELU_OPS),
        stream=Stream.WEIGHTS,
        stream_bytes=stream_bytes(d * inner, d * inner_shared),
        gathered_elements=pairs * wide + m * wide_shared,
        held_back=True,
    )
    down = Op(
        Category.MLP,
        gemms=gemms(wide, columns, (wide_shared, columns)),
        vector_ops=columns
        * (m * _residual_ops(model) + pairs * MIX_OPS + m * MIX_OPS * (shared > 0)),
        stream=Stream.WEIGHTS,
        stream_bytes=stream_bytes(wide * columns, wide_shared * columns),
        replay_bytes=replay_bytes,
        gathered_elements=m * d,
    )
    return router, gate_up, down


def replay_op(model: Model, rows: Count, part: Slice, *, damped: bool = False) -> Op:
    """Read the cached outputs of ``rows`` replaying sequences and add them to the residual.

    Damped outputs are scaled, an operation an element, and written back.
    """
    columns = part.columns(model.body.hidden_size)
    return Op(
        Category.REPLAY,
        vector_ops=rows * columns * (RESIDUAL_OPS + damped),
        replay_bytes=rows * model.replay.bytes_of(columns) * (1 + damped),
    )


class HeadStep(NamedTuple):
    """A step of the head: a ``k x n`` product, or attention over the codes of a position.

    Attributes:
        k: Inputs of the product; 0 for attention.
        n: Its outputs.
        ops_per_output: Element operations for each of them.
        normed: The inputs are normed before it.
        best: Outputs that each core keeps as they stream, and passes on with their tokens; 0: all.
        cores: Cores that do.
    """

    k: int = 0
    n: int = 0
    ops_per_output: int = 0
    normed: bool = False
    best: int = 0
    cores: int = 1


class HeadPass(NamedTuple):
    """A layer of the head, or the product before or after its layers: a phase.

    Attributes:
        steps: Its steps.
        codes: Codes that its attention reads; 0 without attention.
    """

    steps: tuple[HeadStep, ...]
    codes: int = 0


def head_passes(model: Model, *, guided: bool = True, cores: int = 1) -> tuple[HeadPass, ...]:
    """All passes of the head; every one depends on the one before it.

    The depth transformer runs its layers once per code, and the keys and values of a position's few
    codes stay on chip. Guidance mixing and the softmax of sampling are counted as element
    operations of the classifier. A linear classifier streams its logits and keeps the best.

    Args:
        model: The model; its head may be a depth transformer or a linear classifier.
        guided: Rows come in guidance pairs whose codes' logits are mixed; texts have none.
        cores: Cores of the machine.
    """
    head, body = model.head, model.body
    if isinstance(head, LinearHead):
        n, best = head.vocabulary, min(CANDIDATES, head.vocabulary)
        step = HeadStep(
            body.hidden_size, n, STREAMED_LOGIT_OPS, normed=True, best=best, cores=cores
        )
        return (HeadPass((step,)),)
    logit_ops = SOFTMAX_OPS + (GUIDANCE_OPS if guided else 0)
    d, ff = head.hidden_size, head.ffn_size
    layer = (
        HeadStep(d, 3 * d, normed=True),
        HeadStep(),
        HeadStep(d, d, RESIDUAL_OPS),
        HeadStep(d, ff, GELU_OPS, normed=True),
        HeadStep(ff, d, RESIDUAL_OPS),
    )
    classifier = HeadPass((HeadStep(d, head.codebook_size, logit_ops, normed=True),))
    passes = [HeadPass((HeadStep(body.hidden_size, d),))]
    for code in range(1, head.n_codes + 1):
        passes += [*[HeadPass(layer, code)] * head.n_layers, classifier]
    return tuple(passes)


def head_op(
    model: Model, step: HeadStep, rows: Count, part: Slice, streams: Count = 1, *, codes: Count = 0
) -> Op:
    """A step of the head for ``rows`` sequences.

    Args:
        model: The model.
        step: One of :func:`head_passes`.
        rows: Sequences that this core works on.
        part: The core's share of every matrix.
        streams: How often the weights are streamed to this core.
        codes: Codes that attention reads.
    """
    if not step.k:
        assert not isinstance(model.head, LinearHead)  # which attends to nothing
        heads, hd = part.columns(model.head.n_heads), model.head.hidden_size // model.head.n_heads
        return Op(
            Category.HEAD,
            gemms=(Gemm(1, hd, codes, rows * heads), Gemm(1, codes, hd, rows * heads)),
            vector_ops=rows * heads * codes * SOFTMAX_OPS,
        )
    columns = part.columns(step.n)
    moved = insertions(columns) * step.best if step.best else 0  # the list moves up for each
    return Op(
        Category.HEAD,
        gemms=(_product(model, rows, step.k, columns),),
        serial_vector_ops=rows * step.k * NORM_OPS if step.normed else 0,
        vector_ops=rows * (columns * step.ops_per_output + moved),
        stream=Stream.HEAD,
        stream_bytes=streams * model.weights.bytes_of(step.k * columns),
        gathered_elements=rows * (2 * step.cores * step.best or step.n),
    )


def _logarithms(model: Model, product: Product, elements: Count) -> Count:
    """Element operations of one logarithm, or one exponential, of each input of a product."""
    return elements * LOGARITHM_OPS if model.polishes(product) else 0


def _bias_ops(model: Model, product: Product, outputs: Count) -> Count:
    """Element operations that add a product's biases to its outputs."""
    return outputs * BIAS_OPS if product in model.body.biases else 0


def _residual_ops(model: Model) -> int:
    """Element operations per element that joins the residual: the sum, and a norm before it."""
    return RESIDUAL_OPS + NORM_OPS * model.body.post_norms


def _weight_bytes(model: Model, product: Product, inputs: int, columns: int) -> int:
    """Bytes of some columns of a product: weights, biases, and the tables of all its inputs."""
    biases = BIAS_BYTES * columns if product in model.body.biases else 0
    nbytes: int = model.weights.bytes_of(inputs * columns) + biases + model.table_bytes(product)
    return nbytes


def _product(model: Model, m: Count, k: int, n: int, copies: Count = 1) -> Gemm:
    """Products with ``k x n`` weight matrices, of which pruned weights are skipped."""
    return Gemm(m, model.weights.kept(k), n, copies)

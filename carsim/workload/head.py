"""Operations of a head: a classifier over a vocabulary, or VILA-U's depth transformer.

Simplifications: a classifier streams its logits past a list of the best, in random order; the area
of that list is not counted.
"""

from math import ceil, log
from typing import NamedTuple

from carsim.workload.elements import GELU_OPS, NORM_OPS, RESIDUAL_OPS, SOFTMAX_OPS
from carsim.workload.model import DepthTransformer, LinearHead, Model, NoHead
from carsim.workload.ops import Category, Count, Gemm, Op, Share, Stream, weight_gemm

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


class HeadStep(NamedTuple):
    """A step of the head: a ``k x n`` product, or attention over the codes of a position.

    Attributes:
        k: Inputs of the product; 0 for attention.
        n: Its outputs.
        ops_per_output: Element operations for each of them.
        normed: The inputs are normed before it.
        best: Outputs that each core keeps as they stream; 0: all.
        gathered: Those of all cores that are passed on with their tokens; 0: all.
    """

    k: int = 0
    n: int = 0
    ops_per_output: int = 0
    normed: bool = False
    best: int = 0
    gathered: int = 0


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
    head = model.head
    if isinstance(head, LinearHead):
        best = min(CANDIDATES, head.vocabulary)
        step = HeadStep(
            k=model.body.hidden_size,
            n=head.vocabulary,
            ops_per_output=STREAMED_LOGIT_OPS,
            normed=True,
            best=best,
            gathered=cores * best,
        )
        return (HeadPass((step,)),)
    if isinstance(head, NoHead):
        return ()
    d = head.hidden_size
    logit_ops = SOFTMAX_OPS + (GUIDANCE_OPS if guided else 0)
    qkv = HeadStep(d, 3 * d, normed=True)
    attention = HeadStep()
    output = HeadStep(d, d, ops_per_output=RESIDUAL_OPS)
    up = HeadStep(d, head.ffn_size, ops_per_output=GELU_OPS, normed=True)
    down = HeadStep(head.ffn_size, d, ops_per_output=RESIDUAL_OPS)
    layer = (qkv, attention, output, up, down)
    logits = HeadStep(d, head.codebook_size, ops_per_output=logit_ops, normed=True)
    passes = [HeadPass((HeadStep(model.body.hidden_size, d),))]
    for code in range(1, head.n_codes + 1):
        passes += [HeadPass(layer, code)] * head.n_layers
        passes.append(HeadPass((logits,)))
    return tuple(passes)


def head_op(model: Model, step: HeadStep, share: Share, codes: Count = 0) -> Op:
    """A step of the head.

    Args:
        model: The model.
        step: One of :func:`head_passes`.
        share: The share of a core.
        codes: Codes that attention reads.
    """
    rows = share.rows
    if not step.k:
        assert isinstance(model.head, DepthTransformer)  # others attend to nothing
        head_dim = model.head.hidden_size // model.head.n_heads
        copies = rows * share.columns(model.head.n_heads)
        scores = Gemm(1, k=head_dim, n=codes, copies=copies)
        weighted_sum = Gemm(1, k=codes, n=head_dim, copies=copies)
        return Op(
            Category.HEAD,
            gemms=(scores, weighted_sum),
            vector_ops=copies * codes * SOFTMAX_OPS,
        )
    precision = model.precision_of("head")
    columns = share.columns(step.n)
    # The whole list of the best moves up for each logit that enters it.
    list_ops = insertions(columns) * step.best if step.best else 0
    # Each of the best logits comes with its token.
    gathered = 2 * step.gathered if step.gathered else step.n
    return Op(
        Category.HEAD,
        gemms=(weight_gemm(model, "head", m=rows, k=step.k, n=columns),),
        serial_vector_ops=rows * step.k * NORM_OPS if step.normed else 0,
        vector_ops=rows * (columns * step.ops_per_output + list_ops),
        stream=Stream.HEAD,
        stream_bytes=share.streams * precision.bytes_of(step.k * columns),
        gathered_elements=rows * gathered,
        operand="head weights",
    )

"""The blocks of a diffusion transformer: all tokens of a forward pass each block together.

Tokens are dealt to cores evenly, or matrices are split over cores, as the mapping says. Element
operations beside a product (norm, modulation, rotary embedding, GELU, gate and residual sum) are
fused with it.

Simplifications: text tokens of dual-stream layers are dealt in proportion to image tokens; biases
and tables of modulation move with the weights; embeddings of time and of pooled texts are counted
as weights and products of one row, without their element operations.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from carsim.decisions.attention import ForwardShape, SideWork
from carsim.program.block import Block, Dealt, OpsOf, Split, work_of
from carsim.program.reads import Reads, Steps
from carsim.workload.attention import ROTARY_OPS
from carsim.workload.elements import GELU_OPS, NORM_OPS, RESIDUAL_OPS
from carsim.workload.forwards import Forward, forwards_of
from carsim.workload.model import BIAS_BYTES, Model
from carsim.workload.network import FEATURES, DiffusionTransformer
from carsim.workload.ops import Category, Count, Gemm, Op, Share, Stream, weight_gemm
from carsim.workload.tiled import Product, attend_ops, product_ops

MODULATE_OPS = 1
"""Per element that is scaled and shifted: a multiply-add."""

GATE_OPS = RESIDUAL_OPS
"""Per element that joins the residual behind a gate: a multiply-add."""


@dataclass(frozen=True)
class ForwardBlock(Block):
    """A block that all tokens of a forward pass together.

    Attributes:
        text: Text tokens of a row beside its image tokens; 0: none are here.
        apart: Text tokens have weights of their own.
        scored: Tokens of a row whose score is computed in this block, by the rule ``scores``.
    """

    deals: ClassVar[Dealt] = "all_tokens"

    text: int = 0
    apart: bool = False
    scored: int = 0

    def replay(self, model: Model, share: Share) -> Op:
        """Read what is held, add it to the residual, and write that back."""
        elements = share.rows * self.held_elements(model)
        residual_bytes = 2 * model.activations.bytes_of(elements)
        return Op(
            Category.REPLAY,
            vector_ops=elements * RESIDUAL_OPS,
            replay_bytes=model.replay.bytes_of(elements) + residual_bytes,
        )

    def held_elements(self, model: Model) -> int:
        """Elements that are held of a row: the output of each of its tokens."""
        return self.tokens * self.held_of_token(model) if self.holds else 0

    def of_tokens(self, product: Product) -> list[Product]:
        """A product of all tokens; twice where text tokens have their own weights.

        ``tokens`` counts text tokens where they are in the sequence.
        """
        if not self.text or not self.apart:
            return [product]
        image = self.tokens - self.text
        return [
            product._replace(part=(image, self.tokens)),
            product._replace(part=(self.text, self.tokens)),
        ]

    def with_policy(self, model: Model, share: Share, ops: list[Op]) -> list[Op]:
        """The operations; the last scores tokens, and writes what is held for those that skip.

        A score reads the key that it compares, as the query tile that meets it in attention may
        not hold the query's own place.
        """
        if not self.holds and self.rule is None and self.scores is None:
            return ops
        last = ops[-1]
        written_bytes: Count = 0
        if self.holds:
            written_bytes = model.replay.bytes_of(share.m * self.held_of_token(model))
        if self.rule is not None:
            held_for_score = work_of(self.rule, model).held_bytes
            written_bytes = written_bytes + share.m * held_for_score
        last = last._replace(replay_bytes=last.replay_bytes + written_bytes)
        if self.scores is not None:
            tokens = -(-share.m * self.scored // self.tokens)
            work = work_of(self.scores, model)
            of_core = work_of(self.scores, model, share.of)
            last = last._replace(
                vector_ops=last.vector_ops + tokens * of_core.vector_ops,
                kv_side_bytes=last.kv_side_bytes + tokens * model.kv.bytes_of(work.key_elements),
                replay_bytes=last.replay_bytes + tokens * work.scoring_bytes,
            )
        return [*ops[:-1], last]

    def held_of_token(self, model: Model) -> int:
        """Elements that are held of a token."""
        return model.body.hidden_size


@dataclass(frozen=True)
class Enter(ForwardBlock):
    """Patches become tokens; time, pooled texts and prompt are embedded.

    Attributes:
        recomputes_text: Text tokens are made anew in this block.
        compares: Tokens are compared with those of the last forward, which decides whether it is
            computed (TeaCache, arXiv 2411.19108): read and written once.
    """

    name: ClassVar[str] = "enter"
    title: ClassVar[str] = "embedding of patches, time and text"

    recomputes_text: bool = False
    compares: bool = False

    def operations(self, model: Model, reads: Reads | None) -> OpsOf:
        """Products of patches, and of what is embedded once for each row."""
        network = network_of(model)
        width = model.body.hidden_size

        def operations(share: Share) -> list[Op]:
            patches = Product(network.patch_size, width, "head", Category.HEAD)
            leaving_bytes = model.activations.bytes_of(width)
            ops = product_ops(
                model, share, [patches], entering=network.patch_size, leaving_bytes=leaving_bytes
            )
            rows = -(-share.m // self.tokens)
            ops += row_ops(model, share, time_products(model), rows)
            if self.recomputes_text:
                ops += row_ops(model, share, text_products(model), rows * network.text_tokens)
            if self.compares:
                last = ops[-1]
                elements = share.m * width
                held_bytes = 2 * model.replay.bytes_of(elements)
                ops[-1] = last._replace(
                    vector_ops=last.vector_ops + 2 * elements,
                    replay_bytes=last.replay_bytes + held_bytes,
                )
            return ops

        return operations


@dataclass(frozen=True)
class Text(Block):
    """What is made of the prompt once: its tokens, and keys and values of all layers.

    Attributes:
        keys: Keys and values of cross-attention are made, and kept.
    """

    name: ClassVar[str] = "prefill"
    title: ClassVar[str] = "prompt"

    keys: bool = False

    def operations(self, model: Model, reads: Reads | None) -> OpsOf:
        """Products of text tokens."""
        network = network_of(model)

        def operations(share: Share) -> list[Op]:
            tokens = share.rows * network.text_tokens
            ops = row_ops(model, share, text_products(model), tokens)
            if self.keys:
                layers = model.body.n_layers
                ops += [
                    op._replace(
                        gemms=tuple(gemm._replace(copies=layers) for gemm in op.gemms),
                        vector_ops=layers * op.vector_ops,
                        stream_bytes=layers * op.stream_bytes,
                        kv_side_bytes=layers * op.kv_side_bytes,
                        gathered_elements=layers * op.gathered_elements,
                    )
                    for op in key_ops(model, share, tokens)
                ]
            return ops

        return operations


@dataclass(frozen=True)
class Modulate(Block):
    """The product that makes scale, shift and gate of one layer out of the time.

    One row for each row of the forward; all weights stream.

    Attributes:
        outputs: Columns of the product.
    """

    name: ClassVar[str] = "modulation"
    title: ClassVar[str] = "modulation"
    feeds_next: ClassVar[bool] = True
    feeds_later: ClassVar[bool] = True

    outputs: int = 0

    def operations(self, model: Model, reads: Reads | None) -> OpsOf:
        """The product, for each row."""
        inputs = network_of(model).time_width(model.body)

        def operations(share: Share) -> list[Op]:
            product = Product(inputs, self.outputs, "mlp", Category.MLP)
            return row_ops(model, share, [product], share.rows)

        return operations


@dataclass(frozen=True)
class Queries(ForwardBlock):
    """Norm, modulation, projections of queries, keys and values, rotary embedding.

    Where single tokens skip it, keys and values of their last forward stand for them. They lie
    where attention reads them, so that no bytes move.

    Attributes:
        inner: Width of an inner layer of the MLP that the same product makes; 0: none.
        keeps_keys: Keys and values stay until the next forward; there is no cache that has them.
    """

    name: ClassVar[str] = "qkv"
    title: ClassVar[str] = "QKV projection"
    split: ClassVar[Split] = "attention"
    feeds_next: ClassVar[bool] = True
    feeds_later: ClassVar[bool] = True

    inner: int = 0
    keeps_keys: bool = False

    def held_elements(self, model: Model) -> int:
        """Keys and values of all tokens, where they stay until the next forward."""
        return self.tokens * model.body.kv_elements if self.keeps_keys else 0

    def operations(self, model: Model, reads: Reads | None) -> OpsOf:
        """The products, from the residual to Q, K, V and perhaps the inner layer."""
        body = model.body

        def operations(share: Share) -> list[Op]:
            outputs = body.q_size + body.kv_elements
            rotated = body.q_size + body.kv_size
            ops_of_rotated = ROTARY_OPS + NORM_OPS * body.qk_norm
            product = Product(
                body.hidden_size,
                outputs + self.inner,
                "attention_qkv",
                Category.QKV,
                ops_per_input=NORM_OPS + MODULATE_OPS,
                name="qkv",
            )
            leaving_bytes = model.activations.bytes_of(body.q_size + self.inner)
            leaving_bytes += model.kv.bytes_of(body.kv_elements)
            *before, last = product_ops(
                model,
                share,
                self.of_tokens(product),
                entering=body.hidden_size,
                leaving_bytes=leaving_bytes,
            )
            element_ops = share.m * share.columns(rotated) * ops_of_rotated
            element_ops += share.m * share.columns(self.inner) * GELU_OPS
            last = last._replace(vector_ops=last.vector_ops + element_ops)
            return self.with_policy(model, share, [*before, last])

        return operations


@dataclass(frozen=True)
class AttendAll(ForwardBlock):
    """Attention of all tokens to each other, and to the text tokens among them.

    A policy may leave out blocks of keys (:meth:`AttentionPolicy.forward_keys`).

    Attributes:
        steps: Denoising steps of a sample or chunk.
    """

    name: ClassVar[str] = "attention"
    title: ClassVar[str] = "attention"
    split: ClassVar[Split] = "attention"
    reads_tokens: ClassVar[bool] = True
    follows_context: ClassVar[bool] = False
    feeds_next: ClassVar[bool] = True

    steps: int = 1

    def reads(self, steps: Steps) -> Reads:
        """All keys, or those that the policy's mask keeps."""
        forward = np.asarray(steps.contexts, np.int64) - 1
        keys = np.full_like(forward, self.tokens)
        return masked_reads(steps, keys, forward / self.steps, queries=self.tokens)

    def operations(self, model: Model, reads: Reads | None) -> OpsOf:
        """Attention over the keys that are scored."""
        return attention_of(self, model, reads)


@dataclass(frozen=True)
class AttendGroups(ForwardBlock):
    """Attention of tokens to those of their own group: a latent frame, or a place in all frames.

    All keys of a group are scored; policies of attention are refused where groups are.

    Attributes:
        group: Tokens of a group.
    """

    name: ClassVar[str] = "attention"
    title: ClassVar[str] = "attention"
    split: ClassVar[Split] = "attention"
    feeds_next: ClassVar[bool] = True

    group: int = 1

    def operations(self, model: Model, reads: Reads | None) -> OpsOf:
        """Attention within each group."""

        def operations(share: Share) -> list[Op]:
            attend = attend_ops(model, share, self.group, group=self.group)
            return self.with_policy(model, share, [attend])

        return operations


@dataclass(frozen=True)
class AttendChunks(ForwardBlock):
    """Attention of chunks in flight to each other, and to the cached keys of chunks before them.

    Attributes:
        keys_of_forward: Tokens that each forward of the sample attends to, its own included.
        done_of_forward: Share of the denoising steps that came before each forward.
    """

    name: ClassVar[str] = "attention"
    title: ClassVar[str] = "attention"
    split: ClassVar[Split] = "attention"
    reads_tokens: ClassVar[bool] = True
    follows_context: ClassVar[bool] = False
    feeds_next: ClassVar[bool] = True

    keys_of_forward: tuple[int, ...] = ()
    done_of_forward: tuple[float, ...] = ()

    def reads(self, steps: Steps) -> Reads:
        """Keys in the window of each forward, or those that the policy's mask keeps."""
        forward = np.asarray(steps.contexts, np.int64) - 1
        keys = np.asarray(self.keys_of_forward, np.int64)[forward]
        done = np.asarray(self.done_of_forward)[forward]
        return masked_reads(steps, keys, done, queries=self.tokens)

    def operations(self, model: Model, reads: Reads | None) -> OpsOf:
        """Attention over the keys that are scored."""
        return attention_of(self, model, reads)


@dataclass(frozen=True)
class MoveKeys(ForwardBlock):
    """Keys and values in a full cache move to the front before a chunk's own are written there.

    They are read and written once, and attention waits for them, as in the released code of Self
    Forcing. Its time is a part of that of attention.

    Attributes:
        moved: Tokens of a row that move.
    """

    name: ClassVar[str] = "attention"
    title: ClassVar[str] = "attention"
    split: ClassVar[Split] = "attention"
    feeds_next: ClassVar[bool] = True

    moved: int = 0

    def operations(self, model: Model, reads: Reads | None) -> OpsOf:
        """A core moves its part of the rows: of a row, as many as its part of the queries."""

        def operations(share: Share) -> list[Op]:
            moved_bytes = 2 * model.kv.bytes_of(self.moved * model.body.kv_elements)
            of_core = -(-share.m * moved_bytes // self.tokens)
            return [Op(Category.ATTENTION, kv_side_bytes=of_core)]

        return operations


@dataclass(frozen=True)
class Project(ForwardBlock):
    """Output projection of attention, gate and residual sum.

    Attributes:
        inner: Width of the MLP's inner layer that enters beside attention; 0: none.
    """

    name: ClassVar[str] = "output"
    title: ClassVar[str] = "output projection"
    split: ClassVar[Split] = "attention"

    inner: int = 0

    def operations(self, model: Model, reads: Reads | None) -> OpsOf:
        """The product, from what attention puts out to the residual."""
        body = model.body
        inputs = body.attended_size + self.inner

        def operations(share: Share) -> list[Op]:
            product = Product(
                inputs,
                body.hidden_size,
                "attention_output",
                Category.OUTPUT,
                ops_per_output=GATE_OPS,
                name="out",
            )
            ops = product_ops(
                model,
                share,
                self.of_tokens(product),
                entering=inputs + body.hidden_size,
                leaving_bytes=model.activations.bytes_of(body.hidden_size),
            )
            return self.with_policy(model, share, ops)

        return operations


@dataclass(frozen=True)
class Cross(ForwardBlock):
    """Cross-attention: queries of all tokens, keys and values of the prompt, output projection.

    Keys and values of a prompt stay on chip while tokens pass; they are read once in each layer.

    Attributes:
        keys: Text tokens.
        recomputes_keys: Keys and values are made anew in each forward.
    """

    name: ClassVar[str] = "cross"
    title: ClassVar[str] = "cross-attention"
    split: ClassVar[Split] = "attention"
    reads_tokens: ClassVar[bool] = True
    follows_context: ClassVar[bool] = False

    keys: int = 0
    recomputes_keys: bool = False

    def reads(self, steps: Steps) -> Reads:
        """Text tokens that are scored; where a policy leaves some out, ``contexts`` has all."""
        scored = np.full_like(np.asarray(steps.contexts, np.int64), self.keys)
        scored[:] = steps.attention.cross_keys(self.keys)
        return Reads(
            attended=scored,
            runs=np.ones_like(scored),
            contexts=np.where(scored < self.keys, self.keys, 0),
            policy=steps.attention,
        )

    def operations(self, model: Model, reads: Reads | None) -> OpsOf:
        """Query projection, attention to text, output projection."""
        body = model.body

        def operations(share: Share) -> list[Op]:
            query = Product(
                body.hidden_size,
                body.q_size,
                "attention_qkv",
                Category.QKV,
                ops_per_input=NORM_OPS,
                ops_per_output=NORM_OPS * body.qk_norm,
            )
            output = Product(
                body.attended_size,
                body.hidden_size,
                "attention_output",
                Category.OUTPUT,
                ops_per_output=RESIDUAL_OPS,
            )
            into, out = product_ops(
                model,
                share,
                [query, output],
                entering=body.hidden_size,
                leaving_bytes=model.activations.bytes_of(body.hidden_size),
            )
            scored: Count = self.keys if reads is None else reads.attended[:, None]
            attend = attend_ops(model, share, scored, streams_keys=False)
            rows = -(-share.m // self.tokens)
            text_bytes = rows * model.kv.bytes_of(self.keys * body.kv_elements)
            if self.recomputes_keys:
                before = key_ops(model, share, rows * self.keys)
            else:
                before = []
                into = into._replace(kv_side_bytes=into.kv_side_bytes + text_bytes)
            choosing: list[Op] = []
            if reads is not None and np.any(reads.contexts):
                work = reads.policy.cross_work(forward_shape(model, self.tokens), self.keys)
                part = share.m * (reads.contexts[:, None] > 0).astype(np.int64)
                choosing.append(policy_op(model, share, work, part=part, of=self.tokens))
            return self.with_policy(model, share, [*before, into, *choosing, attend, out])

        return operations


@dataclass(frozen=True)
class ForwardMlp(ForwardBlock):
    """Norm, modulation, two products with GELU between them, gate and residual sum."""

    name: ClassVar[str] = "mlp"
    title: ClassVar[str] = "MLP"

    modulated: bool = True

    def operations(self, model: Model, reads: Reads | None) -> OpsOf:
        """Both products."""
        body = model.body

        def operations(share: Share) -> list[Op]:
            up = Product(
                body.hidden_size,
                body.inner_matrices * body.ffn_size,
                "mlp",
                Category.MLP,
                ops_per_input=NORM_OPS + MODULATE_OPS * self.modulated,
                ops_per_output=GELU_OPS,
                name="gate_up",
            )
            down = Product(
                body.ffn_size,
                body.hidden_size,
                "mlp",
                Category.MLP,
                ops_per_output=GATE_OPS,
                name="down",
            )
            products = [*self.of_tokens(up), *self.of_tokens(down)]
            ops = product_ops(
                model,
                share,
                products,
                entering=body.hidden_size,
                leaving_bytes=model.activations.bytes_of(body.hidden_size),
            )
            return self.with_policy(model, share, ops)

        return operations


@dataclass(frozen=True)
class Refine(ForwardBlock):
    """Layers over the text tokens alone, before the first layer (HunyuanVideo)."""

    name: ClassVar[str] = "refiner"
    title: ClassVar[str] = "text refiner"

    blocks: int = 0

    def operations(self, model: Model, reads: Reads | None) -> OpsOf:
        """All layers, one after the other."""
        body = model.body
        width = body.hidden_size

        def operations(share: Share) -> list[Op]:
            rows = -(-share.m // self.tokens)
            time = [
                Product(FEATURES, width, "head", Category.HEAD),
                Product(width, width, "head", Category.HEAD),
                Product(network_of(model).text_width, width, "head", Category.HEAD),
                Product(width, width, "head", Category.HEAD),
            ]
            ops = row_ops(model, share, time, rows)
            layer = [
                Product(width, 3 * width, "head", Category.HEAD),
                Product(width, width, "head", Category.HEAD),
                Product(width, body.ffn_size, "head", Category.HEAD),
                Product(body.ffn_size, width, "head", Category.HEAD),
            ]
            modulation = Product(width, 2 * width, "head", Category.HEAD)
            for _ in range(self.blocks):
                ops += row_ops(model, share, [modulation], rows)
                ops += row_ops(model, share, layer, share.m)
                attend = attend_ops(model, share, self.tokens, streams_keys=False)
                ops.append(attend._replace(category=Category.HEAD))
            return ops

        return operations


@dataclass(frozen=True)
class Leave(ForwardBlock):
    """Norm, modulation, and the product that makes patches out of image tokens.

    Attributes:
        modulation: A product makes the modulation.
        keeps: The tokens that enter are written for later forwards, which reuse them as a whole.
    """

    name: ClassVar[str] = "leave"
    title: ClassVar[str] = "patches of tokens"

    modulation: bool = False
    keeps: bool = False

    def operations(self, model: Model, reads: Reads | None) -> OpsOf:
        """The product, and that of its modulation."""
        network = network_of(model)
        width = model.body.hidden_size

        def operations(share: Share) -> list[Op]:
            ops: list[Op] = []
            if self.modulation:
                product = Product(network.time_width(model.body), 2 * width, "head", Category.HEAD)
                ops += row_ops(model, share, [product], -(-share.m // self.tokens))
            patches = Product(
                width,
                network.out_size,
                "head",
                Category.HEAD,
                ops_per_input=NORM_OPS + MODULATE_OPS,
            )
            leaving_bytes = model.activations.bytes_of(network.out_size)
            ops += product_ops(model, share, [patches], entering=width, leaving_bytes=leaving_bytes)
            if self.keeps:
                kept_bytes = model.replay.bytes_of(share.m * width)
                ops[-1] = ops[-1]._replace(replay_bytes=ops[-1].replay_bytes + kept_bytes)
            return ops

        return operations


def masked_reads(
    steps: Steps, keys: NDArray[np.int64], share_done: NDArray[np.float64], *, queries: int
) -> Reads:
    """Keys that are scored in each step; where a policy leaves some out, ``contexts`` has all."""
    policy = steps.attention
    scored = np.asarray(policy.forward_keys(queries, keys, share_done), np.int64)
    return Reads(
        attended=scored,
        runs=np.ones_like(scored),
        contexts=np.where(scored < keys, keys, 0),
        policy=policy,
    )


def attention_of(block: ForwardBlock, model: Model, reads: Reads | None) -> OpsOf:
    """Attention over the keys that are scored, behind what makes the mask.

    Without ``reads``, all tokens of the block are keys.
    """

    def operations(share: Share) -> list[Op]:
        keys: Count = block.tokens if reads is None else reads.attended[:, None]
        attend = attend_ops(model, share, keys)
        if reads is None or not np.any(reads.contexts):
            return block.with_policy(model, share, [attend])
        every_key = reads.contexts[:, None]
        shape = forward_shape(model, block.tokens)
        work = reads.policy.forward_work(shape, every_key)
        part = share.m * (every_key > 0).astype(np.int64)
        mask = policy_op(model, share, work, part=part, of=block.tokens)
        return block.with_policy(model, share, [mask, attend])

    return operations


def forward_shape(model: Model, queries: int) -> ForwardShape:
    """Forwards of a model as an attention policy is asked about them.

    Args:
        model: The model.
        queries: Queries of a row.
    """
    body = model.body
    sample = model.sample
    assert sample is not None
    return ForwardShape(
        queries=queries,
        n_heads=body.n_heads,
        n_kv_heads=body.n_kv_heads,
        head_dim=body.head_dim,
        forwards=sample.forwards_per_chunk,
    )


def policy_op(model: Model, share: Share, work: SideWork, *, part: Count, of: int) -> Op:
    """Work of an attention policy; a core does that of its own part of the queries.

    Args:
        model: The model.
        share: The core's part of the heads.
        work: Work of one row.
        part: Queries of the core for which there is work.
        of: Queries of a row.
    """
    body = model.body
    pairs = -(-part * np.asarray(work.macs) // (of * body.q_size))
    moved_bytes = model.activations.bytes_of(np.asarray(work.activation_elements))
    moved_bytes = moved_bytes + model.kv.bytes_of(np.asarray(work.kv_elements))
    moved_bytes = moved_bytes + work.bytes_read + work.bytes_written
    return Op(
        Category.ATTENTION,
        gemms=(Gemm(pairs, k=body.head_dim, n=share.columns(body.n_heads)),),
        vector_ops=-(-part * np.asarray(work.element_ops) // of),
        kv_side_bytes=-(-part * moved_bytes // of),
        scan_cycles=-(-part * np.asarray(work.scan_cycles) // of),
    )


def network_of(model: Model) -> DiffusionTransformer:
    """The diffusion transformer of a model."""
    network = model.network
    assert isinstance(network, DiffusionTransformer)
    return network


def row_ops(model: Model, share: Share, products: Sequence[Product], m: Count) -> list[Op]:
    """Products of a few rows, whose activations stay on chip and whose weights stream once.

    Args:
        model: The model.
        share: The core's part of every matrix.
        products: The products.
        m: Rows.
    """
    ops = []
    for product in products:
        columns = share.columns(product.n)
        precision = model.precision_of(product.role)
        biases = product.n if product.biased else 0
        nbytes = int(precision.bytes_of(product.k * product.n)) + BIAS_BYTES * biases
        op = Op(
            product.category,
            gemms=(weight_gemm(model, product.role, m=m, k=product.k, n=columns),),
            vector_ops=m * columns * (product.ops_per_output + product.biased)
            + m * product.k * product.ops_per_input,
            stream=Stream.WEIGHTS,
            stream_bytes=share.streams * nbytes,
            gathered_elements=m * product.n,
        )
        ops.append(op)
    return ops


def time_products(model: Model) -> list[Product]:
    """Products that embed time and pooled texts, of one row for each row of a forward."""
    network = network_of(model)
    d = model.body.hidden_size
    width = network.time_width(model.body)
    products = [
        Product(network.time_features, width, "head", Category.HEAD),
        Product(width, width, "head", Category.HEAD),
    ]
    for vector in network.vectors:
        products += [
            Product(vector, d, "head", Category.HEAD),
            Product(d, d, "head", Category.HEAD),
        ]
    if network.modulation == "shared":
        products.append(Product(width, 6 * d, "head", Category.HEAD))
    return products


def text_products(model: Model) -> list[Product]:
    """Linear layers between text encoder and transformer."""
    network = network_of(model)
    if not network.text_tokens:
        return []
    d = model.body.hidden_size
    first = Product(network.text_width, d, "head", Category.HEAD)
    second = Product(d, d, "head", Category.HEAD, ops_per_input=GELU_OPS)
    return [first, second][: network.text_layers]


def key_ops(model: Model, share: Share, tokens: Count) -> list[Op]:
    """Keys and values of text tokens in one layer; they are written."""
    body = model.body
    product = Product(body.hidden_size, body.kv_elements, "attention_qkv", Category.QKV)
    (op,) = row_ops(model, share, [product], tokens)
    return [op._replace(kv_side_bytes=tokens * model.kv.bytes_of(body.kv_elements))]


def part_of_forwards(model: Model, number: int) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Tokens that a part of each forward attends to, and steps that came before it.

    Args:
        model: A diffusion transformer and its sample in chunks.
        number: Number of the part among those of a forward; where a forward has fewer, its last.

    Returns:
        Of all forwards of the sample: tokens, and shares of the denoising steps.
    """
    network = network_of(model)
    sample = model.sample
    assert sample is not None
    keys = []
    done = []
    for forward in forwards_of(sample):
        part = forward.parts[min(number, len(forward.parts) - 1)]
        keys.append(network.tokens_of(sample, part.keys))
        done.append(forward.done)
    return tuple(keys), tuple(done)


def fullest_forward(model: Model) -> Forward:
    """The forward of a sample in chunks that passes most frames, and of those keeps most keys.

    Of equals, it is the first.
    """
    sample = model.sample
    assert sample is not None
    return max(forwards_of(sample), key=lambda forward: (forward.frames, forward.cached))

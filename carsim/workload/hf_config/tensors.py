"""The matrices of a model by the names that its checkpoint gives them.

Formats of quantisation name modules: some are left out, some have bits of their own. The names here
are those of transformers. Simplification: the experts of a layer are one entry, named as the first
of them, as no published file tells them apart.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from carsim.workload.body import Body
from carsim.workload.precision import Role

LAYER = "model.layers.{layer}."

LLAMA_NAMES: Mapping[str, str] = {
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "out": "self_attn.o_proj",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
    "router": "mlp.gate",
    "expert_gate": "mlp.experts.0.gate_proj",
    "expert_up": "mlp.experts.0.up_proj",
    "expert_down": "mlp.experts.0.down_proj",
    "shared_gate": "mlp.shared_experts.gate_proj",
    "shared_up": "mlp.shared_experts.up_proj",
    "shared_down": "mlp.shared_experts.down_proj",
    "shared_router": "mlp.shared_expert_gate",
    "compress_queries": "self_attn.q_a_proj",
    "expand_queries": "self_attn.q_b_proj",
    "compress_keys": "self_attn.kv_a_proj_with_mqa",
    "expand_keys": "self_attn.kv_b_proj",
    "embedding": "model.embed_tokens",
    "head": "lm_head",
}
"""Part of a layer -> module of LLaMA and its like."""

PREFIXES = ("", "language_model.", "model.language_model.")
"""What may stand before a module's name where the model also sees pictures."""


class Matrix(NamedTuple):
    """Weight matrices of one module.

    Attributes:
        module: Name in the checkpoint.
        role: What it is for.
        inputs: Inputs of a matrix.
        outputs: Outputs of a matrix.
        copies: Matrices, one for each expert.
        layer: Layer, or None outside of the layers.
        is_plain: A module of the class Linear of PyTorch; experts that are held as one tensor, and
            some routers, are none.
        part: Part of a layer, such as ``q`` or ``down``, or of what lies outside of the layers.
    """

    module: str
    role: Role
    inputs: int
    outputs: int
    copies: int = 1
    layer: int | None = None
    is_plain: bool = True
    part: str = ""

    @property
    def weights(self) -> int:
        """Weights of all copies."""
        return self.inputs * self.outputs * self.copies

    @property
    def names(self) -> tuple[str, ...]:
        """Names by which files know the module, among pictures or not."""
        short = self.module.removeprefix("model.")
        nested = f"model.language_model.{short}"
        return (*(prefix + self.module for prefix in PREFIXES), nested)


class Shape(NamedTuple):
    """What the matrices of a model follow from.

    Attributes:
        body: The layers.
        vocabulary: Rows of the embedding.
        is_tied: The embedding is the classifier's matrix.
        names: Part -> module, over :data:`LLAMA_NAMES`.
    """

    body: Body
    vocabulary: int
    is_tied: bool
    names: Mapping[str, str]

    def module(self, part: str, layer: int | None = None) -> str:
        """Module of a part."""
        name = {**LLAMA_NAMES, **self.names}[part]
        if layer is None:
            return name
        return self.names.get("layer", LAYER).format(layer=layer) + name


def matrices(shape: Shape) -> list[Matrix]:
    """All weight matrices, layer by layer, then embedding and classifier.

    A tied embedding is one matrix, which is the classifier's.
    """
    all_matrices: list[Matrix] = []
    for layer in range(shape.body.n_layers):
        all_matrices.extend(_attention(shape, layer))
        all_matrices.extend(_mlp(shape, layer))
    hidden_size = shape.body.hidden_size
    if not shape.is_tied:
        table = Matrix(
            shape.module("embedding"),
            role="embedding",
            inputs=hidden_size,
            outputs=shape.vocabulary,
            is_plain=False,
            part="embedding",
        )
        all_matrices.append(table)
    classifier = Matrix(
        shape.module("embedding" if shape.is_tied else "head"),
        role="head",
        inputs=hidden_size,
        outputs=shape.vocabulary,
        is_plain=not shape.is_tied,
        part="head",
    )
    all_matrices.append(classifier)
    return all_matrices


def _attention(shape: Shape, layer: int) -> Iterator[Matrix]:
    body = shape.body
    hidden_size = body.hidden_size

    def matrix(part: str, role: Role, inputs: int, outputs: int) -> Matrix:
        module = shape.module(part, layer)
        return Matrix(module, role=role, inputs=inputs, outputs=outputs, layer=layer, part=part)

    latent = body.latent
    if latent is None:
        yield matrix("q", "attention_qkv", inputs=hidden_size, outputs=body.q_size)
        yield matrix("k", "attention_qkv", inputs=hidden_size, outputs=body.kv_size)
        yield matrix("v", "attention_qkv", inputs=hidden_size, outputs=body.kv_size)
    else:
        queries = body.n_heads * (body.own_size + latent.rotary_size)
        keys = body.n_heads * (body.own_size + latent.value_size)
        rank = latent.query_rank
        if rank is None:
            yield matrix("q", "attention_qkv", inputs=hidden_size, outputs=queries)
        else:
            yield matrix("compress_queries", "attention_qkv", inputs=hidden_size, outputs=rank)
            yield matrix("expand_queries", "attention_qkv", inputs=rank, outputs=queries)
        yield matrix("compress_keys", "attention_qkv", inputs=hidden_size, outputs=body.head_dim)
        yield matrix("expand_keys", "attention_qkv", inputs=latent.rank, outputs=keys)
    yield matrix("out", "attention_output", inputs=body.attended_size, outputs=hidden_size)


def _mlp(shape: Shape, layer: int) -> Iterator[Matrix]:
    body = shape.body
    experts = body.experts
    names = ("gate", "up", "down") if body.mlp == "gated" else ("up", "down")

    def matrices_of(prefix: str, role: Role, width: int, copies: int = 1) -> Iterator[Matrix]:
        for name in names:
            module = shape.module(f"{prefix}{name}", layer)
            yield Matrix(
                module,
                role=role,
                inputs=width if name == "down" else body.hidden_size,
                outputs=body.hidden_size if name == "down" else width,
                copies=copies,
                layer=layer,
                is_plain="experts." not in module or ".0." in module,
                part=name,
            )

    if experts is None or body.is_dense(layer):
        yield from matrices_of("", "mlp", width=body.dense_ffn_size)
        return
    yield Matrix(
        shape.module("router", layer),
        role="router",
        inputs=body.hidden_size,
        outputs=experts.count,
        layer=layer,
    )
    if experts.shared_gate:
        module = shape.module("shared_router", layer)
        yield Matrix(module, "router", inputs=body.hidden_size, outputs=1, layer=layer)
    yield from matrices_of("expert_", "experts", width=body.ffn_size, copies=experts.count)
    if experts.shared_ffn_size:
        yield from matrices_of("shared_", "shared_experts", width=experts.shared_ffn_size)

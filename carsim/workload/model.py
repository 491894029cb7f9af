"""The model that is decoded: body, head, and the precision of what is stored and moved."""

from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from carsim.base.section import FieldError, GrownSection, NonNegativeInt, PositiveInt, Section
from carsim.base.units import rational, scaled
from carsim.base.yaml_file import shown

Size = Annotated[int, Field(gt=0, le=1_000_000)]
Repeats = Annotated[int, Field(gt=0, le=1000)]
Share = Annotated[float, Field(ge=0.001, le=1, allow_inf_nan=False)]
Bits = Annotated[float, Field(ge=0.1, le=64, allow_inf_nan=False)]


Product = Literal["qkv", "out", "gate_up", "down"]
"""The products with weights in a layer, as a trace's precision names them."""

TABLE_BYTES = 6
"""Per channel of polished inputs: w, step and zero point of the grid, 16 bits each."""

EXPERT_PARTS = 4096
"""Parts of an expert in which expectations are counted, so that results are equal anywhere."""

BIAS_BYTES = 2
"""Of a bias: 16 bits, which is what common quantisers of weights (GPTQ, AWQ) leave it in."""


class Precision(Section):
    """Bits per element with the scales and zero points of its quantisation groups."""

    bits: Bits = Field(description="decimals for a mean, such as 3.5 where precisions are mixed")
    group: PositiveInt | None = Field(None, description="elements that share a scale; absent: none")
    scale_bits: NonNegativeInt = Field(
        0, description="bits of the scale of a group, such as 16; a group needs it"
    )
    zero_bits: NonNegativeInt = Field(0, description="bits of the zero point of a group")

    @model_validator(mode="after")
    def _scales_need_a_group(self) -> "Precision":
        if self.group is None and (self.scale_bits or self.zero_bits):
            raise FieldError("", "scale_bits and zero_bits need a group", "add 'group', say 128")
        if self.group is not None and not self.scale_bits:
            problem = f"a group of {self.group} has a scale, of which no bits are counted"
            cure = "add 'scale_bits', usually 16, and 'zero_bits' where there is a zero point"
            raise FieldError("scale_bits", problem, cure)
        return self

    @property
    def bits_per_element(self) -> Fraction:
        """Stored bits per element, scales and zero points included, as bytes are counted by them.

        >>> float(Precision(bits=4, group=128, scale_bits=16, zero_bits=4).bits_per_element)
        4.15625
        """
        overhead = Fraction(self.scale_bits + self.zero_bits, self.group) if self.group else 0
        return rational(Fraction(str(self.bits)) + overhead)

    def bytes_of(self, elements: Any) -> Any:
        """Bytes of ``elements`` stored elements (a number or an int64 array), rounded up."""
        return scaled(elements, self._bytes_per_element)

    @cached_property
    def _bytes_per_element(self) -> Fraction:
        return self.bits_per_element / 8


class WeightPrecision(Precision):
    """Precision of weights, of which some may have been pruned away.

    Pruned weights are neither stored, nor moved, nor multiplied: the machine skips them.
    """

    density: Share = Field(1.0, description="share of the weights that are kept")
    index_bits: NonNegativeInt = Field(0, description="per kept weight, to say where it belongs")

    @property
    def bits_per_element(self) -> Fraction:
        """Stored bits per weight of the unpruned matrix.

        >>> float(WeightPrecision(bits=4, density=0.5, index_bits=2).bits_per_element)
        3.0
        """
        return rational(self._density * (super().bits_per_element + self.index_bits))

    def kept(self, length: int) -> int:
        """Weights that are left of a dot product of a given length, rounded up."""
        kept: int = scaled(length, self._density)
        return kept

    @cached_property
    def _density(self) -> Fraction:
        return rational(self.density)


class Experts(Section):
    """The MLP of a layer in many copies, of which a router chooses a few for each token."""

    count: PositiveInt = Field(description="experts of a layer")
    active: PositiveInt = Field(description="experts that a token goes through")
    shared_ffn_size: NonNegativeInt = Field(
        0, description="width of experts that all tokens go through besides, all together"
    )

    @model_validator(mode="after")
    def _enough_to_choose_from(self) -> "Experts":
        if self.active > self.count:
            problem = f"{self.active} of {self.count} experts cannot be chosen"
            raise FieldError("active", problem, "take at most 'count'")
        return self

    def touched(self, tokens: Any) -> Any:
        """Expected experts that a number of tokens touch, in 4096ths; a number or an array.

        With E experts, each token misses a given one with a probability of 1 - k / E, so that m
        tokens touch E (1 - (1 - k / E)^m) of them on average: k for one, at most E.

        Simplification: every token chooses k different experts, all sets being equally likely,
        whatever other tokens, layers and steps choose. Real routers prefer some experts, and tokens
        of one text choose alike, so that fewer are touched.

        >>> float(Experts(count=8, active=2).touched(4) / 4096)  # 8 (1 - 0.75^4)
        5.46875
        """
        missed = (1 - self.active / self.count) ** tokens
        parts = np.rint(EXPERT_PARTS * self.count * (1 - missed)).astype(np.int64)
        return parts if parts.ndim else int(parts)


class Body(GrownSection):
    """A LLaMA-style transformer: norms, rotary attention, MLP.

    Weights of norms are counted among the parameters; as bytes they are left out (LLaMA-2-7B:
    0.004 % of the weights).
    """

    later: ClassVar[frozenset[str]] = frozenset(
        {"biases", "qk_norm", "post_norms", "window", "global_layers", "experts"}
    )

    n_layers: Repeats = Field(description="layers")
    hidden_size: Size = Field(description="width of the residual stream")
    n_heads: Size = Field(description="query heads")
    n_kv_heads: Size = Field(
        description="key and value heads; fewer than n_heads for grouped queries"
    )
    ffn_size: Size = Field(description="width of the MLP, or of one expert")
    head_size: Size | None = Field(
        None, description="elements of one attention head; hidden_size / n_heads if absent"
    )
    mlp: Literal["gated", "plain"] = Field(
        "gated", description="three matrices (SwiGLU), or two with GELU between them"
    )
    biases: tuple[Product, ...] = Field((), description="products that add a bias, 16 bits each")
    qk_norm: bool = Field(False, description="queries and keys are normed, head by head")
    post_norms: bool = Field(
        False, description="what attention and MLP put out is normed, too (Gemma)"
    )
    window: PositiveInt | None = Field(
        None,
        description="newest tokens that a layer attends to, its own included; absent: all of them",
    )
    global_layers: tuple[NonNegativeInt, ...] = Field(
        (), description="layers, counted from 0, that attend to all tokens in spite of window"
    )
    experts: Experts | None = Field(
        None, description="every layer's MLP is a choice of experts; absent: one MLP for all tokens"
    )

    @model_validator(mode="after")
    def _heads_divide(self) -> "Body":
        if self.head_size is None:
            _check_multiple("hidden_size", self.hidden_size, "n_heads", self.n_heads)
        _check_multiple("n_heads", self.n_heads, "n_kv_heads", self.n_kv_heads)
        return self

    @model_validator(mode="after")
    def _global_layers_exist(self) -> "Body":
        layers = self.global_layers
        if layers and self.window is None:
            raise FieldError("global_layers", "means nothing without a window", "give 'window'")
        if list(layers) != sorted(set(layers)) or (layers and layers[-1] >= self.n_layers):
            problem = f"{shown(layers)} are no layers of {self.n_layers} in ascending order"
            raise FieldError("global_layers", problem, f"list some of 0 to {self.n_layers - 1}")
        return self

    @model_validator(mode="after")
    def _experts_are_plain(self) -> "Body":
        if self.experts is not None and {"gate_up", "down"} & set(self.biases):
            problem = "biases of gate_up or down are not simulated where there are experts"
            raise FieldError("biases", problem, "leave them out")
        return self

    @property
    def head_dim(self) -> int:
        """Elements of one attention head."""
        return self.head_size or self.hidden_size // self.n_heads

    @property
    def q_size(self) -> int:
        """Elements of one token's Q in one layer, and of what attention puts out."""
        return self.n_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        """Elements of one token's K (or V) in one layer."""
        return self.n_kv_heads * self.head_dim

    def window_of(self, layer: int) -> int | None:
        """Newest tokens that a layer attends to; None: all."""
        return None if layer in self.global_layers else self.window

    def layers_by_window(self) -> dict[int | None, tuple[int, ...]]:
        """The layers of each window.

        >>> Body(n_layers=4, hidden_size=8, n_heads=2, n_kv_heads=1, ffn_size=8, window=512,
        ...      global_layers=(3,)).layers_by_window()
        {512: (0, 1, 2), None: (3,)}
        """
        found: dict[int | None, tuple[int, ...]] = {}
        for layer in range(self.n_layers):
            window = self.window_of(layer)
            found[window] = (*found.get(window, ()), layer)
        return found

    def longest_context(self, context: int) -> int:
        """Tokens that the layer with the widest view reads of a context."""
        return max(int(in_window(context, window)) for window in self.layers_by_window())

    @property
    def attention_weights(self) -> int:
        """Weights of the Q, K, V and output projections of one layer."""
        return 2 * self.hidden_size * (self.q_size + self.kv_size)

    @property
    def inner_matrices(self) -> int:
        """Matrices from the hidden size to the MLP's own: gate and up, or up alone."""
        return 2 if self.mlp == "gated" else 1

    @property
    def mlp_weights(self) -> int:
        """Weights of the MLP of one layer, or of its router and all its experts."""
        return self._mlp_weights(self.experts.count if self.experts else 0)

    @property
    def active_mlp_weights(self) -> int:
        """Weights of the MLP of one layer that multiply one token."""
        return self._mlp_weights(self.experts.active if self.experts else 0)

    def _mlp_weights(self, experts: int) -> int:
        matrices = (self.inner_matrices + 1) * self.hidden_size
        if self.experts is None:
            return matrices * self.ffn_size
        width = experts * self.ffn_size + self.experts.shared_ffn_size
        return matrices * width + self.hidden_size * self.experts.count

    @property
    def weights(self) -> int:
        """Weights of all layers.

        >>> Body(n_layers=32, hidden_size=4096, n_heads=32, n_kv_heads=32, ffn_size=11008).weights
        6476005376
        """
        return self.n_layers * (self.attention_weights + self.mlp_weights)

    @property
    def layer_biases(self) -> int:
        """Elements of the biases of one layer."""
        outputs: dict[Product, int] = {
            "qkv": self.q_size + 2 * self.kv_size,
            "out": self.hidden_size,
            "gate_up": self.inner_matrices * self.ffn_size,
            "down": self.hidden_size,
        }
        return sum(outputs[product] for product in set(self.biases))

    @property
    def parameters(self) -> int:
        """Weights, biases and norms of all layers, and the last norm."""
        norms = (4 if self.post_norms else 2) * self.hidden_size + 2 * self.head_dim * self.qk_norm
        return self.weights + self.n_layers * (self.layer_biases + norms) + self.hidden_size


class DepthTransformer(Section):
    """VILA-U's depth transformer: emits the codes of one position one after the other.

    The passes are dependent: code ``i + 1`` starts when code ``i`` has been sampled. Keys and
    values of the few codes of one position stay on chip.
    """

    kind: Literal["depth_transformer"] = "depth_transformer"
    n_layers: Repeats = Field(description="layers")
    hidden_size: Size = Field(description="width")
    n_heads: Size = Field(description="heads")
    ffn_size: Size = Field(description="width of the MLP")
    n_codes: Repeats = Field(description="dependent passes per step")
    codebook_size: Size = Field(description="entries that one code chooses from")

    @model_validator(mode="after")
    def _heads_divide(self) -> "DepthTransformer":
        _check_multiple("hidden_size", self.hidden_size, "n_heads", self.n_heads)
        return self

    def embedding_weights(self, body: Body) -> int:
        """Weights of an embedding of tokens: that of the codes is left out."""
        return 0

    def stored_weights(self, body: Body) -> int:
        """Weights held in memory: input projection, layers, classifier."""
        return (
            body.hidden_size * self.hidden_size
            + self.layer_weights
            + self.hidden_size * self.codebook_size
        )

    def streamed_weights(self, body: Body) -> int:
        """Weights read per step: layers and classifier once per code."""
        return body.hidden_size * self.hidden_size + self.n_codes * (
            self.layer_weights + self.hidden_size * self.codebook_size
        )

    @property
    def layer_weights(self) -> int:
        """Weights of all its layers: four projections and a two-matrix MLP each."""
        return self.n_layers * (4 * self.hidden_size**2 + 2 * self.hidden_size * self.ffn_size)


class LinearHead(GrownSection):
    """A classifier over a vocabulary, as language models have it.

    A step looks up one row per sequence of the embedding of tokens, which is left out as bytes.
    """

    later: ClassVar[frozenset[str]] = frozenset({"embedding"})

    kind: Literal["linear"] = "linear"
    vocabulary: Size = Field(description="tokens that it chooses from")
    embedding: Literal["tied", "separate"] | None = Field(
        None,
        description="the embedding of tokens is the classifier's matrix, or one more of its size "
        "that lies beside it; absent: it is held elsewhere, and not counted",
    )

    def stored_weights(self, body: Body) -> int:
        """Weights held in memory for the classifier."""
        return body.hidden_size * self.vocabulary

    def embedding_weights(self, body: Body) -> int:
        """Weights held in memory for an embedding of its own."""
        return self.stored_weights(body) * (self.embedding == "separate")

    def streamed_weights(self, body: Body) -> int:
        """Weights read per step."""
        return self.stored_weights(body)


Head = Annotated[DepthTransformer | LinearHead, Field(discriminator="kind")]


class UsualVideo(Section):
    """The video that a model makes unless another is asked for; here that of VILA-U-7B-256."""

    frames: Repeats = Field(8, description="frames T")
    tokens_per_frame: Annotated[int, Field(gt=0, le=65_536)] = Field(
        256, description="tokens N of a frame"
    )
    prompt_tokens: NonNegativeInt = Field(62, description="valid ones and padding")


class Model(GrownSection):
    """What is decoded, and in which precision it is stored, moved and computed."""

    later: ClassVar[frozenset[str]] = frozenset({"polished", "video", "context"})

    name: str = Field(description="what outputs call it")
    body: Body
    head: Head = Field(description="what turns the output of the last layer into a token")
    weights: WeightPrecision
    kv: Precision
    activations: Precision
    replay: Precision
    polished: tuple[Product, ...] = Field(
        (),
        description="products whose inputs are rounded on a logarithmic scale (arXiv 2503.16709): "
        "a logarithm and an exponential for each input, and tables",
    )
    video: UsualVideo = Field(
        UsualVideo(), description="what a run without a trace decodes, if nothing else is asked for"
    )
    context: PositiveInt | None = Field(
        None, description="longest context of a text that the model was made for, in tokens"
    )

    @property
    def makes(self) -> Literal["video", "text"]:
        """What it emits: a classifier over a vocabulary makes texts."""
        return "text" if isinstance(self.head, LinearHead) else "video"

    @model_validator(mode="after")
    def _experts_are_not_polished(self) -> "Model":
        if self.body.experts is not None and {"gate_up", "down"} & set(self.polished):
            problem = "polished inputs of experts are not simulated"
            raise FieldError("polished", problem, "leave out gate_up and down")
        return self

    @property
    def parameters(self) -> int:
        """Weights, biases and norms of body, head and embedding.

        Norms of a depth transformer, and an embedding that is held elsewhere, are not among them.
        """
        body, head = self.body, self.head
        return body.parameters + head.stored_weights(body) + head.embedding_weights(body)

    @property
    def active_parameters(self) -> int:
        """Those that one token uses: of experts the chosen ones."""
        body = self.body
        return self.parameters - body.n_layers * (body.mlp_weights - body.active_mlp_weights)

    @property
    def body_bytes(self) -> int:
        """Bytes that the weights, biases and tables of all layers take in memory."""
        body = self.body
        stored: int = self.weights.bytes_of(body.weights)
        return stored + body.n_layers * (BIAS_BYTES * body.layer_biases + self.layer_table_bytes)

    def polishes(self, product: Product) -> bool:
        """Inputs of the product are polished."""
        return product in self.polished

    def table_bytes(self, product: Product) -> int:
        """Bytes of one layer's tables for the inputs of a product, which come with its weights."""
        body = self.body
        inputs = {"out": body.q_size, "down": body.ffn_size}.get(product, body.hidden_size)
        return TABLE_BYTES * inputs * self.polishes(product)

    @property
    def layer_table_bytes(self) -> int:
        """Bytes of the tables of one layer."""
        return sum(self.table_bytes(product) for product in set(self.polished))


def in_window(context: Any, window: int | None) -> Any:
    """Tokens of a context (a number or an array) that are in a window; None is without end."""
    if window is None:
        return context
    return min(context, window) if isinstance(context, int) else np.minimum(context, window)


def _check_multiple(field: str, value: int, of: str, divisor: int) -> None:
    if value % divisor:
        raise FieldError(field, f"{value} is no multiple of {of} {divisor}", "change one of them")

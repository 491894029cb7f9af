"""The model that is decoded: body, head, and the precision of what is stored and moved."""

import math
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from carsim.section import FieldError, GrownSection, NonNegativeInt, PositiveInt, Section

Size = Annotated[int, Field(gt=0, le=1_000_000)]
Repeats = Annotated[int, Field(gt=0, le=1000)]
Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
Bits = Annotated[float, Field(gt=0, le=64, allow_inf_nan=False)]


Product = Literal["qkv", "out", "gate_up", "down"]
"""The products with weights in a layer, as a trace's precision names them."""

TABLE_BYTES = 6
"""Per channel of polished inputs: w, step and zero point of the grid, 16 bits each."""


class Precision(Section):
    """Bits per element with the scales and zero points of its quantisation groups."""

    bits: Bits = Field(description="decimals for a mean, such as 3.5 where precisions are mixed")
    group: PositiveInt | None = Field(None, description="elements that share a scale; absent: none")
    scale_bits: NonNegativeInt = 0
    zero_bits: NonNegativeInt = 0

    @model_validator(mode="after")
    def _scales_need_a_group(self) -> "Precision":
        if self.group is None and (self.scale_bits or self.zero_bits):
            raise FieldError("", "scale_bits and zero_bits need a group", "add 'group', say 128")
        return self

    @property
    def bits_per_element(self) -> Fraction:
        """Stored bits per element, scales and zero points included.

        >>> float(Precision(bits=4, group=128, scale_bits=16, zero_bits=4).bits_per_element)
        4.15625
        """
        overhead = Fraction(self.scale_bits + self.zero_bits, self.group) if self.group else 0
        return Fraction(str(self.bits)) + overhead

    def bytes_of(self, elements: Any) -> Any:
        """Bytes of ``elements`` stored elements (a number or an int64 array), rounded up."""
        numerator, denominator = self._bits_ratio
        return -(-elements * numerator // (8 * denominator))

    @cached_property
    def _bits_ratio(self) -> tuple[int, int]:
        return self.bits_per_element.as_integer_ratio()


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
        return Fraction(str(self.density)) * (super().bits_per_element + self.index_bits)

    def kept(self, length: int) -> int:
        """Weights that are left of a dot product of a given length, rounded up."""
        if self.density == 1.0:
            return length
        return math.ceil(Fraction(str(self.density)) * length)


class Body(Section):
    """A LLaMA-style transformer: norms, rotary attention, MLP, no biases."""

    n_layers: Repeats
    hidden_size: Size
    n_heads: Size
    n_kv_heads: Size
    ffn_size: Size
    head_size: Size | None = Field(
        None, description="elements of one attention head; hidden_size / n_heads if absent"
    )
    mlp: Literal["gated", "plain"] = Field(
        "gated", description="three matrices (SwiGLU), or two with GELU between them"
    )

    @model_validator(mode="after")
    def _heads_divide(self) -> "Body":
        if self.head_size is None:
            _check_multiple("hidden_size", self.hidden_size, "n_heads", self.n_heads)
        _check_multiple("n_heads", self.n_heads, "n_kv_heads", self.n_kv_heads)
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
        """Weights of the MLP of one layer."""
        return (self.inner_matrices + 1) * self.hidden_size * self.ffn_size

    @property
    def weights(self) -> int:
        """Weights of all layers.

        >>> Body(n_layers=32, hidden_size=4096, n_heads=32, n_kv_heads=32, ffn_size=11008).weights
        6476005376
        """
        return self.n_layers * (self.attention_weights + self.mlp_weights)


class DepthTransformer(Section):
    """VILA-U's depth transformer: emits the codes of one position one after the other.

    The passes are dependent: code ``i + 1`` starts when code ``i`` has been sampled. Keys and
    values of the few codes of one position stay on chip.
    """

    kind: Literal["depth_transformer"] = "depth_transformer"
    n_layers: Repeats
    hidden_size: Size
    n_heads: Size
    ffn_size: Size
    n_codes: Repeats = Field(description="dependent passes per step")
    codebook_size: Size

    @model_validator(mode="after")
    def _heads_divide(self) -> "DepthTransformer":
        _check_multiple("hidden_size", self.hidden_size, "n_heads", self.n_heads)
        return self

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


class LinearHead(Section):
    """A classifier over a vocabulary, as language models have it."""

    kind: Literal["linear"] = "linear"
    vocabulary: Size

    def stored_weights(self, body: Body) -> int:
        """Weights held in memory."""
        return body.hidden_size * self.vocabulary

    def streamed_weights(self, body: Body) -> int:
        """Weights read per step."""
        return self.stored_weights(body)


Head = Annotated[DepthTransformer | LinearHead, Field(discriminator="kind")]


class Model(GrownSection):
    """What is decoded, and in which precision it is stored, moved and computed."""

    later: ClassVar[frozenset[str]] = frozenset({"polished"})

    name: str
    body: Body
    head: Head
    weights: WeightPrecision
    kv: Precision
    activations: Precision
    replay: Precision
    polished: tuple[Product, ...] = Field(
        (),
        description="products whose inputs are rounded on a logarithmic scale (arXiv 2503.16709): "
        "a logarithm and an exponential for each input, and tables",
    )

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


def _check_multiple(field: str, value: int, of: str, divisor: int) -> None:
    if value % divisor:
        raise FieldError(field, f"{value} is no multiple of {of} {divisor}", "change one of them")

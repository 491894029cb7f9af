"""The model that is decoded: body, head, and the precision of what is stored and moved."""

from functools import cached_property
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from carsim.base.section import GrownSection, Section
from carsim.base.sizes import NonNegativeInt, PositiveInt
from carsim.workload.body import Body, Product, Repeats, Size, check_multiple
from carsim.workload.precision import Precision, WeightPrecision

TABLE_BYTES = 6
"""Per channel of polished inputs: w, step and zero point of the grid, 16 bits each."""

BIAS_BYTES = 2
"""Of a bias: 16 bits, which is what common quantisers of weights (GPTQ, AWQ) leave it in."""


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
        check_multiple("hidden_size", self.hidden_size, "n_heads", self.n_heads)
        return self

    def embedding_weights(self, body: Body) -> int:
        """Weights of an embedding of tokens: that of the codes is left out."""
        return 0

    def stored_weights(self, body: Body) -> int:
        """Weights held in memory: input projection, layers, classifier.

        A layer has four projections and a two-matrix MLP.
        """
        of_layers = self.n_layers * (4 * self.hidden_size + 2 * self.ffn_size)
        return self.hidden_size * (body.hidden_size + of_layers + self.codebook_size)


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

    @cached_property
    def as_json(self) -> str:
        """All of it, which tells models apart."""
        return self.model_dump_json()

    @property
    def makes(self) -> Literal["video", "text"]:
        """Kind of output: a classifier over a vocabulary makes texts."""
        return "text" if isinstance(self.head, LinearHead) else "video"

    @model_validator(mode="after")
    def _polished_products_are_plain(self) -> "Model":
        self.body.check_plain("polished", self.polished)
        return self

    @property
    def parameters(self) -> int:
        """Weights, biases and norms of body, head and embedding.

        Norms of a depth transformer, and an embedding that is held elsewhere, are not among them.
        """
        body, head = self.body, self.head
        return body.parameters + head.stored_weights(body) + head.embedding_weights(body)

    @property
    def body_bytes(self) -> int:
        """Bytes that the weights, biases and tables of all layers take in memory."""
        body = self.body
        stored: int = self.weights.bytes_of(body.weights)
        return stored + body.n_layers * (BIAS_BYTES * body.layer_biases + self.layer_table_bytes)

    def table_bytes(self, product: Product) -> int:
        """Bytes of one layer's tables for the inputs of a product, which come with its weights."""
        body = self.body
        inputs = {"out": body.attended_size, "down": body.ffn_size}.get(product, body.hidden_size)
        return TABLE_BYTES * inputs * (product in self.polished)

    @property
    def layer_table_bytes(self) -> int:
        """Bytes of the tables of one layer."""
        return sum(self.table_bytes(product) for product in set(self.polished))

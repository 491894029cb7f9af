"""The model that is decoded: body, head, and the precision of what is stored and moved."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import Field, model_validator

from carsim.base.groups import grouped
from carsim.base.section import FieldError, GrownSection, Section
from carsim.base.sizes import NonNegativeInt, PositiveInt
from carsim.base.text import number
from carsim.base.units import rational
from carsim.workload.body import PRODUCTS, Body, Product, Repeats, Size, check_multiple
from carsim.workload.network import Network
from carsim.workload.precision import (
    ROLES,
    Precision,
    Role,
    WeightPrecision,
    WeightsByRole,
    WeightsOfLayers,
)
from carsim.workload.sample import Sample

TABLE_BYTES = 6
"""Per channel of polished inputs: w, step and zero point of the grid, 16 bits each."""

VILA_U_TOKENS = 256
"""Positions of a frame of VILA-U-7B-256 (arXiv 2409.04429): 16 x 16, of 4 codes each."""

Polished = Product | Literal["convolution"]
"""Products whose inputs may be polished: those of a layer, and all convolutions of a depth map."""

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


class NoHead(Section):
    """No head: a network whose layers and what surrounds them are all of it."""

    kind: Literal["none"] = "none"

    def stored_weights(self, body: Body) -> int:
        """None."""
        return 0

    def embedding_weights(self, body: Body) -> int:
        """None."""
        return 0


Head = Annotated[DepthTransformer | LinearHead | NoHead, Field(discriminator="kind")]


class UsualVideo(Section):
    """The video that a model makes unless another is asked for; here that of VILA-U-7B-256.

    A model with a classifier over a vocabulary makes videos only where
    ``tokens_per_frame`` is given.
    """

    frames: Repeats = Field(8, description="frames T")
    tokens_per_frame: Annotated[int, Field(gt=0, le=65_536)] | None = Field(
        None,
        description="tokens N of a frame; absent: the 256 of VILA-U-7B-256 for a depth "
        "transformer, and no video for a classifier over a vocabulary",
    )
    prompt_tokens: NonNegativeInt = Field(62, description="valid ones and padding")


class LayerKind(NamedTuple):
    """What tells layers apart in time.

    Attributes:
        window: Newest tokens that the layer attends to; None: all.
        dense: The layer has one MLP for all tokens, whatever others have.
        group: Group of layers whose weights are of equal precision: see :meth:`Model.in_group`.
    """

    window: int | None = None
    dense: bool = False
    group: int = 0


USUAL_LAYER = LayerKind()
"""Layer that attends to all tokens, of the first group."""


class Model(GrownSection):
    """What is decoded, and in which precision it is stored, moved and computed."""

    later: ClassVar[frozenset[str]] = frozenset(
        {
            "weights_by_role",
            "weights_by_layer",
            "polished",
            "video",
            "output",
            "context",
            "network",
            "sample",
        }
    )

    name: str = Field(description="what outputs call it")
    body: Body
    head: Head = Field(description="what turns the output of the last layer into a token")
    weights: WeightPrecision = Field(description="weights of all roles that do not differ")
    weights_by_role: WeightsByRole = Field(
        WeightsByRole(), description="weights of single roles, where they differ"
    )
    weights_by_layer: tuple[WeightsOfLayers, ...] = Field(
        (),
        description="weights of single roles in some layers, where they differ from the others; of "
        "entries that name the same layer and role, the last holds",
    )
    kv: Precision
    activations: Precision
    replay: Precision
    polished: tuple[Polished, ...] = Field(
        (),
        description="products whose inputs are rounded on a logarithmic scale (arXiv 2503.16709): "
        "a logarithm and an exponential for each input, and tables; convolution: all those of a "
        "depth encoder",
    )
    video: UsualVideo = Field(
        UsualVideo(), description="what a run without a trace decodes, if nothing else is asked for"
    )
    network: Network | None = Field(
        None,
        description="what surrounds the layers of a diffusion transformer or depth encoder, whose "
        "tokens go through them together; absent: a decoder",
    )
    sample: Sample | None = Field(
        None, description="what such a network makes unless another is asked for"
    )
    output: Literal["text", "video"] | None = Field(
        None,
        description="what a run decodes if it has no trace and is asked for nothing; absent: "
        "a text with a classifier over a vocabulary, else a video",
    )
    context: PositiveInt | None = Field(
        None, description="longest context of a text that the model was made for, in tokens"
    )

    @cached_property
    def as_json(self) -> str:
        """All of it, which tells models apart."""
        return self.model_dump_json()

    @property
    def makes(self) -> Literal["video", "text", "sample"]:
        """Kind of output where none is asked for: a classifier over a vocabulary makes texts."""
        if self.sample is not None:
            return "sample"
        if self.output is not None:
            return self.output
        return "text" if isinstance(self.head, LinearHead) else "video"

    @property
    def tokens_per_frame(self) -> int | None:
        """Tokens of a frame of a video; None: nothing says how many a frame has."""
        is_linear = isinstance(self.head, LinearHead)
        return self.video.tokens_per_frame or (None if is_linear else VILA_U_TOKENS)

    @property
    def family(self) -> str:
        """Words that tell families of models apart: head, MLP, norms, and kind of attention.

        Models of one family share the vocabulary, as LLaMA-3-8B and LLaMA-3-70B do. Numbers and
        sizes of layers differ within a family.
        """
        body = self.body
        head = "depth transformer"
        if isinstance(self.head, LinearHead):
            head = f"vocabulary {self.head.vocabulary}"
        marks = {
            "norms of queries and keys": body.qk_norm,
            "norms after blocks": body.post_norms,
            "window": body.window is not None,
            "experts": body.experts is not None,
            "latent attention": body.latent is not None,
        }
        return ", ".join([head, f"{body.mlp} MLP", *(mark for mark, has in marks.items() if has)])

    @model_validator(mode="after")
    def _polished_products_are_plain(self) -> "Model":
        self.body.check_plain("polished", self.polished_products)
        is_depth = self.network is not None and self.network.kind == "depth"
        if "convolution" in self.polished and not is_depth:
            problem = "convolution is polished, and this model has none"
            raise FieldError("polished", problem, "leave out convolution")
        return self

    @model_validator(mode="after")
    def _a_video_has_frames(self) -> "Model":
        if self.output == "video" and self.tokens_per_frame is None:
            problem = "is missing, and a classifier over a vocabulary has no usual one"
            raise FieldError("video.tokens_per_frame", problem, "add it, such as 256")
        return self

    @model_validator(mode="after")
    def _a_network_has_a_sample(self) -> "Model":
        network = self.network
        if (network is None) != (self.sample is None):
            missing, present = ("network", "sample") if network is None else ("sample", "network")
            raise FieldError(missing, f"is missing beside {present}", "give both, or neither")
        if (network is None) == isinstance(self.head, NoHead):
            problem = "a decoder has a head, a network of other kinds has none"
            raise FieldError("head.kind", problem, "give kind: none with a network, and only then")
        if network is None or self.sample is None:
            return self
        body = self.body
        if body.experts is not None or body.latent is not None or body.window is not None:
            problem = "experts, latent attention and windows are not simulated in a network"
            raise FieldError("network", problem, "leave them out of model.body")
        try:
            network.check(self.sample)
        except FieldError as error:
            field = f"sample.{error.field}"
            raise FieldError(field, error.problem, error.cure) from None
        try:
            network.check_body(body)
        except FieldError as error:
            field = f"network.{error.field}"
            raise FieldError(field, error.problem, error.cure) from None
        return self

    @model_validator(mode="after")
    def _roles_have_weights(self) -> "Model":
        counts = self.body.weights_by_role
        for role in ("mlp", "experts", "shared_experts", "router"):
            if self.weights_by_role.of(role) is not None and not counts.get(role):
                problem = "this model has no weights of that role"
                cure = f"leave it out; the model has {', '.join(counts)}"
                raise FieldError(f"weights_by_role.{role}", problem, cure)
        return self

    @model_validator(mode="after")
    def _layers_have_weights(self) -> "Model":
        last = self.body.n_layers - 1
        for index, entry in enumerate(self.weights_by_layer):
            field = f"weights_by_layer.{index}"
            if max(entry.layers) > last:
                problem = f"no layer {max(entry.layers)} among {self.body.n_layers}"
                raise FieldError(f"{field}.layers", problem, f"list some of 0 to {last}")
            counts = self.body.weights_in(entry.layers)
            for role in ROLES:
                if getattr(entry, role) is not None and not counts.get(role):
                    problem = "these layers have no weights of that role"
                    cure = f"leave it out; they have {', '.join(counts)}"
                    raise FieldError(f"{field}.{role}", problem, cure)
        return self

    def precision_of(self, role: Role) -> WeightPrecision:
        """Precision of the weights of a role in layers that ``weights_by_layer`` does not name."""
        return self.weights_by_role.of(role) or self.weights

    @cached_property
    def layer_groups(self) -> Mapping[WeightsByRole, Sequence[int]]:
        """Layers whose weights are of equal precision, by that of their roles.

        The first group has the first layer.
        """
        of_layer: list[WeightsByRole] = [self.weights_by_role] * self.body.n_layers
        for entry in self.weights_by_layer:
            precisions: dict[str, WeightPrecision] = {}
            for role in ROLES:
                precision = entry.of(role)
                if precision is not None:
                    precisions[role] = precision
            for layer in entry.layers:
                of_layer[layer] = of_layer[layer].model_copy(update=precisions)
        return grouped((by_role, layer) for layer, by_role in enumerate(of_layer))

    @cached_property
    def group_of(self) -> Sequence[int]:
        """The group of each layer, [L]: its place in ``layer_groups``."""
        group_of = [0] * self.body.n_layers
        for group, layers in enumerate(self.layer_groups.values()):
            for layer in layers:
                group_of[layer] = group
        return group_of

    def in_group(self, group: int) -> "Model":
        """The model as the layers of a group have it."""
        # Without groups nothing is kept: a model that holds itself compares without end.
        return self._models_of_groups[group] if self.weights_by_layer else self

    @cached_property
    def _models_of_groups(self) -> "Sequence[Model]":
        fields = {**dict(self), "weights_by_layer": ()}
        return tuple(
            Model.model_construct(**{**fields, "weights_by_role": by_role})
            for by_role in self.layer_groups
        )

    def with_key_heads(self, n_kv_heads: int | None) -> "Model":
        """The model as a decoder has it that caches fewer key heads.

        Args:
            n_kv_heads: Key heads that are projected and cached, a divisor of those of the body;
                None: all of them.
        """
        if n_kv_heads in (None, self.body.n_kv_heads):
            return self
        body = Body.model_construct(**{**dict(self.body), "n_kv_heads": n_kv_heads})
        return Model.model_construct(**{**dict(self), "body": body})

    def layer_kinds(self) -> "Counter[LayerKind]":
        """Numbers of layers of each kind."""
        return Counter(self.kind_of(layer) for layer in range(self.body.n_layers))

    def kind_of(self, layer: int) -> LayerKind:
        """Kind of a layer."""
        body = self.body
        return LayerKind(body.window_of(layer), body.is_dense(layer), self.group_of[layer])

    @property
    def weights_of_roles(self) -> dict[Role, int]:
        """Numbers of weights that are multiplied, by role: body and head."""
        if self.network is not None:
            return self.network.weights_by_role(self.body)
        return {**self.body.weights_by_role, "head": self.head.stored_weights(self.body)}

    def multiplied(self, *, with_head: bool) -> tuple[WeightPrecision, ...]:
        """Different precisions of the weights that pass the array.

        Args:
            with_head: The head is decoded as well.
        """
        return tuple(
            dict.fromkeys(
                precision
                for role, precision, _ in self._stored_weights()
                if with_head or role != "head"
            )
        )

    def _stored_weights(self) -> Iterator[tuple[Role, WeightPrecision, int]]:
        """Role, precision and number of weights that are multiplied: groups of layers, and head."""
        if self.network is not None:
            for role, weights in self.network.weights_by_role(self.body).items():
                yield role, self.precision_of(role), weights
            return
        for group, layers in enumerate(self.layer_groups.values()):
            model = self.in_group(group)
            for role, weights in self.body.weights_in(layers).items():
                yield role, model.precision_of(role), weights
        yield "head", self.precision_of("head"), self.head.stored_weights(self.body)

    @cached_property
    def read_cycles(self) -> Mapping[Role, Fraction]:
        """Cycles in which the weight buffer's port reads what the array takes in a cycle, by role.

        The port keeps up with the array in the precision of ``weights``. Roles that are stored in
        no more bits are left out: they take 1.
        """
        port_bits = self.weights.bits_per_element
        slower: dict[Role, Fraction] = {}
        for role in self.weights_of_roles:
            bits = self.precision_of(role).bits_per_element
            if bits > port_bits:
                slower[role] = rational(bits / port_bits)
        return slower

    @property
    def mean_stored_bits(self) -> Fraction:
        """Stored bits per weight, mean of body and head; the bits of ``weights`` without roles."""
        return self._mean_bits(with_head=True, stored=True)

    @property
    def bits_in_short(self) -> str:
        """Stored bits per element, scales included, of what is stored and moved, in few letters.

        Weights are the mean of all layers. The head is named where it differs from them.
        """
        body_bits = self.mean_layer_bits
        head_bits = self.precision_of("head").bits_per_element
        head = f" head {number(float(head_bits))}" if head_bits != body_bits else ""
        activations = number(float(self.activations.bits_per_element))
        kv = number(float(self.kv.bits_per_element))
        return f"W{number(float(body_bits))}{head} A{activations} KV{kv}"

    @property
    def mean_layer_bits(self) -> Fraction:
        """Stored bits per weight, scales included, mean of the layers."""
        return self._mean_bits(with_head=False, stored=True)

    @property
    def mean_body_bits(self) -> float:
        """Bits per weight without scales, mean of the layers."""
        return float(self._mean_bits(with_head=False, stored=False))

    def _mean_bits(self, *, with_head: bool, stored: bool) -> Fraction:
        """Mean bits per weight of the layers.

        Args:
            with_head: The head counts as well.
            stored: With scales, zero points and indices, and without pruned weights.
        """
        total_bits = Fraction(0)
        total_weights = 0
        for role, precision, weights in self._stored_weights():
            if role == "head" and not with_head:
                continue
            bits = precision.bits_per_element if stored else Fraction(str(precision.bits))
            total_bits += weights * bits
            total_weights += weights
        return total_bits / total_weights

    @property
    def parameters(self) -> int:
        """Weights, biases and norms of body, head and embedding.

        Norms of a depth transformer, and an embedding that is held elsewhere, are not among them.
        """
        if self.network is not None:
            return self.network.parameters(self.body)
        head_weights = self.head.stored_weights(self.body)
        embedding_weights = self.head.embedding_weights(self.body)
        return self.body.parameters + head_weights + embedding_weights

    @property
    def body_bytes(self) -> int:
        """Bytes that the weights, biases and tables of all layers take in memory.

        Norms are among them where ``weights_by_role`` gives their precision.
        """
        if self.network is not None:
            return self._network_bytes(self.network)
        body = self.body
        # Bytes are rounded up once for all the weights of one precision.
        weights_of: Counter[WeightPrecision] = Counter()
        for role, precision, weights in self._stored_weights():
            if role != "head":
                weights_of[precision] += weights
        weight_bytes = sum(precision.bytes_of(n) for precision, n in weights_of.items())
        if self.weights_by_role.norms is not None:
            weight_bytes += self.weights_by_role.norms.bytes_of(body.norms)
        bias_bytes = BIAS_BYTES * body.all_biases
        return weight_bytes + bias_bytes + body.n_layers * self.layer_table_bytes

    def _network_bytes(self, network: Network) -> int:
        """Bytes of all parameters of a network; those of no matrix take 16 bits each.

        Tables of polished convolutions, some kilobytes, are left out.
        """
        nbytes = self.body.n_layers * self.layer_table_bytes
        small = network.parameters(self.body)
        for role, weights in network.weights_by_role(self.body).items():
            nbytes += int(self.precision_of(role).bytes_of(weights))
            small -= weights
        return nbytes + BIAS_BYTES * small

    @property
    def head_bytes(self) -> int:
        """Bytes that the weights of the head take in memory."""
        return int(self.precision_of("head").bytes_of(self.head.stored_weights(self.body)))

    @property
    def embedding_bytes(self) -> int:
        """Bytes of an embedding of tokens of its own, and of learned positions."""
        weights = self.head.embedding_weights(self.body) + self.body.position_weights
        return int(self.precision_of("embedding").bytes_of(weights))

    @property
    def stored_bytes(self) -> int:
        """Bytes of all that is stored: body, head and embedding, as a checkpoint has them."""
        return self.body_bytes + self.head_bytes + self.embedding_bytes

    def table_bytes(self, product: Product) -> int:
        """Bytes of one layer's tables for the inputs of a product, which come with its weights."""
        if product not in self.polished:
            return 0
        inputs = self.body.hidden_size
        if product == "out":
            inputs = self.body.attended_size
        elif product == "down":
            inputs = self.body.ffn_size
        return TABLE_BYTES * inputs

    @property
    def layer_table_bytes(self) -> int:
        """Bytes of the tables of one layer."""
        return sum(self.table_bytes(product) for product in self.polished_products)

    @property
    def polished_products(self) -> tuple[Product, ...]:
        """Products of a layer whose inputs are polished, each once."""
        return tuple(product for product in PRODUCTS if product in self.polished)

"""The layers of the model that is decoded: attention, MLP, experts, and what they weigh."""

from collections.abc import Collection
from typing import Annotated, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from carsim.base.groups import grouped
from carsim.base.section import FieldError, GrownSection, Section
from carsim.base.sizes import NonNegativeInt, PositiveInt
from carsim.base.units import Whole
from carsim.base.yaml_file import shown
from carsim.workload.precision import Role

Size = Annotated[int, Field(gt=0, le=1_000_000)]
Repeats = Annotated[int, Field(gt=0, le=1000)]

Product = Literal["qkv", "out", "gate_up", "down"]
"""The products with weights in a layer, as a trace's precision names them."""

PRODUCTS: tuple[Product, ...] = get_args(Product)

EXPERT_PARTS = 4096
"""Parts of an expert in which expectations are counted, so that results are equal anywhere."""


Reals = NDArray[np.floating] | NDArray[np.integer]
"""Numbers by phase and core."""


class Experts(GrownSection):
    """The MLP of a layer in many copies, of which a router chooses a few for each token."""

    later: ClassVar[frozenset[str]] = frozenset(
        {"shared_gate", "router_bias", "biases", "dense_layers", "step", "dense_ffn_size"}
    )

    count: PositiveInt = Field(description="experts of a layer")
    active: PositiveInt = Field(description="experts that a token goes through")
    shared_ffn_size: NonNegativeInt = Field(
        0, description="width of experts that all tokens go through besides, all together"
    )
    shared_gate: bool = Field(False, description="the router scores the shared experts, too")
    router_bias: bool = Field(False, description="a bias is added to each expert's score")
    biases: bool = Field(False, description="the products of each expert add a bias, 16 bits each")
    dense_layers: NonNegativeInt = Field(
        0, description="first layers that have one MLP for all tokens in place of experts"
    )
    step: PositiveInt = Field(
        1,
        description="every N-th layer has experts, for N = 2 the second, the fourth and so on; the "
        "others have one MLP for all tokens",
    )
    dense_ffn_size: NonNegativeInt = Field(0, description="width of the MLP of these layers")

    @model_validator(mode="after")
    def _make_sense(self) -> "Experts":
        if self.active > self.count:
            problem = f"{self.active} of {self.count} experts cannot be chosen"
            raise FieldError("active", problem, "take at most 'count'")
        if (self.dense_layers > 0 or self.step > 1) != (self.dense_ffn_size > 0):
            problem = f"{self.dense_ffn_size} does not go with {self.dense_layers} dense layers"
            if self.step > 1:
                problem = f"is missing for the layers between those with experts (step {self.step})"
            raise FieldError("dense_ffn_size", problem, "give both, or none")
        return self

    @property
    def scores(self) -> int:
        """Outputs of the router for a token."""
        return self.count + self.shared_gate

    def touched(self, tokens: float | Reals) -> int | NDArray[np.int64]:
        """Expected experts that a number of tokens touch, in 4096ths.

        With E experts, each token misses a given one with a probability of 1 - k / E, so that m
        tokens touch E (1 - (1 - k / E)^m) of them on average: k for one, at most E.

        Simplification: every token chooses k different experts, all sets being equally likely,
        whatever other tokens, layers and steps choose. Real routers prefer some experts, and tokens
        of one text choose alike, so that fewer are touched.

        >>> float(Experts(count=8, active=2).touched(4) / 4096)  # 8 (1 - 0.75^4)
        5.46875
        """
        missed = (1 - self.active / self.count) ** tokens
        touched = np.rint(EXPERT_PARTS * self.count * (1 - missed)).astype(np.int64)
        return touched if touched.ndim else int(touched)


class Latent(Section):
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1).

    The keys and values of all heads are held as one compressed vector of a token, and beside it one
    rotary key that all heads share.
    """

    rank: Size = Field(description="elements of a token's compressed keys and values")
    rotary_size: Size = Field(description="elements of the shared rotary key")
    value_size: Size = Field(description="elements of one head's value")
    query_rank: Size | None = Field(
        None, description="elements of a token's compressed queries; absent: not compressed"
    )


class Body(GrownSection):
    """A LLaMA-style transformer: norms, rotary attention, MLP.

    Weights of norms are counted among the parameters. They are stored bytes only where the model
    gives their precision, and never moved ones (LLaMA-2-7B: 0.004 % of the weights).
    """

    later: ClassVar[frozenset[str]] = frozenset(
        {
            "biases",
            "qk_norm",
            "qk_norm_span",
            "post_norms",
            "norms_per_layer",
            "norm_biases",
            "sinks",
            "positions",
            "window",
            "global_layers",
            "experts",
            "latent",
        }
    )

    n_layers: Repeats = Field(description="layers")
    hidden_size: Size = Field(description="width of the residual stream")
    n_heads: Size = Field(description="query heads")
    n_kv_heads: Size = Field(
        description="key and value heads; fewer than n_heads for grouped queries"
    )
    ffn_size: Size = Field(description="width of the MLP, or of one expert")
    head_size: Size | None = Field(
        None,
        description="elements of one attention head, of latent attention without its rotary part; "
        "hidden_size / n_heads if absent",
    )
    mlp: Literal["gated", "plain"] = Field(
        "gated", description="three matrices (SwiGLU), or two with GELU between them"
    )
    biases: tuple[Product, ...] = Field((), description="products that add a bias, 16 bits each")
    qk_norm: bool = Field(False, description="queries and keys are normed")
    qk_norm_span: Literal["head", "layer"] = Field(
        "head", description="qk_norm has weights for one head, or for all heads of a layer (OLMo-2)"
    )
    post_norms: bool = Field(
        False, description="what attention and MLP put out is normed, too (Gemma)"
    )
    norms_per_layer: PositiveInt | None = Field(
        None,
        description="norms with weights of a layer, where they are not 2, or 4 with post_norms: 1 "
        "where attention and MLP share one (Falcon); counted among the parameters alone",
    )
    norm_biases: bool = Field(False, description="norms have a bias, too (LayerNorm)")
    sinks: bool = Field(False, description="each head has a learned score without a key (gpt-oss)")
    positions: NonNegativeInt = Field(
        0, description="rows of a learned embedding of positions (GPT-2); 0: there is none"
    )
    window: PositiveInt | None = Field(
        None,
        description="newest tokens that a layer attends to, its own included; absent: all of them",
    )
    global_layers: tuple[NonNegativeInt, ...] = Field(
        (), description="layers, counted from 0, that attend to all tokens in spite of window"
    )
    experts: Experts | None = Field(
        None, description="MLPs are a choice of experts; absent: one MLP for all tokens"
    )
    latent: Latent | None = Field(
        None, description="keys and values are held compressed; absent: head by head"
    )

    @model_validator(mode="after")
    def _make_sense(self) -> "Body":
        if self.head_size is None:
            check_multiple("hidden_size", self.hidden_size, "n_heads", self.n_heads)
        check_multiple("n_heads", self.n_heads, "n_kv_heads", self.n_kv_heads)
        layers = self.global_layers
        if layers and self.window is None:
            raise FieldError("global_layers", "means nothing without a window", "give 'window'")
        if list(layers) != sorted(set(layers)) or (layers and layers[-1] >= self.n_layers):
            problem = f"{shown(layers)} are no layers of {self.n_layers} in ascending order"
            raise FieldError("global_layers", problem, f"list some of 0 to {self.n_layers - 1}")
        self.check_plain("biases", self.biases)
        if self.latent is not None and (self.n_kv_heads > 1 or self.qk_norm):
            field = "qk_norm" if self.qk_norm else "n_kv_heads"
            problem = f"{shown(getattr(self, field))} does not go with latent attention"
            raise FieldError(field, problem, "one latent serves all heads: take 1, and no qk_norm")
        if self.experts is not None and self.experts.dense_layers >= self.n_layers:
            problem = f"{self.experts.dense_layers} of {self.n_layers} layers leave none to experts"
            raise FieldError("experts.dense_layers", problem, "leave experts out")
        if all(self.is_dense(layer) for layer in range(self.n_layers)) and self.experts is not None:
            problem = f"{self.experts.step} leaves no layer of {self.n_layers} to experts"
            raise FieldError("experts.step", problem, "take a smaller step, or leave experts out")
        return self

    def check_plain(self, field: str, products: tuple[Product, ...]) -> None:
        """Refuse what a field adds to products of experts or of latent attention."""
        for product in products:
            is_attention = product in ("qkv", "out")
            if (self.latent if is_attention else self.experts) is not None:
                structure = "latent attention" if is_attention else "experts"
                problem = f"{field} of {product} are not simulated with {structure}"
                raise FieldError(field, problem, f"leave out {product}")

    @property
    def head_dim(self) -> int:
        """Elements of one head's key as it is held: of latent attention the latent of all heads."""
        if self.latent is not None:
            return self.latent.rank + self.latent.rotary_size
        return self.own_size

    @property
    def own_size(self) -> int:
        """Elements of one head, of latent attention without its rotary part."""
        return self.head_size or self.hidden_size // self.n_heads

    @property
    def q_size(self) -> int:
        """Elements of one token's Q in one layer, as wide as the keys that are held."""
        return self.n_heads * self.head_dim

    @property
    def attended_size(self) -> int:
        """Elements of one token that attention puts out for the output projection."""
        return self.n_heads * (self.latent.value_size if self.latent else self.head_dim)

    @property
    def kv_size(self) -> int:
        """Elements of one token's K (or V) in one layer."""
        return self.n_kv_heads * self.head_dim

    @property
    def kv_elements(self) -> int:
        """Elements held of one token in one layer: K and V, or the latent that stands for both."""
        return self.kv_size * (1 if self.latent else 2)

    def window_of(self, layer: int) -> int | None:
        """Newest tokens that a layer attends to; None: all."""
        return None if layer in self.global_layers else self.window

    def is_dense(self, layer: int) -> bool:
        """The layer has one MLP for all tokens."""
        experts = self.experts
        if experts is None or layer < experts.dense_layers:
            return True
        return (layer + 1) % experts.step > 0

    def layers_by_mlp(self) -> dict[bool, list[int]]:
        """The layers with one MLP for all tokens (True), and those with experts, if any."""
        return grouped((self.is_dense(layer), layer) for layer in range(self.n_layers))

    def layers_by_window(self) -> dict[int | None, list[int]]:
        """The layers of each window.

        >>> Body(n_layers=4, hidden_size=8, n_heads=2, n_kv_heads=1, ffn_size=8, window=512,
        ...      global_layers=(3,)).layers_by_window()
        {512: [0, 1, 2], None: [3]}
        """
        return grouped((self.window_of(layer), layer) for layer in range(self.n_layers))

    def longest_context(self, context: int) -> int:
        """Tokens that the layer with the widest view reads of a context."""
        return max(int(in_window(context, window)) for window in self.layers_by_window())

    @property
    def attention_weights(self) -> int:
        """Weights of the projections before and after attention of one layer."""
        if self.latent is None:
            return 2 * self.hidden_size * (self.q_size + self.kv_size)
        latent = self.latent
        query_size = self.n_heads * (self.own_size + latent.rotary_size)
        if latent.query_rank:  # queries are compressed first
            query_weights = latent.query_rank * (self.hidden_size + query_size)
        else:
            query_weights = self.hidden_size * query_size
        latent_weights = self.hidden_size * self.head_dim
        key_weights = self.n_heads * latent.rank * self.own_size
        value_weights = self.attended_size * latent.rank
        output_weights = self.attended_size * self.hidden_size
        return query_weights + latent_weights + key_weights + value_weights + output_weights

    @property
    def inner_matrices(self) -> int:
        """Matrices from the hidden size to the MLP's own: gate and up, or up alone."""
        return 2 if self.mlp == "gated" else 1

    def mlp_products(self, *, dense: bool) -> int:
        """Products with weights of an MLP: 3 if it is gated, 2 if it is plain.

        A router is a product. All experts of one matrix count as one, shared experts as another.

        Args:
            dense: The layer has one MLP for all tokens, whatever others have.

        >>> body = Body(n_layers=1, hidden_size=8, n_heads=2, n_kv_heads=1, ffn_size=8)
        >>> body.mlp_products(dense=True)
        3
        """
        matrices = self.inner_matrices + 1
        if self.experts is None or dense:
            return matrices
        shared = matrices if self.experts.shared_ffn_size else 0
        return 1 + matrices + shared

    @property
    def dense_ffn_size(self) -> int:
        """Width of the MLP of layers without experts."""
        return self.ffn_size if self.experts is None else self.experts.dense_ffn_size

    @property
    def mlp_weights(self) -> int:
        """Weights of the MLPs of all layers, routers and all their experts included."""
        return sum(self._mlp_weights_by_role(range(self.n_layers)).values())

    def _mlp_weights_by_role(self, layers: Collection[int]) -> dict[Role, int]:
        """Weights of the MLPs of some layers, by role; roles without weights are left out."""
        matrices = (self.inner_matrices + 1) * self.hidden_size
        dense_layers = sum(self.is_dense(layer) for layer in layers)
        counts: dict[Role, int] = {"mlp": dense_layers * matrices * self.dense_ffn_size}
        if self.experts is not None:
            routed_layers = len(layers) - dense_layers
            counts["experts"] = routed_layers * matrices * self.experts.count * self.ffn_size
            counts["shared_experts"] = routed_layers * matrices * self.experts.shared_ffn_size
            counts["router"] = routed_layers * self.hidden_size * self.experts.scores
        return {role: weights for role, weights in counts.items() if weights}

    @property
    def weights_by_role(self) -> dict[Role, int]:
        """Weights of all layers, by role; roles without weights are left out.

        >>> Body(n_layers=1, hidden_size=8, n_heads=2, n_kv_heads=1, ffn_size=8).weights_by_role
        {'attention_qkv': 128, 'attention_output': 64, 'mlp': 192}
        """
        return self.weights_in(range(self.n_layers))

    def weights_in(self, layers: Collection[int]) -> dict[Role, int]:
        """Weights of some layers, by role; roles without weights are left out."""
        output = self.attended_size * self.hidden_size
        return {
            "attention_qkv": len(layers) * (self.attention_weights - output),
            "attention_output": len(layers) * output,
            **self._mlp_weights_by_role(layers),
        }

    @property
    def weights(self) -> int:
        """Weights of all layers.

        >>> Body(n_layers=32, hidden_size=4096, n_heads=32, n_kv_heads=32, ffn_size=11008).weights
        6476005376
        """
        return self.n_layers * self.attention_weights + self.mlp_weights

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
    def expert_biases(self) -> int:
        """Elements of the biases of one layer's experts, those of its router included."""
        experts = self.experts
        if experts is None:
            return 0
        biases = experts.count * experts.router_bias
        if experts.biases:
            biases += experts.count * (self.inner_matrices * self.ffn_size + self.hidden_size)
        return biases

    @property
    def all_biases(self) -> int:
        """Elements of the biases of all layers, and of scores without a key."""
        of_experts = len(self.layers_by_mlp().get(False, ())) * self.expert_biases
        sinks = self.n_heads * self.sinks
        return self.n_layers * (self.layer_biases + sinks) + of_experts

    @property
    def position_weights(self) -> int:
        """Weights of a learned embedding of positions."""
        return self.positions * self.hidden_size

    @property
    def norms(self) -> int:
        """Weights and biases of the norms of all layers, and of the last norm."""
        vectors = 2 if self.norm_biases else 1
        norms_per_layer = self.norms_per_layer or (4 if self.post_norms else 2)
        of_layer = norms_per_layer * vectors * self.hidden_size
        if self.qk_norm and self.qk_norm_span == "layer":
            of_layer += self.q_size + self.kv_size
        elif self.qk_norm:
            of_layer += 2 * self.head_dim
        if self.latent is not None:
            of_layer += self.latent.rank + (self.latent.query_rank or 0)
        return self.n_layers * of_layer + vectors * self.hidden_size

    @property
    def parameters(self) -> int:
        """Weights, biases, norms and learned positions of all layers, and the last norm."""
        return self.weights + self.all_biases + self.norms + self.position_weights


def in_window(context: Whole, window: int | None) -> Whole:
    """Tokens of a context that are in a window; None is without end."""
    if window is None:
        return context
    return min(context, window) if isinstance(context, int) else np.minimum(context, window)


def check_multiple(field: str, value: int, of: str, divisor: int) -> None:
    """Refuse a value that another one does not divide."""
    if value % divisor:
        raise FieldError(field, f"{value} is no multiple of {of} {divisor}", "change one of them")

"""The layers of the model that is decoded: attention, MLP, experts, and what they weigh."""

from collections import Counter
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from carsim.base.groups import grouped
from carsim.base.section import FieldError, GrownSection, Section
from carsim.base.sizes import NonNegativeInt, PositiveInt
from carsim.base.yaml_file import shown

Size = Annotated[int, Field(gt=0, le=1_000_000)]
Repeats = Annotated[int, Field(gt=0, le=1000)]

Product = Literal["qkv", "out", "gate_up", "down"]
"""The products with weights in a layer, as a trace's precision names them."""

EXPERT_PARTS = 4096
"""Parts of an expert in which expectations are counted, so that results are equal anywhere."""


class Experts(GrownSection):
    """The MLP of a layer in many copies, of which a router chooses a few for each token."""

    later: ClassVar[frozenset[str]] = frozenset(
        {"shared_gate", "router_bias", "dense_layers", "dense_ffn_size"}
    )

    count: PositiveInt = Field(description="experts of a layer")
    active: PositiveInt = Field(description="experts that a token goes through")
    shared_ffn_size: NonNegativeInt = Field(
        0, description="width of experts that all tokens go through besides, all together"
    )
    shared_gate: bool = Field(False, description="the router scores the shared experts, too")
    router_bias: bool = Field(False, description="a bias is added to each expert's score")
    dense_layers: NonNegativeInt = Field(
        0, description="first layers that have one MLP for all tokens in place of experts"
    )
    dense_ffn_size: NonNegativeInt = Field(0, description="width of the MLP of these layers")

    @model_validator(mode="after")
    def _make_sense(self) -> "Experts":
        if self.active > self.count:
            problem = f"{self.active} of {self.count} experts cannot be chosen"
            raise FieldError("active", problem, "take at most 'count'")
        if bool(self.dense_layers) != bool(self.dense_ffn_size):
            problem = f"{self.dense_ffn_size} does not go with {self.dense_layers} dense layers"
            raise FieldError("dense_ffn_size", problem, "give both, or none")
        return self

    @property
    def scores(self) -> int:
        """Outputs of the router for a token."""
        return self.count + self.shared_gate

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

    Weights of norms are counted among the parameters; as bytes they are left out (LLaMA-2-7B:
    0.004 % of the weights).
    """

    later: ClassVar[frozenset[str]] = frozenset(
        {"biases", "qk_norm", "post_norms", "window", "global_layers", "experts", "latent"}
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
        return self

    def check_plain(self, field: str, products: tuple[Product, ...]) -> None:
        """Refuse what a field adds to products of experts or of latent attention."""
        for product in products:
            is_attention = product in ("qkv", "out")
            if (self.latent if is_attention else self.experts) is not None:
                what = "latent attention" if is_attention else "experts"
                problem = f"{field} of {product} are not simulated with {what}"
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
        return self.experts is None or layer < self.experts.dense_layers

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

    def prompt_layers(self) -> Counter[tuple[int | None, bool]]:
        """Numbers of layers by window, and by having one MLP for all tokens."""
        return Counter((self.window_of(n), self.is_dense(n)) for n in range(self.n_layers))

    def longest_context(self, context: int) -> int:
        """Tokens that the layer with the widest view reads of a context."""
        return max(int(in_window(context, window)) for window in self.layers_by_window())

    @property
    def attention_weights(self) -> int:
        """Weights of the projections before and after attention of one layer."""
        if self.latent is None:
            return 2 * self.hidden_size * (self.q_size + self.kv_size)
        latent, heads = self.latent, self.n_heads
        queries = heads * (self.own_size + latent.rotary_size)
        rank = latent.query_rank
        asked = rank * (self.hidden_size + queries) if rank else self.hidden_size * queries
        held = self.hidden_size * self.head_dim + heads * latent.rank * self.own_size
        return asked + held + self.attended_size * (latent.rank + self.hidden_size)

    @property
    def inner_matrices(self) -> int:
        """Matrices from the hidden size to the MLP's own: gate and up, or up alone."""
        return 2 if self.mlp == "gated" else 1

    @property
    def dense_ffn_size(self) -> int:
        """Width of the MLP of layers without experts."""
        return self.ffn_size if self.experts is None else self.experts.dense_ffn_size

    @property
    def mlp_weights(self) -> int:
        """Weights of the MLPs of all layers, routers and all their experts included."""
        matrices = (self.inner_matrices + 1) * self.hidden_size
        layers = self.layers_by_mlp()
        weights = len(layers.get(True, ())) * matrices * self.dense_ffn_size
        if self.experts is None:
            return weights
        width = self.experts.count * self.ffn_size + self.experts.shared_ffn_size
        routed = matrices * width + self.hidden_size * self.experts.scores
        return weights + len(layers[False]) * routed

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
    def parameters(self) -> int:
        """Weights, biases and norms of all layers, and the last norm."""
        norms = (4 if self.post_norms else 2) * self.hidden_size + 2 * self.head_dim * self.qk_norm
        if self.latent is not None:
            norms += self.latent.rank + (self.latent.query_rank or 0)
        experts, added = self.experts, self.n_layers * (self.layer_biases + norms)
        if experts is not None and experts.router_bias:
            added += (self.n_layers - experts.dense_layers) * experts.count
        return self.weights + added + self.hidden_size


def in_window(context: Any, window: int | None) -> Any:
    """Tokens of a context (a number or an array) that are in a window; None is without end."""
    if window is None:
        return context
    return min(context, window) if isinstance(context, int) else np.minimum(context, window)


def check_multiple(field: str, value: int, of: str, divisor: int) -> None:
    """Refuse a value that another one does not divide."""
    if value % divisor:
        raise FieldError(field, f"{value} is no multiple of {of} {divisor}", "change one of them")

"""The keys of a ``config.json`` that are read, each with its type and its limits."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from carsim.base.section import FieldError
from carsim.workload.body import Size, check_multiple

PUBLISHED = "take the published value"

SET_WEIGHTS = "set model.weights in the design, such as {bits: 4, group: 128, scale_bits: 16}"
"""Cure for a format that is not read; the file's quantisation is ignored then."""

DESCRIBE = "choose another model, or describe this one in the section model, without 'from'"
"""Cure for a model that no reader can express."""

Layer = Literal["sliding_attention", "full_attention", "chunked_attention"]
Stored = Literal["float32", "float16", "bfloat16"]
Activation = Literal[
    "silu", "swish", "swiglu", "gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh"
]
"""Activations of MLPs; those of gated MLPs count alike, and so do those of plain ones."""

Count = Annotated[int, Field(ge=0, le=1_000_000)]
Layers = Annotated[int, Field(ge=0, le=1000)]


class HfConfig(BaseModel):
    """The keys that are read; what a type of model does not need may be absent."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    model_type: str
    saved_as: Any = Field(None, alias="_name_or_path")
    hidden_size: Size
    intermediate_size: Size
    num_hidden_layers: Annotated[int, Field(gt=0, le=1000)]
    num_attention_heads: Size
    num_key_value_heads: Size | None = None
    head_dim: Size | None = None
    vocab_size: Size
    tie_word_embeddings: bool = False
    max_position_embeddings: Annotated[int, Field(gt=0, le=1 << 30)] | None = None
    hidden_act: Activation | None = None
    hidden_activation: Activation | None = None
    attention_bias: bool = False
    mlp_bias: bool = False
    qkv_bias: bool = True
    bias: bool = False
    use_qk_norm: bool = False
    sliding_window: Size | None = None
    sliding_window_pattern: Size = 6
    attention_chunk_size: Size | None = None
    no_rope_layers: tuple[int, ...] | None = None
    layer_types: tuple[Layer, ...] | None = None
    num_experts: Size | None = None
    num_local_experts: Size | None = None
    n_routed_experts: Size | None = None
    num_experts_per_tok: Size | None = None
    moe_intermediate_size: Size | None = None
    intermediate_size_mlp: Size | None = None
    interleave_moe_layer_step: Size = 1
    decoder_sparse_step: Size = 1
    shared_expert_intermediate_size: Count | None = None
    n_shared_experts: Count | None = None
    first_k_dense_replace: Layers = 0
    topk_method: str | None = None
    q_lora_rank: Size | None = None
    kv_lora_rank: Size | None = None
    qk_nope_head_dim: Size | None = None
    qk_rope_head_dim: Size | None = None
    v_head_dim: Size | None = None
    new_decoder_architecture: bool = False
    multi_query: bool = True
    alibi: bool = False
    rope_scaling: dict[str, Any] | None = None
    dtype: Stored | None = None
    torch_dtype: Stored | None = None

    @model_validator(mode="after")
    def _make_sense(self) -> "HfConfig":
        heads = self.num_attention_heads
        if self.head_dim is None and self.hidden_size % heads:
            problem = f"{heads} do not divide hidden_size {self.hidden_size}, without a head_dim"
            raise FieldError("num_attention_heads", problem, PUBLISHED)
        check_multiple("num_attention_heads", heads, "num_key_value_heads", self.kv_heads)
        layers = self.num_hidden_layers
        for field in ("layer_types", "no_rope_layers"):
            by_layer = getattr(self, field)
            if by_layer and len(by_layer) != layers:
                problem = f"a list of {len(by_layer)} where {layers} belong"
                raise FieldError(field, problem, PUBLISHED)
        return self

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values."""
        return self.num_key_value_heads or self.num_attention_heads

    @property
    def head_size(self) -> int:
        """Elements of one head."""
        return self.head_dim or self.hidden_size // self.num_attention_heads

    @property
    def float_bits(self) -> int:
        """Bits of what is not quantised."""
        return 32 if (self.dtype or self.torch_dtype) == "float32" else 16

    def needed(self, key: str) -> Any:
        """A key that this type of model has to have."""
        value = getattr(self, key)
        if value is None:
            raise FieldError(key, "is missing", "add it, or take the model's whole config.json")
        return value

    @property
    def longest_context(self) -> int | None:
        """Tokens of the longest text, with the scaling of positions that the file asks for.

        YaRN, linear and dynamic scaling stretch the positions that the model was trained on by
        ``factor``. Most files give the stretched length as ``max_position_embeddings``, and the
        trained one as ``original_max_position_embeddings``; some of Qwen's give the trained one
        twice.
        """
        stated = self.max_position_embeddings
        scaling = self.rope_scaling or {}
        kind = scaling.get("rope_type", scaling.get("type"))
        factor = scaling.get("factor")
        trained = scaling.get("original_max_position_embeddings")
        if stated is None or kind != "yarn" or not isinstance(factor, int | float):
            return stated
        if not isinstance(trained, int) or isinstance(factor, bool) or not 1 < factor <= 1024:
            return stated
        return max(stated, int(trained * factor))

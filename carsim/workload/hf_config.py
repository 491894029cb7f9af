"""From a model's own file - a ``config.json`` of Hugging Face - to the section ``model``.

What is read: layers, widths, heads and key heads, head size, attention windows by layer, biases,
norms of queries and keys, latent attention, experts, vocabulary, tied embeddings, the longest
context, and the precision that the weights are stored in. Keys that a file leaves out take the
default of the class of transformers that reads it (those of transformers 5.23,
``configuration_*.py``), where there is one that published files rely on; else they are missing.

Simplifications: positions, the constants of norms and initialisers make no difference to time or
memory; caps on scores and logits are not counted; towers for pictures or sound are left out, so
that of a model of text and pictures the text is decoded. LLaMA stands for LLaMA 1 to 3, TinyLlama,
SmolLM, SmolLM2 and Yi. Granite scales embedding, attention, residual and logits by constants
besides. Every fourth layer of SmolLM3 has no rotary embedding. Phi 3 stores Q, K and V as one
matrix, gate and up as another. Layers of DeepSeek that predict tokens beyond the next one are left
out, as the authors' counts do.
"""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from carsim.base.errors import InputError
from carsim.base.files import read_json
from carsim.base.section import FieldError, first_problem
from carsim.base.yaml_file import MAX_BYTES, shown
from carsim.workload.body import Size, check_multiple

CURE = "name a config.json of Hugging Face, or its folder"
PUBLISHED = "take the published value"

Layer = Literal["sliding_attention", "full_attention"]
Stored = Literal["float32", "float16", "bfloat16"]
Gate = Literal["silu", "swish", "gelu_pytorch_tanh", "gelu"]
"""Activations of gated MLPs; all count alike."""


class Quantization(BaseModel):
    """How weights were quantised."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    quant_method: str
    bits: Size | None = None
    group_size: Annotated[int, Field(ge=-1)] = 128
    weight_block_size: tuple[int, ...] | None = None


class HfConfig(BaseModel):
    """The keys that are read; what a type of model does not need may be absent."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")

    model_type: str
    saved_as: Any = Field(None, alias="_name_or_path")
    hidden_size: Size
    intermediate_size: Size
    num_hidden_layers: Size
    num_attention_heads: Size
    num_key_value_heads: Size | None = None
    head_dim: Size | None = None
    vocab_size: Size
    tie_word_embeddings: bool = False
    max_position_embeddings: Annotated[int, Field(gt=0, le=1 << 30)] | None = None
    hidden_act: Gate | None = None
    hidden_activation: Gate | None = None
    attention_bias: bool = False
    mlp_bias: bool = False
    qkv_bias: bool = True
    sliding_window: Size | None = None
    sliding_window_pattern: Size = 6
    layer_types: tuple[Layer, ...] | None = None
    num_experts: Size | None = None
    num_local_experts: Size | None = None
    n_routed_experts: Size | None = None
    num_experts_per_tok: Size | None = None
    moe_intermediate_size: Size | None = None
    shared_expert_intermediate_size: Size | None = None
    n_shared_experts: Size | None = None
    first_k_dense_replace: Annotated[int, Field(ge=0, le=1000)] = 0
    topk_method: str | None = None
    q_lora_rank: Size | None = None
    kv_lora_rank: Size | None = None
    qk_nope_head_dim: Size | None = None
    qk_rope_head_dim: Size | None = None
    v_head_dim: Size | None = None
    dtype: Stored | None = None
    torch_dtype: Stored | None = None
    quantization_config: Quantization | None = None

    @model_validator(mode="after")
    def _make_sense(self) -> "HfConfig":
        heads, layers = self.num_attention_heads, self.num_hidden_layers
        if self.head_dim is None and self.hidden_size % heads:
            problem = f"{heads} do not divide hidden_size {self.hidden_size}, without a head_dim"
            raise FieldError("num_attention_heads", problem, PUBLISHED)
        check_multiple("num_attention_heads", heads, "num_key_value_heads", self.kv_heads)
        if self.layer_types is not None and len(self.layer_types) != layers:
            problem = f"a list of {len(self.layer_types)} where {layers} belong"
            raise FieldError("layer_types", problem, PUBLISHED)
        return self

    @property
    def kv_heads(self) -> int:
        """Heads of keys and values."""
        return self.num_key_value_heads or self.num_attention_heads

    @property
    def head_size(self) -> int:
        """Elements of one head."""
        return self.head_dim or self.hidden_size // self.num_attention_heads

    def needed(self, key: str) -> Any:
        """A key that this type of model has to have."""
        value = getattr(self, key)
        if value is None:
            raise FieldError(key, "is missing", "add it, or take the model's whole config.json")
        return value


_GEMMA = {"head_dim": 256, "tie_word_embeddings": True, "vocab_size": 256_000}
_GEMMA3 = {
    **_GEMMA,
    "vocab_size": 262_208,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "max_position_embeddings": 131_072,
    "sliding_window": 4096,
}
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "gemma": _GEMMA,
    "gemma2": {**_GEMMA, "sliding_window": 4096},
    "gemma3": _GEMMA3,
    "gemma3_text": _GEMMA3,
    "mixtral": {"num_local_experts": 8, "num_experts_per_tok": 2},
    "qwen3": {"head_dim": 128},
    "smollm3": {"tie_word_embeddings": True},
}
"""Type -> what its files may leave out."""

LATENT = ("deepseek_v2", "deepseek_v3")
_PLAIN = ("deepseek", "granite", "llama", "mistral", "phi3", "qwen2", "qwen2_moe", "qwen3_moe")
READ = sorted((*DEFAULTS, *LATENT, *_PLAIN))
"""Types that are read."""

QK_NORM = ("gemma3", "gemma3_text", "qwen3", "qwen3_moe")
POST_NORMS = ("gemma2", "gemma3", "gemma3_text")
WINDOWED = ("mistral", "mixtral", "phi3")
"""Types whose layers all have a window, or none where it is null, as in Mistral from 0.2 on."""

EXPERTS = {
    **dict.fromkeys(("qwen2_moe", "qwen3_moe"), "num_experts"),
    **dict.fromkeys(("deepseek", *LATENT), "n_routed_experts"),
    "mixtral": "num_local_experts",
}
"""Type -> key of the number of experts."""

_SPARSE = "layers without experts between those with experts are not simulated"
UNSUPPORTED = {
    "decoder_sparse_step": (1, _SPARSE),
    "mlp_only_layers": ([], _SPARSE),
    "moe_layer_freq": (1, "layers without experts are the first ones here"),
    "use_sliding_window": (False, "no published Qwen has windows"),
    "use_bidirectional_attention": (False, "decoding is causal here"),
}
"""Keys that ask for what is not simulated: the value that does not, and the reason."""

OF_THE_WHOLE = ("dtype", "torch_dtype", "quantization_config", "tie_word_embeddings")
"""Keys beside the text's that are about all of a model."""


class HfFile(NamedTuple):
    """A file that was read, and the place in it that the keys are of, as errors name it."""

    path: Path
    place: str
    config: HfConfig


def load_hf_config(path: Path, kinds: Collection[str] = READ) -> HfFile:
    """Read what a file says of the text's layers, checked key by key.

    Args:
        path: A ``config.json``, or the folder that holds it.
        kinds: Types of model that the caller can use.

    Raises:
        InputError: The file is no such file, is of another type, lacks a key, or holds a value that
            makes no sense or that nothing here can express; one line.
    """
    path = path / "config.json" if path.is_dir() else path
    place = str(path)
    raw = read_json(path, MAX_BYTES, CURE)
    kind = raw.get("model_type")
    if not isinstance(kind, str) or kind not in kinds:
        cure = f"read are {', '.join(kinds)}" + "; or write model.body yourself" * (kinds is READ)
        raise InputError(f"{place}: $.model_type", f"{shown(kind)} is not read", cure)
    place += ": $"
    if "text_config" in raw:
        inner = raw["text_config"]
        if not isinstance(inner, dict):
            raise InputError(f"{place}.text_config", f"should hold keys, got {shown(inner)}", CURE)
        raw = {key: raw[key] for key in OF_THE_WHOLE if key in raw} | inner
        place += ".text_config"
    # Null stands for what is left out, as transformers has it.
    stated = {key: value for key, value in raw.items() if value is not None}
    for key, (usual, reason) in UNSUPPORTED.items():
        if (value := stated.get(key, usual)) != usual:
            problem = f"{shown(value)}: {reason}"
            raise InputError(f"{place}.{key}", problem, "describe another model")
    whole = {**DEFAULTS.get(kind, {}), **stated, "model_type": kind}
    try:
        config = HfConfig.model_validate_json(json.dumps(whole))  # where lists are tuples
    except ValidationError as error:
        found = first_problem(error, whole)
        raise InputError(f"{place}.{found.path}", found.problem, found.cure) from None
    return HfFile(path, place, config)


def read_hf_config(path: Path, given: Collection[str] = ()) -> dict[str, Any]:
    """The section ``model`` that a file describes.

    Args:
        path: A ``config.json``, or the folder that holds it.
        given: Keys of the section that the design gives itself, which are not read.

    Raises:
        InputError: As :func:`load_hf_config`.
    """
    path, place, config = load_hf_config(path)
    bits = 32 if (config.dtype or config.torch_dtype) == "float32" else 16
    try:
        section = {"name": _name(path, config.saved_as), **_model(config)}
        weights = {"bits": bits} if "weights" in given else _weights(config, bits)
    except FieldError as error:
        raise InputError(f"{place}.{error.field}", error.problem, error.cure) from None
    others = {key: {"bits": bits} for key in ("kv", "activations", "replay")}
    return {**section, "weights": weights, **others}


def _name(path: Path, saved: Any) -> str:
    """Name of the model: what it was saved as, else the folder, else the file."""
    if isinstance(saved, str) and saved.isprintable() and saved.strip("/. "):
        return saved.rstrip("/").split("/")[-1]
    return path.resolve().parent.name if path.name == "config.json" else path.stem


def _model(config: HfConfig) -> dict[str, Any]:
    """Body, head and context."""
    kind, hidden, heads = config.model_type, config.hidden_size, config.num_attention_heads
    body = {
        "n_layers": config.num_hidden_layers,
        "hidden_size": hidden,
        "n_heads": heads,
        "n_kv_heads": config.kv_heads,
        "ffn_size": config.intermediate_size,
        "head_size": None if config.head_size * heads == hidden else config.head_size,
        "biases": _biases(config),
        "qk_norm": kind in QK_NORM,
        "post_norms": kind in POST_NORMS,
        **windows_of(config),
        **_experts(config),
        **(_latent(config) if kind in LATENT else {}),
    }
    embedding = "tied" if config.tie_word_embeddings else "separate"
    head = {"kind": "linear", "vocabulary": config.vocab_size, "embedding": embedding}
    return {"body": body, "head": head, "context": config.max_position_embeddings}


def _biases(config: HfConfig) -> tuple[str, ...]:
    """Products with biases; Qwen 1.5 to 2.5 have those of Q, K and V, whatever the file says."""
    if config.model_type in ("qwen2", "qwen2_moe"):
        return ("qkv",) if config.qkv_bias else ()
    mlp = ("gate_up", "down") if config.mlp_bias else ()
    return (("qkv", "out") if config.attention_bias else ()) + mlp


def windows_of(config: HfConfig) -> dict[str, Any]:
    """Fields of the body for attention windows."""
    kind, types = config.model_type, config.layer_types

    def is_local(layer: int) -> bool:
        if kind.startswith("qwen"):
            return False
        if types is not None:
            return types[layer] == "sliding_attention"
        if kind == "gemma2":
            return layer % 2 == 0
        if kind.startswith("gemma3"):
            return (layer + 1) % config.sliding_window_pattern > 0
        return kind in WINDOWED and config.sliding_window is not None

    layers = range(config.num_hidden_layers)
    if not any(map(is_local, layers)):
        return {}
    everywhere = tuple(layer for layer in layers if not is_local(layer))
    return {"window": config.needed("sliding_window"), "global_layers": everywhere}


def _experts(config: HfConfig) -> dict[str, Any]:
    """Experts, and the width of one, which goes before that of the MLP of layers without experts.

    Shared experts of DeepSeek are as wide as others; its first layers have one MLP for all tokens.
    """
    kind, wide = config.model_type, config.moe_intermediate_size
    key = EXPERTS.get(kind, "")
    if not key or (kind.startswith("deepseek") and config.n_routed_experts is None):
        return {}
    count = config.needed(key)
    if kind != "mixtral":
        wide = config.needed("moe_intermediate_size")
    shared, dense = (config.n_shared_experts or 0) * (wide or 0), config.first_k_dense_replace
    if kind == "qwen2_moe":
        shared = config.needed("shared_expert_intermediate_size")
    experts = {
        "count": count,
        "active": config.needed("num_experts_per_tok"),
        "shared_ffn_size": shared,
        "shared_gate": kind == "qwen2_moe",
        "router_bias": config.topk_method == "noaux_tc",
        "dense_layers": dense,
        "dense_ffn_size": config.intermediate_size * (dense > 0),
    }
    return {"experts": experts, "ffn_size": wide or config.intermediate_size}


def _latent(config: HfConfig) -> dict[str, Any]:
    return {
        "n_kv_heads": 1,
        "head_size": config.needed("qk_nope_head_dim"),
        "latent": {
            "rank": config.needed("kv_lora_rank"),
            "rotary_size": config.needed("qk_rope_head_dim"),
            "value_size": config.needed("v_head_dim"),
            "query_rank": config.q_lora_rank,
        },
    }


def _weights(config: HfConfig, bits: int) -> dict[str, Any]:
    """Precision of the weights: as stored, or as GPTQ or AWQ have quantised them."""
    held = config.quantization_config
    if held is None:
        return {"bits": bits}
    if held.quant_method == "fp8" and held.weight_block_size == (128, 128):
        return {"bits": 8, "group": 128 * 128, "scale_bits": 32}  # a scale for each block
    if held.quant_method not in ("gptq", "awq"):
        problem = f"{shown(held.quant_method)} is neither gptq, awq nor fp8 in blocks of 128 x 128"
        raise FieldError("quantization_config", problem, "set model.weights in the design")
    if held.bits is None:
        raise FieldError("quantization_config.bits", "is missing", PUBLISHED)
    if held.group_size < 1:  # a scale for each column, which weighs nothing
        return {"bits": held.bits}
    return {"bits": held.bits, "group": held.group_size, "scale_bits": 16, "zero_bits": held.bits}

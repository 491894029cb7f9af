"""Models in GGUF files: the shape from the metadata, and the bits of each tensor.

The library gguf (extra ``checkpoint``) parses the file. The metadata become the keys that a
``config.json`` of the same type has, which are read like those.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from carsim.base.environment import library
from carsim.base.errors import InputError, first_line
from carsim.base.files import admit
from carsim.base.yaml_file import shown
from carsim.workload.hf_config.gguf_types import FLOAT_BITS, Block, form_of_type
from carsim.workload.hf_config.keys import DESCRIBE
from carsim.workload.hf_config.quantisation import Form, Scheme, plain
from carsim.workload.hf_config.tensors import Matrix

_FETCH = "fetch it again, whole"

ARCHITECTURES: Mapping[str, str] = {
    "command-r": "cohere",
    "deepseek": "deepseek",
    "falcon": "falcon",
    "gemma": "gemma",
    "gemma2": "gemma2",
    "gemma3": "gemma3_text",
    "glm4": "glm4",
    "gpt-oss": "gpt_oss",
    "gpt2": "gpt2",
    "granite": "granite",
    "llama": "llama",
    "olmo2": "olmo2",
    "phi3": "phi3",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "qwen3moe": "qwen3_moe",
    "starcoder": "gpt_bigcode",
}
"""``general.architecture`` -> ``model_type``."""

KEYS: Mapping[str, str] = {
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.sliding_window": "sliding_window",
    "context_length": "max_position_embeddings",
    "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
    "vocab_size": "vocab_size",
}
"""Keys of an architecture -> keys of a ``config.json``."""

EXPERT_KEYS = ("num_local_experts", "n_routed_experts")
"""Other names of ``num_experts``; a type reads its own."""

TENSORS: Mapping[str, tuple[str, ...]] = {
    "q": ("attn_q", "attn_qkv"),
    "k": ("attn_k", "attn_qkv"),
    "v": ("attn_v", "attn_qkv"),
    "out": ("attn_output",),
    "gate": ("ffn_gate", "ffn_up"),
    "up": ("ffn_up",),
    "down": ("ffn_down",),
    "router": ("ffn_gate_inp",),
    "expert_gate": ("ffn_gate_exps",),
    "expert_up": ("ffn_up_exps",),
    "expert_down": ("ffn_down_exps",),
    "embedding": ("token_embd",),
    "head": ("output", "token_embd"),
}
"""Part of a model -> names of its tensor."""


class GgufFile(NamedTuple):
    """A GGUF file.

    Attributes:
        config: Keys as a ``config.json`` has them.
        scheme: Form of each matrix.
        tensor_bytes: Bytes of all tensors.
    """

    config: dict[str, Any]
    scheme: Scheme
    tensor_bytes: int


def read_gguf(path: Path) -> GgufFile:
    """Read a GGUF file.

    Raises:
        InputError: It cannot be read, is damaged, or is of a type that is not read; or the library
            gguf is not installed.
    """
    place = str(path)
    gguf = library("gguf", place)
    if not admit(path).is_file():
        raise InputError(place, "cannot be read: no such file", "check the path")
    try:
        reader = gguf.GGUFReader(path)
        metadata = {key: field.contents() for key, field in _small_fields(reader.fields)}
        tensors = list(reader.tensors)
    except Exception as error:  # a damaged file makes the library raise whatever it likes
        problem = f"is no complete GGUF file ({first_line(error)})"
        raise InputError(place, problem, _FETCH) from error
    names = {tensor.name for tensor in tensors}
    vocabulary = reader.fields.get("tokenizer.ggml.tokens")
    config = _config(metadata, place)
    if "vocab_size" not in config and vocabulary is not None:
        config["vocab_size"] = len(vocabulary.data)
    config["tie_word_embeddings"] = "output.weight" not in names
    sizes = gguf.GGML_QUANT_SIZES
    form_of = {
        tensor.name: form_of_type(
            tensor.tensor_type.name, Block(*(int(size) for size in sizes[tensor.tensor_type]))
        )
        for tensor in tensors
    }
    types = Counter(tensor.tensor_type.name for tensor in tensors)
    tensor_bytes = sum(int(tensor.n_bytes) for tensor in tensors)
    scheme = Scheme(f"GGUF, {types.most_common(1)[0][0]}", _lookup(form_of))
    return GgufFile(config, scheme, tensor_bytes)


def _small_fields(fields: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Metadata without the lists of a tokenizer."""
    return [(key, field) for key, field in fields.items() if "tokenizer" not in key]


def _config(metadata: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Keys of a ``config.json`` from the metadata."""
    architecture = metadata.get("general.architecture")
    kind = ARCHITECTURES.get(str(architecture))
    if kind is None:
        problem = f"{shown(architecture)} is none of {', '.join(ARCHITECTURES)}"
        raise InputError(f"{place}: general.architecture", problem, DESCRIBE)
    config: dict[str, Any] = {"model_type": kind, "torch_dtype": "float16"}
    name = metadata.get("general.name")
    if isinstance(name, str):
        config["_name_or_path"] = name
    for key, theirs in KEYS.items():
        value = metadata.get(f"{architecture}.{key}")
        if isinstance(value, list):  # one number for each layer
            if len(set(value)) > 1:
                problem = f"layers differ: {shown(value[:8])}"
                raise InputError(f"{place}: {architecture}.{key}", problem, DESCRIBE)
            value = value[0]
        if value is not None:
            config[theirs] = value
    for key in EXPERT_KEYS:
        if "num_experts" in config:
            config[key] = config["num_experts"]
    if kind == "llama" and "num_experts" in config:
        config["model_type"] = "mixtral"
    return config


def _lookup(form_of: Mapping[str, Form]) -> Callable[[Matrix], Form]:
    """The form of a matrix by its tensor's name."""

    def form(matrix: Matrix) -> Form:
        prefix = "" if matrix.layer is None else f"blk.{matrix.layer}."
        for name in TENSORS.get(matrix.part, ()):
            stored = form_of.get(f"{prefix}{name}.weight")
            if stored is not None:
                return stored
        return plain(FLOAT_BITS)

    return form


def is_gguf(path: Path) -> bool:
    """The path names a GGUF file."""
    return re.fullmatch(r"\.gguf", path.suffix, re.IGNORECASE) is not None

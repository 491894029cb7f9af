"""From a model's own file - a ``config.json`` of Hugging Face - to the section ``model``.

What is read: layers, widths, heads and key heads, head size, attention windows by layer, biases,
norms of queries and keys, experts, vocabulary, tied embeddings, and the precision that the weights
are stored in. Keys that a file leaves out take the default of the class of transformers that reads
it (those of transformers 5.23, ``configuration_*.py``), where there is one that published files
rely on; else they are missing.

Simplifications: positions, the constants of norms and initialisers make no difference to time or
memory; caps on scores and logits are not counted; towers for pictures or sound are left out, so
that of a model of text and pictures the text is decoded.
"""

import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from carsim.base.errors import InputError
from carsim.base.files import read_text
from carsim.base.yaml_file import MAX_BYTES, shown

Section = dict[str, Any]


class _Config(NamedTuple):
    """The keys of a file; null stands for what is left out, as transformers has it.

    Attributes:
        place: Name of the file, and the path to the keys within it.
        keys: The keys.
    """

    place: str
    keys: Mapping[str, Any]

    def refused(self, key: str, problem: str, cure: str) -> InputError:
        """An error about a key."""
        return InputError(f"{self.place}.{key}", problem, cure)

    def has(self, key: str) -> bool:
        """The key is given, and not null."""
        return self.keys.get(key) is not None

    def count(self, key: str, default: int | None = None) -> int:
        """A positive whole number."""
        value = self.keys.get(key)
        value = default if value is None else value
        if value is None:
            raise self.refused(key, "is missing", "add it, or take the model's whole config.json")
        if type(value) is not int or not 0 < value <= MOST:
            problem = f"should be a positive whole number, got {shown(value)}"
            raise self.refused(key, problem, "take the published value")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self.keys.get(key)
        value = default if value is None else value
        if type(value) is not bool:
            problem = f"should be true or false, got {shown(value)}"
            raise self.refused(key, problem, "take the published value")
        return value

    def without(self, key: str, reason: str, *meaningless: Any) -> None:
        """Refuse a key that asks for what the simulator cannot express."""
        value = self.keys.get(key)
        if value is not None and value not in meaningless:
            raise self.refused(key, f"{shown(value)}: {reason}", "describe another model")


MOST = 1_000_000
"""No size of a model comes near it; the limit of a design's sizes."""

ACTIVATIONS = ("silu", "swish", "gelu_pytorch_tanh", "gelu")
"""Of gated MLPs; all count alike."""

STORED_BITS = {"float32": 32, "float16": 16, "bfloat16": 16}
"""Bits of a number by the name of its type."""


def read_hf_config(path: Path, given: Collection[str] = ()) -> Section:
    """The section ``model`` that a file describes.

    Args:
        path: A ``config.json``, or the folder that holds it.
        given: Keys of the section that the design gives itself, which are not read.

    Raises:
        InputError: The file is no such file, names a type of model that is not known, lacks a key,
            or holds a value that makes no sense or that the simulator cannot express; one line.
    """
    if path.is_dir():
        path = path / "config.json"
    config = _read(path)
    kind = config.keys.get("model_type")
    if kind is None:
        raise config.refused("model_type", "is missing", "name a config.json of Hugging Face")
    if not isinstance(kind, str) or kind not in MODEL_TYPES:
        reason = f": {NOT_READ[kind]}" if isinstance(kind, str) and kind in NOT_READ else ""
        raise config.refused(
            "model_type",
            f"{shown(kind)} is not read{reason}",
            f"read are {', '.join(sorted(MODEL_TYPES))}; or write model.body yourself",
        )
    if "text_config" in config.keys:
        inner = config.keys["text_config"]
        if not isinstance(inner, dict):
            problem = f"should hold keys, got {shown(inner)}"
            raise config.refused("text_config", problem, "take the model's whole config.json")
        outer = {key: value for key, value in config.keys.items() if key in _OF_THE_WHOLE}
        config = _Config(f"{config.place}.text_config", {**outer, **inner})
    section = {"name": _name(path, config), **MODEL_TYPES[kind](config)}
    bits = _stored_bits(config)
    weights = {"bits": bits} if "weights" in given else _weights(config, bits)
    others = {key: {"bits": bits} for key in ("kv", "activations", "replay")}
    return {**section, "weights": weights, **others}


_OF_THE_WHOLE = ("dtype", "torch_dtype", "quantization_config", "tie_word_embeddings")
"""Keys beside the text's that are about all of the model."""


def _read(path: Path) -> _Config:
    place, cure = str(path), "name a config.json of Hugging Face, or its folder"
    try:
        loaded = json.loads(read_text(path, MAX_BYTES, cure))
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:100] or type(error).__name__
        raise InputError(place, f"is no JSON: {reason}", cure) from None
    if not isinstance(loaded, dict):
        raise InputError(place, "should hold keys", cure)
    return _Config(f"{place}: $", loaded)


def _name(path: Path, config: _Config) -> str:
    """Name of the model: what it was saved as, else the folder, else the file."""
    saved = config.keys.get("_name_or_path")
    if isinstance(saved, str) and saved.isprintable() and saved.strip("/. "):
        return saved.rstrip("/").split("/")[-1]
    return path.resolve().parent.name if path.name == "config.json" else path.stem


def _stored_bits(config: _Config) -> int:
    """Bits of the type that weights are stored in; 16 where the file does not say."""
    key = "dtype" if config.has("dtype") else "torch_dtype"
    name = config.keys.get(key)
    if name is None:
        return 16
    found = STORED_BITS.get(name) if isinstance(name, str) else None
    if found is None:
        problem = f"{shown(name)} is none of {', '.join(STORED_BITS)}"
        raise config.refused(key, problem, "leave it out, and set the bits in the design")
    return found


def _weights(config: _Config, bits: int) -> Section:
    """Precision of the weights: as stored, or as GPTQ or AWQ have quantised them."""
    held = config.keys.get("quantization_config")
    if held is None:
        return {"bits": bits}
    place = f"{config.place}.quantization_config"
    if not isinstance(held, dict) or held.get("quant_method") not in ("gptq", "awq"):
        method = held.get("quant_method") if isinstance(held, dict) else held
        raise InputError(
            place, f"{shown(method)} is neither gptq nor awq", "set model.weights in the design"
        )
    quantised = _Config(place, held)
    bits = quantised.count("bits")
    if held.get("group_size") == -1:  # a scale for each column, which weighs nothing
        return {"bits": bits}
    group = quantised.count("group_size", 128)
    return {"bits": bits, "group": group, "scale_bits": 16, "zero_bits": bits}


# ------------------------------------------------------------------------------ types of models


def _model(
    config: _Config,
    *,
    head_size: int | None = None,
    tied: bool = False,
    vocabulary: int | None = None,
    **of_kind: Any,
) -> Section:
    """Body and head that all types share.

    Args:
        config: The file.
        head_size: Default of ``head_dim``; None: the hidden size over the heads.
        tied: Default of ``tie_word_embeddings``.
        vocabulary: Default of ``vocab_size``.
        of_kind: Further fields of the body; what is empty is left out.
    """
    hidden, heads = config.count("hidden_size"), config.count("num_attention_heads")
    kv_heads = config.count("num_key_value_heads", heads)
    if heads % kv_heads:
        raise config.refused(
            "num_key_value_heads",
            f"{kv_heads} do not divide num_attention_heads {heads}",
            "take the published value",
        )
    if not config.has("head_dim") and head_size is None and hidden % heads:
        raise config.refused(
            "num_attention_heads",
            f"{heads} do not divide hidden_size {hidden}, and there is no head_dim",
            "take the published values",
        )
    size = config.count("head_dim", head_size or hidden // heads)
    body = {
        "n_layers": config.count("num_hidden_layers"),
        "hidden_size": hidden,
        "n_heads": heads,
        "n_kv_heads": kv_heads,
        "ffn_size": config.count("intermediate_size"),
        **({"head_size": size} if size * heads != hidden else {}),
        **{field: value for field, value in of_kind.items() if value},
    }
    is_tied = config.flag("tie_word_embeddings", tied)
    head = {
        "kind": "linear",
        "vocabulary": config.count("vocab_size", vocabulary),
        "embedding": "tied" if is_tied else "separate",
    }
    _check_activation(config)
    return {"body": body, "head": head}


def _check_activation(config: _Config) -> None:
    key = "hidden_activation" if config.has("hidden_activation") else "hidden_act"
    if config.has(key) and config.keys[key] not in ACTIVATIONS:
        problem = f"{shown(config.keys[key])} is none of {', '.join(ACTIVATIONS)}"
        raise config.refused(key, problem, "describe another model")


def _windows(config: _Config, local: Callable[[int], bool], default: int | None = None) -> Section:
    """Fields of the body for attention windows.

    Args:
        config: The file.
        local: Whether a layer has the window, where ``layer_types`` does not say.
        default: Default of ``sliding_window``.
    """
    n_layers = config.count("num_hidden_layers")
    has_window = [local(layer) for layer in range(n_layers)]
    types = config.keys.get("layer_types")
    if types is not None:
        known = {"sliding_attention": True, "full_attention": False}
        strange = [each for each in types if each not in known] if _is_texts(types) else [types]
        if strange or len(types) != n_layers:
            what = shown(strange[0]) if strange else f"a list of {len(types)}"
            raise config.refused(
                "layer_types",
                f"{what} where {n_layers} of {' and '.join(known)} belong",
                "describe another model",
            )
        has_window = [known[each] for each in types]
    if not any(has_window):
        return {}
    everywhere = tuple(layer for layer, has in enumerate(has_window) if not has)
    return {"window": config.count("sliding_window", default), "global_layers": everywhere}


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _llama(config: _Config) -> Section:
    # LLaMA 1 to 3, TinyLlama, SmolLM and SmolLM2.
    attention = ("qkv", "out") if config.flag("attention_bias", False) else ()
    mlp = ("gate_up", "down") if config.flag("mlp_bias", False) else ()
    return _model(config, biases=attention + mlp)


def _mistral(config: _Config) -> Section:
    # All layers have the window, or none where it is null, as from version 0.2 on.
    return _model(config, **_windows(config, lambda _: config.has("sliding_window")))


def _phi3(config: _Config) -> Section:
    # Q, K and V are stored as one matrix, gate and up as another: the arithmetic is the same.
    # Published files name a window in every layer (2,047 of 4,096 tokens in Phi-3-mini-4k).
    return _mistral(config)


def _gemma(config: _Config) -> Section:
    return _model(config, head_size=256, tied=True, vocabulary=256_000)


def _gemma2(config: _Config) -> Section:
    # Every other layer has the window, the first among them.
    return _model(
        config,
        head_size=256,
        tied=True,
        vocabulary=256_000,
        post_norms=True,
        **_windows(config, lambda layer: layer % 2 == 0, 4096),
    )


def _qwen_windows(config: _Config) -> Section:
    # Layers from max_window_layers on have the window, if it is used at all (none of the
    # published sizes does).
    if not config.flag("use_sliding_window", False):
        return {}
    first = config.count("max_window_layers", 28)
    return _windows(config, lambda layer: layer >= first, 4096)


def _qwen2(config: _Config) -> Section:
    # Qwen 1.5, 2 and 2.5: biases of Q, K and V, whatever the file says.
    return _model(config, biases=("qkv",), **_qwen_windows(config))


def _qwen3(config: _Config) -> Section:
    biases = ("qkv", "out") if config.flag("attention_bias", False) else ()
    windows = _qwen_windows(config)
    return _model(config, head_size=128, qk_norm=True, biases=biases, **windows)


def _gemma3(config: _Config) -> Section:
    # Files of the models with pictures leave out what equals the defaults of the class.
    defaults = {"num_attention_heads": 8, "num_key_value_heads": 4}
    config = config._replace(keys={**defaults, **config.keys})
    every = config.count("sliding_window_pattern", 6)
    config.without("use_bidirectional_attention", "decoding is causal here", False)
    return _model(
        config,
        head_size=256,
        tied=True,
        vocabulary=262_208,
        qk_norm=True,
        post_norms=True,
        biases=("qkv", "out") if config.flag("attention_bias", False) else (),
        **_windows(config, lambda layer: (layer + 1) % every > 0, 4096),
    )


def _mixtral(config: _Config) -> Section:
    section = _model(config, **_windows(config, lambda _: config.has("sliding_window")))
    section["body"]["experts"] = {
        "count": config.count("num_local_experts", 8),
        "active": config.count("num_experts_per_tok", 2),
    }
    return section


def _qwen_experts(config: _Config, section: Section, shared: int = 0) -> Section:
    """A Qwen of which every layer's MLP is a choice of experts."""
    reason = "layers without experts beside those with experts are not simulated"
    config.without("decoder_sparse_step", reason, 1)
    config.without("mlp_only_layers", reason, [])
    section["body"]["ffn_size"] = config.count("moe_intermediate_size")
    experts = {
        "count": config.count("num_experts"),
        "active": config.count("num_experts_per_tok"),
        "shared_ffn_size": shared,
    }
    section["body"]["experts"] = experts
    return section


def _qwen2_moe(config: _Config) -> Section:
    # The gate of the shared expert, one weight per channel, is left out.
    biases = ("qkv",) if config.flag("qkv_bias", True) else ()
    section = _model(config, biases=biases, **_qwen_windows(config))
    return _qwen_experts(config, section, config.count("shared_expert_intermediate_size"))


def _qwen3_moe(config: _Config) -> Section:
    biases = ("qkv", "out") if config.flag("attention_bias", False) else ()
    windows = _qwen_windows(config)
    return _qwen_experts(config, _model(config, qk_norm=True, biases=biases, **windows))


MODEL_TYPES: dict[str, Callable[[_Config], Section]] = {
    "llama": _llama,
    "mistral": _mistral,
    "phi3": _phi3,
    "gemma": _gemma,
    "gemma2": _gemma2,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "gemma3": _gemma3,
    "gemma3_text": _gemma3,
    "mixtral": _mixtral,
    "qwen2_moe": _qwen2_moe,
    "qwen3_moe": _qwen3_moe,
}
"""Readers by ``model_type``."""

NOT_READ = {
    "deepseek": "its first layers have no experts, which is not simulated",
    "deepseek_v2": "latent attention is not simulated",
    "deepseek_v3": "latent attention is not simulated",
    "gpt2": "positions are learned; describe it with mlp: plain",
}
"""Why some well-known types are not."""

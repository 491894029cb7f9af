"""Types of models of Hugging Face: the keys of a ``config.json`` that describe body and head.

Keys that a file leaves out take the default of the class of transformers that reads it (those of
transformers 5.23, ``configuration_*.py``), where there is one that published files rely on; else
they are missing.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from carsim.base.errors import InputError
from carsim.base.yaml_file import shown

Section = dict[str, Any]

MOST = 1_000_000
"""No size of a model comes near it; the limit of a design's sizes."""

MOST_CONTEXT = 1 << 30
"""No context of a model comes near it, in tokens."""

ACTIVATIONS = ("silu", "swish", "gelu_pytorch_tanh", "gelu")
"""Of gated MLPs; all count alike."""


class ConfigFile(NamedTuple):
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

    def count(self, key: str, default: int | None = None, most: int = MOST) -> int:
        """A positive whole number up to ``most``."""
        value = self.keys.get(key)
        value = default if value is None else value
        if value is None:
            raise self.refused(key, "is missing", "add it, or take the model's whole config.json")
        if type(value) is not int or not 0 < value <= most:
            problem = f"should be a whole number of 1 to {most:,}, got {shown(value)}"
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


def _model(
    config: ConfigFile,
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
    if not config.has("max_position_embeddings"):
        return {"body": body, "head": head}
    context = config.count("max_position_embeddings", most=MOST_CONTEXT)
    return {"body": body, "head": head, "context": context}


def _check_activation(config: ConfigFile) -> None:
    key = "hidden_activation" if config.has("hidden_activation") else "hidden_act"
    if config.has(key) and config.keys[key] not in ACTIVATIONS:
        problem = f"{shown(config.keys[key])} is none of {', '.join(ACTIVATIONS)}"
        raise config.refused(key, problem, "describe another model")


def _windows(
    config: ConfigFile, local: Callable[[int], bool], default: int | None = None
) -> Section:
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


def _attention_biases(config: ConfigFile) -> tuple[str, ...]:
    return ("qkv", "out") if config.flag("attention_bias", False) else ()


def _llama(config: ConfigFile) -> Section:
    # LLaMA 1 to 3, TinyLlama, SmolLM and SmolLM2, Yi. Granite scales embedding, attention, residual
    # and logits by constants besides.
    mlp = ("gate_up", "down") if config.flag("mlp_bias", False) else ()
    return _model(config, biases=_attention_biases(config) + mlp)


def _smollm3(config: ConfigFile) -> Section:
    # Every fourth layer has no rotary embedding, which makes no difference here.
    return _model(config, tied=True, biases=_attention_biases(config))


def _mistral(config: ConfigFile) -> Section:
    # All layers have the window, or none where it is null, as from version 0.2 on. In phi3, Q, K
    # and V are stored as one matrix, gate and up as another: the arithmetic is the same.
    return _model(config, **_windows(config, lambda _: config.has("sliding_window")))


def _gemma(config: ConfigFile) -> Section:
    return _model(config, head_size=256, tied=True, vocabulary=256_000)


def _gemma2(config: ConfigFile) -> Section:
    # Every other layer has the window, the first among them.
    return _model(
        config,
        head_size=256,
        tied=True,
        vocabulary=256_000,
        post_norms=True,
        **_windows(config, lambda layer: layer % 2 == 0, 4096),
    )


def _gemma3(config: ConfigFile) -> Section:
    # Files of the models with pictures leave out what equals the defaults of the class.
    defaults = {
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "max_position_embeddings": 131_072,
    }
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
        biases=_attention_biases(config),
        **_windows(config, lambda layer: (layer + 1) % every > 0, 4096),
    )


def _qwen_windows(config: ConfigFile) -> Section:
    # Layers from max_window_layers on have the window, if it is used at all (none of the
    # published sizes does).
    if not config.flag("use_sliding_window", False):
        return {}
    first = config.count("max_window_layers", 28)
    return _windows(config, lambda layer: layer >= first, 4096)


def _qwen2(config: ConfigFile) -> Section:
    # Qwen 1.5, 2 and 2.5: biases of Q, K and V, whatever the file says.
    return _model(config, biases=("qkv",), **_qwen_windows(config))


def _qwen3(config: ConfigFile, head_size: int | None = 128) -> Section:
    biases = _attention_biases(config)
    return _model(config, head_size=head_size, qk_norm=True, biases=biases, **_qwen_windows(config))


def _experts(config: ConfigFile, section: Section, of: str, **of_kind: Any) -> Section:
    """The section with experts, of which a key says how many there are; what is empty is left out.

    Their own width goes before that of the MLP of layers without experts.
    """
    if config.has("moe_intermediate_size"):
        section["body"]["ffn_size"] = config.count("moe_intermediate_size")
    section["body"]["experts"] = {
        "count": config.count(of),
        "active": config.count("num_experts_per_tok"),
        **{field: value for field, value in of_kind.items() if value},
    }
    return section


def _mixtral(config: ConfigFile) -> Section:
    defaults = {"num_local_experts": 8, "num_experts_per_tok": 2}
    config = config._replace(keys={**defaults, **config.keys})
    return _experts(config, _mistral(config), "num_local_experts")


def _qwen_experts(config: ConfigFile, section: Section, **of_kind: Any) -> Section:
    reason = "layers without experts between those with experts are not simulated"
    config.without("decoder_sparse_step", reason, 1)
    config.without("mlp_only_layers", reason, [])
    config.count("moe_intermediate_size")  # which is never left out
    return _experts(config, section, "num_experts", **of_kind)


def _qwen2_moe(config: ConfigFile) -> Section:
    biases = ("qkv",) if config.flag("qkv_bias", True) else ()
    section = _model(config, biases=biases, **_qwen_windows(config))
    shared = config.count("shared_expert_intermediate_size")
    return _qwen_experts(config, section, shared_ffn_size=shared, shared_gate=True)


def _qwen3_moe(config: ConfigFile) -> Section:
    return _qwen_experts(config, _qwen3(config, head_size=None))


def _deepseek(config: ConfigFile) -> Section:
    # The first layers have one MLP for all tokens; shared experts are as wide as others.
    config.without("moe_layer_freq", "layers without experts are the first ones here", 1)
    section = _model(config, biases=_attention_biases(config))
    if not config.has("n_routed_experts"):
        return section
    shared = config.count("n_shared_experts") if config.has("n_shared_experts") else 0
    first = config.keys.get("first_k_dense_replace") or 0
    dense = config.count("first_k_dense_replace") if first else 0
    return _experts(
        config,
        section,
        "n_routed_experts",
        shared_ffn_size=shared * config.count("moe_intermediate_size"),
        router_bias=config.keys.get("topk_method") == "noaux_tc",
        dense_layers=dense,
        dense_ffn_size=config.count("intermediate_size") * (dense > 0),
    )


def _deepseek_latent(config: ConfigFile) -> Section:
    # Layers that predict tokens beyond the next one are left out, as the authors' counts do.
    section = _deepseek(config)
    query_rank = {"query_rank": config.count("q_lora_rank")} if config.has("q_lora_rank") else {}
    section["body"] |= {
        "n_kv_heads": 1,
        "head_size": config.count("qk_nope_head_dim"),
        "latent": {
            "rank": config.count("kv_lora_rank"),
            "rotary_size": config.count("qk_rope_head_dim"),
            "value_size": config.count("v_head_dim"),
            **query_rank,
        },
    }
    return section


MODEL_TYPES: dict[str, Callable[[ConfigFile], Section]] = {
    "deepseek": _deepseek,
    "deepseek_v2": _deepseek_latent,
    "deepseek_v3": _deepseek_latent,
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3": _gemma3,
    "gemma3_text": _gemma3,
    "granite": _llama,
    "llama": _llama,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "phi3": _mistral,
    "qwen2": _qwen2,
    "qwen2_moe": _qwen2_moe,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "smollm3": _smollm3,
}
"""Readers by ``model_type``."""

_LEARNED = "its positions are learned, and its norms have biases; describe it with mlp: plain"
_PARALLEL = "its norms have biases, and attention and MLP run side by side"
NOT_READ = {
    "bloom": "its norms have biases; describe it with mlp: plain",
    "cohere": "attention and MLP run side by side",
    "falcon": _PARALLEL,
    "gpt2": _LEARNED,
    "gpt_neox": _PARALLEL,
    "gpt_oss": "its heads have attention sinks, and its experts have biases",
    "llama4": "layers without experts between those with experts are not simulated",
    "mamba": "it has no attention",
    "mpt": "its attention adds a bias to scores; describe it with mlp: plain",
    "olmo2": "its norms of queries and keys are as wide as all heads",
    "opt": _LEARNED,
    "phi": _PARALLEL,
    "qwen3_next": "most of its layers have linear attention",
    "stablelm": "its norms have biases",
    "starcoder2": "its norms have biases; describe it with mlp: plain",
}
"""Why some well-known types are not."""

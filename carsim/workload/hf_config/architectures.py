"""The types of model that are read, one entry each.

An entry says what a type's files may leave out, which other names they give to keys, and what the
type adds to the layers of LLaMA. Defaults are those of the classes of transformers 5.23
(``configuration_*.py``) that published files rely on.

Accepted without a change to operations or bytes: where norms stand (OLMo-2 norms what attention and
MLP put out, and nothing before them), rotary embedding of a part of a head (GLM-4) or of no head in
some layers (Llama-4, SmolLM3, Command-R7B), scaled logits and residuals (Granite, Command-R), caps
on scores (Gemma-2), bounded activations (gpt-oss). Parallel blocks (Falcon, Command-R) are counted
one after the other, with a norm before each. Chunked attention (Llama-4) counts as a window of a
chunk, which is the most that a token sees.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from carsim.base.section import FieldError
from carsim.workload.hf_config.keys import DESCRIBE, HfConfig

Raw = Mapping[str, Any]


def _nothing(config: HfConfig) -> dict[str, Any]:
    """No fields."""
    return {}


def _unchanged(raw: Raw) -> Raw:
    """The keys as they are."""
    return raw


@dataclass(frozen=True)
class Architecture:
    """A type of model.

    Attributes:
        defaults: What its files may leave out.
        renamed: Its names of keys -> the names of LLaMA.
        adapt: Changes keys that need more than another name.
        body: Fields of the body beyond those of LLaMA.
        biases: Products with biases.
        is_local: A layer has a window.
        window_key: Key of the window's size.
        experts_key: Key of the number of experts.
        is_latent: Its attention is latent.
        names: Part -> module, where it is not LLaMA's.
        layout: The checkpoint's layers are named otherwise than LLaMA's.
    """

    defaults: Raw = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    adapt: Callable[[Raw], Raw] = _unchanged
    body: Callable[[HfConfig], dict[str, Any]] = _nothing
    biases: Callable[[HfConfig], tuple[str, ...]] = lambda config: _llama_biases(config)
    is_local: Callable[[HfConfig, int], bool] = lambda config, layer: False
    window_key: str = "sliding_window"
    experts_key: str = ""
    is_latent: bool = False
    names: Mapping[str, str] = field(default_factory=dict)


# --------------------------------------------------------------------------- biases


def _llama_biases(config: HfConfig) -> tuple[str, ...]:
    """Biases that the file asks for."""
    mlp = ("gate_up", "down") if config.mlp_bias else ()
    return (("qkv", "out") if config.attention_bias else ()) + mlp


def _qwen_biases(config: HfConfig) -> tuple[str, ...]:
    """Qwen 1.5 to 2.5 have biases of Q, K and V, whatever the file says."""
    return ("qkv",) if config.qkv_bias else ()


def _qkv_biases(config: HfConfig) -> tuple[str, ...]:
    """GLM has biases of Q, K and V alone."""
    return ("qkv",) if config.attention_bias else ()


def _all_biases(config: HfConfig) -> tuple[str, ...]:
    """Every product has one."""
    return ("qkv", "out", "gate_up", "down")


def _falcon_biases(config: HfConfig) -> tuple[str, ...]:
    """Every product has one, or none has."""
    return _all_biases(config) if config.bias else ()


# --------------------------------------------------------------------------- windows


def _by_list(config: HfConfig, layer: int) -> bool | None:
    """The layer's type as the file lists it; None where it has no list."""
    if config.layer_types is None:
        return None
    return config.layer_types[layer] != "full_attention"


def _everywhere(config: HfConfig, layer: int) -> bool:
    """All layers have a window, or none where it is null, as in Mistral from 0.2 on."""
    listed = _by_list(config, layer)
    return config.sliding_window is not None if listed is None else listed


def _alternating(config: HfConfig, layer: int) -> bool:
    """Every other layer has a window, the first one among them."""
    listed = _by_list(config, layer)
    return layer % 2 == 0 if listed is None else listed


def _by_pattern(config: HfConfig, layer: int) -> bool:
    """The last of so many layers attends to all."""
    listed = _by_list(config, layer)
    return (layer + 1) % config.sliding_window_pattern > 0 if listed is None else listed


def _chunked(config: HfConfig, layer: int) -> bool:
    """Llama-4: layers with rotary embedding attend to their chunk; every fourth has none."""
    listed = _by_list(config, layer)
    if listed is not None:
        return listed
    if config.no_rope_layers:
        return bool(config.no_rope_layers[layer])  # 1 stands for a layer that has it
    return (layer + 1) % 4 > 0


# --------------------------------------------------------------------------- fields


def _qk_norm(config: HfConfig) -> dict[str, Any]:
    return {"qk_norm": True}


def _asked_qk_norm(config: HfConfig) -> dict[str, Any]:
    return {"qk_norm": config.use_qk_norm}


def _post_norms(config: HfConfig) -> dict[str, Any]:
    return {"post_norms": True}


def _gemma3(config: HfConfig) -> dict[str, Any]:
    return {"post_norms": True, "qk_norm": True}


def _olmo2(config: HfConfig) -> dict[str, Any]:
    """Norms of queries and keys span all heads."""
    return {"qk_norm": True, "qk_norm_span": "layer"}


def _one_norm(config: HfConfig) -> dict[str, Any]:
    """Attention and MLP share a norm; those of queries and keys, if any, have weights by head."""
    shared = {"norms_per_layer": 1}
    return shared | ({"qk_norm": True, "qk_norm_span": "layer"} if config.use_qk_norm else {})


def _falcon(config: HfConfig) -> dict[str, Any]:
    norms = 2 if config.new_decoder_architecture else 1
    return {"mlp": "plain", "norms_per_layer": norms, "norm_biases": True}


def _gpt2(config: HfConfig) -> dict[str, Any]:
    positions = config.needed("max_position_embeddings")
    return {"mlp": "plain", "norm_biases": True, "positions": positions}


def _gpt_oss(config: HfConfig) -> dict[str, Any]:
    return {"sinks": True}


# --------------------------------------------------------------------------- keys


def _adapt_gpt2(raw: Raw) -> Raw:
    """GPT-2's MLP is four times as wide, unless the file says otherwise."""
    width = raw.get("intermediate_size")
    hidden_size = raw.get("hidden_size")
    if width is None and isinstance(hidden_size, int):
        return {**raw, "intermediate_size": 4 * hidden_size}
    return raw


def _adapt_bigcode(raw: Raw) -> Raw:
    """One head of keys serves all queries, unless ``multi_query`` is false."""
    heads = 1 if raw.get("multi_query", True) else raw.get("num_attention_heads")
    return {**_adapt_gpt2(raw), "num_key_value_heads": heads}


def _adapt_falcon(raw: Raw) -> Raw:
    """Key heads by the two architectures of Falcon."""
    if raw.get("alibi"):
        # ALiBi adds a number to each score, as a rotary embedding turns each key.
        raw = {key: value for key, value in raw.items() if key != "alibi"}
    if raw.get("parallel_attn", True) is False:
        problem = "false: only Falcon's parallel blocks are read"
        raise FieldError("parallel_attn", problem, DESCRIBE)
    if raw.get("new_decoder_architecture"):
        heads = raw.get("num_kv_heads", raw.get("num_attention_heads"))
    else:
        heads = 1 if raw.get("multi_query", True) else raw.get("num_attention_heads")
    return {**_adapt_gpt2(raw), "num_key_value_heads": heads}


# --------------------------------------------------------------------------- entries

_GEMMA = {"head_dim": 256, "tie_word_embeddings": True, "vocab_size": 256_000}
_GEMMA3_DEFAULTS = {
    **_GEMMA,
    "vocab_size": 262_208,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "max_position_embeddings": 131_072,
    "sliding_window": 4096,
}
_GEMMA3 = Architecture(defaults=_GEMMA3_DEFAULTS, body=_gemma3, is_local=_by_pattern)
_GPT2_KEYS = {
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "n_positions": "max_position_embeddings",
    "n_inner": "intermediate_size",
    "activation_function": "hidden_act",
}
_PHI3_NAMES = {
    "q": "self_attn.qkv_proj",
    "k": "self_attn.qkv_proj",
    "v": "self_attn.qkv_proj",
    "gate": "mlp.gate_up_proj",
    "up": "mlp.gate_up_proj",
}
_MIXTRAL_NAMES = {
    "router": "block_sparse_moe.gate",
    "expert_gate": "block_sparse_moe.experts.0.w1",
    "expert_up": "block_sparse_moe.experts.0.w3",
    "expert_down": "block_sparse_moe.experts.0.w2",
}
_SHARED_EXPERT_NAMES = {
    "shared_gate": "mlp.shared_expert.gate_proj",
    "shared_up": "mlp.shared_expert.up_proj",
    "shared_down": "mlp.shared_expert.down_proj",
}
_GPT_OSS_NAMES = {
    "router": "mlp.router",
    "expert_gate": "mlp.experts.gate_up_proj",
    "expert_up": "mlp.experts.gate_up_proj",
    "expert_down": "mlp.experts.down_proj",
}
_LLAMA4_NAMES = {
    "gate": "feed_forward.gate_proj",
    "up": "feed_forward.up_proj",
    "down": "feed_forward.down_proj",
    "router": "feed_forward.router",
    "expert_gate": "feed_forward.experts.0.gate_proj",
    "expert_up": "feed_forward.experts.0.up_proj",
    "expert_down": "feed_forward.experts.0.down_proj",
    "shared_gate": "feed_forward.shared_expert.gate_proj",
    "shared_up": "feed_forward.shared_expert.up_proj",
    "shared_down": "feed_forward.shared_expert.down_proj",
}
_GPT2_NAMES = {
    "layer": "transformer.h.{layer}.",
    "q": "attn.c_attn",
    "k": "attn.c_attn",
    "v": "attn.c_attn",
    "out": "attn.c_proj",
    "up": "mlp.c_fc",
    "down": "mlp.c_proj",
    "embedding": "transformer.wte",
}
_FALCON_NAMES = {
    "layer": "transformer.h.{layer}.",
    "q": "self_attention.query_key_value",
    "k": "self_attention.query_key_value",
    "v": "self_attention.query_key_value",
    "out": "self_attention.dense",
    "up": "mlp.dense_h_to_4h",
    "down": "mlp.dense_4h_to_h",
    "embedding": "transformer.word_embeddings",
}
_COHERE = {"tie_word_embeddings": True, "vocab_size": 256_000}

ARCHITECTURES: Mapping[str, Architecture] = {
    "cohere": Architecture(defaults=_COHERE, body=_one_norm),
    "cohere2": Architecture(
        defaults={**_COHERE, "sliding_window": 4096, "sliding_window_pattern": 4},
        body=_one_norm,
        is_local=_by_pattern,
    ),
    "deepseek": Architecture(experts_key="n_routed_experts"),
    "deepseek_v2": Architecture(experts_key="n_routed_experts", is_latent=True),
    "deepseek_v3": Architecture(experts_key="n_routed_experts", is_latent=True),
    "falcon": Architecture(
        defaults={"tie_word_embeddings": True, "vocab_size": 65_024},
        renamed={
            "n_layer": "num_hidden_layers",
            "n_head": "num_attention_heads",
            "n_head_kv": "num_kv_heads",
            "ffn_hidden_size": "intermediate_size",
            "activation": "hidden_act",
        },
        adapt=_adapt_falcon,
        body=_falcon,
        biases=_falcon_biases,
        names=_FALCON_NAMES,
    ),
    "gemma": Architecture(defaults=_GEMMA),
    "gemma2": Architecture(
        defaults={**_GEMMA, "sliding_window": 4096}, body=_post_norms, is_local=_alternating
    ),
    "gemma3": _GEMMA3,
    "gemma3_text": _GEMMA3,
    "glm": Architecture(biases=_qkv_biases, names={"gate": "mlp.gate_up_proj"}),
    "glm4": Architecture(body=_post_norms, biases=_qkv_biases, names={"gate": "mlp.gate_up_proj"}),
    "glm4_moe": Architecture(
        defaults={"topk_method": "noaux_tc"},
        body=_asked_qk_norm,
        biases=_qkv_biases,
        experts_key="n_routed_experts",
    ),
    "gpt2": Architecture(
        defaults={"tie_word_embeddings": True},
        renamed=_GPT2_KEYS,
        adapt=_adapt_gpt2,
        body=_gpt2,
        biases=_all_biases,
        names=_GPT2_NAMES,
    ),
    "gpt_bigcode": Architecture(
        defaults={"tie_word_embeddings": True},
        renamed=_GPT2_KEYS,
        adapt=_adapt_bigcode,
        body=_gpt2,
        biases=_all_biases,
        names=_GPT2_NAMES,
    ),
    "gpt_oss": Architecture(
        defaults={"head_dim": 64, "sliding_window": 128},
        renamed={"experts_per_token": "num_experts_per_tok"},
        body=_gpt_oss,
        is_local=_alternating,
        experts_key="num_local_experts",
        names=_GPT_OSS_NAMES,
    ),
    "granite": Architecture(),
    "llama": Architecture(),
    "llama4_text": Architecture(
        defaults={"attention_chunk_size": 8192},
        is_local=_chunked,
        window_key="attention_chunk_size",
        experts_key="num_local_experts",
        names=_LLAMA4_NAMES,
    ),
    "mistral": Architecture(is_local=_everywhere),
    "mixtral": Architecture(
        defaults={"num_local_experts": 8, "num_experts_per_tok": 2},
        is_local=_everywhere,
        experts_key="num_local_experts",
        names=_MIXTRAL_NAMES,
    ),
    "olmo2": Architecture(body=_olmo2),
    "phi3": Architecture(is_local=_everywhere, names=_PHI3_NAMES),
    "qwen2": Architecture(biases=_qwen_biases),
    "qwen2_moe": Architecture(
        biases=_qwen_biases, experts_key="num_experts", names=_SHARED_EXPERT_NAMES
    ),
    "qwen3": Architecture(defaults={"head_dim": 128}, body=_qk_norm),
    "qwen3_moe": Architecture(body=_qk_norm, experts_key="num_experts"),
    "smollm3": Architecture(defaults={"tie_word_embeddings": True}),
}
"""``model_type`` -> what is known of it."""

SYNONYMS: Mapping[str, str] = {
    "Emu3": "llama",
    "emu3_text_model": "llama",
    "kimi_k2": "deepseek_v3",
    "llava_llama": "llama",
    "llava_qwen": "qwen2",
    "ministral": "mistral",
    "phi4": "phi3",
    "qwen2_5_vl": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "qwen2_vl": "qwen2",
    "qwen2_vl_text": "qwen2",
    "qwen3_vl_moe_text": "qwen3_moe",
    "qwen3_vl_text": "qwen3",
}
"""Types that are another one under a name of their own, as their published files show."""

_STATE = "layers with a recurrent state of fixed size ({}) are not simulated"
REASONS: Mapping[str, str] = {
    "bamba": _STATE.format("Mamba-2"),
    "falcon_h1": _STATE.format("Mamba-2"),
    "falcon_mamba": _STATE.format("Mamba"),
    "granitemoehybrid": _STATE.format("Mamba-2"),
    "jamba": _STATE.format("Mamba"),
    "mamba": _STATE.format("Mamba"),
    "mamba2": _STATE.format("Mamba-2"),
    "minimax": _STATE.format("linear attention"),
    "nemotron_h": _STATE.format("Mamba-2"),
    "qwen3_next": _STATE.format("gated linear attention"),
    "recurrent_gemma": _STATE.format("RG-LRU"),
    "rwkv": _STATE.format("RWKV"),
    "rwkv7": _STATE.format("RWKV-7"),
    "zamba2": _STATE.format("Mamba-2"),
    "bert": "an encoder decodes no tokens",
    "clip": "an encoder decodes no tokens",
    "t5": "cross-attention to an encoder is not simulated",
    "whisper": "cross-attention to an encoder is not simulated",
    "gemma3n": "embeddings for each layer and shared keys are not simulated",
    "gemma3n_text": "embeddings for each layer and shared keys are not simulated",
}
"""Types that are refused, each with the reason."""

READ = sorted(ARCHITECTURES)
"""Types that are read under their own name."""


def architecture(kind: str) -> Architecture:
    """The entry of a type, or of the one that it is a synonym of."""
    return ARCHITECTURES[SYNONYMS.get(kind, kind)]

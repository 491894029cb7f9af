"""Files of published models, as Hugging Face has them: the keys that matter, and a few that do not.

Where a file names a repository, its config.json holds these values. Files of Gemma 3 with pictures
leave out what equals the defaults of their class.
"""

from typing import Any


def _file(
    repository: str,
    kind: str,
    layers: int,
    hidden: int,
    heads: tuple[int, int],
    ffn: int,
    vocabulary: int,
    context: int,
    **more: Any,
) -> dict[str, Any]:
    """Keys of a file; ``heads``: those of queries and those of keys."""
    return {
        "_name_or_path": repository,
        "model_type": kind,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads[0],
        "num_key_value_heads": heads[1],
        "intermediate_size": ffn,
        "vocab_size": vocabulary,
        "max_position_embeddings": context,
        "rms_norm_eps": 1e-05,
        **more,
    }


UNTIED = {"hidden_act": "silu", "tie_word_embeddings": False}
TIED = {"hidden_act": "silu", "tie_word_embeddings": True}
QWEN2 = {"sliding_window": 131072, "use_sliding_window": False, "max_window_layers": 28}
QWEN3 = {
    "head_dim": 128,
    "attention_bias": False,
    "sliding_window": None,
    "use_sliding_window": False,
}
GEMMA2 = {"hidden_activation": "gelu_pytorch_tanh", "head_dim": 256, "sliding_window": 4096}
LATENT = {
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "moe_layer_freq": 1,
}

CONFIGS: dict[str, dict[str, Any]] = {
    "llama2_7b": _file(
        "meta-llama/Llama-2-7b-hf",
        *("llama", 32, 4096, (32, 32), 11008, 32000, 4096),
        **UNTIED,
        torch_dtype="float16",
    ),
    "tinyllama_1b": _file(
        "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
        *("llama", 22, 2048, (32, 4), 5632, 32000, 2048),
        **UNTIED,
    ),
    "llama3_8b": _file(
        "meta-llama/Meta-Llama-3-8B",
        *("llama", 32, 4096, (32, 8), 14336, 128256, 8192),
        **UNTIED,
        attention_bias=False,
    ),
    "llama3_70b": _file(
        "meta-llama/Meta-Llama-3-70B", *("llama", 80, 8192, (64, 8), 28672, 128256, 8192), **UNTIED
    ),
    "llama3.2_1b": _file(
        "meta-llama/Llama-3.2-1B",
        *("llama", 16, 2048, (32, 8), 8192, 128256, 131072),
        **TIED,
        head_dim=64,
        mlp_bias=False,
    ),
    "llama3.2_3b": _file(
        "meta-llama/Llama-3.2-3B",
        *("llama", 28, 3072, (24, 8), 8192, 128256, 131072),
        **TIED,
        head_dim=128,
    ),
    "yi_6b": _file("01-ai/Yi-6B", *("llama", 32, 4096, (32, 4), 11008, 64000, 4096), **UNTIED),
    "smollm2_360m": _file(
        "HuggingFaceTB/SmolLM2-360M", *("llama", 32, 960, (15, 5), 2560, 49152, 8192), **TIED
    ),
    "smollm2_1.7b": _file(
        "HuggingFaceTB/SmolLM2-1.7B", *("llama", 24, 2048, (32, 32), 8192, 49152, 8192), **TIED
    ),
    "smollm3_3b": _file(
        "HuggingFaceTB/SmolLM3-3B", *("smollm3", 36, 2048, (16, 4), 11008, 128256, 65536)
    ),
    "granite3.1_2b": _file(
        "ibm-granite/granite-3.1-2b-base",
        *("granite", 40, 2048, (32, 8), 8192, 49155, 131072),
        **TIED,
    ),
    "mistral_7b": _file(
        "mistralai/Mistral-7B-v0.3",
        *("mistral", 32, 4096, (32, 8), 14336, 32768, 32768),
        **UNTIED,
        sliding_window=None,
    ),
    "mistral_nemo": _file(
        "mistralai/Mistral-Nemo-Base-2407",
        *("mistral", 40, 5120, (32, 8), 14336, 131072, 131072),
        **UNTIED,
        head_dim=128,
    ),
    "phi3_mini": _file(
        "microsoft/Phi-3-mini-4k-instruct",
        *("phi3", 32, 3072, (32, 32), 8192, 32064, 4096),
        **UNTIED,
        sliding_window=2047,
    ),
    "phi4": _file("microsoft/phi-4", *("phi3", 40, 5120, (40, 10), 17920, 100352, 16384), **UNTIED),
    "qwen2_0.5b": _file(
        "Qwen/Qwen2-0.5B", *("qwen2", 24, 896, (14, 2), 4864, 151936, 131072), **TIED, **QWEN2
    ),
    "qwen2.5_1.5b": _file(
        "Qwen/Qwen2.5-1.5B", *("qwen2", 28, 1536, (12, 2), 8960, 151936, 131072), **TIED, **QWEN2
    ),
    "qwen2.5_7b": _file(
        "Qwen/Qwen2.5-7B", *("qwen2", 28, 3584, (28, 4), 18944, 152064, 131072), **UNTIED, **QWEN2
    ),
    "qwen3_0.6b": _file(
        "Qwen/Qwen3-0.6B", *("qwen3", 28, 1024, (16, 8), 3072, 151936, 40960), **TIED, **QWEN3
    ),
    "qwen3_8b": _file(
        "Qwen/Qwen3-8B", *("qwen3", 36, 4096, (32, 8), 12288, 151936, 40960), **UNTIED, **QWEN3
    ),
    "gemma_2b": _file(
        "google/gemma-2b",
        *("gemma", 18, 2048, (8, 1), 16384, 256000, 8192),
        hidden_act="gelu",
        head_dim=256,
    ),
    "gemma2_2b": _file(
        "google/gemma-2-2b", *("gemma2", 26, 2304, (8, 4), 9216, 256000, 8192), **GEMMA2
    ),
    "gemma2_9b": _file(
        "google/gemma-2-9b", *("gemma2", 42, 3584, (16, 8), 14336, 256000, 8192), **GEMMA2
    ),
    "gemma3_1b": _file(
        "google/gemma-3-1b-pt",
        *("gemma3_text", 26, 1152, (4, 1), 6912, 262144, 32768),
        hidden_activation="gelu_pytorch_tanh",
        head_dim=256,
        sliding_window=512,
        sliding_window_pattern=6,
        attn_logit_softcapping=None,
    ),
    "gemma3_4b": {
        "_name_or_path": "google/gemma-3-4b-pt",
        "model_type": "gemma3",
        "vision_config": {"model_type": "siglip_vision_model", "num_hidden_layers": 27},
        "torch_dtype": "bfloat16",
        "text_config": {
            "model_type": "gemma3_text",
            "num_hidden_layers": 34,
            "hidden_size": 2560,
            "intermediate_size": 10240,
            "sliding_window": 1024,
        },
    },
    "mixtral_8x7b": _file(
        "mistralai/Mixtral-8x7B-v0.1",
        *("mixtral", 32, 4096, (32, 8), 14336, 32000, 32768),
        **UNTIED,
        num_local_experts=8,
        num_experts_per_tok=2,
        sliding_window=None,
    ),
    "qwen3_30b_a3b": _file(
        "Qwen/Qwen3-30B-A3B",
        *("qwen3_moe", 48, 2048, (32, 4), 6144, 151936, 40960),
        **UNTIED,
        **QWEN3,
        moe_intermediate_size=768,
        num_experts=128,
        num_experts_per_tok=8,
        decoder_sparse_step=1,
        mlp_only_layers=[],
    ),
    "qwen1.5_moe_a2.7b": _file(
        "Qwen/Qwen1.5-MoE-A2.7B",
        *("qwen2_moe", 24, 2048, (16, 16), 5632, 151936, 8192),
        **UNTIED,
        **QWEN2,
        moe_intermediate_size=1408,
        shared_expert_intermediate_size=5632,
        num_experts=60,
        num_experts_per_tok=4,
        decoder_sparse_step=1,
    ),
    "deepseek_moe_16b": _file(
        "deepseek-ai/deepseek-moe-16b-base",
        *("deepseek", 28, 2048, (16, 16), 10944, 102400, 4096),
        **UNTIED,
        moe_layer_freq=1,
        first_k_dense_replace=1,
        n_routed_experts=64,
        n_shared_experts=2,
        num_experts_per_tok=6,
        moe_intermediate_size=1408,
    ),
    "deepseek_v2_lite": _file(
        "deepseek-ai/DeepSeek-V2-Lite",
        *("deepseek_v2", 27, 2048, (16, 16), 10944, 102400, 163840),
        **UNTIED,
        **LATENT,
        q_lora_rank=None,
        first_k_dense_replace=1,
        n_routed_experts=64,
        n_shared_experts=2,
        num_experts_per_tok=6,
        moe_intermediate_size=1408,
        topk_method="greedy",
    ),
    "deepseek_v2": _file(
        "deepseek-ai/DeepSeek-V2",
        *("deepseek_v2", 60, 5120, (128, 128), 12288, 102400, 163840),
        **UNTIED,
        **LATENT,
        q_lora_rank=1536,
        first_k_dense_replace=1,
        n_routed_experts=160,
        n_shared_experts=2,
        num_experts_per_tok=6,
        moe_intermediate_size=1536,
        topk_method="group_limited_greedy",
    ),
    "deepseek_v3": _file(
        "deepseek-ai/DeepSeek-V3",
        *("deepseek_v3", 61, 7168, (128, 128), 18432, 129280, 163840),
        **UNTIED,
        **LATENT,
        q_lora_rank=1536,
        first_k_dense_replace=3,
        n_routed_experts=256,
        n_shared_experts=1,
        num_experts_per_tok=8,
        moe_intermediate_size=2048,
        topk_method="noaux_tc",
        num_nextn_predict_layers=1,
        quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128]},
    ),
}

PARAMETERS = {
    "llama2_7b": 6_738_415_616,
    "tinyllama_1b": 1_100_048_384,
    "llama3_8b": 8_030_261_248,
    "llama3_70b": 70_553_706_496,
    "llama3.2_1b": 1_235_814_400,
    "llama3.2_3b": 3_212_749_824,
    "yi_6b": 6_061_035_520,
    "smollm2_360m": 361_821_120,
    "smollm2_1.7b": 1_711_376_384,
    "smollm3_3b": 3_075_098_624,
    "granite3.1_2b": 2_533_531_648,
    "mistral_7b": 7_248_023_552,
    "mistral_nemo": 12_247_782_400,
    "phi3_mini": 3_821_079_552,
    "phi4": 14_659_507_200,
    "qwen2_0.5b": 494_032_768,
    "qwen2.5_1.5b": 1_543_714_304,
    "qwen2.5_7b": 7_615_616_512,
    "qwen3_0.6b": 596_049_920,
    "qwen3_8b": 8_190_735_360,
    "gemma_2b": 2_506_172_416,
    "gemma2_2b": 2_614_341_888,
    "gemma2_9b": 9_241_705_984,
    "gemma3_1b": 999_885_952,
    "gemma3_4b": 4_300_079_472 - 416_866_032 - 2_950_272,
    "mixtral_8x7b": 46_702_792_704,
    "qwen3_30b_a3b": 30_532_122_624,
    "qwen1.5_moe_a2.7b": 14_315_784_192,
    "deepseek_moe_16b": 16_375_728_128,
    "deepseek_v2_lite": 15_706_484_224,
    "deepseek_v2": 235_741_434_880,
    "deepseek_v3": 671_026_419_200,
}
"""Parameters of each published checkpoint: elements of the tensors in its weight files, those of a
tied classifier once. Of Gemma-3-4B the tower for pictures and its projector are left out; of
DeepSeek-V3 the layer that predicts the token after the next, and the scales of its weights.
"""

ACTIVE = {
    "mixtral_8x7b": 12.9e9,
    "qwen3_30b_a3b": 3.3e9,
    "qwen1.5_moe_a2.7b": 2.7e9,
    "deepseek_moe_16b": 2_828_650_496,
    "deepseek_v2": 21e9,
    "deepseek_v3": 37_552_282_624,
}
"""Parameters that one token uses, embedding included: arXiv 2401.04088 (section 1), the model cards
of the Qwens, counts of the tensors of DeepSeek-MoE and DeepSeek-V3, and arXiv 2405.04434."""

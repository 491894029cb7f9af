"""A tiny random LLaMA checkpoint for tests, the same with every version of PyTorch.

Modules that import this one are skipped where PyTorch or transformers are not installed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from carsim.decisions.attention import Dense
from carsim.decisions.trace.meta import Geometry
from carsim.decoder.hf import HfModel
from carsim.decoder.hf_recipe import CheckpointRecipe

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

VOCABULARY = 40
MHA = Geometry(
    name="tiny", n_layers=3, hidden_size=32, n_heads=4, n_kv_heads=4, head_dim=8, ffn_size=40
)
GQA = MHA.model_copy(update={"n_kv_heads": 2})
PLAN = {
    **{"name": "tiny", "output": "tiny.npz", "weights": {"hf": "tiny"}, "seed": 0},
    **{"prompts": ((3, 9, 4, 11, 7), (8, 2, 6)), "guidance": {"blank": (1, 5)}},
    **{"n_frames": 4, "tokens_per_frame": 6, "tau": np.inf, "attention": Dense()},
}
_MATRICES = {
    **{f"w{name}": f"self_attn.{name}_proj" for name in "qkvo"},
    **{f"w_{name}": f"mlp.{name}_proj" for name in ("gate", "up", "down")},
    "ln_attn": "input_layernorm",
    "ln_mlp": "post_attention_layernorm",
}


def plan(**changes: Any) -> CheckpointRecipe:
    """Two guided videos of four frames; ``changes`` replace fields."""
    return CheckpointRecipe.model_validate({**PLAN, **changes})


@dataclass(frozen=True)
class Tiny:
    """A checkpoint on disk, loaded, and its arrays."""

    folder: Path
    model: HfModel
    arrays: dict[str, NDArray[np.float32]]


def save_tiny(folder: Path, geometry: Geometry, **config: Any) -> dict[str, NDArray[np.float32]]:
    """Write a random checkpoint, the same with every version of PyTorch; return its arrays."""
    rng = np.random.default_rng(geometry.n_kv_heads)
    network = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=geometry.hidden_size,
            intermediate_size=geometry.ffn_size,
            num_hidden_layers=geometry.n_layers,
            num_attention_heads=geometry.n_heads,
            num_key_value_heads=geometry.n_kv_heads,
            rms_norm_eps=1e-5,
            **config,
        )
    )
    with torch.no_grad():
        for name, weight in network.named_parameters():
            values = rng.standard_normal(weight.shape) / np.sqrt(weight.shape[-1])
            if "norm" in name:
                values = 1 + 0.1 * rng.standard_normal(weight.shape)
            elif "embed" in name or "lm_head" in name:
                values = rng.standard_normal(weight.shape)
            weight.copy_(torch.as_tensor(values))
    network.save_pretrained(folder)
    state = {name: value.numpy().copy() for name, value in network.state_dict().items()}
    arrays = {
        ours: np.stack(
            [state[f"model.layers.{i}.{theirs}.weight"] for i in range(geometry.n_layers)]
        )
        for ours, theirs in _MATRICES.items()
    }
    return arrays | {
        "ln_final": state["model.norm.weight"],
        "embed": state["model.embed_tokens.weight"],
        "head": state["lm_head.weight"],
    }


def greedy(tiny: Tiny, scale: float = 3.0) -> Callable[[Any], Any]:
    """Guided greedy sampling, written anew in PyTorch."""
    head, embed = torch.as_tensor(tiny.arrays["head"]), torch.as_tensor(tiny.arrays["embed"])

    def step_model(hidden: Any) -> Any:
        logits = hidden @ head.T
        mixed = logits[1::2] + scale * (logits[0::2] - logits[1::2])
        return embed[mixed.argmax(dim=1).repeat_interleave(2)]

    return step_model


def edit_weights(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata={"format": "pt"})

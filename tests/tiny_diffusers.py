"""Tiny random networks and a tiny pipeline of diffusers, the same with every version of PyTorch.

Modules that import this one are skipped where PyTorch or diffusers are not installed.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
diffusers = pytest.importorskip("diffusers")

FRAMES = 3
"""Latent frames of a forward of a video."""

TEXT = 5
"""Tokens of a prompt."""

HEADS = 2
HEAD_DIM = 12
WIDTH = HEADS * HEAD_DIM

WAN = {
    "num_attention_heads": HEADS,
    "attention_head_dim": HEAD_DIM,
    "in_channels": 4,
    "out_channels": 4,
    "text_dim": 16,
    "freq_dim": 16,
    "ffn_dim": 40,
    "num_layers": 2,
    "rope_max_seq_len": 32,
}
"""Arguments of a Wan of two layers."""


def redraw(network: Any, seed: int) -> Any:
    """Draw all weights of a network, away from their neutral values, in double precision."""
    rng = np.random.default_rng(seed)
    network = network.to(torch.float64).eval()
    with torch.no_grad():
        for name, weight in network.named_parameters():
            values = rng.standard_normal(tuple(weight.shape)) / np.sqrt(weight.shape[-1])
            if "norm" in name and name.endswith("weight") and weight.ndim == 1:
                values = 1 + 0.3 * rng.standard_normal(tuple(weight.shape))
            weight.copy_(torch.as_tensor(values))
    return network


def normal(*shape: int, seed: int = 0) -> Any:
    """Normal numbers in double precision."""
    return torch.as_tensor(np.random.default_rng(seed).standard_normal(shape))


def tiny_wan() -> Any:
    """A Wan of two layers."""
    return redraw(diffusers.WanTransformer3DModel(**WAN), seed=1)


@dataclass
class Case:
    """A network of some class.

    Attributes:
        build: Makes the network.
        latent: Shape of the latent that enters it, for a batch of two rows.
        frames: Its latent frames.
        given: Further arguments of a forward.
        blocks: Attributes of the network that hold its blocks, with the MLP of a block.
        first: First image token in the MLP's input, by these attributes.
    """

    build: Callable[[], Any]
    latent: tuple[int, ...]
    frames: int
    given: dict[str, Any]
    blocks: dict[str, str]
    first: dict[str, int]

    def forward(self, network: Any, latent: Any, time: float) -> Any:
        """What the network puts out."""
        times = torch.full((len(latent),), time, dtype=torch.float64)
        return network(hidden_states=latent, timestep=times, return_dict=False, **self.given)[0]


def _wan() -> Case:
    return Case(
        build=tiny_wan,
        latent=(2, 4, FRAMES, 4, 6),
        frames=FRAMES,
        given={"encoder_hidden_states": normal(2, TEXT, 16, seed=3)},
        blocks={"blocks": "ffn"},
        first={"blocks": 0},
    )


def _ltx() -> Case:
    network = {
        "in_channels": 4,
        "out_channels": 4,
        "num_attention_heads": HEADS,
        "num_layers": 2,
        "attention_head_dim": HEAD_DIM,
        "cross_attention_dim": WIDTH,
        "caption_channels": 16,
    }
    return Case(
        build=lambda: redraw(diffusers.LTXVideoTransformer3DModel(**network), seed=2),
        latent=(2, FRAMES * 6, 4),
        frames=FRAMES,
        given={
            "encoder_hidden_states": normal(2, TEXT, 16, seed=3),
            "encoder_attention_mask": torch.ones(2, TEXT, dtype=torch.float64),
            "num_frames": FRAMES,
            "height": 2,
            "width": 3,
        },
        blocks={"transformer_blocks": "ff"},
        first={"transformer_blocks": 0},
    )


def _cogvideox() -> Case:
    network = {
        "in_channels": 4,
        "out_channels": 4,
        "num_attention_heads": HEADS,
        "num_layers": 2,
        "attention_head_dim": HEAD_DIM,
        "text_embed_dim": 16,
        "time_embed_dim": 8,
        "max_text_seq_length": TEXT,
        "sample_height": 4,
        "sample_width": 6,
        "sample_frames": 4 * (FRAMES - 1) + 1,
        "use_rotary_positional_embeddings": True,
    }
    return Case(
        build=lambda: redraw(diffusers.CogVideoXTransformer3DModel(**network), seed=3),
        latent=(2, FRAMES, 4, 4, 6),
        frames=FRAMES,
        given={"encoder_hidden_states": normal(2, TEXT, 16, seed=3)},
        blocks={"transformer_blocks": "ff"},
        first={"transformer_blocks": TEXT},
    )


def _hunyuan() -> Case:
    network = {
        "in_channels": 4,
        "out_channels": 4,
        "num_attention_heads": HEADS,
        "num_layers": 1,
        "attention_head_dim": HEAD_DIM,
        "num_single_layers": 1,
        "num_refiner_layers": 1,
        "text_embed_dim": 16,
        "pooled_projection_dim": 8,
        "rope_axes_dim": (4, 4, 4),
    }
    return Case(
        build=lambda: redraw(diffusers.HunyuanVideoTransformer3DModel(**network), seed=4),
        latent=(2, 4, FRAMES, 4, 6),
        frames=FRAMES,
        given={
            "encoder_hidden_states": normal(2, TEXT, 16, seed=3),
            "encoder_attention_mask": torch.ones(2, TEXT, dtype=torch.float64),
            "pooled_projections": normal(2, 8, seed=4),
            "guidance": torch.ones(2, dtype=torch.float64),
        },
        blocks={"transformer_blocks": "ff", "single_transformer_blocks": "proj_mlp"},
        first={"transformer_blocks": 0, "single_transformer_blocks": 0},
    )


def _flux() -> Case:
    network = {
        "in_channels": 4,
        "num_layers": 1,
        "num_single_layers": 1,
        "patch_size": 1,
        "num_attention_heads": HEADS,
        "attention_head_dim": HEAD_DIM,
        "joint_attention_dim": 16,
        "pooled_projection_dim": 8,
        "axes_dims_rope": (4, 4, 4),
    }
    return Case(
        build=lambda: redraw(diffusers.FluxTransformer2DModel(**network), seed=5),
        latent=(2, 8, 4),
        frames=1,
        given={
            "encoder_hidden_states": normal(2, TEXT, 16, seed=3),
            "pooled_projections": normal(2, 8, seed=4),
            "img_ids": torch.arange(24, dtype=torch.float64).reshape(8, 3),
            "txt_ids": torch.zeros(TEXT, 3, dtype=torch.float64),
        },
        blocks={"transformer_blocks": "ff", "single_transformer_blocks": "proj_mlp"},
        first={"transformer_blocks": 0, "single_transformer_blocks": TEXT},
    )


def _pixart() -> Case:
    network = {
        "in_channels": 4,
        "out_channels": 8,
        "num_attention_heads": HEADS,
        "num_layers": 2,
        "attention_head_dim": HEAD_DIM,
        "cross_attention_dim": WIDTH,
        "sample_size": 8,
        "caption_channels": 16,
        "use_additional_conditions": False,
    }
    return Case(
        build=lambda: redraw(diffusers.PixArtTransformer2DModel(**network), seed=6),
        latent=(2, 4, 8, 8),
        frames=1,
        given={"encoder_hidden_states": normal(2, TEXT, 16, seed=3), "added_cond_kwargs": {}},
        blocks={"transformer_blocks": "ff"},
        first={"transformer_blocks": 0},
    )


def _dit() -> Case:
    network = {
        "in_channels": 4,
        "out_channels": 8,
        "num_attention_heads": HEADS,
        "num_layers": 2,
        "attention_head_dim": HEAD_DIM,
        "sample_size": 8,
        "num_embeds_ada_norm": 10,
    }
    return Case(
        build=lambda: redraw(diffusers.DiTTransformer2DModel(**network), seed=7),
        latent=(2, 4, 8, 8),
        frames=1,
        given={"class_labels": torch.tensor([1, 2])},
        blocks={"transformer_blocks": "ff"},
        first={"transformer_blocks": 0},
    )


CASES: dict[str, Callable[[], Case]] = {
    "CogVideoXTransformer3DModel": _cogvideox,
    "DiTTransformer2DModel": _dit,
    "FluxTransformer2DModel": _flux,
    "HunyuanVideoTransformer3DModel": _hunyuan,
    "LTXVideoTransformer3DModel": _ltx,
    "PixArtTransformer2DModel": _pixart,
    "WanTransformer3DModel": _wan,
}
"""A network of every class that is captured."""


@contextmanager
def outputs_of(modules: dict[Any, Any], *, inputs: bool = False) -> Iterator[dict[Any, list[Any]]]:
    """Outputs of modules by name, one for each call; or their first inputs.

    Args:
        modules: Modules by name.
        inputs: Keep inputs instead.
    """
    kept: dict[Any, list[Any]] = {name: [] for name in modules}
    handles = []
    for name, module in modules.items():

        def keep(_: Any, given: Any, output: Any, name: Any = name) -> None:
            kept[name].append((given[0] if inputs else output).detach().numpy().copy())

        handles.append(module.register_forward_hook(keep))
    try:
        yield kept
    finally:
        for handle in handles:
            handle.remove()


def save_pipeline(folder: Path) -> None:
    """Write a WanPipeline of random weights, with a tokenizer of a few words."""
    tokenizers = pytest.importorskip("tokenizers")
    words = ["<pad>", "</s>", "<unk>", "a", "cat", "dog", "walks", "fast"]
    vocabulary = {word: number for number, word in enumerate(words)}
    model = tokenizers.models.WordLevel(vocabulary, unk_token="<unk>")
    splitting = tokenizers.Tokenizer(model)
    splitting.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=splitting, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )
    encoder = transformers.UMT5EncoderModel(
        transformers.UMT5Config(
            vocab_size=len(words), d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2
        )
    )
    decoder = diffusers.AutoencoderKLWan(
        base_dim=4,
        z_dim=4,
        dim_mult=[1, 1, 1, 1],
        num_res_blocks=1,
        temperal_downsample=[False, True, True],
    )
    pipeline = diffusers.WanPipeline(
        tokenizer=tokenizer,
        text_encoder=redraw(encoder, seed=8).to(torch.float32),
        vae=decoder,
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(shift=3.0),
        transformer=tiny_wan().to(torch.float32),
    )
    pipeline.save_pretrained(folder)

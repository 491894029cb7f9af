"""Files of diffusers describe the networks that presets of the same models do."""

import json
from pathlib import Path
from typing import Any

import pytest

from carsim.base.errors import InputError
from carsim.base.section import tuples
from carsim.design.load import preset
from carsim.program.sample import forward_macs, text_macs
from carsim.runs.opening import open_design
from carsim.workload.hf_config import load_hf_config, read_hf_config
from carsim.workload.model import Model
from carsim.workload.workload import workload_of

WAN = {
    **{"_class_name": "WanTransformer3DModel", "attention_head_dim": 128, "ffn_dim": 8960},
    **{"freq_dim": 256, "in_channels": 16, "out_channels": 16, "num_attention_heads": 12},
    **{"num_layers": 30, "patch_size": [1, 2, 2], "qk_norm": "rms_norm_across_heads"},
    **{"text_dim": 4096, "cross_attn_norm": True, "image_dim": None},
}
WAN_14B = {**WAN, "num_attention_heads": 40, "num_layers": 40, "ffn_dim": 13824}
WAN_5B = {**WAN, "num_attention_heads": 24, "ffn_dim": 14336, "in_channels": 48}
PIXART = {
    **{"_class_name": "PixArtTransformer2DModel", "attention_head_dim": 72, "in_channels": 4},
    **{"caption_channels": 4096, "num_attention_heads": 16, "num_layers": 28, "out_channels": 8},
    **{"patch_size": 2, "sample_size": 128, "norm_type": "ada_norm_single"},
}
DIT = {
    **{"_class_name": "DiTTransformer2DModel", "attention_head_dim": 72, "in_channels": 4},
    **{"num_attention_heads": 16, "num_layers": 28, "out_channels": 8, "patch_size": 2},
    **{"sample_size": 32, "norm_type": "ada_norm_zero", "num_embeds_ada_norm": 1000},
}
FLUX = {
    **{"_class_name": "FluxTransformer2DModel", "attention_head_dim": 128, "in_channels": 64},
    **{"guidance_embeds": True, "joint_attention_dim": 4096, "num_attention_heads": 24},
    **{"num_layers": 19, "num_single_layers": 38, "patch_size": 1, "pooled_projection_dim": 768},
}
HUNYUAN = {
    **{"_class_name": "HunyuanVideoTransformer3DModel", "attention_head_dim": 128},
    **{"guidance_embeds": True, "in_channels": 16, "mlp_ratio": 4.0, "num_attention_heads": 24},
    **{"num_layers": 20, "num_refiner_layers": 2, "num_single_layers": 40, "out_channels": 16},
    **{"patch_size": 2, "patch_size_t": 1, "pooled_projection_dim": 768, "text_embed_dim": 4096},
}
LTX = {
    **{"_class_name": "LTXVideoTransformer3DModel", "attention_head_dim": 64},
    **{"caption_channels": 4096, "in_channels": 128, "num_attention_heads": 32},
    **{"num_layers": 28, "out_channels": 128, "patch_size": 1, "patch_size_t": 1},
    "qk_norm": "rms_norm_across_heads",
}
COGVIDEOX = {
    **{"_class_name": "CogVideoXTransformer3DModel", "attention_head_dim": 64, "in_channels": 16},
    **{"max_text_seq_length": 226, "num_attention_heads": 30, "num_layers": 30},
    **{"out_channels": 16, "patch_size": 2, "sample_frames": 49, "sample_height": 60},
    **{"sample_width": 90, "temporal_compression_ratio": 4, "text_embed_dim": 4096},
    **{"time_embed_dim": 512, "norm_elementwise_affine": True},
}
FILES = {
    "wan2.1_1.3b": WAN,
    "wan2.1_14b": WAN_14B,
    "wan2.2_5b": {**WAN_5B, "out_channels": 48},
    "pixart_sigma_xl2": PIXART,
    "dit_xl2": DIT,
    "flux1_dev": FLUX,
    "hunyuanvideo_13b": HUNYUAN,
    "ltx_video_2b": LTX,
    "cogvideox_2b": COGVIDEOX,
    "cogvideox_5b": {**COGVIDEOX, "num_attention_heads": 48, "num_layers": 42},
}
"""Published files by the preset of the same model, without keys that make no difference here."""


def written(folder: Path, raw: dict[str, Any]) -> Path:
    """The file of a pipeline's network."""
    file = folder / "transformer" / "config.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(raw), encoding="utf-8")
    return file


def model_of(file: Path) -> Model:
    return Model.model_validate(tuples(read_hf_config(file)))


@pytest.mark.parametrize("name", FILES)
def test_a_file_counts_as_the_preset_of_its_model(tmp_path: Path, name: str) -> None:
    read = model_of(written(tmp_path, FILES[name]))
    usual = Model.model_validate(tuples(preset("model", name, "test")))
    assert read.sample == usual.sample
    assert read.body == usual.body
    assert read.network is not None
    assert usual.network is not None
    assert read.network.parameters(read.body) == usual.network.parameters(usual.body)
    assert forward_macs(read) == forward_macs(usual)
    assert text_macs(read) == text_macs(usual)
    assert read.weights.bits == 16


def test_the_first_class_of_dit_and_pixart_is_told_by_its_norm(tmp_path: Path) -> None:
    for raw in (DIT, PIXART):
        new = read_hf_config(written(tmp_path, raw))
        old = read_hf_config(written(tmp_path, {**raw, "_class_name": "Transformer2DModel"}))
        assert old == new


def test_a_pipeline_is_a_workload_and_a_model(tmp_path: Path) -> None:
    written(tmp_path, WAN)
    work = workload_of(f"diffusion:{tmp_path},64x64,frames=5")
    design = open_design("zcu102", workload=work)
    assert design.model.name == tmp_path.name
    assert design.model.sample is not None
    assert (design.model.sample.frames, design.policy.batch) == (5, 2)


def test_a_pipeline_of_a_unet_is_refused_by_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "model_index.json").write_text("{}", encoding="utf-8")
    (tmp_path / "unet").mkdir()
    with pytest.raises(InputError, match=r"holds neither config\.json nor transformer/") as refused:
        open_design("zcu102", workload=workload_of(f"diffusion:{tmp_path}"))
    assert str(refused.value).isprintable()


def test_a_folder_of_another_purpose_hides_no_preset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs are often stored in a folder of the network's name."""
    (tmp_path / "longlive").mkdir()
    (tmp_path / "wan2.1_1.3b").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"presets longlive2_5b, longlive_1\.3b"):
        open_design("zcu102", workload=workload_of("chunks:longlive"))
    design = open_design("zcu102", workload=workload_of("diffusion:wan2.1_1.3b"))
    assert design.model.name == "Wan2.1-1.3B"


@pytest.mark.parametrize(
    ("name", "is_near"), [("WanTransformer3dModel", True), ("SD3Transformer2DModel", False)]
)
def test_another_class_is_no_misspelling(tmp_path: Path, name: str, is_near: bool) -> None:
    """SD3's network is no Transformer2DModel, although the names are alike."""
    file = written(tmp_path, {**WAN, "_class_name": name})
    with pytest.raises(InputError, match="is no network that is read") as refused:
        read_hf_config(file)
    assert ("did you mean" in str(refused.value)) == is_near


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"_class_name": "MochiTransformer3DModel"}, r"is no network that is read; .*read are"),
        ({"_class_name": 3}, r"\$\._class_name: 3 is no network"),
        ({"num_layers": None}, r"\$\.num_layers: is missing; give a whole number above 0"),
        ({"ffn_dim": "8960"}, r"\$\.ffn_dim: got '8960'; give a whole number above 0"),
        ({"patch_size": [1, 2]}, r"\$\.patch_size: got \[1, 2\]; give three whole numbers"),
        ({"cross_attn_norm": 1}, r"\$\.cross_attn_norm: got 1; give true or false"),
        ({"qk_norm": 4}, r"\$\.qk_norm: got 4; give a text or null"),
        ({"image_dim": 1280}, r"\$\.image_dim: 1280: a picture that conditions"),
        ({"quantization_config": {"bits": 4}}, r"quantised weights of networks are not read"),
        ({"_class_name": "Transformer2DModel", "norm_type": "x"}, r"\$\.norm_type: 'x': read are"),
    ],
)
def test_what_is_not_read_is_one_line(
    tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    file = written(tmp_path, {**WAN, **changes})
    with pytest.raises(InputError, match=problem) as refused:
        read_hf_config(file)
    assert str(refused.value).isprintable()
    assert str(file) in str(refused.value)


def test_bits_that_a_design_gives_stand_over_quantised_weights(tmp_path: Path) -> None:
    file = written(tmp_path, {**WAN, "quantization_config": {"bits": 4}})
    assert read_hf_config(file, is_weighed=True)["weights"] == {"bits": 16}


def test_a_network_is_no_checkpoint_of_a_decoder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a network of diffusers, which decodes no tokens"):
        load_hf_config(written(tmp_path, WAN))

"""Networks from their own files: ``transformer/config.json`` of diffusers.

A file says the sizes of the layers. What it leaves out is taken from the class that it names: norms
of queries and keys, how text enters, the compression of the pixel decoder, and the sample that its
pipeline usually makes. Weights, keys and activations have 16 bits, as published weights have.

Simplifications: text has as many tokens as the pipeline pads it to (Wan 512, LTX-Video 256, PixArt
300, HunyuanVideo 256, FLUX 512); embeddings of the size of a picture (PixArt-alpha) are left out;
embeddings of time and class that diffusers stores in each layer of a DiT are counted once, as in
the paper.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from carsim.base.errors import InputError
from carsim.base.files import admit, read_json
from carsim.base.yaml_file import MAX_BYTES, shown
from carsim.workload.hf_config.nested import CURE

CLASS_NAME = "_class_name"
"""Key under which a file of diffusers names its class."""

FOLDER = "transformer"
"""Folder of a pipeline that holds its network."""

DESCRIBE = "name a preset of a network (carsim config list --presets), or write model.network"

BITS = 16
"""Bits of published weights."""

GUIDANCE_WIDTH = 256
"""Sinusoids that stand for the guidance scale, as for the time (diffusers)."""

NOT_SIMULATED: Mapping[str, tuple[Any, str]] = {
    "image_dim": (None, "a picture that conditions the video is not simulated"),
    "added_kv_proj_dim": (None, "a picture that conditions the video is not simulated"),
    "image_condition_type": (None, "a picture that conditions the video is not simulated"),
    "add_control_adapter": (False, "control by a camera is not simulated"),
    "ofs_embed_dim": (None, "a picture that conditions the video is not simulated"),
}
"""Keys that ask for what is not simulated: the value that does not, and the reason."""

Fields = dict[str, Any]


class Keys:
    """Keys of a file; each is checked as it is read.

    Args:
        raw: The keys.
        place: Where they stand, for errors.
    """

    def __init__(self, raw: Mapping[str, Any], place: str) -> None:
        self._raw = raw
        self._place = place

    def whole(self, key: str, usual: int | None = None) -> int:
        """A whole number above 0.

        Args:
            key: The key.
            usual: The number where the file leaves it out or says null; None: it must not.

        Raises:
            InputError: The key is missing, or holds something else.
        """
        value = self._raw.get(key)
        if value is None and usual is not None:
            return usual
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            problem = "is missing" if value is None else f"got {shown(value)}"
            raise self.refusal(key, problem, "give a whole number above 0")
        return value

    def number(self, key: str, usual: float) -> float:
        """A number above 0; the usual one where the file leaves it out."""
        value = self._raw.get(key, usual)
        if not isinstance(value, int | float) or isinstance(value, bool) or value <= 0:
            raise self.refusal(key, f"got {shown(value)}", "give a number above 0")
        return float(value)

    def triple(self, key: str, usual: tuple[int, int, int]) -> tuple[int, int, int]:
        """Three whole numbers above 0: of time, height and width."""
        value = self._raw.get(key, usual)
        is_triple = isinstance(value, list | tuple) and len(value) == 3
        if not is_triple or not all(type(side) is int and side > 0 for side in value):
            raise self.refusal(key, f"got {shown(value)}", "give three whole numbers above 0")
        return (value[0], value[1], value[2])

    def flag(self, key: str, *, usual: bool) -> bool:
        """True or false; the usual one where the file leaves it out."""
        value = self._raw.get(key, usual)
        if not isinstance(value, bool):
            raise self.refusal(key, f"got {shown(value)}", "give true or false")
        return value

    def text(self, key: str) -> str | None:
        """A text; None where the file says null or leaves it out."""
        value = self._raw.get(key)
        if value is not None and not isinstance(value, str):
            raise self.refusal(key, f"got {shown(value)}", "give a text or null")
        return value

    def body(self, layers: int, hidden: int, ffn_size: int, **more: Any) -> Fields:
        """Layers with biases everywhere and as many heads of K and V as of queries."""
        heads = self.whole("num_attention_heads")
        return {
            "n_layers": layers,
            "hidden_size": hidden,
            "n_heads": heads,
            "n_kv_heads": heads,
            "ffn_size": ffn_size,
            "mlp": "plain",
            "biases": ("qkv", "out", "gate_up", "down"),
            **more,
        }

    @property
    def hidden(self) -> int:
        """Width of the layers."""
        return self.whole("num_attention_heads") * self.whole("attention_head_dim")

    def refusal(self, key: str, problem: str, cure: str) -> InputError:
        """An error that names a key."""
        return InputError(f"{self._place}.{key}", problem, cure)


def is_of_diffusers(path: Path) -> bool:
    """A file, or the file of a folder, is one of diffusers."""
    file = config_file(path)
    if not admit(file).is_file() or file.suffix != ".json":
        return False
    # What cannot be read at all may as well be a file of a decoder.
    return CLASS_NAME in read_json(file, MAX_BYTES, CURE)


def misspelt(name: str) -> str:
    """A question that names the class that was meant; none for a class of another model.

    Names of classes are long and alike, so that only the case of letters may differ.
    """
    alike = [known for known in CLASSES if known.casefold() == name.casefold()]
    return f"did you mean {alike[0]!r}? " if alike else ""


def config_file(path: Path) -> Path:
    """The file of a network: the file itself, that of its folder, or that of a whole pipeline."""
    if not admit(path).is_dir():
        return path
    of_pipeline = path / FOLDER / "config.json"
    if not admit(path / "config.json").is_file() and admit(of_pipeline).is_file():
        return of_pipeline
    return path / "config.json"


def read_network(path: Path, *, is_weighed: bool = False) -> Fields:
    """The section ``model`` that a file of diffusers describes.

    Args:
        path: A ``config.json``, its folder, or the folder of a pipeline.
        is_weighed: The design gives the bits of weights itself.

    Raises:
        InputError: The class is not read, a key is missing or makes no sense, or weights are
            quantised in a way that is not read.
    """
    file = config_file(path)
    raw = read_json(file, MAX_BYTES, DESCRIBE)
    place = f"{file}: $"
    name = raw[CLASS_NAME]
    if not isinstance(name, str) or name not in CLASSES:
        problem = f"{shown(name)} is no network that is read"
        near = misspelt(name) if isinstance(name, str) else ""
        cure = f"{near}read are {', '.join(CLASSES)}; or {DESCRIBE}"
        raise InputError(f"{place}.{CLASS_NAME}", problem, cure)
    keys = Keys(raw, place)
    for key, (usual, reason) in NOT_SIMULATED.items():
        if raw.get(key, usual) not in (usual, None):
            raise keys.refusal(key, f"{shown(raw[key])}: {reason}", DESCRIBE)
    if raw.get("quantization_config") is not None and not is_weighed:
        problem = "quantised weights of networks are not read"
        raise keys.refusal("quantization_config", problem, "give the bits: model.weights.bits=8")
    folder = file.resolve().parent
    if folder.name.startswith(FOLDER):
        folder = folder.parent
    precisions = {role: {"bits": BITS} for role in ("weights", "kv", "activations", "replay")}
    return {"name": folder.name, "head": {"kind": "none"}, **CLASSES[name](keys), **precisions}


# --------------------------------------------------------------------------- classes


def _wan(keys: Keys) -> Fields:
    """Wan 2.1 and 2.2, and video models that were made of them."""
    hidden = keys.hidden
    channels = keys.whole("in_channels", 16)
    compression = (4, 16, 16) if keys.whole("out_channels", 16) == 48 else (4, 8, 8)
    size = (480, 832) if hidden < 5120 else (720, 1280)
    frames = 81
    if compression[1] == 16:
        size = (704, 1280)
        frames = 121
    height, width = size
    norm = keys.text("qk_norm")
    return {
        "body": keys.body(
            keys.whole("num_layers"),
            hidden,
            ffn_size=keys.whole("ffn_dim"),
            qk_norm=norm is not None,
            qk_norm_span="layer",
        ),
        "network": {
            "kind": "diffusion",
            "text": "cross",
            "text_tokens": 512,
            "text_width": keys.whole("text_dim", 4096),
            "time_features": keys.whole("freq_dim", 256),
            "cross_norm": keys.flag("cross_attn_norm", usual=True),
            "channels": channels,
            "out_channels": keys.whole("out_channels", channels),
            "patch": keys.triple("patch_size", (1, 2, 2)),
            "stride": compression,
        },
        "sample": {
            "height": height,
            "width": width,
            "frames": frames,
            "steps": 50,
            "passes": 2,
        },
    }


def _ltx(keys: Keys) -> Fields:
    """LTX-Video."""
    hidden = keys.hidden
    side = keys.whole("patch_size", 1)
    channels = keys.whole("in_channels", 128)
    return {
        "body": keys.body(
            keys.whole("num_layers"),
            hidden,
            ffn_size=4 * hidden,
            qk_norm=keys.text("qk_norm") is not None,
            qk_norm_span="layer",
        ),
        "network": {
            "kind": "diffusion",
            "text": "cross",
            "text_tokens": 256,
            "text_width": keys.whole("caption_channels", 4096),
            "channels": channels,
            "out_channels": keys.whole("out_channels", channels),
            "patch": (keys.whole("patch_size_t", 1), side, side),
            "stride": (8, 32, 32),
        },
        "sample": {"height": 704, "width": 1216, "frames": 121, "steps": 40, "passes": 3},
    }


def _pixart(keys: Keys) -> Fields:
    """PixArt-alpha and PixArt-Sigma."""
    side = keys.whole("patch_size", 2)
    pixels = 8 * keys.whole("sample_size", 128)
    channels = keys.whole("in_channels", 4)
    return {
        "body": keys.body(keys.whole("num_layers"), keys.hidden, ffn_size=4 * keys.hidden),
        "network": {
            "kind": "diffusion",
            "text": "cross",
            "text_tokens": 300,
            "text_width": keys.whole("caption_channels", 4096),
            "channels": channels,
            "out_channels": keys.whole("out_channels", 2 * channels),
            "patch": (1, side, side),
            "stride": (1, 8, 8),
        },
        "sample": {"height": pixels, "width": pixels, "steps": 20, "passes": 2},
    }


def _vectors(keys: Keys, *, is_guided: bool) -> tuple[int, ...]:
    """Widths of the vectors that condition all blocks: pooled prompt, and guidance scale."""
    pooled = keys.whole("pooled_projection_dim", 768)
    return (pooled, GUIDANCE_WIDTH) if is_guided else (pooled,)


def _hunyuan(keys: Keys) -> Fields:
    """HunyuanVideo."""
    dual = keys.whole("num_layers")
    hidden = keys.hidden
    side = keys.whole("patch_size", 2)
    channels = keys.whole("in_channels", 16)
    is_guided = keys.flag("guidance_embeds", usual=True)
    return {
        "body": keys.body(
            dual + keys.whole("num_single_layers"),
            hidden,
            ffn_size=round(keys.number("mlp_ratio", 4.0) * hidden),
            qk_norm=True,
        ),
        "network": {
            "kind": "diffusion",
            "text": "streams",
            "text_tokens": 256,
            "text_width": keys.whole("text_embed_dim", 4096),
            "text_layers": 1,
            "refiner_blocks": keys.whole("num_refiner_layers", 2),
            "dual_blocks": dual,
            "vectors": _vectors(keys, is_guided=is_guided),
            "modulation": "block",
            "channels": channels,
            "out_channels": keys.whole("out_channels", channels),
            "patch": (keys.whole("patch_size_t", 1), side, side),
            "stride": (4, 8, 8),
        },
        "sample": {"height": 720, "width": 1280, "frames": 129, "steps": 50},
    }


def _flux(keys: Keys) -> Fields:
    """FLUX.1; its pipeline packs 2 x 2 places of the latent picture into a token."""
    dual = keys.whole("num_layers")
    hidden = keys.hidden
    side = keys.whole("patch_size", 1)
    channels = keys.whole("in_channels", 64)
    is_guided = keys.flag("guidance_embeds", usual=False)
    return {
        "body": keys.body(
            dual + keys.whole("num_single_layers"), hidden, ffn_size=4 * hidden, qk_norm=True
        ),
        "network": {
            "kind": "diffusion",
            "text": "streams",
            "text_tokens": 512,
            "text_width": keys.whole("joint_attention_dim", 4096),
            "text_layers": 1,
            "dual_blocks": dual,
            "vectors": _vectors(keys, is_guided=is_guided),
            "modulation": "block",
            "channels": channels,
            "out_channels": keys.whole("out_channels", channels),
            "patch": (1, side, side),
            "stride": (1, 16, 16),
        },
        "sample": {"height": 1024, "width": 1024, "steps": 28 if is_guided else 4},
    }


def _dit(keys: Keys) -> Fields:
    """DiT, conditioned by a class."""
    side = keys.whole("patch_size", 2)
    pixels = 8 * keys.whole("sample_size", 32)
    channels = keys.whole("in_channels", 4)
    return {
        "body": keys.body(keys.whole("num_layers"), keys.hidden, ffn_size=4 * keys.hidden),
        "network": {
            "kind": "diffusion",
            "text": "none",
            "modulation": "block",
            "classes": keys.whole("num_embeds_ada_norm", 1000) + 1,  # and one for no class
            "channels": channels,
            "out_channels": keys.whole("out_channels", 2 * channels),
            "patch": (1, side, side),
            "stride": (1, 8, 8),
        },
        "sample": {"height": pixels, "width": pixels, "steps": 250, "passes": 2},
    }


def _cogvideox(keys: Keys) -> Fields:
    """CogVideoX; text tokens join the sequence."""
    hidden = keys.hidden
    side = keys.whole("patch_size", 2)
    channels = keys.whole("in_channels", 16)
    stride = keys.whole("temporal_compression_ratio", 4)
    latent_height = keys.whole("sample_height", 60)
    latent_width = keys.whole("sample_width", 90)
    return {
        "body": keys.body(keys.whole("num_layers"), hidden, ffn_size=4 * hidden, qk_norm=True),
        "network": {
            "kind": "diffusion",
            "text": "sequence",
            "text_tokens": keys.whole("max_text_seq_length", 226),
            "text_width": keys.whole("text_embed_dim", 4096),
            "text_layers": 1,
            "modulation": "block",
            "modulation_width": keys.whole("time_embed_dim", 512),
            "time_features": hidden,
            "affine_norms": keys.flag("norm_elementwise_affine", usual=True),
            "channels": channels,
            "out_channels": keys.whole("out_channels", channels),
            "patch": (keys.whole("patch_size_t", 1), side, side),
            "stride": (stride, 8, 8),
        },
        "sample": {
            "height": 8 * latent_height,
            "width": 8 * latent_width,
            "frames": keys.whole("sample_frames", 49),
            "steps": 50,
            "passes": 2,
        },
    }


def _by_norm(keys: Keys) -> Fields:
    """The class that DiT and PixArt had at first; its norm tells them apart."""
    norm = keys.text("norm_type")
    if norm == "ada_norm_zero":
        return _dit(keys)
    if norm == "ada_norm_single":
        return _pixart(keys)
    problem = f"{shown(norm)}: read are ada_norm_zero (DiT) and ada_norm_single (PixArt)"
    raise keys.refusal("norm_type", problem, DESCRIBE)


CLASSES: Mapping[str, Callable[[Keys], Fields]] = {
    "CogVideoXTransformer3DModel": _cogvideox,
    "DiTTransformer2DModel": _dit,
    "FluxTransformer2DModel": _flux,
    "HunyuanVideoTransformer3DModel": _hunyuan,
    "LTXVideoTransformer3DModel": _ltx,
    "PixArtTransformer2DModel": _pixart,
    "Transformer2DModel": _by_norm,
    "WanTransformer3DModel": _wan,
}
"""Classes that are read."""

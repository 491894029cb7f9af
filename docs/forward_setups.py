"""Set-ups of diffusion and depth on GPUs that were predicted on 2026-11-30, and those left out.

:mod:`forward_predictions` makes its table from them. A time is operations over two rates, times a
factor, and seconds that do not depend on the operations. Each is a range, low and high. Operations
are those of the presets (``carsim.validate.forward_times.sample_flop``), except for two models that
had none on that day: Open-Sora 1.2 is counted here from its published shape, and Rolling Forcing
from the queries and keys of a forward.

No result of these set-ups was looked up. Those of CausVid and Self-Forcing by other laboratories
were known from published tables.
"""

import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from carsim.validate.forward_times import Flop, sample_flop  # noqa: E402
from carsim.validate.preset_counts import preset_model  # noqa: E402

DAY = "2026-11-30"
"""Day on which these predictions were made."""

Range = tuple[float, float]

NOTHING: Range = (0.0, 0.0)
SAME: Range = (1.0, 1.0)


class Ways(NamedTuple):
    """How a time follows from operations.

    Attributes:
        linear: Rate of linear layers in TFLOP/s, low and high.
        attention: Rate of attention in TFLOP/s, low and high.
        source: Where the rates come from.
        factor: Factor on the time, low and high.
        fixed_s: Seconds beside the operations, low and high.
    """

    linear: Range
    attention: Range
    source: str
    factor: Range = SAME
    fixed_s: Range = NOTHING


class LaterSetup(NamedTuple):
    """A system whose time was predicted.

    Attributes:
        system: Its name.
        sample: What it makes.
        flop: Operations of a sample.
        gpu: The GPU.
        ways: How its time follows.
        frames: Pixel frames of a sample whose rate is published; 0 where a time is.
    """

    system: str
    sample: str
    flop: Flop
    gpu: str
    ways: Ways
    frames: int = 0


def of_preset(
    system: str, preset: str, changes: str, *, gpu: str, ways: Ways, frames: int = 0
) -> LaterSetup:
    """A set-up whose operations are those of a preset.

    Args:
        system: Its name.
        preset: Name of the preset.
        changes: Changes of its sample.
        gpu: The GPU.
        ways: How its time follows.
        frames: Pixel frames of a sample whose rate is published; 0 where a time is.
    """
    model = preset_model(preset, changes)
    assert model.sample is not None
    flop = sample_flop(model)
    return LaterSetup(system, model.sample.in_words, flop, gpu, ways, frames=frames)


# ------------------------------------------------- eager, compiled and 8-bit products

_COMPILED = "the prediction of 2026-11-29, 0.76 of it compiled (FastVideo on an A100), within 15 %"
COMPILED: Range = (0.65, 0.88)
_FP8 = "linear layers in FP8 at 1.2 to 1.9 times the rate of bf16 (assumed)"

FLUX_SETUPS = (
    of_preset(
        "xDiT, FLUX.1-dev, compiled",
        "flux1_dev",
        "",
        gpu="H100",
        ways=Ways((276, 351), (342, 737), _COMPILED, factor=COMPILED),
    ),
    of_preset(
        "ParaAttention, FLUX.1-dev, compiled",
        "flux1_dev",
        "",
        gpu="A100",
        ways=Ways((133, 157), (203, 230), _COMPILED, factor=COMPILED),
    ),
    of_preset(
        "ParaAttention, FLUX.1-dev, FP8",
        "flux1_dev",
        "",
        gpu="L20",
        ways=Ways((61, 150), (78, 110), f"L20 of 2026-11-29; {_FP8}"),
    ),
    of_preset(
        "TeaCache, CogVideoX1.5 5B I2V, dense (50 steps assumed)",
        "cogvideox1.5_5b",
        "",
        gpu="H100",
        ways=Ways((276, 351), (342, 737), "H100 of 2026-11-29"),
    ),
)

# ------------------------------------------------------------------ LightX2V

_SAGE = "SageAttention 1 to 2 at 32K tokens on an H100 (its authors' figure)"
SAGE_H200 = Ways((276, 351), (518, 882), f"linear layers as H100 of 2026-11-29; {_SAGE}")
SAGE_FP8_H200 = Ways((331, 667), (518, 882), f"{_FP8}; {_SAGE}")
_RTX_4090 = (
    "linear layers at the 81 TFLOP/s of all systems to twice the 125 of CogVideoX (FP8); attention "
    "at the 150 of FlashAttention 2 to the 451 of SageAttention 2 there; offloading is not known"
)
RTX_4090 = Ways((81, 250), (150, 451), _RTX_4090)
FEW_STEPS = "steps=4 passes=1"

_OFFICIAL_S = {"480p": 347.9, "720p": 1229.0}
"""Seconds of the official code on an H200, as predicted on 2026-11-29."""

_DECODER_SHARE: Range = (0.008, 0.034)
"""Pixel decoder's share of the energy of a whole sample of Wan (arXiv 2607.04553)."""

SIZES = {"480p": "height=480 width=832", "720p": ""}


def _with_decoder(ways: Ways, size: str) -> Ways:
    """The ways of a sample of few steps, in which the pixel decoder counts."""
    low, high = (share * _OFFICIAL_S[size] for share in _DECODER_SHARE)
    source = f"{ways.source}; the decoder's 0.8 to 3.4 % of the official time"
    return ways._replace(fixed_s=(low, high), source=source)


def _lightx2v() -> list[LaterSetup]:
    """Wan2.1 I2V 14B by LightX2V and by others that it was compared with."""
    setups = []
    for size, pixels in SIZES.items():
        dense = f"{pixels} steps=40".strip()
        few = f"{pixels} {FEW_STEPS}".strip()
        slow = _with_decoder(RTX_4090, size)
        every = (
            ("FastVideo, SageAttention 2", dense, "H200", SAGE_H200),
            ("LightX2V 1, SageAttention 2, mixed", dense, "H200", SAGE_H200),
            ("LightX2V 2, SageAttention 2, bf16", dense, "H200", SAGE_H200),
            ("LightX2V 3, SageAttention 2, FP8", dense, "H200", SAGE_FP8_H200),
            ("LightX2V 3, distilled", few, "H200", _with_decoder(SAGE_FP8_H200, size)),
            ("Wan2GP", dense, "RTX 4090", RTX_4090),
            ("LightX2V 5", dense, "RTX 4090", RTX_4090),
            ("LightX2V 5, distilled", few, "RTX 4090", slow),
            ("LightX2V 6", dense, "RTX 4090", RTX_4090),
            ("LightX2V 6, distilled", few, "RTX 4090", slow),
        )
        for system, changes, gpu, ways in every:
            if system == "Wan2GP" and size == "720p":
                continue
            name = f"{system}, Wan2.1 I2V 14B"
            setups.append(of_preset(name, "wan2.1_14b", changes, gpu=gpu, ways=ways))
    return setups


# ------------------------------------------------------------------ Open-Sora 1.2

OPEN_SORA = Ways(
    (100, 190),
    (100, 190),
    "78 TFLOP/s on an A800 (MagCache's table), times 1.7 to 2.0 from A100 to H100 in seven other "
    "systems, within a quarter",
)


def open_sora_flop(frames: int, places: int) -> Flop:
    """Operations of Open-Sora 1.2: 28 layers in space and 28 over time, 30 steps of two passes.

    Args:
        frames: Latent frames.
        places: Tokens of a latent frame.
    """
    width, layers, text = 1152, 28, 300
    tokens = frames * places
    # Of each token: Q, K, V and output, Q and output of cross-attention, an MLP four times as wide.
    of_token = (4 + 2 + 8) * width**2
    linear = 2 * layers * (tokens * of_token + 2 * text * width**2)
    cross = 2 * layers * 2 * tokens * text * width
    attention = layers * 2 * tokens * (places + frames) * width
    rows = 30 * 2
    return Flop(linear=2.0 * rows * (linear + cross), attention=2.0 * rows * attention)


def _open_sora() -> list[LaterSetup]:
    """Open-Sora 1.2: 17 frames make 5 latent frames; two seconds are 51 frames."""
    setups = []
    for size, places in {"360p": 23 * 40, "480p": 30 * 54, "720p": 45 * 80}.items():
        for seconds in (2, 4, 8, 16):
            frames = 15 * seconds // 2
            sample = f"{seconds} s at {size}, 30 forwards of 2 rows"
            flop = open_sora_flop(frames, places)
            setups.append(LaterSetup("Open-Sora 1.2 README", sample, flop, "H100", OPEN_SORA))
    return setups


# ------------------------------------------------------------------ chunks

CHUNKS = Ways(
    (200, 300),
    (200, 300),
    "249 TFLOP/s of LongLive on an H100, within 20 %; the pixel decoder takes 10 to 30 % of the "
    "time (LongLive, StreamDiffusionV2)",
    factor=(1 / 0.9, 1 / 0.7),
)

ROLLING = Flop(linear=2 * 30.4e12, attention=2 * 70.6e12)
"""A forward of Wan 1.3B over 23,400 queries and 32,760 keys, which ends 12 pixel frames. The pass
over the clean chunk is left out."""

_KNOWN = "(other laboratories' figures were known)"


def _chunks() -> list[LaterSetup]:
    """Videos in chunks at 832 x 480, in frames per second."""
    rolling = "12 frames at 832 x 480, a forward of five chunks"
    return [
        of_preset(
            f"Rolling Forcing's table, CausVid {_KNOWN}",
            "causvid_1.3b",
            "",
            gpu="H100",
            ways=CHUNKS,
            frames=81,
        ),
        of_preset(
            f"Rolling Forcing's table, Self-Forcing {_KNOWN}",
            "self_forcing_1.3b",
            "",
            gpu="H100",
            ways=CHUNKS,
            frames=81,
        ),
        LaterSetup("Rolling Forcing's table, itself", rolling, ROLLING, "H100", CHUNKS, frames=12),
        LaterSetup(
            "Reward Forcing's table, Rolling Forcing", rolling, ROLLING, "H100", CHUNKS, frames=12
        ),
        of_preset(
            "Reward Forcing's table, itself (chunks and steps of LongLive assumed)",
            "longlive_1.3b",
            "window_frames=9",
            gpu="H100",
            ways=CHUNKS,
            frames=117,
        ),
        of_preset(
            f"Reward Forcing's table, LongLive {_KNOWN}",
            "longlive_1.3b",
            "",
            gpu="H100",
            ways=CHUNKS,
            frames=117,
        ),
    ]


# ------------------------------------------------------------------ depth

_ORIN = "0.15 to 0.6 of 10.2 (Orin Nano) to 12.5 TFLOP/s (Orin NX), fp16; launches up to 3 ms"
ORIN = Ways((1.5, 7.5), (1.5, 7.5), _ORIN, fixed_s=(0.0, 3e-3))
_OPEN_PRECISION = "0.6 of the fp32 peak to 0.3 of the fp16 peak; launches up to 3 ms"
DEPTH = {
    "V100": Ways((9.4, 37), (9.4, 37), _OPEN_PRECISION, fixed_s=(0.0, 3e-3)),
    "A100": Ways((11.7, 94), (11.7, 94), _OPEN_PRECISION, fixed_s=(0.0, 3e-3)),
    "RTX 4090": Ways(
        (35, 110),
        (35, 110),
        "TensorRT: 0.4 of the fp32 peak to two thirds of the fp16 peak; launches up to 0.3 ms",
        fixed_s=(0.0, 3e-4),
    ),
}


def _depth() -> list[LaterSetup]:
    """Depth Anything, whose first version has the layers of the second."""
    setups = []
    for gpu, ways in DEPTH.items():
        for size in ("small", "base", "large"):
            name = f"Depth Anything README, {size.title()}"
            preset = f"depth_anything_v2_{size}"
            setups.append(of_preset(name, preset, "", gpu=gpu, ways=ways))
    for side in (308, 364, 406, 518):
        name = "Depth Anything on Jetson, Small"
        changes = f"height={side} width={side}"
        setup = of_preset(
            name, "depth_anything_v2_small", changes, gpu="Jetson Orin 8 GB", ways=ORIN
        )
        setups.append(setup)
    return setups


LATER_SETUPS = (*FLUX_SETUPS, *_lightx2v(), *_open_sora(), *_chunks(), *_depth())


class LeftOut(NamedTuple):
    """Set-ups without a prediction.

    Attributes:
        system: Who publishes them.
        setups: How many.
        reason: Why they cannot be predicted.
    """

    system: str
    setups: int
    reason: str


LEFT_OUT = (
    LeftOut("xDiT, HunyuanVideo and FLUX.1-dev", 9, "several GPUs"),
    LeftOut("HunyuanVideo-1.5 README", 5, "several GPUs, and the shape is not at hand"),
    LeftOut("ParaAttention, HunyuanVideo", 3, "several GPUs"),
    LeftOut("ParaAttention, first-block cache", 6, "the data decide which steps reuse"),
    LeftOut("LightX2V 4, TeaCache", 2, "the data decide which steps reuse"),
    LeftOut("FastVideo on MI300X, TeaCache", 1, "the data decide which steps reuse"),
    LeftOut(
        "TeaCache at a threshold",
        32,
        "a threshold on outputs of a fitted polynomial does not say how many steps reuse",
    ),
    LeftOut("TeaCache: Cosmos, LTX-Video 0.9.1, Mochi", 3, "size, frames and steps are not stated"),
    LeftOut("DeepCache", 6, "U-Nets are not simulated, and no GPU is stated"),
    LeftOut("Rolling Forcing: FramePack 13B", 1, "shape and steps are not at hand"),
    LeftOut(
        "CausVid paper, first version; AAPT 8B; Helios 14B", 3, "size and steps are not stated"
    ),
    LeftOut("ORBIS", 1, "neither the chip nor the model is stated"),
    LeftOut(
        "EfficientViT accelerator",
        1,
        "linear attention is not simulated, and a figure of 780 GOPS was known",
    ),
)

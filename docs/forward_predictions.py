"""Predictions of diffusion transformers on GPUs, whose times were not looked up.

    python docs/forward_predictions.py

writes ``forward_predictions.csv``, which :mod:`predictions` shows on its page. Operations are those
of the simulated programs (``carsim validate diffusion``). A time is operations of linear layers
over one rate, and operations of attention over another. Both rates come from published times of
other models or sizes on the same GPU, or from the same share of the peak on another GPU.

Simplifications: text encoder, pixel decoder, offloading and launches are part of the rates; image
conditions (I2V) are left out of the operations, which is below 1 %.

:mod:`forward_setups` has the set-ups that were predicted on a later day, and those that cannot be.
"""

import csv
import sys
from collections.abc import Iterator
from math import sqrt
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

from forward_setups import DAY as LATER_DAY  # noqa: E402
from forward_setups import LATER_SETUPS, LEFT_OUT, LaterSetup  # noqa: E402

from carsim.program.sample import forward_macs  # noqa: E402
from carsim.validate.preset_counts import linear_macs, preset_model, sample_macs  # noqa: E402

TABLE = ROOT / "docs" / "forward_predictions.csv"

DAY = "2026-11-29"
"""Day on which the predictions were made."""


class Rates(NamedTuple):
    """TFLOP/s of a GPU, low and high, and where they come from."""

    linear: tuple[float, float]
    attention: tuple[float, float]
    source: str


_SOLVED = "solved from published times of Wan at 480p and 720p"
_SCALED = "the same shares of the data-sheet peak as A100 and H20"
RATES = {
    "H100": Rates((276, 351), (342, 737), f"{_SOLVED}, FlashAttention 2 and 3"),
    "H200": Rates((276, 351), (342, 737), "as H100"),
    "A100": Rates((133, 157), (203, 230), f"{_SOLVED}, FlashAttention 2"),
    "A800": Rates((133, 157), (203, 230), "as A100"),
    "H20": Rates((90, 104), (135, 148), f"{_SOLVED}; 7 % either way"),
    "L20": Rates((51, 79), (78, 110), f"{_SCALED} (119.5 TFLOP/s)"),
    "MI300X": Rates((330, 560), (330, 560), "a quarter to 0.43 of the data-sheet peak"),
}


class Setup(NamedTuple):
    """A system: its name, the preset, changes of its sample, and the GPU."""

    system: str
    preset: str
    sample: str
    gpu: str


HUNYUAN, FLUX, WAN_SMALL, WAN = "hunyuanvideo_13b", "flux1_dev", "wan2.1_1.3b", "wan2.1_14b"
SETUPS = (
    *(Setup("xDiT, HunyuanVideo", HUNYUAN, "", gpu) for gpu in ("H100", "H20", "L20")),
    *(
        Setup("xDiT, HunyuanVideo", HUNYUAN, "height=960 width=960", gpu)
        for gpu in ("H100", "H20", "L20")
    ),
    Setup("xDiT, FLUX.1-dev", FLUX, "", "H100"),
    Setup("ParaAttention, FLUX.1-dev", FLUX, "", "L20"),
    Setup("ParaAttention, FLUX.1-dev", FLUX, "", "A100"),
    Setup("ParaAttention, HunyuanVideo, 30 steps", HUNYUAN, "steps=30", "L20"),
    Setup("FastVideo, Wan2.1 1.3B", WAN_SMALL, "", "MI300X"),
    Setup("TeaCache, Wan2.1 1.3B, dense (50 steps assumed)", WAN_SMALL, "", "A800"),
    Setup("TeaCache, Wan2.1 14B, dense (50 steps assumed)", WAN, "", "A800"),
    Setup(
        "TeaCache, Wan2.1 I2V 14B, dense (40 steps assumed)",
        WAN,
        "height=480 width=832 steps=40",
        "A800",
    ),
    Setup("TeaCache, Wan2.1 I2V 14B, dense (40 steps assumed)", WAN, "steps=40", "A800"),
    Setup(
        "TeaCache, HunyuanVideo, dense (50 steps assumed)", HUNYUAN, "height=544 width=960", "A800"
    ),
    Setup("TeaCache, HunyuanVideo, dense (50 steps assumed)", HUNYUAN, "", "A800"),
    Setup("TeaCache, FLUX.1-dev, dense (28 steps assumed)", FLUX, "", "A800"),
    Setup("TeaCache, CogVideoX1.5 5B, dense (50 steps assumed)", "cogvideox1.5_5b", "", "H100"),
    Setup("LightX2V, Wan2.1 I2V 14B, official", WAN, "height=480 width=832 steps=40", "H200"),
    Setup("LightX2V, Wan2.1 I2V 14B, official", WAN, "steps=40", "H200"),
)


class Prediction(NamedTuple):
    """Seconds of a sample: a middle (geometric), and both ends of the rates."""

    date: str
    system: str
    sample: str
    gpu: str
    pflop: str
    attention_share: str
    seconds: str
    low: str
    high: str
    rates: str


def predict(setup: Setup) -> Prediction:
    """The prediction of a system."""
    model = preset_model(setup.preset, setup.sample)
    sample = model.sample
    assert sample is not None
    rates = RATES[setup.gpu]
    tflop = 2e-12 * sample_macs(model)
    attention = 2e-12 * sample.passes * sample.steps * forward_macs(model)["attention"]
    linear = tflop - attention
    assert linear >= 2e-12 * linear_macs(model) * 0.99
    low = linear / rates.linear[1] + attention / rates.attention[1]
    high = linear / rates.linear[0] + attention / rates.attention[0]
    return Prediction(
        date=DAY,
        system=setup.system,
        sample=sample.in_words,
        gpu=setup.gpu,
        pflop=f"{tflop / 1e3:.4g}",
        attention_share=f"{attention / tflop:.2f}",
        seconds=f"{sqrt(low * high):.4g}",
        low=f"{low:.4g}",
        high=f"{high:.4g}",
        rates=rates.source,
    )


def predict_later(setup: LaterSetup) -> Prediction:
    """The prediction of a system of the later day."""
    ways = setup.ways
    linear, attention = (1e-12 * flop for flop in setup.flop)
    ends = []
    # The fast end of a rate belongs to the low end of a time.
    for time_end, rate_end in ((0, 1), (1, 0)):
        seconds = linear / ways.linear[rate_end] + attention / ways.attention[rate_end]
        ends.append(ways.factor[time_end] * seconds + ways.fixed_s[time_end])
    low, high = ends
    middle = sqrt(low * high)
    sample, source = setup.sample, ways.source
    if setup.frames:
        rate, slow, fast = (f"{setup.frames / seconds:.3g}" for seconds in (middle, high, low))
        sample = f"{sample}: {rate} ({slow} to {fast}) frames/s"
    return Prediction(
        date=LATER_DAY,
        system=setup.system,
        sample=sample,
        gpu=setup.gpu,
        pflop=f"{(linear + attention) / 1e3:.4g}",
        attention_share=f"{attention / (linear + attention):.2f}",
        seconds=f"{middle:.4g}",
        low=f"{low:.4g}",
        high=f"{high:.4g}",
        rates=source,
    )


def every_prediction() -> Iterator[Prediction]:
    """Predictions of all days."""
    yield from (predict(setup) for setup in SETUPS)
    yield from (predict_later(setup) for setup in LATER_SETUPS)


def read_predictions() -> list[Prediction]:
    """Predictions as they were recorded."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return [Prediction(**row) for row in csv.DictReader(file)]


def section() -> str:
    """The part of the page on predictions that shows them."""
    recorded = read_predictions()
    lines = [
        "## Diffusion transformers on GPUs",
        "",
        "Seconds of one sample on one GPU: the geometric mean of a range, and the range. The range "
        "follows from the operations and from a low and a high rate.",
        "*In attention* is the share of operations in attention. `docs/forward_predictions.py` and "
        "`docs/forward_setups.py` have the rates with their sources.",
    ]
    for day in (DAY, LATER_DAY):
        lines += [
            "",
            f"### {day}",
            "",
            "| system | sample | GPU | PFLOP | in attention | seconds |",
            "|---|---|---|---:|---:|---:|",
        ]
        lines += [
            f"| {each.system} | {each.sample} | {each.gpu} | {each.pflop} | "
            f"{each.attention_share} | {each.seconds} ({each.low} to {each.high}) |"
            for each in recorded
            if each.date == day
        ]
    lines += [
        "",
        "### Set-ups without a prediction",
        "",
        "| system | set-ups | reason |",
        "|---|---:|---|",
    ]
    lines += [f"| {each.system} | {each.setups} | {each.reason} |" for each in LEFT_OUT]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the table."""
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Prediction._fields)
        writer.writerows(every_prediction())


if __name__ == "__main__":
    main()

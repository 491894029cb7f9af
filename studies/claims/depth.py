"""Tests of QuartDepth's claims in their own setting: Metric3D v2 on a 28 nm chip.

The machine is ``depth_28nm``, whose array has the products per cycle that the published time of
ViT-S implies. Its lanes and buffers are chosen here, since the paper's were not found.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from carsim import load_design, override, run
from carsim.account.row import RowResult
from carsim.cost.fit import check_fit
from carsim.design import Design
from carsim.design.load import for_work
from carsim.program.sample import forward_macs
from carsim.validate.diffusion import preset_model
from carsim.workload.geometry import Video
from carsim.workload.workload import workload_of
from studies import run as studies
from studies.claims.forwards import published
from studies.claims.tables import Finding, table
from studies.table import percent

DESIGN = "depth_28nm"

SMALL = "metric3d_vit_small,252x252"
"""Multiples of a patch of 14 pixels next to the paper's 256."""

LARGE = "metric3d_vit_large,1022x1022"

NAMES = {SMALL: "ViT-S at 252", LARGE: "ViT-L at 1022"}

CLOSE = 0.1
"""Largest relative error of a time that counts as the published one."""

W4A4 = {"model.weights.bits": 4, "model.kv.bits": 4, "model.activations.bits": 4}
"""Bits of the chip's networks; those of a preset are 8."""

POLISHED = {"model.polished": ["qkv", "out", "gate_up", "down", "convolution"]}
"""Inputs of all products."""

PLAIN: dict[str, Any] = {"model.polished": []}


def design_of(picture: str, changes: Mapping[str, Any]) -> Design:
    """The chip with a network and picture in W4A4, and further changes."""
    design = for_work(load_design(DESIGN), workload_of(f"image:{picture}"))
    return override(design, {**W4A4, **POLISHED, **changes})


def simulated(picture: str, changes: Mapping[str, Any] | None = None) -> RowResult:
    """A picture on the chip, with changes of the design."""
    design = design_of(picture, changes or {})
    return run(design, workload="image", allow_misfit=True, what_if=False).chosen


def depth_speed() -> Finding:
    """ViT-S in W4A4 is as fast as published, within :data:`CLOSE`."""
    stated = published("QuartDepth", "W4A4 ViT-S 256")
    rate = 1 / simulated(SMALL).seconds_per_video
    return Finding(
        f"{rate:.1f} images/s, {stated:g} stated ({percent(rate / stated - 1, 1)})",
        abs(rate / stated - 1) <= CLOSE,
    )


def depth_gains() -> Finding:
    """W4A4 gains twice on ViT-S and 4.9 times on ViT-L: whether some cause gives both.

    Reads the study ``depth_chip``. A cause that gives both has parameters that were chosen for it,
    so that the claim is not confirmed by it.
    """
    folder = studies.find("depth_chip")
    figure = folder.figure
    found = figure.nearest(folder.kept())
    texts = []
    possible = False
    for study, row in found.items():
        gains = f"{row[figure.SMALL]:.1f} and {row[figure.LARGE]:.1f}"
        texts.append(f"{figure.CAUSES[study].title} {gains}")
        possible = possible or figure.explains(row)
    return Finding(f"nearest gains by cause: {'; '.join(texts)}", None if possible else False)


def products_share(least: float) -> Finding:
    """Products take most of the time where element operations come after them."""
    texts = []
    shares = []
    for picture, name in NAMES.items():
        beside = simulated(picture, PLAIN)
        after = simulated(picture, {**PLAIN, "machine.kernel_fusion": False})
        # Beside the array nothing but products takes time; after it, all adds up.
        products = [each for each in beside.limits if each.limited_by == "products"]
        limited = sum(each.share_of_time for each in products)
        shares.append(limited * beside.latency_s / after.latency_s)
        texts.append(f"{name} {percent(shares[-1], 1)}")
    return Finding(f"share of the time: {', '.join(texts)}", min(shares) >= least)


def polishing_hides(lanes: Sequence[int], most: float) -> Finding:
    """Polishing the inputs of all products takes no more time, with the lanes of the chip.

    Args:
        lanes: Lanes of the vector unit, those of the chip first.
        most: Ratio of times with and without polishing, on every picture with the first lanes.
    """
    texts = []
    ratios = []
    for count in lanes:
        for picture, name in NAMES.items():
            vector = {"machine.vector.lanes": count}
            plain = simulated(picture, {**PLAIN, **vector})
            ratio = simulated(picture, vector).latency_s / plain.latency_s
            texts.append(f"{count} lanes {name} {ratio:.2f}")
            if count == lanes[0]:
                ratios.append(ratio)
    return Finding(f"time with over without: {', '.join(texts)}", max(ratios) <= most)


def fusion_gains(least: float) -> Finding:
    """Kernel fusion makes a depth map faster, on every picture."""
    texts = []
    gains = []
    for picture, name in NAMES.items():
        apart = simulated(picture, {"machine.kernel_fusion": False})
        gains.append(apart.latency_s / simulated(picture).latency_s)
        texts.append(f"{name} {gains[-1]:.2f}")
    return Finding(f"time without over with: {', '.join(texts)}", min(gains) >= least)


def depth_efficiency() -> Finding:
    """The published operations per joule lie in the interval of the simulated ones."""
    stated = published("QuartDepth", "W4A4 ViT-S 256 efficiency")
    macs = sum(forward_macs(preset_model("metric3d_vit_small", "height=252 width=252")).values())
    energy = simulated(SMALL).energy_per_video
    gmac = macs / 1e9
    low, high = gmac / energy.high_j, gmac / energy.low_j
    text = f"{gmac / energy.value_j:.0f} [{low:.0f}, {high:.0f}] GMAC/J of {stated:g}"
    return Finding(text, low <= stated <= high)


def depth_area() -> Finding:
    """Published areas lie in the intervals of the simulated ones, in their order."""
    machines: dict[str, dict[str, Any]] = {
        "W4A8": {"machine.array.arithmetic": "int4x8", "model.activations.bits": 8},
        "W4A4": {},
    }
    texts = []
    inside = []
    areas = []
    for name, changes in machines.items():
        stated = published("QuartDepth", f"{name} area")
        fit = check_fit(design_of(SMALL, changes), Video(1, 1, 0))
        area = fit.counts["area_mm2"].used
        low, high = fit.intervals["area_mm2"]
        inside.append(low <= stated <= high)
        areas.append(area)
        texts.append(f"{name} {area:.1f} [{low:.1f}, {high:.1f}] of {stated:g} mm2")
    text = f"{', '.join(texts)}; W4A4 over W4A8 {areas[1] / areas[0]:.3f}"
    return Finding(text, all(inside))


def rounding_errors(most: float) -> Finding:
    """Reconstruction lowers the squared error of the outputs of each product, on other scenes.

    Args:
        most: Ratio to the error of the nearest values, meaned over layers, of every product.
    """
    means = table("claims/rounding_error").groupby("product", sort=False).mean(numeric_only=True)
    texts = []
    for product, row in means.iterrows():
        held_out, calibrated = row["held_out"], row["calibrated"]
        texts.append(f"{product} {held_out:.2f} (calibrated {calibrated:.2f})")
    text = f"squared error over that of the nearest values: {', '.join(texts)}"
    return Finding(text, bool(means["held_out"].max() < most))

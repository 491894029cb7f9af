"""Joules of memories whose family a design's energy section does not name.

A design's own constants come first. These serve the families that the presets' technologies do not
reach by themselves (an UltraScale+ FPGA has no controller for GDDR6), so that a design may swap its
memory without repeating them. None was measured here; most are engineering estimates between
figures that are quoted at second hand, and the intervals are as wide.
"""

from collections.abc import Mapping

from carsim.hardware.technology.constant import Constant


def _estimate(value: float, low: float, high: float, source: str) -> Constant:
    return Constant(value=value, low=low, high=high, source=source)


PJ_PER_BIT: Mapping[str, Constant] = {
    "DDR5": _estimate(
        15.0, 8.0, 25.0, "engineering estimate: DDR4's 20 times (1.1 V / 1.2 V)^2, on-die ECC added"
    ),
    "LPDDR4X": _estimate(
        5.5, 3.0, 12.0, "engineering estimate, LPDDR4's 7 with outputs of 0.6 V instead of 1.1 V"
    ),
    "LPDDR5": _estimate(5.0, 2.5, 10.0, "engineering estimate, slightly under LPDDR4X"),
    "LPDDR5X": _estimate(4.5, 2.5, 10.0, "engineering estimate, slightly under LPDDR5"),
    "GDDR6": _estimate(
        6.5,
        5.5,
        12.0,
        "Jouppi et al., Ten lessons, ISCA 2021: 350 to 480 pJ per 64 bits (from memory, not "
        "checked); high is an engineering estimate with the controller",
    ),
    "HBM3": _estimate(4.5, 2.5, 9.0, "engineering estimate, under HBM2E's 6"),
}
"""By family, as the names of rows begin: of a bit that is moved."""

BACKGROUND_W_PER_GIB: Mapping[str, Constant] = {
    "DDR5": _estimate(0.045, 0.03, 0.07, "engineering estimate, slightly under DDR4's 0.052"),
    "LPDDR4X": _estimate(0.03, 0.01, 0.07, "engineering estimate, as LPDDR4"),
    "LPDDR5": _estimate(0.025, 0.008, 0.07, "engineering estimate, slightly under LPDDR4"),
    "LPDDR5X": _estimate(0.025, 0.008, 0.07, "engineering estimate, as LPDDR5"),
    "GDDR6": _estimate(0.25, 0.1, 0.6, "engineering estimate, five times DDR4, as its data clock"),
    "HBM3": _estimate(0.1, 0.048, 0.3, "engineering estimate, as HBM2"),
}
"""Standby and refresh, as the design's constants of that name."""

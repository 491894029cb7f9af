"""Measured quality next to the results of a study."""

from pathlib import Path

import pandas as pd

from carsim.explore.quality import load_quality

TABLE = Path(__file__).parent / "proxy" / "quality.csv"
PREMISE = Path(__file__).parent / "proxy" / "shipped.csv"

FRAMES, SAMPLING = 8, "top_k"


STALE = "the loss of stale outputs, not of replay, in a proxy model that hardly needs its MLPs"


def wider() -> str:
    """The loss at half of the steps over more clips, next to its baseline of adding nothing."""
    found = pd.read_csv(PREMISE)
    layers = 32  # layer 0 never replays, and ratios count it
    ratio = found["tas_ratio"].mean() * (layers - 1) / layers
    return (
        f"over {len(found)} scenes {found['tas_replay'].mean():.3f} at {ratio:.0%}, and "
        f"{found['tas_zero'].mean():.3f} where nothing is added at the same places: {STALE}"
    ).replace("%", " %")


def with_quality(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with columns ``quality_*`` at each ``policy.tau``, empty where not measured.

    Args:
        frame: Results of rows that decide alone, under dense attention.
    """
    quality = load_quality(TABLE)
    found = [
        quality.at(tau, frames=FRAMES, scope="row", window=0, sampling=SAMPLING)[0]
        for tau in frame["policy.tau"]
    ]
    return frame.assign(**pd.DataFrame(found, index=frame.index).to_dict("series"))

"""Measured quality next to the results of a study."""

from pathlib import Path

import numpy as np
import pandas as pd

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
    """The frame with ``quality_loss``, interpolated over ``policy.tau``; empty where not measured.

    Args:
        frame: Results of rows that decide alone, under dense attention.
    """
    table = pd.read_csv(TABLE).sort_values("tau")
    same = {"frames": FRAMES, "scope": "row", "window": 0, "sampling": SAMPLING}
    own = table[(table[[*same]] == pd.Series(same)).all(axis="columns")]
    loss = own["teacher_forced_nats"] - own["teacher_forced_dense_nats"]
    at = np.interp(frame["policy.tau"], own["tau"], loss, np.nan, np.nan)
    return frame.assign(quality_loss=at)

"""Measured quality beside the results of a study."""

from math import isnan, nan
from pathlib import Path

import pandas as pd

from carsim.explore.quality import load_quality

TABLE = Path(__file__).parent / "quality" / "quality.csv"
WIDER = "over 16 clips 0.125 +- 0.107 at 51 %, and skipping at random costs no more"
"""What more clips than the table's four say of it; quoted wherever one of its losses is."""

FRAMES = 8
SAMPLINGS = ("greedy", "top_k")
"""Frames are compared under the first, where what replay changes is no luck of the draw."""


def with_quality(frame: pd.DataFrame, *, scope: str = "row", window: int = 0) -> pd.DataFrame:
    """The frame with columns ``quality_*`` at each ``policy.tau``, empty where not measured.

    Args:
        frame: Results.
        scope: Column of the frame that says which rows decide together, or one scope for all.
        window: Of streaming attention; 0 is dense.
    """
    quality = load_quality(TABLE)
    scopes = frame[scope] if scope in frame else [scope] * len(frame)
    found = []
    for tau, each in zip(frame["policy.tau"], scopes, strict=True):
        by_sampling = [
            quality.at(tau, frames=FRAMES, scope=each, window=window, sampling=sampling)[0]
            for sampling in SAMPLINGS
        ]
        # True tokens are fed to find the loss, so that it is the same under every sampling.
        losses = [one["quality_loss"] for one in by_sampling if not isnan(one["quality_loss"])]
        found.append({**by_sampling[0], "quality_loss": losses[0] if losses else nan})
    return frame.assign(**pd.DataFrame(found, index=frame.index).to_dict("series"))

"""Measured quality beside the results of a study."""

from pathlib import Path

import pandas as pd

from carsim.explore.quality import load_quality

TABLE = Path(__file__).parent / "quality" / "quality.csv"
CHANCE = Path(__file__).parent / "chance" / "chance.csv"

FRAMES, SAMPLING = 8, "top_k"


def wider() -> str:
    """What more clips than the table's say of half of the steps, and what chance costs."""
    found = pd.read_csv(CHANCE)
    rules = found[found["share"] == 0.5].set_index("rule")
    tas, chance = rules.loc["TAS"], rules.loc["chance"]
    return (
        f"over {tas['clips']:.0f} scenes {tas['excess']:.3f} at {tas['ratio']:.0%}, and "
        f"{chance['excess']:.3f} where chance picks as many"
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

"""Measured quality next to the results of a study."""

from pathlib import Path

import numpy as np
import pandas as pd

from studies.table import percent

TABLE = Path(__file__).parent / "proxy" / "quality.csv"
BENCHMARK = Path(__file__).parent / "chance" / "benchmark.csv"

FRAMES, SAMPLING = 8, "top_k"
SHIPPED, SMALL = "shipped, 32 layers", "one head of 8, 4 layers"
"""Models of the benchmark: the one of the traces, and one that needs its MLPs."""

FASTCAR = "TAS, one threshold"

STALE = "not the value of replay, because the proxy model hardly needs its MLPs"


def wider() -> str:
    """The loss at half of the steps over more clips and models, next to that of adding nothing."""
    table = pd.read_csv(BENCHMARK)
    found = table[(table["rule"] == FASTCAR) & (table["share"] == 0.5)].set_index("model")
    shipped, small = found.loc[SHIPPED], found.loc[SMALL]
    return f"""\
The loss at {percent(shipped["ratio"])} replay is {shipped["replay"]:.3f} nats per token over
{shipped["scenes"]} scenes, and {shipped["nothing"]:.3f} if nothing is added at the same places.
Both losses measure stale outputs, {STALE}. In a small model that needs its MLPs, the loss at
{percent(small["ratio"])} replay is {small["replay"]:.3f}, and {small["nothing"]:.3f} if nothing is
added."""


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

"""The shipped proxy model: what replay is worth beside its baselines, forty held-out scenes.

    python -m studies.proxy.shipped

Writes ``shipped.csv`` (a row for each scene), ``differences.csv`` (means and paired differences
with intervals over scenes) and ``likeness.csv`` (a row for each layer). What is decoded once is
kept (:mod:`studies.record`). The tables here are of ``--clips 20``.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from carsim.base.statistics import bootstrap_mean
from studies.content import CLIPS
from studies.proxy.worth import likeness, losses
from studies.record import Archive

HERE = Path(__file__).parent
PAIRS = (
    ("tas_replay", "tas_zero"),
    ("tas_replay", "tas_half"),
    ("tas_replay", "redrawn"),
    ("tas_replay", "permuted"),
    ("tas_replay", "permuted_clip"),
    ("tas_replay", "change"),
    ("tas_replay", "periodic"),
    ("permuted", "redrawn"),
)


def differences(table: pd.DataFrame) -> pd.DataFrame:
    """Means of each column, and paired differences, with 95 % intervals over scenes."""
    names = [name for name in table if name not in ("clip", "dense", "tas_ratio", "tas_again")]
    wanted = {name: table[name] for name in names}
    wanted |= {f"{one} - {other}": table[one] - table[other] for one, other in PAIRS}
    rows = []
    for name, values in wanted.items():
        found = bootstrap_mean(values.to_numpy())
        below = int((values < 0).sum())
        rows.append((name, found.mean, found.low, found.high, below, len(values)))
    return pd.DataFrame(rows, columns=["what", "mean", "low", "high", "below_zero", "scenes"])


def main() -> None:
    """Measure, write and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--clips", type=int, default=len(CLIPS))
    options = parser.parse_args()
    archive = Archive(workers=options.workers)
    table = losses(archive, CLIPS[:: len(CLIPS) // options.clips])
    table.round(5).to_csv(HERE / "shipped.csv", index=False)
    print(f"replayed: {table['tas_ratio'].mean():.3f} of eligible steps of layers 1 to 31")
    print(f"a place that replayed replays again: {table['tas_again'].mean():.3f}")
    found = differences(table)
    found.round(5).to_csv(HERE / "differences.csv", index=False)
    print(found.round(4).to_string(index=False))
    layers = likeness(archive, CLIPS[::4])
    layers.round(4).to_csv(HERE / "likeness.csv", index=False)
    print(layers.round(3).to_string(index=False))
    print(f"mean error at age 1 of layers 1 on: {np.mean(layers['error_age_1'][1:]):.3f}")


if __name__ == "__main__":
    main()

"""Quality of the league's contestants: means over scenes, paired with dense decoding."""

import pandas as pd

from carsim.base.statistics import Interval
from studies.table import columns

DENSE, REPLAY = "dense", "replay"
MEANS = ["recall", "density", "run_tokens", "held", "held_most", "ratio"]


def quality(cells: pd.DataFrame) -> pd.DataFrame:
    """A row for each contestant: means over scenes, and losses over others with 95 % intervals.

    ``excess`` is the loss over dense decoding, scene by scene; ``added`` what replay adds to the
    same attention and precision without it, and ``over_chance`` what a policy loses less than its
    floor (negative: it chooses better than chance).

    Args:
        cells: Rows of ``cells.csv``.
    """
    nats = cells.pivot(index="clip", columns="contestant", values="nats")
    rows = []
    for name, part in cells.groupby("contestant", sort=False):
        first = part.iloc[0]
        alone = f"{first['family']} {first['strength']}".strip()
        bases = {"excess": DENSE}
        if first["replays"] and not first["floor"]:
            bases["added"] = DENSE if alone == REPLAY else alone
        floor = f"{name}, random {'skips' if first['replays'] else 'keys'}"
        if floor in nats:
            bases["over_chance"] = floor
        row = dict(first[["contestant", "family", "strength", "replays", "floor"]])
        row |= {"scenes": len(part), "nats": part["nats"].mean(), **part[MEANS].mean()}
        for what, base in bases.items():
            row |= columns(what, nats[name] - nats[base])
        rows.append(row)
    return pd.DataFrame(rows)


def interval(row: "pd.Series[float]", what: str) -> Interval:
    """A mean of :func:`quality` with its interval."""
    return Interval(row[what], row[f"{what}_low"], row[f"{what}_high"])


def front(table: pd.DataFrame, cost: str, loss: str) -> pd.DataFrame:
    """Rows that no other row beats in both, the cheapest first; of equals the first stays."""
    ordered = table.sort_values([cost, loss], kind="stable")
    best_before = ordered[loss].cummin().shift(fill_value=float("inf"))
    return ordered[ordered[loss] < best_before]

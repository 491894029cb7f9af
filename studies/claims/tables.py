"""Tests of claims by tables of other studies; ``claims.yaml`` names them with their arguments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import isnan
from pathlib import Path
from typing import Any

import pandas as pd

from carsim.base.statistics import Interval, bootstrap_mean

STUDIES = Path(__file__).parents[1]

Where = Mapping[str, Any]
"""Column -> the value of the wanted row."""


@dataclass(frozen=True)
class Finding:
    """The result of a test.

    Attributes:
        result: Figures, with intervals over scenes where the tables have them.
        agrees: Whether the claim holds in them; None if they cannot decide.
    """

    result: str
    agrees: bool | None


@cache
def table(name: str) -> pd.DataFrame:
    """A table of a study, such as ``chance/chance``."""
    return pd.read_csv(STUDIES / f"{name}.csv")


def row_of(frame: pd.DataFrame, where: Where) -> pd.Series:
    """The last row with these values.

    >>> int(row_of(pd.DataFrame({"a": [1, 2, 2], "b": [3, 4, 5]}), {"a": 2})["b"])
    5
    """
    for column, value in where.items():
        frame = frame[frame[column] == value]
    if frame.empty:
        raise ValueError(f"no row with {where}")
    return frame.iloc[-1]


def decide(found: Interval, below: float) -> bool | None:
    """Whether a mean lies below a bound; None if its interval has the bound inside or is unknown.

    >>> [decide(Interval(0.1, low, 0.3), 0.0) for low in (0.05, -0.05)]
    [False, None]
    """
    if isnan(found.low) or found.low <= below <= found.high:
        return None
    return found.high < below


def interval(
    rows: Mapping[str, Mapping[str, Any]],
    below: float | None = None,
    above: float | None = None,
    beside: str = "",
) -> Finding:
    """Whether the first of some means lies below or above a bound.

    Args:
        rows: Name -> where the mean stands: ``table``, ``where``, and ``column`` with its bounds in
            ``column_low`` and ``column_high`` (``mean``: in ``low`` and ``high``).
        below: Agrees if the whole interval is below, contradicts if it is above.
        above: The other way round.
        beside: Unit.
    """
    found = {}
    for name, place in rows.items():
        row, column = row_of(table(place["table"]), place["where"]), place["column"]
        stem = "" if column == "mean" else f"{column}_"
        found[name] = Interval(
            *(float(row[each]) for each in (column, f"{stem}low", f"{stem}high"))
        )
    first = next(iter(found.values()))
    agrees = decide(first, below if below is not None else above or 0.0)
    if below is None and agrees is not None:
        agrees = not agrees
    parts = [f"{name} {each.text(beside)}" for name, each in found.items()]
    return Finding("; ".join(parts), agrees)


def ratios(
    table_name: str,
    column: str,
    over: Where,
    ways: Mapping[str, Where],
    group: str,
    only: Sequence[Any] = (),
    least: float | None = None,
    most: float | None = None,
    anywhere: bool = False,
) -> Finding:
    """By how much some rows are better than others, in each group of a table.

    Args:
        table_name: Table.
        column: Seconds, joules: less is better.
        over: The row that is divided by each of ``ways``.
        ways: Name -> row. Without bounds, the first must be better than all others.
        group: Column whose values are the groups.
        only: Groups; all if left out.
        least: Least ratio of the first way.
        most: Most of it.
        anywhere: One group is enough.
    """
    frame, parts, held = table(table_name), [], []
    for key in only or frame[group].dropna().unique():
        part = frame[frame[group] == key]
        whole = row_of(part, over)[column]
        found = [whole / row_of(part, where)[column] for where in ways.values()]
        parts.append(f"{key} {' / '.join(f'{each:.2f}' for each in found)}")
        if least is not None or most is not None:
            held.append((least or 0) <= found[0] <= (most or found[0]))
        else:
            held.append(found[0] > max(found[1:]))
    agrees = any(held) if anywhere else all(held)
    return Finding(f"{' / '.join(map(str, ways))}: {', '.join(parts)}", agrees)


def grows(policy: str, machine: str, frames: bool = True) -> Finding:
    """The speed-up grows from 8 to 64 frames, or from 256 to 1,024 tokens a frame."""
    rows = table("video_length/points").query("machine == @machine")
    sizes = (
        [("study", n) for n in (8, 16, 32, 64)] if frames else [("study", 8), ("study_larger", 0)]
    )
    gains = []
    for study, n in sizes:
        part = rows[(rows["study"] == study) & (rows["video.frames"].isin([n]) | (n == 0))]
        dense, other = (row_of(part, {"policy": name})["latency_s"] for name in ("dense", policy))
        gains.append(dense / other)
    text = ", ".join(f"{gain:.2f}" for gain in gains)
    sizes_text = "8, 16, 32, 64 frames" if frames else "256, 1,024 tokens a frame"
    return Finding(f"speed-up at {sizes_text}: {text}", bool(gains[-1] > gains[0]))


def _league(contestant: str, frames: int) -> pd.DataFrame:
    rows = table("league/machines").query("contestant == @contestant and frames == @frames")
    return rows[rows["layout"] == "separate"].set_index("machine")


def per_frame(
    contestant: str,
    column: str = "seconds",
    whole: bool = False,
    least: float = 0.0,
    most: float | None = None,
) -> Finding:
    """How much a frame takes at 64 frames over what it takes at 8, on every machine.

    Args:
        contestant: Policy.
        column: What is taken.
        whole: Compare what is taken in all instead.
        least: Least ratio.
        most: Most.
    """
    frames = 1 if whole else 8
    found = _league(contestant, 64)[column] / _league(contestant, 8)[column] / frames
    text = ", ".join(f"{name} {ratio:.2f}" for name, ratio in found.items())
    agrees = found.min() >= least and found.max() <= (most or found.max())
    return Finding(f"{column}, 64 over 8 frames: {text}", bool(agrees))


def search_share(contestant: str, most: float) -> Finding:
    """A search takes little of the time on every machine, 8 frames."""
    rows = _league(contestant, 8)
    shares = rows["search_s"] / rows["seconds"]
    text = ", ".join(f"{name} {100 * share:.1f} %" for name, share in shares.items())
    return Finding(f"share of the time: {text}", bool(shares.max() <= most))


def league_less(first: str, second: str) -> Finding:
    """The first contestant loses less than the second, paired over scenes."""
    cells = table("league/cells")
    cells = cells[~cells["replays"].astype(bool)].set_index(["contestant", "clip"])["nats"]
    found = bootstrap_mean((cells[first] - cells[second]).to_numpy())
    return Finding(f"{first} less {second} {found.text(' nats', 4)}", decide(found, 0.0))


def recall(contestant: str, least: float) -> Finding:
    """The mass of dense attention on the keys read is so many times that of random keys."""
    rows = table("league/quality").set_index("contestant")["recall"]
    found, chance = rows[contestant], rows[f"{contestant}, random keys"]
    return Finding(
        f"{100 * found:.0f} %, random {100 * chance:.0f} %", bool(found >= least * chance)
    )


def held_share(contestant: str, most: float) -> Finding:
    """At 8 frames at most so many tokens are held, mean over layers."""
    held = row_of(table("league/quality"), {"contestant": contestant})["held"]
    return Finding(f"{100 * held:.0f} % of the tokens are held", bool(held <= most))

"""Tests of claims by tables of other studies; ``claims.yaml`` names them with their arguments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import inf, isnan
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


def chosen(frame: pd.DataFrame, where: Where) -> pd.DataFrame:
    """Rows with these values; ``column`` and ``over`` are no part of them."""
    for name, value in where.items():
        frame = frame if name in ("column", "over") else frame[frame[name] == value]
    if frame.empty:
        raise ValueError(f"no row with {where}")
    return frame


def row_of(frame: pd.DataFrame, where: Where) -> pd.Series:
    """The last row with these values.

    >>> int(row_of(pd.DataFrame({"a": [1, 2, 2], "b": [3, 4, 5]}), {"a": 2})["b"])
    5
    """
    return chosen(frame, where).iloc[-1]


def decide(found: Interval, below: float | None, above: float | None) -> bool | None:
    """Whether a mean lies below, or above, a bound; None if the bound is inside its interval.

    >>> [decide(Interval(0.1, low, 0.3), None, 0.0) for low in (0.05, -0.05)]
    [True, None]
    """
    bound = above if below is None else below
    if bound is None or isnan(found.low) or found.low <= bound <= found.high:
        return None
    return (found.high < bound) == (below is not None)


DETECTED = 2.80
"""Standard errors of a mean that a two-sided test at 5 % finds in four of five experiments: normal
quantiles of 97.5 % and 80 %, added up (1.960 + 0.842)."""

WIDTH = 2 * 1.96
"""Standard errors in a 95 % interval."""


def detectable(found: Interval, agrees: bool | None, unit: str = "") -> str:
    """The smallest effect that a test would have found, in words; nothing where it has decided.

    Args:
        found: The mean with its 95 % interval.
        agrees: What the test has decided.
        unit: Unit of the mean.

    >>> detectable(Interval(0.0, -0.0196, 0.0196), None, " nats")
    '; detectable 0.028 nats'
    """
    if agrees is not None or isnan(found.low):
        return ""
    standard_error = (found.high - found.low) / WIDTH
    return f"; detectable {DETECTED * standard_error:.3f}{unit}"


def interval(
    rows: Mapping[str, Mapping[str, Any]], below: float | None = None, above: float | None = None
) -> Finding:
    """Whether the first of some means, in nats per token, lies below or above a bound.

    Args:
        rows: Name -> where the mean stands: ``table``, ``where``, and ``column`` with its bounds in
            ``column_low`` and ``column_high`` (``mean``: in ``low`` and ``high``).
        below: Agrees if the whole interval is below, contradicts if it is above.
        above: The other way round.
    """
    found = {}
    for name, place in rows.items():
        row, column = row_of(table(place["table"]), place["where"]), place["column"]
        stem = "" if column == "mean" else f"{column}_"
        found[name] = Interval(*(float(row[n]) for n in (column, f"{stem}low", f"{stem}high")))
    text = "; ".join(f"{name} {each.text(' nats')}" for name, each in found.items())
    first = next(iter(found.values()))
    agrees = decide(first, below, above)
    return Finding(text + detectable(first, agrees, " nats"), agrees)


def paired(
    table_name: str,
    column: str,
    rows: Mapping[str, Where],
    below: float | None = None,
    above: float | None = None,
    less: str = "",
) -> Finding:
    """Whether the first kind of rows has less or more of a quantity than the second, over scenes.

    Args:
        table_name: Table with a column ``clip``; other columns are meaned over a scene.
        column: Quantity.
        rows: Name -> rows; one kind is compared with nothing, and others than two are shown only.
        below: Bound of the difference, as in :func:`interval`; so is ``above``.
        above: The same.
        less: A column that is taken from the quantity.
    """
    means = {}
    for name, where in rows.items():
        clips = chosen(table(table_name), where).groupby("clip").mean(numeric_only=True)
        means[name] = clips[where.get("column", column)] - (clips[less] if less else 0)
    first, *others = means.values()
    found = bootstrap_mean((first - others[0] if others else first).to_numpy())
    text = ", ".join(f"{name} {each.mean():+.3f}" for name, each in means.items())
    text = f"{text}; difference {found.text()}" if others else f"{', '.join(rows)} {found.text()}"
    agrees = decide(found, below, above)
    return Finding(text + detectable(found, agrees), agrees)


def figures(
    rows: Mapping[str, Mapping[str, Any]],
    least: float = -inf,
    most: float = inf,
    near: float | None = None,
    every: bool = False,
) -> Finding:
    """Whether the first of some figures lies between bounds.

    Args:
        rows: Name -> ``table``, ``where``, ``column``, and perhaps ``over``, a column to divide by.
        least: Lower bound.
        most: Upper bound.
        near: Instead, how far it may be from the second.
        every: All figures have to.
    """
    values = {}
    for name, place in rows.items():
        row = row_of(table(place["table"]), place["where"])
        values[name] = float(row[place["column"]] / (row[place["over"]] if "over" in place else 1))
    text = ", ".join(f"{name} {value:.3g}" for name, value in values.items())
    first, *others = values.values()
    if near is not None:
        return Finding(text, abs(first - others[0]) <= near)
    return Finding(text, all(least <= each <= most for each in (first, *others * every)))


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
    rising: bool = False,
) -> Finding:
    """By how much some rows are better than others, in each group of a table.

    Args:
        table_name: Table.
        column: Seconds, joules: less is better.
        over: The row that is divided by each of ``ways``, which may have one of its own.
        ways: Name -> row. Without bounds, the first must be better than all others.
        group: Column whose values are the groups.
        only: Groups; all if left out.
        least: Least ratio of the first way.
        most: Most of it.
        anywhere: One group is enough.
        rising: Instead, the first way's ratio is larger in the last group than in the first.
    """
    frame, parts, firsts, held = table(table_name), [], [], []
    for key in only or frame[group].dropna().unique():
        part = frame[frame[group] == key]
        found = [
            row_of(part, where.get("over", over))[column] / row_of(part, where)[column]
            for where in ways.values()
        ]
        parts.append(f"{key} {' / '.join(f'{each:.2f}' for each in found)}")
        firsts.append(found[0])
        if least is not None or most is not None:
            held.append((least or 0) <= found[0] <= (most or inf))
        else:
            held.append(found[0] > max(found[1:], default=inf))
    agrees = firsts[-1] > firsts[0] if rising else any(held) if anywhere else all(held)
    return Finding(f"{' / '.join(map(str, ways))}: {', '.join(parts)}", bool(agrees))

"""Decision scope: which rows of a batch decide together (a unit replays iff all its rows would)."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Scope = Literal["row", "pair", "batch"]
"""``row``: each row alone (the FastCar authors'); ``pair``: both rows of a guidance pair together;
``batch``: all rows of a batch together."""

Pairs = tuple[tuple[int, int], ...]
"""Guidance pairs: indices of the conditional row and of its blank-prompt row."""


def decision_units(
    scope: Scope, pairs: Sequence[tuple[int, int]], n_rows: int, batch: int | None = None
) -> tuple[tuple[int, ...], ...]:
    """Rows that decide together.

    Args:
        scope: The decision scope.
        pairs: Guidance pairs; a row outside of every pair is a unit of its own.
        n_rows: Number of rows B.
        batch: Rows that run as one batch, for scope ``batch``: consecutive groups of this many
            rows (the last may be smaller). All rows when left out.

    Returns:
        A partition of ``range(n_rows)``, ordered by first row.

    >>> decision_units("pair", [(0, 1)], 3)
    ((0, 1), (2,))
    >>> decision_units("batch", [], 3, batch=2)
    ((0, 1), (2,))
    """
    if scope == "row":
        return tuple((row,) for row in range(n_rows))
    if scope == "batch":
        size = n_rows if batch is None else batch
        return tuple(
            tuple(range(start, min(start + size, n_rows))) for start in range(0, n_rows, size)
        )
    paired = {row for pair in pairs for row in pair}
    single = [(row,) for row in range(n_rows) if row not in paired]
    return tuple(sorted([*single, *(tuple(sorted(pair)) for pair in pairs)]))


def unanimous(would: NDArray[np.bool_], units: Sequence[Sequence[int]]) -> NDArray[np.bool_]:
    """Decisions by unit: a unit replays iff every row of it would.

    Args:
        would: bool[..., B], what each row would decide alone.
        units: A partition of the rows.

    Returns:
        bool[..., B], equal within each unit; ``would`` itself where every unit is one row.
    """
    if all(len(unit) == 1 for unit in units):
        return would
    decided = np.empty_like(would)
    for unit in units:
        rows = list(unit)
        decided[..., rows] = would[..., rows].all(axis=-1, keepdims=True)
    return decided

"""The results of a store as a frame and as files."""

import gc
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from carsim.environment import has_parquet
from carsim.explore.metrics import OUTCOME
from carsim.explore.store import Store
from carsim.files import write_whole
from carsim.trace.meta import SYNTHETIC

if TYPE_CHECKING:
    import pandas as pd


BLOCK = 1 << 14
"""Results that are made a frame at a time, so that memory holds few of them as objects."""


def frame_of(store: Store) -> "pd.DataFrame":
    """All results of a store.

    Columns: ``point`` (place in the study), one per axis by its name, ``status`` (``ok``,
    ``misfit``, ``invalid``, ``failed``), ``reason`` and ``seconds`` that the evaluation took, and
    the metrics of :data:`carsim.metrics.METRICS`, those from outside included. Missing numbers are
    NaN; an axis whose values are lists or mappings, or text beside numbers, holds them as JSON.
    """
    import pandas as pd

    axes = json.loads(store.meta()["axes"])
    ordinals, points = [], []
    blocks = []
    columns, stored = store.columns, store.cells()
    with _no_garbage():
        while rows := list(islice(stored, BLOCK)):
            ordinals += [ordinal for ordinal, _, _ in rows]
            points += [values for _, values, _ in rows]
            blocks.append(_block([cells for _, _, cells in rows], columns))
    points_and_axes: dict[str, list[Any]] = {"point": ordinals}
    for axis in axes:
        cells = [values[axis] for values in points]
        kinds = {type(cell) for cell in cells}
        if kinds & {list, dict} or (len(kinds) > 1 and not kinds <= {int, float}):
            cells = [cell if isinstance(cell, str) else json.dumps(cell) for cell in cells]
        points_and_axes[axis] = cells
    results = pd.concat(blocks or [_block([], columns)], ignore_index=True)
    return pd.concat([pd.DataFrame(points_and_axes), results], axis="columns")


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Do not look for garbage among millions of cells, which takes a third of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _block(results: Sequence[Sequence[Any]], columns: Sequence[str]) -> "pd.DataFrame":
    """Some results; what none of them has is a missing number."""
    import pandas as pd

    cells = zip(*results, strict=True) if results else ((),) * len(columns)
    frame = pd.DataFrame(dict(zip(columns, map(list, cells), strict=True)))
    empty = [name for name in columns[len(OUTCOME) :] if frame[name].isna().all()]
    return frame.astype(dict.fromkeys(empty, "float64"))


def origin_note(frame: "pd.DataFrame") -> str:
    """How many points consume decisions that were drawn from a model; empty if none does."""
    drawn = int(frame["decisions"].astype(str).str.contains(SYNTHETIC, regex=False).sum())
    points = f"{drawn:,} of {len(frame):,} points" if drawn else ""
    return points and f"Decisions are {SYNTHETIC} in {points}."


def export(store: Store, folder: str | Path) -> list[str]:
    """Write all results as CSV, and as Parquet where pyarrow is installed; each file as a whole.

    Returns:
        Names of the files.

    Raises:
        InputError: They cannot be written.
    """
    frame, folder = frame_of(store), Path(folder)
    files = ["points.csv"]
    if has_parquet():
        files.insert(0, "points.parquet")
        write_whole(folder / "points.parquet", lambda path: frame.to_parquet(path, index=False))
    write_whole(folder / "points.csv", lambda path: frame.to_csv(path, index=False))
    return files
